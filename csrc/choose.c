/* Where the Python side of libmqs runs: in the host if that runs the same Python or none, else in a helper process.
 * The environment variable MQS_PYTHON forces one of the two. */
#define _GNU_SOURCE
#include "python_side.h"

#include "glibc.h"
#include "log.h"
#include "trust.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* build.py defines for which Python libmqs_python.so is built. */
#ifndef MQS_PYTHON_VERSION
#error "MQS_PYTHON_VERSION: the minor version of that Python, as in 3.11"
#endif
#ifndef MQS_PYTHON_HAS_GIL
#error "MQS_PYTHON_HAS_GIL: whether it is the usual build, with the GIL"
#endif

static char library_path[PATH_MAX]; /* Of libmqs.so itself, without symbolic links; empty: not known. */
static const struct mqs_library library = {library_path, mqs_words_of_debugger, mqs_log_is_open, mqs_log};

static _Atomic(const struct mqs_python_side *) chosen;
static _Atomic(const char *) gone; /* Why Python doesn't work in this process any more. */
static pid_t owner;                /* The process in which it was started; a fork of it has another number. */

/* When the library is loaded, not later: the host may change its working directory, and the path may be relative. */
__attribute__((constructor)) static void remember_library_path(void)
{
    Dl_info self;

    if (dladdr(library_path, &self) == 0 || realpath(self.dli_fname, library_path) == NULL) {
        library_path[0] = '\0';
    }
}

/* ---------------------------------------------------------------- which Python the host runs */

static int is_our_minor_version(const char *version)
{
    size_t length = strlen(MQS_PYTHON_VERSION);

    return strncmp(version, MQS_PYTHON_VERSION, length) == 0 && !isdigit((unsigned char)version[length]);
}

/* A libpython of another minor version among the loaded files: *data is set to its file name. */
static int note_other_python(struct dl_phdr_info *info, size_t size, void *data)
{
    static const char stem[] = "libpython3.";
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;

    (void)size;
    if (strncmp(file, stem, sizeof stem - 1) == 0 && isdigit((unsigned char)file[sizeof stem - 1])
        && !is_our_minor_version(file + strlen("libpython"))) {
        *(const char **)data = info->dlpi_name;
        return 1;
    }
    return 0;
}

/* Whether libmqs_python.so can work here. Py_GetVersion, which is the same in all versions, is the only function of the
 * host's Python that may be called before. */
static int can_join_host(char *reason, size_t capacity)
{
    const char *(*get_version)(void);
    const char *other = NULL;

    *(void **)&get_version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
    if (get_version != NULL) {
        const char *version = get_version();

        if (!is_our_minor_version(version)) {
            snprintf(reason, capacity, "the host process runs Python %.*s, this libmqs.so is built for Python %s",
                     (int)strcspn(version, " "), version, MQS_PYTHON_VERSION);
            return 0;
        }
        if ((strstr(version, "free-threading") == NULL) != MQS_PYTHON_HAS_GIL) {
            snprintf(reason, capacity, "the host process runs the other of the two builds (with and without the GIL) of "
                                   "Python %s than this libmqs.so is built for", MQS_PYTHON_VERSION);
            return 0;
        }
    }
    dl_iterate_phdr(note_other_python, &other);
    if (other != NULL) {
        snprintf(reason, capacity, "the host process has loaded %s, this libmqs.so is built for Python %s", other,
                 MQS_PYTHON_VERSION);
        return 0;
    }
    return 1;
}

/* ---------------------------------------------------------------- the choice */

static const struct mqs_python_side *load_in_process(char *reason, size_t capacity)
{
    char path[PATH_MAX + 32], why[PATH_MAX];
    const char *slash = strrchr(library_path, '/');
    const struct mqs_python_side *(*find_side)(const struct mqs_library *);
    const struct mqs_python_side *side;
    void *handle;

    snprintf(path, sizeof path, "%.*s/libmqs_python.so", (int)(slash - library_path), library_path);
    if (access(path, F_OK) == 0 && !mqs_may_run(library_path, path, why, sizeof why)) {
        snprintf(reason, capacity, "%s: libmqs_python.so is not loaded", why);
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW); /* It is never closed: the interpreter can't be unloaded. */
    if (handle == NULL) {
        const char *error = dlerror();

        snprintf(reason, capacity, "%s", error != NULL ? error : path);
        return NULL;
    }
    *(void **)&find_side = dlsym(handle, "mqs_python_in_process");
    if (find_side == NULL) {
        snprintf(reason, capacity, "%s is of another libmqs", path);
        return NULL;
    }
    side = find_side(&library);
    if (side == NULL) {
        snprintf(reason, capacity, "another copy of libmqs.so already works in this process");
    }
    return side;
}

/* Whether everybody may put modules and libraries beside libmqs.so, or another folder in the place of its own: these would
 * run in the debugger. */
static int package_is_open_to_all(char *reason, size_t capacity)
{
    char why[PATH_MAX];

    if (mqs_may_run(library_path, library_path, why, sizeof why)) {
        return 0;
    }
    snprintf(reason, capacity, "%s: nothing that lies there is run (chmod o-w)", why);
    return 1;
}

static int choose(const struct mqs_python_side **side, const char **reason)
{
    static _Thread_local char refused[PATH_MAX + 128], failure[PATH_MAX + 2048];
    const char *wanted = secure_getenv("MQS_PYTHON");
    int only_helper = wanted != NULL && strcmp(wanted, "helper") == 0;
    int only_in_process = wanted != NULL && strcmp(wanted, "embedded") == 0;
    int code;

    *side = NULL;
    if (library_path[0] == '\0') {
        *reason = "libmqs.so can't find out where its own file is";
        return mqs_start_error;
    }
    if (package_is_open_to_all(refused, sizeof refused)) {
        *reason = refused;
        return mqs_start_error;
    }
    if (wanted != NULL && wanted[0] != '\0' && !only_helper && !only_in_process) {
        *reason = "the environment variable MQS_PYTHON is neither \"embedded\" nor \"helper\"";
        return mqs_start_error;
    }
    if (only_in_process && atomic_load(&gone) != NULL) {
        *reason = atomic_load(&gone);
        return mqs_start_error;
    }
    if (!only_helper && atomic_load(&gone) == NULL) {
        int can_join = can_join_host(refused, sizeof refused);

        if (can_join) {
            *side = load_in_process(refused, sizeof refused);
        }
        if (*side != NULL) {
            owner = getpid();
            atomic_store(&chosen, *side);
            return (*side)->start(reason);
        }
        mqs_log("Python: not in this process: %s", refused);
        if (only_in_process) {
            *reason = refused;
            return can_join ? mqs_start_error : mqs_foreign_python;
        }
    }
    *side = mqs_python_in_helper(&library);
    code = (*side)->start(reason);
    if (code == mqs_ok || only_helper) {
        atomic_store(&chosen, *side);
        return code;
    }
    snprintf(failure, sizeof failure, "%s; %s", atomic_load(&gone) != NULL ? atomic_load(&gone) : refused, *reason);
    *reason = failure;
    return code;
}

/* Everything that was set up is unknown from now on: one side doesn't know the other's tokens. */
static void give_up_in_process(const char *reason)
{
    mqs_log("Python: no longer in this process: %s", reason);
    atomic_store(&gone, reason);
    atomic_store(&chosen, NULL);
}

void mqs_python_was_left(void)
{
    const struct mqs_python_side *side = atomic_load(&chosen);

    if (side != NULL && side->leave != NULL) {
        side->leave();
    } else if (side != NULL) {
        give_up_in_process("a callback of the debugger has left a call of libmqs for good: the Python in this process "
                           "can't go on");
    }
}

int mqs_python_choose(const struct mqs_python_side **side, const char **reason)
{
    *side = atomic_load(&chosen);
    if (*side != NULL && !(*side)->outlives_fork() && getpid() != owner) {
        give_up_in_process("this process is a fork of the one in which libmqs has started Python");
        *side = NULL;
    }
    return *side != NULL ? (*side)->start(reason) : choose(side, reason);
}
