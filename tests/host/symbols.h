/* The symbols of a process: of its executable and its shared libraries, in link order. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdint.h>
#include <sys/types.h>

enum symbol_kind { FUNCTION, VARIABLE };

struct symbols;

/* Maps the ELF files that a process has loaded. Answers its symbols, or NULL after a line on stderr. */
struct symbols *symbols_load(pid_t pid);

/* Looks a name up, the executable first: a variable that it copied from a library (R_*_COPY) lives there.
 * Answers 1 and sets *address, and *size unless it is NULL; or 0. */
int symbols_find(const struct symbols *symbols, enum symbol_kind kind, const char *name, uint64_t *address,
                 uint64_t *size);

#endif
