/* Calls an MQS library in any order, with any mistake that a debugger can make, over a target that does not exist.
 *
 * usage: mqs_misuse LIBRARY COMMAND...
 * Each command is carried out and adds an element to the JSON array on stdout. A command is an entry point without
 * its mqs_, or one of those at the end of the table below; what follows a colon changes it.
 */
#define _GNU_SOURCE
#include "json.h"
#include "library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GROUP_ROOM = 64, THREADS = 8, ROUNDS = 200, MEMORY_SIZE = 4096, MEMORY_ADDRESS = 0x10000, HOST_CODE = 4711 };

static const char *library_path;
static struct library library;

struct mqs_image_ {
    mqs_image_info *info;
};
struct mqs_process_ {
    mqs_image_info *unused; /* So that a process taken for an image would be noticed. */
    mqs_process_info *info;
};
static mqs_image the_image;
static mqs_process the_process;
static unsigned char memory[MEMORY_SIZE];
static int call_back_into_library;
static int code_of_inner_call;
static int jump_out;
static jmp_buf escape_point;
static int cancel_in_callback;

/* ---------------------------------------------------------------- callbacks */

static void put_image_info(mqs_image *image, mqs_image_info *info)
{
    image->info = info;
}

static mqs_image_info *get_image_info(mqs_image *image)
{
    return image->info;
}

static void put_process_info(mqs_process *process, mqs_process_info *info)
{
    process->info = info;
}

static mqs_process_info *get_process_info(mqs_process *process)
{
    return process->info;
}

/* The struct of Open MPI's header, for the same revision of the interface. */
struct seven_sizes {
    mqs_target_type_sizes five;
    int bool_size;
    int size_t_size;
};
static int has_seven_sizes;

static void get_type_sizes(mqs_process *process, mqs_target_type_sizes *sizes)
{
    (void)process;
    if (has_seven_sizes) {
        *(struct seven_sizes *)sizes = (struct seven_sizes){{2, 4, 8, 8, 8}, 0x5a5a5a5a, 0x5a5a5a5a};
    } else {
        *sizes = (mqs_target_type_sizes){2, 4, 8, 8, 8};
    }
}

static int find_function(mqs_image *image, char *name, mqs_lang_code language, mqs_taddr_t *address)
{
    (void)image;
    if (strcmp(name, "a_function") != 0 || language != mqs_lang_c) {
        return mqs_no_information;
    }
    *address = 0x400000;
    return mqs_ok;
}

static int find_symbol(mqs_image *image, char *name, mqs_taddr_t *address)
{
    (void)image;
    if (strcmp(name, "a_variable") != 0) {
        return mqs_no_information;
    }
    *address = MEMORY_ADDRESS;
    return mqs_ok;
}

static mqs_type *find_type(mqs_image *image, char *name, mqs_lang_code language)
{
    (void)image;
    (void)language;
    return strcmp(name, "a_struct") == 0 ? (mqs_type *)memory : NULL;
}

static int field_offset(mqs_type *type, char *name)
{
    (void)type;
    return strcmp(name, "a_field") == 0 ? 16 : -1;
}

static int size_of(mqs_type *type)
{
    (void)type;
    return 48;
}

static int get_global_rank(mqs_process *process)
{
    (void)process;
    return 5;
}

static mqs_image *get_image(mqs_process *process)
{
    (void)process;
    return &the_image;
}

static int fetch_data(mqs_process *process, mqs_taddr_t address, int size, void *data)
{
    if (call_back_into_library) {
        code_of_inner_call = library.update_communicator_list(process);
        (void)library.dll_error_string(code_of_inner_call)[0];
        (void)library.dll_error_string(HOST_CODE)[0];
        (void)library.version_string()[0];
    }
    if (jump_out) {
        longjmp(escape_point, 1);
    }
    if (cancel_in_callback) {
        cancel_in_callback = 0;
        pthread_cancel(pthread_self());
        usleep(1); /* Where it is cancelled, if that is ever. */
    }
    if (address < MEMORY_ADDRESS || address + (mqs_taddr_t)size > MEMORY_ADDRESS + MEMORY_SIZE) {
        return HOST_CODE;
    }
    memcpy(data, memory + (address - MEMORY_ADDRESS), (size_t)size);
    return mqs_ok;
}

static void target_to_host(mqs_process *process, const void *in, void *out, int size)
{
    (void)process;
    memcpy(out, in, (size_t)size);
}

static char *errorstring(int code)
{
    return code == HOST_CODE ? "the core file ends\nthere" : NULL;
}

/* The library needs none of the first four. */
static const mqs_basic_callbacks basic_callbacks = {
    NULL, NULL, NULL, errorstring, put_image_info, get_image_info, put_process_info, get_process_info};
static const mqs_image_callbacks image_callbacks = {get_type_sizes, find_function, find_symbol,
                                              find_type,      field_offset,  size_of};
static const mqs_process_callbacks process_callbacks = {get_global_rank, get_image, fetch_data, target_to_host};

/* ---------------------------------------------------------------- what a command reports */

static void print_code(int code)
{
    json_integer("code", code);
    json_string("error", library.dll_error_string(code));
}

static void print_bytes(const char *key, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    char *hex = calloc(2 * size + 1, 1);

    for (size_t i = 0; hex != NULL && i < size; i++) {
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    }
    json_string(key, hex);
    free(hex);
}

static int is_null(const char *change)
{
    return strcmp(change, "null") == 0;
}

/* "without-2": leaves the third callback out of a table. */
static void leave_out(void *table, const char *change)
{
    unsigned number;

    if (sscanf(change, "without-%u", &number) == 1) {
        memset((char *)table + number * sizeof(void *), 0, sizeof(void *));
    }
}

/* ---------------------------------------------------------------- the entry points */

static void setup_basic_callbacks(const char *change)
{
    mqs_basic_callbacks callbacks = basic_callbacks;

    leave_out(&callbacks, change);
    library.setup_basic_callbacks(is_null(change) ? NULL : &callbacks);
    memset(&callbacks, 0xff, sizeof callbacks); /* The table need not outlive the call. */
}

static void version_string(const char *change)
{
    (void)change;
    json_string("text", library.version_string());
}

static void version_compatibility(const char *change)
{
    (void)change;
    json_integer("value", library.version_compatibility());
}

static void dll_taddr_width(const char *change)
{
    (void)change;
    json_integer("value", library.dll_taddr_width());
}

static void dll_error_string(const char *change)
{
    json_string("text", library.dll_error_string(atoi(change)));
}

static void setup_image(const char *change)
{
    mqs_image_callbacks callbacks = image_callbacks;

    leave_out(&callbacks, change);
    print_code(library.setup_image(is_null(change) ? NULL : &the_image,
                                   strcmp(change, "null-callbacks") == 0 ? NULL : &callbacks));
    memset(&callbacks, 0xff, sizeof callbacks);
}

static void image_has_queues(const char *change)
{
    char *message = (char *)(uintptr_t) "not set";

    print_code(library.image_has_queues(is_null(change) ? NULL : &the_image,
                                        strcmp(change, "null-message") == 0 ? NULL : &message));
    json_string("message", message);
}

static void destroy_image_info(const char *change)
{
    print_code(library.destroy_image_info(is_null(change) ? NULL : the_image.info));
}

static void setup_process(const char *change)
{
    mqs_process_callbacks callbacks = process_callbacks;

    leave_out(&callbacks, change);
    print_code(library.setup_process(is_null(change) ? NULL : &the_process,
                                     strcmp(change, "null-callbacks") == 0 ? NULL : &callbacks));
    memset(&callbacks, 0xff, sizeof callbacks);
}

static void process_has_queues(const char *change)
{
    char *message = (char *)(uintptr_t) "not set";

    print_code(library.process_has_queues(is_null(change) ? NULL : &the_process,
                                          strcmp(change, "null-message") == 0 ? NULL : &message));
    json_string("message", message);
}

static void destroy_process_info(const char *change)
{
    print_code(library.destroy_process_info(is_null(change) ? NULL : the_process.info));
}

static void update_communicator_list(const char *change)
{
    print_code(library.update_communicator_list(is_null(change) ? NULL : &the_process));
}

static void setup_communicator_iterator(const char *change)
{
    print_code(library.setup_communicator_iterator(is_null(change) ? NULL : &the_process));
}

static void get_communicator(const char *change)
{
    mqs_communicator communicator;

    memset(&communicator, 0xff, sizeof communicator);
    print_code(library.get_communicator(is_null(change) ? NULL : &the_process,
                                        strcmp(change, "null-place") == 0 ? NULL : &communicator));
    print_bytes("bytes", &communicator, sizeof communicator);
}

static void get_comm_group(const char *change)
{
    int ranks[GROUP_ROOM];

    memset(ranks, 0xff, sizeof ranks);
    print_code(library.get_comm_group(is_null(change) ? NULL : &the_process,
                                      strcmp(change, "null-place") == 0 ? NULL : ranks));
    print_bytes("bytes", ranks, sizeof ranks);
}

static void next_communicator(const char *change)
{
    print_code(library.next_communicator(is_null(change) ? NULL : &the_process));
}

static void setup_operation_iterator(const char *change)
{
    print_code(library.setup_operation_iterator(is_null(change) ? NULL : &the_process, atoi(change)));
}

static void next_operation(const char *change)
{
    mqs_pending_operation operation;

    memset(&operation, 0xff, sizeof operation);
    print_code(library.next_operation(is_null(change) ? NULL : &the_process,
                                      strcmp(change, "null-place") == 0 ? NULL : &operation));
    print_bytes("bytes", &operation, sizeof operation);
}

static void get_global_rank_of_library(const char *change)
{
    json_integer("value", library.get_global_rank(is_null(change) ? NULL : &the_process));
}

/* ---------------------------------------------------------------- further commands */

/* The debugger was compiled against Open MPI's header. */
static void seven_sizes(const char *change)
{
    (void)change;
    has_seven_sizes = 1;
}

/* The debugger hands in a process info that the library never gave it. */
static void spoil_infos(const char *change)
{
    (void)change;
    the_process.info = (mqs_process_info *)memory;
    the_image.info = (mqs_image_info *)memory;
}

static void call_back(const char *change)
{
    (void)change;
    call_back_into_library = 1;
    code_of_inner_call = mqs_ok;
    print_code(library.process_has_queues(&the_process, &(char *){NULL}));
    call_back_into_library = 0;
    json_integer("inner_code", code_of_inner_call);
}

static void reopen(const char *change)
{
    (void)change;
    json_integer("closed", dlclose(library.handle) == 0);
    json_integer("opened", library_open(&library, library_path));
}

/* The C library sets this flag (SA_RESTORER) with every handler: it says nothing of what the handler is. */
static const unsigned RESTORER = 0x04000000;

/* Writes the signals that this thread blocks, or without a function those that wait for it. */
static void write_signals(const char *key, int (*ask)(int, const sigset_t *, sigset_t *))
{
    sigset_t signals;

    if ((ask != NULL ? ask(SIG_BLOCK, NULL, &signals) : sigpending(&signals)) != 0) {
        abort();
    }
    json_begin(key, '[');
    for (int number = 1; number < NSIG; number++) {
        if (sigismember(&signals, number) == 1) {
            json_integer(NULL, number);
        }
    }
    json_end(']');
}

/* What the library must leave as it is. */
static void host_state(const char *change)
{
    struct sigaction action;

    (void)change;
    json_begin("signals", '[');
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &action) == 0) {
            json_unsigned(NULL, (unsigned long)(uintptr_t)action.sa_handler);
            json_unsigned(NULL, (unsigned)action.sa_flags & ~RESTORER);
        }
    }
    json_end(']');
    write_signals("blocked", pthread_sigmask);
    write_signals("pending", NULL);
    json_begin("environment", '[');
    for (char **variable = environ; *variable != NULL; variable++) {
        json_string(NULL, *variable);
    }
    json_end(']');
    json_string("locale", setlocale(LC_ALL, NULL));
    json_begin("stdio", '[');
    json_unsigned(NULL, __fbufsize(stdin));
    json_unsigned(NULL, __fbufsize(stdout));
    json_unsigned(NULL, __fbufsize(stderr));
    json_integer(NULL, __flbf(stdout));
    json_integer(NULL, __flbf(stderr));
    json_end(']');
}

/* Loads another shared library into the process, for all to see. */
static void load(const char *path)
{
    json_integer("loaded", dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL);
}

static void load_local(const char *path)
{
    json_integer("loaded", dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL);
}

static void change_directory(const char *path)
{
    json_integer("changed", chdir(path) == 0);
}

static int reader = -1;

/* Becomes the reader of a FIFO, and leaves it again after a check of what is in it. */
static void open_reader(const char *path)
{
    reader = open(path, O_RDONLY | O_NONBLOCK);
    json_integer("opened", reader >= 0);
}

static void close_reader(const char *change)
{
    char text[64];

    (void)change;
    json_integer("read", read(reader, text, sizeof text));
    json_integer("closed", close(reader) == 0);
}

static void limit_file_size(const char *bytes)
{
    struct rlimit limit = {(rlim_t)atol(bytes), (rlim_t)atol(bytes)};

    json_integer("limited", setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void block_signal(const char *number)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, atoi(number));
    json_integer("blocked", pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
}

static void raise_signal(const char *number)
{
    json_integer("raised", raise(atoi(number)) == 0);
}

/* Looks for a call of the library's as debuggers do. */
static void look_up(const char *name)
{
    json_integer("found", dlsym(library.handle, name) != NULL);
}

/* Calls a function without arguments of what `load` has loaded: Py_Initialize, Py_Finalize. */
static void call(const char *name)
{
    void (*function)(void);

    *(void **)&function = dlsym(RTLD_DEFAULT, name);
    json_integer("found", function != NULL);
    if (function != NULL) {
        function();
    }
}

static void *sweep_often(void *seen)
{
    mqs_communicator communicator;
    mqs_pending_operation operation;
    int ranks[GROUP_ROOM];
    int codes[8];
    int *is_seen = seen;

    for (int i = 0; i < ROUNDS; i++) {
        codes[0] = library.update_communicator_list(&the_process);
        codes[1] = library.setup_communicator_iterator(&the_process);
        codes[2] = library.get_communicator(&the_process, &communicator);
        codes[3] = library.get_comm_group(&the_process, ranks);
        codes[4] = library.setup_operation_iterator(&the_process, i % 3);
        codes[5] = library.next_operation(&the_process, &operation);
        codes[6] = library.next_operation(&the_process, &operation);
        codes[7] = library.next_communicator(&the_process);
        for (size_t j = 0; j < sizeof codes / sizeof *codes; j++) {
            is_seen[codes[j] >= 0 && codes[j] < 255 ? codes[j] : 255] = 1;
        }
        (void)library.dll_error_string(codes[i % 8])[0];
    }
    return NULL;
}

/* Several threads use one process at once; reports all the codes that they got. */
static void threads(const char *change)
{
    pthread_t ids[THREADS];
    static int seen[THREADS][256];

    (void)change;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&ids[i], NULL, sweep_often, seen[i]) != 0) {
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    json_begin("codes", '[');
    for (int code = 0; code < 256; code++) {
        int any = 0;

        for (int i = 0; i < THREADS; i++) {
            any |= seen[i][code];
        }
        if (any) {
            json_integer(NULL, code);
        }
    }
    json_end(']');
}

/* Python's frames, or what the library holds, are left behind. */
static void jump(const char *change)
{
    char *message;

    (void)change;
    jump_out = 1;
    if (setjmp(escape_point) == 0) {
        (void)library.process_has_queues(&the_process, &message);
        json_integer("jumped", 0);
    } else {
        json_integer("jumped", 1);
    }
    jump_out = 0;
}

static void *call_and_be_cancelled(void *code)
{
    cancel_in_callback = 1;
    *(int *)code = library.update_communicator_list(&the_process);
    usleep(1);
    *(int *)code = -1;
    return NULL;
}

/* A thread is cancelled while it is in a callback of a call. */
static void cancel(const char *change)
{
    pthread_t other;
    int code = -2;
    void *ended;

    (void)change;
    if (pthread_create(&other, NULL, call_and_be_cancelled, &code) != 0 || pthread_join(other, &ended) != 0) {
        abort();
    }
    json_integer("cancelled", ended == PTHREAD_CANCELED);
    json_integer("code", code);
    json_string("error", "");
}

/* Another call from further down than one that was left, whose frame the host has written over in between. */
static void __attribute__((noinline)) from_below(const char *change)
{
    volatile char room[1 << 14];
    int cancelling;

    memset((char *)(uintptr_t)room, 0x55, sizeof room);
    update_communicator_list(change);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancelling);
    json_integer("can_be_cancelled", cancelling == PTHREAD_CANCEL_ENABLE);
    room[0] = 0;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) {
        abort();
    }
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Sets a process up, reads it, and lets go of it and its image, many times; another image keeps the library busy. */
static void rounds(const char *times)
{
    mqs_pending_operation operation;
    mqs_communicator communicator;
    mqs_image other;
    char *message;
    int failed = library.setup_image(&other, &image_callbacks) != mqs_ok;

    for (int i = atoi(times); i > 0; i--) {
        mqs_process_callbacks of_process = process_callbacks;

        failed += library.setup_image(&the_image, &image_callbacks) != mqs_ok;
        failed += library.image_has_queues(&the_image, &message) != mqs_ok;
        failed += library.setup_process(&the_process, &of_process) != mqs_ok;
        failed += library.process_has_queues(&the_process, &message) != mqs_ok;
        failed += library.setup_communicator_iterator(&the_process) != mqs_ok;
        failed += library.get_communicator(&the_process, &communicator) != mqs_ok;
        failed += library.setup_operation_iterator(&the_process, mqs_pending_receives) != mqs_ok;
        failed += library.next_operation(&the_process, &operation) != mqs_ok;
        failed += library.destroy_process_info(the_process.info) != mqs_ok;
        failed += library.destroy_image_info(the_image.info) != mqs_ok;
    }
    failed += library.destroy_image_info(other.info) != mqs_ok;
    json_integer("failed", failed);
    json_integer("resident_kib", resident_kib());
}

/* Has many processes of one image at once, which it asks in turn. */
static void processes(const char *number)
{
    int count = atoi(number), failed = 0;
    mqs_process *all = calloc((size_t)count, sizeof *all);
    mqs_communicator communicator;

    for (int i = 0; i < count; i++) {
        failed += library.setup_process(&all[i], &process_callbacks) != mqs_ok;
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count; i++) {
            failed += library.setup_communicator_iterator(&all[i]) != mqs_ok;
            for (int j = 0; j < (i + round) % 3; j++) {
                (void)library.next_communicator(&all[i]);
            }
        }
        for (int i = count - 1; i >= 0; i--) {
            failed += library.get_communicator(&all[i], &communicator) != mqs_ok;
            failed += communicator.size != ((i + round) % 3 == 0 ? 3 : 2);
        }
    }
    for (int i = 0; i < count; i++) {
        failed += library.destroy_process_info(all[i].info) != mqs_ok;
    }
    free(all);
    json_integer("failed", failed);
}

static atomic_int others_wait_first;

/* Whoever waits for one child, the library too, is the last to learn of its end while another thread waits for all. */
pid_t waitpid(pid_t child, int *status, int options)
{
    if (child > 0 && others_wait_first) {
        usleep(10000);
    }
    return (pid_t)syscall(SYS_wait4, child, status, options, NULL);
}

static void *wait_for_all(void *data)
{
    int status;

    for (;;) {
        if (waitpid(-1, &status, __WALL) < 0) {
            sched_yield();
        }
    }
    return data;
}

/* From now on, another thread waits for whatever child there is, as debuggers do. */
static void wait_for_children(const char *change)
{
    pthread_t other;

    (void)change;
    others_wait_first = 1;
    json_integer("started", pthread_create(&other, NULL, wait_for_all, NULL) == 0);
}

static int forks_while_starting;
static int sockets_of_fork = -1;

/* Forks first, as another thread of the host might do just then; the child reports how many sockets it has. Weak: see
 * clone_as_fork.c. */
__attribute__((weak)) int clone(int (*run)(void *), void *stack, int flags, void *data, ...)
{
    int (*next)(int (*)(void *), void *, int, void *, ...);

    if (forks_while_starting) {
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
            int sockets = 0;

            for (int number = 0; number < 1024; number++) {
                struct stat found;

                sockets += fstat(number, &found) == 0 && S_ISSOCK(found.st_mode);
            }
            _exit(sockets);
        }
        waitpid(child, &status, 0);
        sockets_of_fork = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    *(void **)&next = dlsym(RTLD_NEXT, "clone");
    return next(run, stack, flags, data);
}

/* Sets an image up while the host forks. */
static void fork_while_starting(const char *change)
{
    (void)change;
    forks_while_starting = 1;
    print_code(library.setup_image(&the_image, &image_callbacks));
    forks_while_starting = 0;
    json_integer("sockets", sockets_of_fork);
}

static atomic_int is_over;

static void *call_until_it_is_over(void *data)
{
    while (!is_over) {
        (void)sweep_often(data);
    }
    return NULL;
}

/* Forks while other threads are in the library. What the child gets from it, before and after it sets up anew. */
static void fork_host(const char *change)
{
    static int seen[256];
    pthread_t other;
    int status = -1;
    pid_t child;

    (void)change;
    is_over = 0;
    if (pthread_create(&other, NULL, call_until_it_is_over, seen) != 0) {
        abort();
    }
    usleep(20000);
    child = fork();
    if (child == 0) {
        int before = library.setup_communicator_iterator(&the_process);
        int after = library.setup_image(&the_image, &image_callbacks) == mqs_ok
                    && library.setup_process(&the_process, &process_callbacks) == mqs_ok
                    && library.setup_communicator_iterator(&the_process) == mqs_ok;

        _exit(after ? before : 255);
    }
    is_over = 1;
    pthread_join(other, NULL);
    waitpid(child, &status, 0);
    json_integer("child", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    print_code(library.setup_communicator_iterator(&the_process));
}

/* ---------------------------------------------------------------- start */

static const struct {
    const char *name;
    void (*carry_out)(const char *change);
} commands[] = {
#define COMMAND(name) {#name, name}
    COMMAND(setup_basic_callbacks),
    COMMAND(version_string),
    COMMAND(version_compatibility),
    COMMAND(dll_taddr_width),
    COMMAND(dll_error_string),
    COMMAND(setup_image),
    COMMAND(image_has_queues),
    COMMAND(destroy_image_info),
    COMMAND(setup_process),
    COMMAND(process_has_queues),
    COMMAND(destroy_process_info),
    COMMAND(update_communicator_list),
    COMMAND(setup_communicator_iterator),
    COMMAND(get_communicator),
    COMMAND(get_comm_group),
    COMMAND(next_communicator),
    COMMAND(setup_operation_iterator),
    COMMAND(next_operation),
    {"get_global_rank", get_global_rank_of_library},
    COMMAND(seven_sizes),
    COMMAND(spoil_infos),
    COMMAND(call_back),
    COMMAND(reopen),
    COMMAND(host_state),
    COMMAND(load),
    COMMAND(load_local),
    COMMAND(change_directory),
    COMMAND(open_reader),
    COMMAND(close_reader),
    COMMAND(limit_file_size),
    COMMAND(block_signal),
    COMMAND(raise_signal),
    COMMAND(look_up),
    COMMAND(call),
    COMMAND(threads),
    COMMAND(jump),
    COMMAND(cancel),
    COMMAND(from_below),
    COMMAND(rounds),
    COMMAND(processes),
    COMMAND(wait_for_children),
    COMMAND(fork_while_starting),
    COMMAND(fork_host),
};

static int carry_out(const char *command)
{
    size_t length = strcspn(command, ":");
    const char *change = command[length] == ':' ? command + length + 1 : "";

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strlen(commands[i].name) == length && strncmp(commands[i].name, command, length) == 0) {
            json_begin(NULL, '{');
            json_string("command", command);
            commands[i].carry_out(change);
            json_end('}');
            return 1;
        }
    }
    fprintf(stderr, "no command %s\n", command);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: mqs_misuse LIBRARY COMMAND...\n");
        return 2;
    }
    library_path = argv[1];
    for (size_t i = 0; i < sizeof memory; i++) {
        memory[i] = (unsigned char)i;
    }
    if (!library_open(&library, library_path)) {
        return 1;
    }
    json_begin(NULL, '[');
    for (int i = 2; i < argc; i++) {
        if (!carry_out(argv[i])) {
            return 2;
        }
    }
    json_end(']');
    putchar('\n');
    return 0;
}
