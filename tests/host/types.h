/* Debug information in miniature: the sizes of some structs and the offsets of their members, from a file. */
#ifndef TYPES_H
#define TYPES_H

#include "mqs_interface.h"

/* Reads a file of lines "STRUCT SIZE" and "STRUCT.MEMBER OFFSET". Answers 1, or 0 after a line on stderr. */
int types_load(const char *path);

/* Answer NULL and -1 for what no line names. */
mqs_type *types_find(const char *name);
int types_offset(const mqs_type *type, const char *member);
int types_size(const mqs_type *type);

#endif
