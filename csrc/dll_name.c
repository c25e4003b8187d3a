/* libmqs_dll_name.so: preloaded into the ranks of a job, it makes debuggers load the libmqs.so beside it.
 *
 * Debuggers read MPIR_dll_name in the target process before they look for the MPI's own library, and
 * a preloaded definition comes before that of the MPI.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "/libmqs.so"

char MPIR_dll_name[PATH_MAX];

__attribute__((constructor)) static void fill_dll_name(void)
{
    char path[PATH_MAX];
    char *slash;
    Dl_info self;

    if (dladdr(MPIR_dll_name, &self) == 0 || realpath(self.dli_fname, path) == NULL) {
        return;
    }
    slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) + sizeof LIBRARY > sizeof path) {
        return;
    }
    memcpy(slash, LIBRARY, sizeof LIBRARY);
    memcpy(MPIR_dll_name, path, strlen(path) + 1);
}
