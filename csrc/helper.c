/* The Python side of libmqs in a process of its own (mqs_dll/library/helper.py), where our Python can't run in the host.
 *
 * A socket pair carries frames of a header and bytes. A call is a frame to the helper, which may ask for the debugger's
 * callbacks, a frame each, before it answers. One call at a time; the callbacks run in the thread that calls.
 *
 * The host sees nothing of the helper: no SIGCHLD, no child to wait for, no signal, and one file descriptor that is
 * closed on exec. The helper ends when its socket closes: with the host, however that ends, and with the last image.
 * It is init's child: a host that takes init's place (process 1, PR_SET_CHILD_SUBREAPER) sees its end as that of any orphan.
 *
 * The host's other threads may do at any time what debuggers do: wait for all children, ours too, fork, close our
 * descriptor, have signals arrive, cancel threads.
 */
#define _GNU_SOURCE
#include "glibc.h"
#include "python_side.h"

#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MQS_PYTHON_EXECUTABLE
#error "MQS_PYTHON_EXECUTABLE: the Python that libmqs is built with; empty where it is for any"
#endif

/* mqs_dll/library/helper.py has the same numbers. */
enum call {
    ANSWER,
    ERROR_STRING,
    SETUP_IMAGE,
    IMAGE_HAS_QUEUES,
    DESTROY_IMAGE,
    SETUP_PROCESS,
    PROCESS_HAS_QUEUES,
    DESTROY_PROCESS,
    UPDATE_COMMUNICATOR_LIST,
    SETUP_COMMUNICATOR_ITERATOR,
    GET_COMMUNICATOR,
    GET_COMM_GROUP,
    GET_COMM_LABEL,
    NEXT_COMMUNICATOR,
    SETUP_OPERATION_ITERATOR,
    NEXT_OPERATIONS,
    GET_GLOBAL_RANK,
    /* What the helper asks for. */
    FIND_FUNCTION = 100,
    FIND_SYMBOL,
    FIND_TYPE,
    FIELD_OFFSET,
    TYPE_SIZE,
    TYPE_SIZES,
    FETCH,
    TO_HOST,
    GLOBAL_RANK,
    LOG_LINE,
};

struct frame {
    uint32_t what;
    uint32_t size; /* Of the bytes that follow. */
    int64_t code;
    uint64_t subject; /* A token, or which image or process of the debugger's. */
    uint64_t number;
};

enum {
    MAX_BYTES = 1 << 28,
    MAX_SCALAR = 8,
    MAX_SIZES = 64, /* Of types; other headers with the same revision have more of them than ours, Open MPI's two more. */
    SECONDS = 120, /* For which the helper may be silent, or not take what is sent to it. */
    SECONDS_TO_START = 30, /* For all Pythons that are tried. */
    STACK = 1 << 16,
    MAX_DESCRIPTORS = 1 << 20, /* Where it isn't known which are open. */
    MAX_TEXTS = 1000,
    REFUSED_SIZE = 1024,
};

/* An image or a process that the debugger has set up. */
struct registered {
    struct registered *next;
    uint64_t id;
    mqs_taddr_t token;
    mqs_image *image; /* NULL for a process. */
    mqs_process *process;
    mqs_image_callbacks image_callbacks;
    mqs_process_callbacks process_callbacks;
};

static const struct mqs_library *library;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* Held for a whole call. */

static int channel = -1;
static struct stat channel_is;
static int ends[2] = {-1, -1}; /* Of the channel to a helper that is being started. */
static pid_t owner;            /* The host, which may fork. */
static struct registered *all_registered;
static uint64_t last_id;
static unsigned generation; /* How many helpers there were: tokens of one that is gone are unknown to the next. */
static char version[64];
static char failure[3072]; /* Why there is no helper. */
static _Atomic int has_failed; /* No helper could be started; not tried again before the next image. */

static char *bytes; /* Those of the last frame. */
static size_t capacity; /* Of `bytes`. */

/* The last failure of this thread: the helper may be gone when the debugger asks for its text. */
static _Thread_local struct {
    int code;
    char text[sizeof failure];
} last;

/* ---------------------------------------------------------------- the lock */

static int cancelling; /* Of the thread that has the lock, and isn't cancelled for so long. */

static void take_lock(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&lock);
    cancelling = before;
}

static void give_lock(void)
{
    int before = cancelling;

    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(before, NULL);
}

/* ---------------------------------------------------------------- frames */

/* The host may have closed it, and given its number to a file of its own. */
static int is_still_ours(void)
{
    struct stat now;

    return channel >= 0 && stat_open_file(channel, &now) == 0 && now.st_dev == channel_is.st_dev
           && now.st_ino == channel_is.st_ino;
}

/* After a fork the helper is the parent's. */
static int is_open(void)
{
    return owner == getpid() && is_still_ours();
}

static void forget(void)
{
    if (is_still_ours()) {
        close(channel);
    }
    channel = -1;
    while (all_registered != NULL) {
        struct registered *next = all_registered->next;

        free(all_registered);
        all_registered = next;
    }
}

static long long milliseconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Waits until the channel can take or give something. The host's signals, which a timer may send again and again, don't
 * make that longer. */
static int is_ready(short events, int seconds)
{
    long long end = milliseconds_now() + seconds * 1000LL;
    struct pollfd ready = {channel, events, 0};
    int count;

    do {
        long long left = end - milliseconds_now();

        count = poll(&ready, 1, left > 0 ? (int)left : 0);
        if (count < 0 && errno == EINTR && left <= 0) {
            count = 0;
        }
    } while (count < 0 && errno == EINTR);
    return count > 0;
}

static int would_wait(ssize_t answer)
{
    return answer < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK);
}

static int send_all(const void *data, size_t size)
{
    const char *place = data;

    while (size > 0) {
        ssize_t sent = send(channel, place, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (would_wait(sent)) {
            if (!is_ready(POLLOUT, SECONDS)) {
                return 0;
            }
            continue;
        }
        if (sent <= 0) {
            return 0;
        }
        place += sent;
        size -= (size_t)sent;
    }
    return 1;
}

static int receive_all(void *data, size_t size, int seconds)
{
    char *place = data;

    while (size > 0) {
        ssize_t received;

        if (!is_ready(POLLIN, seconds)) {
            return 0;
        }
        received = recv(channel, place, size, MSG_DONTWAIT);
        if (would_wait(received)) {
            continue;
        }
        if (received <= 0) {
            return 0;
        }
        place += received;
        size -= (size_t)received;
    }
    return 1;
}

static int send_frame(struct frame frame, const void *data)
{
    return send_all(&frame, sizeof frame) && send_all(data, frame.size);
}

/* Reserves memory for the bytes of a frame, and one more for the end of a string. */
static int reserve(size_t size)
{
    if (size + 1 > capacity) {
        char *more = realloc(bytes, size + 1);

        if (more == NULL) {
            return 0;
        }
        bytes = more;
        capacity = size + 1;
    }
    bytes[size] = '\0';
    return 1;
}

static int receive_frame(struct frame *frame, int seconds)
{
    return receive_all(frame, sizeof *frame, seconds) && frame->size <= MAX_BYTES && reserve(frame->size)
           && receive_all(bytes, frame->size, seconds);
}

/* ---------------------------------------------------------------- the debugger's callbacks */

static struct registered *find_registered(uint64_t id)
{
    struct registered *each = all_registered;

    while (each != NULL && each->id != id) {
        each = each->next;
    }
    return each;
}

static void find_address(const struct registered *of, struct frame *frame)
{
    mqs_taddr_t address = 0;

    if (frame->what == FIND_FUNCTION) {
        frame->code = of->image_callbacks.mqs_find_function_fp(of->image, bytes, mqs_lang_c, &address);
    } else {
        frame->code = of->image_callbacks.mqs_find_symbol_fp(of->image, bytes, &address);
    }
    frame->number = address;
}

/* Fetches into the bytes; on failure they are the debugger's text for its code. */
static uint32_t fetch(const struct registered *of, struct frame *frame)
{
    mqs_taddr_t address = frame->number;
    uint64_t size = (uint64_t)frame->code;
    const char *words;

    if (size > MAX_BYTES || !reserve(size)) {
        frame->code = mqs_start_error;
        return 0;
    }
    frame->code = of->process_callbacks.mqs_fetch_data_fp(of->process, address, (int)size, bytes);
    if (frame->code == mqs_ok) {
        return (uint32_t)size;
    }
    words = library->words_of_debugger((int)frame->code);
    frame->number = words != NULL;
    return words != NULL && reserve(strlen(words)) ? (uint32_t)strlen(strcpy(bytes, words)) : 0;
}

/* Does what the helper asks for, and sends it; 0 if that isn't possible. */
static int serve(struct frame frame)
{
    struct registered *of = frame.what == LOG_LINE ? NULL : find_registered(frame.subject);
    uint32_t asked = frame.size;
    union {
        mqs_target_type_sizes known;
        int with_more[MAX_SIZES];
    } sizes;
    char scalar[MAX_SCALAR];
    const void *data = bytes;
    mqs_type *type = (mqs_type *)(uintptr_t)frame.number;

    frame.size = 0;
    if (frame.what == LOG_LINE) {
        if (asked > 0) {
            library->log("%s", bytes);
        }
        frame.number = (uint64_t)library->log_is_open();
        return send_frame(frame, NULL);
    }
    if (of == NULL || (frame.what <= TYPE_SIZES) != (of->image != NULL)) {
        return 0;
    }
    switch (frame.what) {
    case FIND_FUNCTION:
    case FIND_SYMBOL:
        find_address(of, &frame);
        break;
    case FIND_TYPE:
        frame.number = (uint64_t)(uintptr_t)of->image_callbacks.mqs_find_type_fp(of->image, bytes, mqs_lang_c);
        break;
    case FIELD_OFFSET:
        frame.code = of->image_callbacks.mqs_field_offset_fp(type, bytes);
        break;
    case TYPE_SIZE:
        frame.code = of->image_callbacks.mqs_sizeof_fp != NULL ? of->image_callbacks.mqs_sizeof_fp(type) : 0;
        break;
    case TYPE_SIZES: {
        struct registered *process = find_registered(frame.number);

        if (process == NULL || process->image != NULL) {
            return 0;
        }
        memset(&sizes, 0, sizeof sizes);
        of->image_callbacks.mqs_get_type_sizes_fp(process->process, &sizes.known);
        data = &sizes.known;
        frame.size = sizeof sizes.known;
        break;
    }
    case FETCH:
        frame.size = fetch(of, &frame);
        data = bytes; /* Which may have moved. */
        break;
    case TO_HOST:
        if (asked > sizeof scalar) {
            return 0;
        }
        of->process_callbacks.mqs_target_to_host_fp(of->process, bytes, scalar, (int)asked);
        data = scalar;
        frame.size = asked;
        break;
    case GLOBAL_RANK:
        frame.code = of->process_callbacks.mqs_get_global_rank_fp(of->process);
        break;
    default:
        return 0;
    }
    return send_frame(frame, data);
}

/* ---------------------------------------------------------------- the process */

struct program {
    int socket;
    char *const *arguments;
    char *const *environment;
    char *stack; /* Of the process that becomes the helper. */
};

/* An entry of a folder, as the kernel gives it. */
struct entry {
    uint64_t inode;
    int64_t next;
    unsigned short size;
    unsigned char type;
    char name[];
};

/* Answers the number that a name in /proc/self/fd is, -1 for another name. */
__attribute__((no_sanitize_address)) static int number_of(const char *name)
{
    int number = 0;

    for (; *name >= '0' && *name <= '9' && number < INT_MAX / 10 - 1; name++) {
        number = 10 * number + (*name - '0');
    }
    return *name == '\0' ? number : -1;
}

/* Closes what /proc lists; 0 where it lists nothing. */
__attribute__((no_sanitize_address)) static int close_listed(int first)
{
    _Alignas(struct entry) char listed[1 << 12];
    int folder = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    long size;
    int any = 0;

    if (folder < 0) {
        return 0;
    }
    while ((size = syscall(SYS_getdents64, folder, listed, sizeof listed)) > 0) {
        const struct entry *entry;

        for (long at = 0; at < size; at += entry->size) {
            int number;

            entry = (const struct entry *)(const void *)(listed + at);
            number = number_of(entry->name);
            if (number >= first && number != folder) {
                syscall(SYS_close, number);
            }
        }
        any = 1;
    }
    syscall(SYS_close, folder);
    return any && size == 0;
}

/* Closes all descriptors from a number on. Kernels before 5.9 have no call for it, and a filter of system calls may refuse
 * it. Nothing here may allocate: the memory is the host's. */
__attribute__((no_sanitize_address)) static void close_from(int first)
{
    struct rlimit limit = {0, 0};

#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0) {
        return;
    }
#endif
    if (close_listed(first)) {
        return;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max > MAX_DESCRIPTORS) {
        limit.rlim_max = MAX_DESCRIPTORS;
    }
    for (int number = first; number < (int)limit.rlim_max; number++) {
        syscall(SYS_close, number);
    }
}

/* Runs in the memory of the host, whose thread waits: nothing here may leave a trace. */
__attribute__((no_sanitize_address)) static int become_helper(void *data)
{
    const struct program *program = data;
    int null = open("/dev/null", O_RDWR);

    setsid();
    if (null < 0 || dup2(program->socket, 3) < 0 || (program->socket == 3 && fcntl(3, F_SETFD, 0) != 0)) {
        _exit(1);
    }
    for (int standard = 0; standard <= 2; standard++) {
        dup2(null, standard);
    }
    close_from(4);
    if (chdir("/") == 0) {
        execve(program->arguments[0], program->arguments, program->environment);
    }
    _exit(1);
}

/* The process between the host and the helper: it leaves the helper to init, which waits for it. */
__attribute__((no_sanitize_address)) static int start_helper(void *data)
{
    const struct program *program = data;

    _exit(clone(become_helper, program->stack + STACK, CLONE_VM | CLONE_VFORK, data) < 0);
}

/* Starts a program with one end of a socket pair as its descriptor 3. Without a signal of its own, the process between
 * is seen neither by a handler of SIGCHLD nor by the host's wait, unless that is for all kinds of children: then another
 * thread may learn of its end in place of this one. So 0 is a sure failure, 1 is not yet success: the program itself
 * reports that it runs.
 *
 * All signals are blocked in both, and stay so. */
static int start_process(char *const *arguments, char *const *environment, int socket)
{
    char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    struct program program = {socket, arguments, environment, stacks + STACK};
    sigset_t all, before;
    pid_t between;
    int status = 0;

    if (stacks == MAP_FAILED) {
        return 0;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    between = clone(start_helper, stacks + STACK, CLONE_VM | CLONE_VFORK, &program);
    if (between > 0) {
        /* Of this thread's own children: the number may be another's, if somebody else has waited for this one. */
        while (waitpid(between, &status, __WALL | __WNOTHREAD) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(stacks, 2 * STACK);
    return between > 0 && status == 0;
}

static void close_end(int which)
{
    if (ends[which] >= 0) {
        close(ends[which]);
        ends[which] = -1;
    }
}

/* Connects with a helper that runs in this Python; on failure `failure` has the reason. */
static int connect_with(const char *python, const char *module, long long end)
{
    static const char *const kept[] = {"HOME", "XDG_DATA_HOME", "MQS_PROFILES"};
    char variables[3][PATH_MAX + 32], generations[16];
    char *environment[4] = {NULL};
    char *arguments[] = {(char *)(uintptr_t)python, "-I", "-S", "-B", "-X", "utf8", (char *)(uintptr_t)module, generations,
                         NULL};
    struct frame hello;
    long long left = (end - milliseconds_now()) / 1000;
    int count = 0, high;

    if (left <= 0) {
        return 0;
    }
    snprintf(generations, sizeof generations, "%u", ++generation);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const char *value = secure_getenv(kept[i]);

        if (value != NULL && strlen(value) < PATH_MAX) {
            snprintf(variables[count], sizeof variables[count], "%s=%s", kept[i], value);
            environment[count] = variables[count];
            count++;
        }
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        snprintf(failure, sizeof failure, "there is no socket for the helper process: %s", strerror(errno));
        ends[0] = ends[1] = -1;
        return 0;
    }
    high = fcntl(ends[0], F_DUPFD_CLOEXEC, 64); /* Hosts may count on low numbers. */
    if (high >= 0) {
        close(ends[0]);
        ends[0] = high;
    }
    if (!start_process(arguments, environment, ends[1])) {
        snprintf(failure, sizeof failure, "%.900s can't be started as the helper process", python);
        close_end(0);
        close_end(1);
        return 0;
    }
    close_end(1);
    channel = ends[0];
    ends[0] = -1;
    owner = getpid();
    stat_open_file(channel, &channel_is);
    if (receive_frame(&hello, (int)left) && hello.what == ANSWER) {
        snprintf(version, sizeof version, "%s", bytes);
        library->log("Python: %s for %s, by %s: ready", version, library->path, python);
        return 1;
    }
    snprintf(failure, sizeof failure, "%.900s does not run libmqs's helper: it has to be Python 3.10 or newer", python);
    forget();
    return 0;
}

/* Tries a Python if it exists and only trusted users can have put it there; else appends the reason to `refused`. */
static int try_python(const char *python, const char *module, long long end, char refused[REFUSED_SIZE])
{
    char why[REFUSED_SIZE];
    size_t used = strlen(refused);

    if (access(python, X_OK) != 0) {
        return 0;
    }
    if (!mqs_may_run(library->path, python, why, sizeof why)) {
        library->log("Python: %s is not run: %s", python, why);
        snprintf(refused + used, REFUSED_SIZE - used, "; %s is not run: %s", python, why);
        return 0;
    }
    return connect_with(python, module, end);
}

/* Any Python will do: the one that libmqs was built with, those above the library, the system's. */
static int connect_with_any(void)
{
    char module[PATH_MAX + 32], python[PATH_MAX + 32], prefix[PATH_MAX], refused[REFUSED_SIZE] = "";
    static const char *const system[] = {MQS_PYTHON_EXECUTABLE, "/usr/bin/python3", "/usr/local/bin/python3"};
    long long end = milliseconds_now() + SECONDS_TO_START * 1000LL;
    char *slash;

    snprintf(prefix, sizeof prefix, "%s", library->path);
    slash = strrchr(prefix, '/');
    *slash = '\0';
    snprintf(module, sizeof module, "%s/library/helper_start.py", prefix);
    if (access(module, R_OK) != 0) {
        snprintf(failure, sizeof failure, "libmqs's Python packages do not lie beside it: there is no %.900s", module);
        return 0;
    }
    if (!mqs_may_run(library->path, module, refused, sizeof refused)) {
        snprintf(failure, sizeof failure, "libmqs's Python packages are not run: %s", refused);
        return 0;
    }
    snprintf(failure, sizeof failure, "there is no Python for the helper process: neither above %.900s nor in /usr", prefix);
    if (try_python(system[0], module, end, refused)) {
        return 1;
    }
    while ((slash = strrchr(prefix, '/')) != NULL && slash != prefix) {
        *slash = '\0';
        snprintf(python, sizeof python, "%s/bin/python3", prefix);
        if (try_python(python, module, end, refused)) {
            return 1;
        }
    }
    for (size_t i = 1; i < sizeof system / sizeof *system; i++) {
        if (try_python(system[i], module, end, refused)) {
            return 1;
        }
    }
    strncat(failure, refused, sizeof failure - strlen(failure) - 1);
    return 0;
}

/* ---------------------------------------------------------------- calls */

static int fail(int code, const char *text)
{
    last.code = code;
    snprintf(last.text, sizeof last.text, "%s", text);
    return code + 1;
}

static int is_connected(void)
{
    if (is_open()) {
        return 1;
    }
    forget();
    if (!has_failed) {
        has_failed = !connect_with_any();
    }
    return !has_failed;
}

void mqs_python_try_again(void)
{
    has_failed = 0;
}

/* Sends a call and serves the helper until it answers; the answer's bytes are in `bytes`, the lock is held. */
static int exchange(struct frame *frame, const void *data)
{
    if (!is_connected()) {
        return fail(mqs_start_error, failure);
    }
    if (send_frame(*frame, data)) {
        while (receive_frame(frame, SECONDS)) {
            if (frame->what == ANSWER) {
                int answer = (int)frame->code;

                return answer == mqs_ok + 1 || answer == mqs_end_of_list + 1 ? answer : fail(answer - 1, bytes);
            }
            if (!serve(*frame)) {
                break;
            }
        }
    }
    forget();
    return fail(mqs_start_error, "libmqs's helper process has ended, or is stopped; it is started anew with the next image");
}

/* *size is how many bytes are expected, or the most that there may be where `up_to` is 1; and then how many there are. */
static int call_with(struct frame *frame, void *into, size_t *size, int up_to)
{
    int answer;

    take_lock();
    answer = exchange(frame, NULL);
    if (answer == mqs_ok + 1 && into != NULL) {
        if (up_to ? frame->size <= *size : frame->size == *size) {
            memcpy(into, bytes, frame->size);
            *size = frame->size;
        } else {
            answer = fail(mqs_start_error, "libmqs's helper process is of another libmqs");
        }
    }
    give_lock();
    return answer;
}

static int call(enum call what, mqs_taddr_t token, void *into, size_t size)
{
    struct frame frame = {what, 0, 0, token, 0};

    return call_with(&frame, into, &size, 0);
}

static int call_for_operations(enum call what, mqs_taddr_t token, int queue, mqs_pending_operation *operations, int *count,
                               int *ends)
{
    struct frame frame = {what, 0, *count, token, (uint64_t)queue};
    size_t size = (size_t)*count * sizeof *operations;
    int answer = call_with(&frame, operations, &size, 1);

    if (answer == mqs_ok + 1) {
        *count = (int)(size / sizeof *operations);
        *ends = (int)frame.subject;
    }
    return answer;
}

/* Returns a copy that the debugger may read until MAX_TEXTS more were made. */
static char *retain(const char *text)
{
    static char *retained[MAX_TEXTS];
    static unsigned next;
    char *copy = strdup(text);

    if (copy != NULL) {
        free(retained[next]);
        retained[next] = copy;
        next = (next + 1) % MAX_TEXTS;
    }
    return copy;
}

static int get_text(enum call what, mqs_taddr_t token, char **message)
{
    struct frame frame = {what, 0, 0, token, 0};
    int answer;

    take_lock();
    answer = exchange(&frame, NULL);
    if (answer != mqs_ok + 1) {
        *message = retain(last.text);
    } else if (frame.size > 0) {
        *message = retain(bytes);
    }
    give_lock();
    return answer;
}

static int register_object(enum call what, mqs_taddr_t image_token, const struct registered *wanted, mqs_taddr_t *token)
{
    struct registered *object = malloc(sizeof *object);
    struct frame frame = {what, 0, 0, image_token, 0};
    int answer;

    if (object == NULL) {
        return fail(mqs_start_error, "there is no memory");
    }
    take_lock();
    if (!is_connected()) {
        free(object);
        answer = fail(mqs_start_error, failure);
    } else {
        *object = *wanted;
        object->id = frame.number = ++last_id;
        object->next = all_registered;
        all_registered = object;
        answer = exchange(&frame, NULL);
        if (answer == mqs_ok + 1) {
            *token = object->token = frame.subject;
        } else if (all_registered == object) { /* Else everything was forgotten with the helper. */
            all_registered = object->next;
            free(object);
        }
    }
    give_lock();
    return answer;
}

static int unregister_object(enum call what, mqs_taddr_t token)
{
    struct frame frame = {what, 0, 0, token, 0};
    struct registered **place = &all_registered;
    int answer;

    take_lock();
    answer = exchange(&frame, NULL);
    while (answer == mqs_ok + 1 && *place != NULL) {
        struct registered *each = *place;

        if (each->token == token) {
            *place = each->next;
            free(each);
            break;
        }
        place = &each->next;
    }
    if (all_registered == NULL) {
        forget(); /* The helper ends with the last image. */
    }
    give_lock();
    return answer;
}

/* ---------------------------------------------------------------- struct mqs_python_side */

static int start(const char **reason)
{
    int connected;

    take_lock();
    connected = version[0] != '\0' || is_connected();
    give_lock();
    *reason = failure;
    return connected ? mqs_ok : mqs_start_error;
}

/* The lock is that thread's. The helper, which still waits for an answer, ends. */
static void leave(void)
{
    forget();
    give_lock();
}

/* In a child another helper is started: this one is the parent's, and so is any thread that holds the lock. */
static int outlives_fork(void)
{
    return 1;
}

static void drop_helper_of_parent(void)
{
    pthread_mutex_init(&lock, NULL);
    close_end(0); /* What another thread was about to start is the parent's, too. */
    close_end(1);
    forget();
}

static const char *version_of_helper(void)
{
    return version;
}

static int error_string(int code, char **text)
{
    struct frame frame = {ERROR_STRING, 0, 0, 0, (uint64_t)(int64_t)code};
    int answer = mqs_ok + 1;

    take_lock();
    if (code != mqs_ok && code == last.code) {
        *text = retain(last.text);
    } else {
        answer = exchange(&frame, NULL);
        if (answer == mqs_ok + 1) {
            *text = retain(bytes);
        }
    }
    give_lock();
    return answer;
}

static int setup_image(mqs_image *image, const mqs_image_callbacks *callbacks, mqs_taddr_t *token)
{
    struct registered object = {.image = image, .image_callbacks = *callbacks};

    return register_object(SETUP_IMAGE, 0, &object, token);
}

static int image_has_queues(mqs_taddr_t token, char **message)
{
    return get_text(IMAGE_HAS_QUEUES, token, message);
}

static int destroy_image(mqs_taddr_t token)
{
    return unregister_object(DESTROY_IMAGE, token);
}

static int setup_process(mqs_taddr_t image_token, mqs_process *process, const mqs_process_callbacks *callbacks,
                         mqs_taddr_t *token)
{
    struct registered object = {.process = process, .process_callbacks = *callbacks};

    return register_object(SETUP_PROCESS, image_token, &object, token);
}

static int process_has_queues(mqs_taddr_t token, char **message)
{
    return get_text(PROCESS_HAS_QUEUES, token, message);
}

static int destroy_process(mqs_taddr_t token)
{
    return unregister_object(DESTROY_PROCESS, token);
}

static int update_communicator_list(mqs_taddr_t token)
{
    return call(UPDATE_COMMUNICATOR_LIST, token, NULL, 0);
}

static int setup_communicator_iterator(mqs_taddr_t token)
{
    return call(SETUP_COMMUNICATOR_ITERATOR, token, NULL, 0);
}

static int get_communicator(mqs_taddr_t token, mqs_communicator *communicator)
{
    return call(GET_COMMUNICATOR, token, communicator, sizeof *communicator);
}

static int get_comm_group(mqs_taddr_t token, int *ranks)
{
    struct frame frame = {GET_COMM_GROUP, 0, 0, token, 0};
    size_t size = SIZE_MAX; /* Only Python knows how many there are. */

    return call_with(&frame, ranks, &size, 1);
}

static int get_comm_label(mqs_taddr_t token, libmqs_comm_label *label)
{
    return call(GET_COMM_LABEL, token, label, sizeof *label);
}

static int next_communicator(mqs_taddr_t token)
{
    return call(NEXT_COMMUNICATOR, token, NULL, 0);
}

static int setup_operation_iterator(mqs_taddr_t token, int queue, mqs_pending_operation *operations, int *count, int *ends)
{
    return call_for_operations(SETUP_OPERATION_ITERATOR, token, queue, operations, count, ends);
}

static int next_operations(mqs_taddr_t token, mqs_pending_operation *operations, int *count, int *ends)
{
    return call_for_operations(NEXT_OPERATIONS, token, 0, operations, count, ends);
}

static int get_global_rank(mqs_taddr_t token, int *rank)
{
    return call(GET_GLOBAL_RANK, token, rank, sizeof *rank);
}

const struct mqs_python_side *mqs_python_in_helper(const struct mqs_library *library_of_host)
{
    static const struct mqs_python_side side = {
        start,
        version_of_helper,
        NULL,
        leave,
        outlives_fork,
        error_string,
        setup_image,
        image_has_queues,
        destroy_image,
        setup_process,
        process_has_queues,
        destroy_process,
        update_communicator_list,
        setup_communicator_iterator,
        get_communicator,
        get_comm_group,
        get_comm_label,
        next_communicator,
        setup_operation_iterator,
        next_operations,
        get_global_rank,
    };

    if (library == NULL) {
        pthread_atfork(NULL, NULL, drop_helper_of_parent);
    }
    library = library_of_host;
    return &side;
}
