#include "types.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LINES = 1000, MAX_CHARACTERS = 100 };

/* One line of the file; a type is the line with its size. */
struct mqs_type_ {
    char name[MAX_CHARACTERS];
    int value;
};
static mqs_type lines[MAX_LINES];
static int line_count;

int types_load(const char *path)
{
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 0;
    }
    while (line_count < MAX_LINES && fscanf(file, "%99s %d", lines[line_count].name, &lines[line_count].value) == 2) {
        line_count++;
    }
    fclose(file);
    return 1;
}

mqs_type *types_find(const char *name)
{
    for (int i = 0; i < line_count; i++) {
        if (strcmp(lines[i].name, name) == 0) {
            return &lines[i];
        }
    }
    return NULL;
}

int types_offset(const mqs_type *type, const char *member)
{
    char name[2 * MAX_CHARACTERS];
    const mqs_type *found;

    snprintf(name, sizeof name, "%s.%s", type->name, member);
    found = types_find(name);
    return found != NULL ? found->value : -1;
}

int types_size(const mqs_type *type)
{
    return type->value;
}
