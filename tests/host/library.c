#include "library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t place;
    int optional;
} entry_points[] = {
#define ENTRY_POINT(name) {"mqs_" #name, offsetof(struct library, name), 0}
    ENTRY_POINT(setup_basic_callbacks),
    ENTRY_POINT(version_string),
    ENTRY_POINT(version_compatibility),
    ENTRY_POINT(dll_taddr_width),
    ENTRY_POINT(dll_error_string),
    ENTRY_POINT(setup_image),
    ENTRY_POINT(image_has_queues),
    ENTRY_POINT(destroy_image_info),
    ENTRY_POINT(setup_process),
    ENTRY_POINT(process_has_queues),
    ENTRY_POINT(destroy_process_info),
    ENTRY_POINT(update_communicator_list),
    ENTRY_POINT(setup_communicator_iterator),
    ENTRY_POINT(get_communicator),
    ENTRY_POINT(next_communicator),
    ENTRY_POINT(get_comm_group),
    ENTRY_POINT(setup_operation_iterator),
    ENTRY_POINT(next_operation),
    {"mqs_get_global_rank", offsetof(struct library, get_global_rank), 1},
    {"libmqs_get_comm_label", offsetof(struct library, get_comm_label), 1},
};

int library_open(struct library *library, const char *path)
{
    memset(library, 0, sizeof *library);
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 0;
    }
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        void *address = dlsym(library->handle, entry_points[i].name);

        if (address == NULL && !entry_points[i].optional) {
            fprintf(stderr, "%s has no %s\n", path, entry_points[i].name);
            return 0;
        }
        memcpy((char *)library + entry_points[i].place, &address, sizeof address);
    }
    return 1;
}
