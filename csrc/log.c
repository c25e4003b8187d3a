#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

int mqsc_log_is_open(void)
{
    int errno_of_host = errno;

    pthread_once(&opened, open_log);
    errno = errno_of_host;
    return log_file >= 0;
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

    if (!mqsc_log_is_open()) {
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
        /* One write, so that lines of several threads and processes don't mix. */
        if (write(log_file, line, end + 1) < 0) {
            errno = errno_of_host; /* The disk may be full: nothing to be done about that here. */
        }
    }
    errno = errno_of_host;
}

void mqsc_log_line(const char *text)
{
    mqs_log("%s", text);
}
