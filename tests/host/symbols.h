/* The symbols of one process at a time: of its executable and its shared libraries, in link order. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdint.h>
#include <sys/types.h>

enum symbol_kind { FUNCTION, VARIABLE };

/* Maps the ELF files that a process has loaded, in place of another's. Answers 1, or 0 after a line on stderr. */
int symbols_load(pid_t pid);

/* Looks a name up, the executable first: a variable that it copied from a library (R_*_COPY) lives there.
 * Answers 1 and sets *address, and *size unless it is NULL; or 0. */
int symbols_find(enum symbol_kind kind, const char *name, uint64_t *address, uint64_t *size);

#endif
