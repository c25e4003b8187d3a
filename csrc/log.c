#define _GNU_SOURCE
#include "glibc.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static int log_file = -1;
static struct stat log_file_is;

static void open_log(void)
{
    const char *name = secure_getenv("MQS_LOG");
    int low, high;

    if (name == NULL || name[0] == '\0') {
        return;
    }
    /* Not blocking: a FIFO that nobody reads must not hang the debugger. */
    low = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (low < 0) {
        return;
    }
    high = fcntl(low, F_DUPFD_CLOEXEC, 64); /* Hosts may count on low numbers. */
    if (high >= 0) {
        close(low);
    }
    log_file = high >= 0 ? high : low;
    if (stat_open_file(log_file, &log_file_is) != 0) {
        log_file = -1;
    }
}

/* The host may have closed it, and given its number to a file of its own. */
static int is_still_ours(void)
{
    struct stat now;

    return log_file >= 0 && stat_open_file(log_file, &now) == 0 && now.st_dev == log_file_is.st_dev
           && now.st_ino == log_file_is.st_ino;
}

int mqs_log_is_open(void)
{
    int errno_of_host = errno;
    int is_open;

    pthread_once(&opened, open_log);
    is_open = is_still_ours();
    errno = errno_of_host;
    return is_open;
}

/* Writes with one call, so that lines of several threads and processes don't mix. What can't be written is lost.
 *
 * A FIFO whose reader has left, or a file that has reached its limit, sends a signal that would end the host. The kernel
 * sends it to this thread before write returns: until then it is blocked, and then it is taken from the queue. If the host
 * blocks it too and one is already pending, ours is merged with that. A terminal could stop the host, but not while
 * SIGTTOU is blocked. */
static void write_line(const char *line, size_t length)
{
    static const struct timespec at_once = {0, 0};
    sigset_t deadly, waiting, before;
    int error;

    sigemptyset(&deadly);
    sigaddset(&deadly, SIGPIPE);
    sigaddset(&deadly, SIGXFSZ);
    sigaddset(&deadly, SIGTTOU);
    if (sigpending(&waiting) != 0 || pthread_sigmask(SIG_BLOCK, &deadly, &before) != 0) {
        return;
    }
    error = write(log_file, line, length) < 0 ? errno : 0;
    sigemptyset(&deadly);
    if (error == EPIPE && sigismember(&waiting, SIGPIPE) == 0) {
        sigaddset(&deadly, SIGPIPE);
    }
    if (error == EFBIG && sigismember(&waiting, SIGXFSZ) == 0) {
        sigaddset(&deadly, SIGXFSZ);
    }
    if (error == EPIPE || error == EFBIG) {
        while (sigtimedwait(&deadly, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mqs_log(const char *format, ...)
{
    int errno_of_host = errno;
    char line[4096];
    struct timespec now;
    struct tm local;
    size_t used;
    int length;
    va_list arguments;

    if (!mqs_log_is_open()) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &local);
    used += (size_t)snprintf(line + used, sizeof line - used, ".%06ld [%ld] ", now.tv_nsec / 1000, (long)getpid());
    va_start(arguments, format);
    length = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    if (length > 0) {
        size_t capacity = sizeof line - used - 2;
        size_t end = used + ((size_t)length < capacity ? (size_t)length : capacity);

        for (size_t i = used; i < end; i++) {
            if ((unsigned char)line[i] < ' ') {
                line[i] = ' '; /* One line for each record, whatever a name in the target holds. */
            }
        }
        line[end] = '\n';
        write_line(line, end + 1);
    }
    errno = errno_of_host;
}
