#define _GNU_SOURCE
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

static void open_log(void)
{
    const char *name = secure_getenv("MQS_LOG");

    if (name != NULL && name[0] != '\0') {
        /* Not blocking: a FIFO that nobody reads must not hang the debugger. */
        log_file = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    }
}

int mqs_log_is_open(void)
{
    int errno_of_host = errno;

    pthread_once(&opened, open_log);
    errno = errno_of_host;
    return log_file >= 0;
}

/* Writes in one go, so that lines of several threads and processes don't mix. What can't be written is lost.
 *
 * A FIFO whose reader has left, or a file that has reached its limit, sends a signal that would end the host. The kernel
 * sends it to this thread, before write is back: it is blocked for so long, and taken away. Where the host blocks it and
 * has one that waits, ours has become one with it. A terminal could stop the host; it doesn't while SIGTTOU is blocked. */
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
        size_t room = sizeof line - used - 2;
        size_t end = used + ((size_t)length < room ? (size_t)length : room);

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
