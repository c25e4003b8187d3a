/* libmqs_dll_name.so: preloaded into the ranks of a job, it makes debuggers load the libmqs.so beside it, and lets
 * them attach where Yama would let a process's ancestors alone.
 *
 * Debuggers read MPIR_dll_name in the target process before they look for the MPI's own library, and
 * a preloaded definition comes before that of the MPI.
 *
 * Every program of the job has it in it: it prints nothing, and leaves errno, signals and the environment alone.
 */
#define _GNU_SOURCE
#include "glibc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LIBRARY "/libmqs.so"
#define PTRACE_SCOPE "/proc/sys/kernel/yama/ptrace_scope"
#define ANCESTORS_ALONE '1' /* of 2 and 3 the prctl changes nothing (Documentation/admin-guide/LSM/Yama.rst) */

char MPIR_dll_name[PATH_MAX];

static void fill_dll_name(void)
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

static int ancestors_alone_may_attach(void)
{
    char scope = 0;
    int file = open(PTRACE_SCOPE, O_RDONLY | O_CLOEXEC);

    if (file < 0) {
        return 0; /* there is no Yama */
    }
    if (read(file, &scope, 1) != 1) {
        scope = 0;
    }
    close(file);
    return scope == ANCESTORS_ALONE;
}

/* The kernel still asks for the same user, and for a program that isn't protected. */
static void let_debuggers_attach(void)
{
    const char *wanted = getenv("MQS_PTRACE");

    if (getauxval(AT_SECURE) == 0 && (wanted == NULL || strcmp(wanted, "no") != 0) && ancestors_alone_may_attach()) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    }
}

__attribute__((constructor)) static void begin(void)
{
    int before = errno;

    fill_dll_name();
    let_debuggers_attach();
    errno = before;
}
