#define PY_SSIZE_T_CLEAN
#include <Python.h> /* Defines _GNU_SOURCE, too: it must come first. */

#include "glue.h"
#include "python_side.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

/* build.py records where it found Python: used when the file system has nothing better. */
#ifndef MQS_PYTHON_PREFIX
#error "MQS_PYTHON_PREFIX: the prefix of the Python that libmqs is built for"
#endif
#ifndef MQS_SITE_DIRECTORIES
#error "MQS_SITE_DIRECTORIES: where that Python keeps installed packages, separated by colons"
#endif

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define MINOR_VERSION TEXT(PY_MAJOR_VERSION) "." TEXT(PY_MINOR_VERSION)

enum state { NOT_TRIED, READY, FAILED };

static _Atomic int state = NOT_TRIED;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int this_thread_starts;
static int failure_code;
static char failure_reason[2048];
static int is_of_host; /* The Python is the host's own. */

static _Atomic int glue_is_ready;
static const struct mqs_library *library; /* libmqs.so, which has found that this Python can work in the host. */

/* In the generated C file. */
int mqs_start_cffi(void);

void mqsc_glue_is_ready(void)
{
    atomic_store(&glue_is_ready, 1);
}

const char *mqsc_words_of_debugger(int code)
{
    return library->words_of_debugger(code);
}

int mqsc_log_is_open(void)
{
    return library->log_is_open();
}

void mqsc_log_line(const char *text)
{
    library->log("%s", text);
}

static int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(failure_reason, sizeof failure_reason, format, arguments);
    va_end(arguments);
    library->log("Python: %s", failure_reason);
    return code;
}

/* ---------------------------------------------------------------- the Python that is there */

static const char *version_of_python(void)
{
    static char version[32];
    const char *full = Py_GetVersion();

    snprintf(version, sizeof version, "%.*s", (int)strcspn(full, " "), full);
    return version;
}

/* Python's extension modules don't name libpython as a library that they need: they find it in the global scope
 * or nowhere, and a host that opened libmqs.so with RTLD_LOCAL keeps it out of there. */
static void make_libpython_global(void)
{
    void *whole_process = dlopen(NULL, RTLD_NOW);
    Dl_info libpython;

    if (whole_process != NULL) {
        int is_global = dlsym(whole_process, "Py_GetVersion") != NULL;

        dlclose(whole_process);
        if (is_global) {
            return;
        }
    }
    if (dladdr((void *)(uintptr_t)&Py_GetVersion, &libpython) != 0) {
        /* The handle is kept for ever: the interpreter can't be unloaded. */
        (void)dlopen(libpython.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    }
}

/* ---------------------------------------------------------------- an interpreter of our own */

static int has_standard_library(const char *prefix)
{
    static const char *const landmarks[] = {"os.py", "encodings/__init__.py"};
    static const char *const directories[] = {"lib", "lib64"};

    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        size_t found = 0;

        for (size_t j = 0; j < sizeof landmarks / sizeof *landmarks; j++) {
            char path[PATH_MAX + 64];

            snprintf(path, sizeof path, "%s/%s/python" MINOR_VERSION "/%s", prefix, directories[i], landmarks[j]);
            found += access(path, R_OK) == 0;
        }
        if (found == sizeof landmarks / sizeof *landmarks) {
            return 1;
        }
    }
    return 0;
}

/* Sets `home` to the prefix that the standard library lies under; 0 when there is none. Python must not find out
 * for itself: without PYTHONHOME it searches PATH for a python3, and when it finds no library it prints. */
static int find_home(char home[PATH_MAX])
{
    Dl_info libpython;

    if (dladdr((void *)(uintptr_t)&Py_GetVersion, &libpython) != 0 && realpath(libpython.dli_fname, home) != NULL) {
        char *slash;

        while ((slash = strrchr(home, '/')) != NULL && slash != home) {
            *slash = '\0';
            if (has_standard_library(home)) {
                return 1;
            }
        }
    }
    snprintf(home, PATH_MAX, "%s", MQS_PYTHON_PREFIX);
    return has_standard_library(home);
}

static PyStatus initialize(const char *home)
{
    PyPreConfig preconfig;
    PyConfig config;
    PyStatus status;
    char executable[PATH_MAX + 32];

    PyPreConfig_InitIsolatedConfig(&preconfig);
    preconfig.utf8_mode = 1;
    status = Py_PreInitialize(&preconfig);
    if (PyStatus_Exception(status)) {
        return status;
    }
    /* Isolated means: no environment variables, no user site, no signal handlers, the C locale and C stdio
     * as they are. */
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    snprintf(executable, sizeof executable, "%s/bin/python" MINOR_VERSION, home);
    status = PyConfig_SetBytesString(&config, &config.home, home);
    if (!PyStatus_Exception(status)) {
        status = PyConfig_SetBytesString(&config, &config.executable, executable);
    }
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    return status;
}

/* Leaves with the GIL released. */
static int start_interpreter(void)
{
    static const char *const streams[] = {"stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"};
    char home[PATH_MAX];
    PyStatus status;

    if (!find_home(home)) {
        return fail(mqs_start_error, "no standard library of Python " MINOR_VERSION " lies beside its libpython, nor in %s: "
                                     "install it again, or install libmqs for another Python", MQS_PYTHON_PREFIX);
    }
    status = initialize(home);
    if (PyStatus_Exception(status)) {
        return fail(mqs_start_error, "Python " MINOR_VERSION " in %s did not start: %s", home,
                    status.err_msg != NULL ? status.err_msg : "no reason given");
    }
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        PySys_SetObject(streams[i], Py_None); /* Nothing in this interpreter can print. */
    }
    PyErr_Clear();
    PyEval_SaveThread();
    return mqs_ok;
}

/* ---------------------------------------------------------------- our modules in an interpreter */

/* Imports from given directories alone: sys.path, which is the host's, is neither searched nor changed. */
static const char loader[] =
    "def load(name, directories):\n"
    "    import sys\n"
    "    if name in sys.modules:\n"
    "        return sys.modules[name]\n"
    "    from importlib.machinery import PathFinder\n"
    "    from importlib.util import module_from_spec\n"
    "    spec = PathFinder.find_spec(name, directories)\n"
    "    if spec is None or spec.loader is None:\n"
    "        raise ImportError('no module ' + name + ' in ' + ', '.join(directories))\n"
    "    module = module_from_spec(spec)\n"
    "    sys.modules[name] = module\n"
    "    try:\n"
    "        spec.loader.exec_module(module)\n"
    "    except BaseException:\n"
    "        sys.modules.pop(name, None)\n"
    "        raise\n"
    "    return module\n"
    "\n"
    "def load_packages(library, site_directories):\n"
    "    import sys\n"
    "    from os.path import dirname, realpath\n"
    "    package = dirname(library)\n"
    "    parent = dirname(package)\n"
    "    if 'mqs_dll._libmqs' in sys.modules:\n"
    "        raise ImportError('another copy of libmqs.so already works in this Python')\n"
    "    load('_cffi_backend', [parent, *site_directories.split(':')])\n"
    "    ours = load('mqs_dll', [parent])\n"
    "    found = realpath(dirname(ours.__file__ or ''))\n"
    "    if found != package:\n"
    "        raise ImportError('this Python has already loaded mqs_dll from ' + found + ', not from ' + package)\n";

/* Turns the exception that is set into the reason of a failure. */
static int fail_with_exception(const char *what)
{
    PyObject *type, *value, *traceback;
    PyObject *text;
    const char *type_name, *utf8;
    int code;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    text = value != NULL ? PyObject_Str(value) : NULL;
    utf8 = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    type_name = type != NULL ? ((PyTypeObject *)type)->tp_name : "no exception";
    code = fail(mqs_start_error, "%s: %s: %s", what, type_name, utf8 != NULL ? utf8 : "without text");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return code;
}

/* Up to Python 3.10 the first import of _signal installs a handler of SIGINT, even if Python was configured to leave signals
 * alone; and some module of the standard library imports it sooner or later. */
static void import_signal_module(void)
{
    struct sigaction of_host, now;
    PyObject *module;

    sigaction(SIGINT, NULL, &of_host);
    module = PyImport_ImportModule("_signal");
    sigaction(SIGINT, NULL, &now);
    if (now.sa_handler != of_host.sa_handler) {
        sigaction(SIGINT, &of_host, NULL);
    }
    Py_XDECREF(module);
    PyErr_Clear();
}

static int load_packages(void)
{
    PyObject *names = PyDict_New();
    PyObject *result = NULL;
    int code = mqs_ok;

    if (names != NULL && PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0) {
        result = PyRun_String(loader, Py_file_input, names, names);
    }
    if (result != NULL) {
        Py_DECREF(result);
        /* Paths are bytes to the file system: the names go in as Python decodes them. */
        result = PyObject_CallFunction(PyDict_GetItemString(names, "load_packages"), "NN",
                                       PyUnicode_DecodeFSDefault(library->path),
                                       PyUnicode_DecodeFSDefault(MQS_SITE_DIRECTORIES));
    }
    if (result == NULL) {
        code = fail_with_exception("libmqs's Python packages do not load");
    }
    Py_XDECREF(result);
    Py_XDECREF(names);
    return code;
}

/* The GIL is held throughout, so that no other output is lost while sys.stderr is replaced. */
static int start_cffi(void)
{
    PyObject *stderr_of_host = PySys_GetObject("stderr");
    int result;

    Py_XINCREF(stderr_of_host);
    PySys_SetObject("stderr", Py_None); /* cffi prints its failures there. */
#if PY_VERSION_HEX < 0x030C0000
    /* cffi uses the version tag of this type as a spin lock that is free when it is 0. It isn't once somebody has
     * looked an attribute up on a capsule: the call below would then spin for ever. */
    PyType_Modified(&PyCapsule_Type);
#endif
    result = mqs_start_cffi();
    PySys_SetObject("stderr", stderr_of_host);
    Py_XDECREF(stderr_of_host);
    PyErr_Clear();
    return result == 0 ? mqs_ok
                       : fail(mqs_start_error, "the _cffi_backend that was found does not fit: install cffi 2.0 or newer");
}

static int load_glue(void)
{
    PyObject *glue = PyImport_ImportModule("mqs_dll.library._glue");

    if (glue == NULL) {
        return fail_with_exception("mqs_dll.library._glue does not load");
    }
    Py_DECREF(glue);
    return atomic_load(&glue_is_ready) ? mqs_ok : fail(mqs_start_error, "mqs_dll.library._glue did not attach its functions");
}

/* ---------------------------------------------------------------- start */

static const char python_is_gone[] = "the host has shut down the Python that libmqs works in";

/* A new interpreter would not have our modules, should the host start one. */
static void note_python_is_gone(void)
{
    failure_code = fail(mqs_start_error, "%s", python_is_gone);
    atomic_store(&state, FAILED);
}

static int start(void)
{
    PyGILState_STATE gil;
    int joins, code;

    make_libpython_global();
    is_of_host = joins = Py_IsInitialized();
    if (!joins) {
        code = start_interpreter();
        if (code != mqs_ok) {
            return code;
        }
    }
    gil = PyGILState_Ensure();
    import_signal_module();
    code = load_packages();
    if (code == mqs_ok) {
        code = start_cffi();
    }
    if (code == mqs_ok) {
        code = load_glue();
    }
    if (code == mqs_ok) {
        (void)Py_AtExit(note_python_is_gone);
    }
    PyGILState_Release(gil);
    library->log("Python: %s %s for %s: %s", joins ? "joined" : "started", version_of_python(), library->path,
            code == mqs_ok ? "ready" : "failed");
    return code;
}

static void start_once(void)
{
    PyThreadState *gil_holder = NULL;

    if (this_thread_starts) {
        return; /* A module that is being imported calls the library. */
    }
    /* A thread that waits here with the GIL (ctypes.PyDLL) would keep the thread that starts from getting it. */
    if (Py_IsInitialized() && PyGILState_GetThisThreadState() != NULL
        && PyGILState_Check()) {
        gil_holder = PyEval_SaveThread();
    }
    pthread_mutex_lock(&start_lock);
    this_thread_starts = 1;
    if (atomic_load(&state) == NOT_TRIED) {
        failure_code = start();
        atomic_store(&state, failure_code == mqs_ok ? READY : FAILED);
    }
    this_thread_starts = 0;
    pthread_mutex_unlock(&start_lock);
    if (gil_holder != NULL) {
        PyEval_RestoreThread(gil_holder);
    }
}

static int start_python(const char **reason)
{
    if (atomic_load(&state) == NOT_TRIED) {
        start_once();
    }
    switch (atomic_load(&state)) {
    case READY:
        if (Py_IsInitialized()) {
            return mqs_ok;
        }
        *reason = python_is_gone;
        return mqs_start_error;
    case FAILED:
        *reason = failure_reason;
        return failure_code;
    default:
        *reason = "libmqs was called while it was starting";
        return mqs_start_error;
    }
}

/* ---------------------------------------------------------------- struct mqs_python_side */

/* A host that forks takes care of its own Python; in a fork of ours, a thread that isn't there may hold the GIL. */
static int outlives_fork(void)
{
    return is_of_host;
}

const struct mqs_python_side *mqs_python_in_process(const struct mqs_library *library_that_asks)
{
    static const struct mqs_python_side side = {
        start_python,
        version_of_python,
        PyErr_SetInterrupt,
        NULL, /* Frames of the interpreter lay on the stack that was jumped over. */
        outlives_fork,
        mqspy_error_string,
        mqspy_setup_image,
        mqspy_image_has_queues,
        mqspy_destroy_image,
        mqspy_setup_process,
        mqspy_process_has_queues,
        mqspy_destroy_process,
        mqspy_update_communicator_list,
        mqspy_setup_communicator_iterator,
        mqspy_get_communicator,
        mqspy_get_comm_group,
        mqspy_get_comm_label,
        mqspy_next_communicator,
        mqspy_setup_operation_iterator,
        mqspy_next_operations,
        mqspy_get_global_rank,
    };

    if (library != NULL && library != library_that_asks) {
        return NULL;
    }
    library = library_that_asks;
    return &side;
}
