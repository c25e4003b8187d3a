#include "json.h"

#include <stdint.h>
#include <stdio.h>

static int needs_comma;

static void print_string(const char *text, size_t size)
{
    putchar('"');
    for (size_t i = 0; i < size && text[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)text[i];

        if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\') {
            printf("\\u%04x", byte);
        } else {
            putchar(byte);
        }
    }
    putchar('"');
}

static void begin_value(const char *key)
{
    if (needs_comma) {
        putchar(',');
    }
    needs_comma = 1;
    if (key != NULL) {
        print_string(key, SIZE_MAX);
        putchar(':');
    }
}

void json_begin(const char *key, char bracket)
{
    begin_value(key);
    putchar(bracket);
    needs_comma = 0;
}

void json_end(char bracket)
{
    putchar(bracket);
    needs_comma = 1;
}

void json_document_end(void)
{
    json_end('}');
    putchar('\n');
    needs_comma = 0;
}

void json_integer(const char *key, long value)
{
    begin_value(key);
    printf("%ld", value);
}

void json_unsigned(const char *key, unsigned long value)
{
    begin_value(key);
    printf("%lu", value);
}

void json_double(const char *key, double value)
{
    begin_value(key);
    printf("%.3f", value);
}

void json_string(const char *key, const char *value)
{
    if (value != NULL) {
        json_field(key, value, SIZE_MAX);
    } else {
        begin_value(key);
        fputs("null", stdout);
    }
}

void json_field(const char *key, const char *value, size_t size)
{
    begin_value(key);
    print_string(value, size);
}
