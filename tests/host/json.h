/* A writer of JSON, just enough for documents that are each on a line. */
#ifndef JSON_H
#define JSON_H

#include <stddef.h>

/* A key inside an object; NULL inside an array. */
void json_begin(const char *key, char bracket); /* '{' or '[' */
void json_end(char bracket);                    /* '}' or ']' */
void json_document_end(void);                   /* Instead of json_end of the outermost object. */
void json_integer(const char *key, long value);
void json_unsigned(const char *key, unsigned long value);
void json_double(const char *key, double value);
/* Bytes that are no printable ASCII become \u00XX: the reader encodes the string as Latin-1 to have them back.
 * NULL becomes null. */
void json_string(const char *key, const char *value);
/* The same for a field of `size` bytes, which ends at its NUL if it has one. */
void json_field(const char *key, const char *value, size_t size);

#endif
