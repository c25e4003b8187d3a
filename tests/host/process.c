#define _GNU_SOURCE
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { MAX_THREADS = 4096 };

static struct {
    pid_t id;
    int signal; /* That arrived while the thread was being stopped: delivered when it is let go. */
} threads[MAX_THREADS];
static size_t thread_count;

static int is_stopped(pid_t id)
{
    for (size_t i = 0; i < thread_count; i++) {
        if (threads[i].id == id) {
            return 1;
        }
    }
    return 0;
}

static int stop_thread(pid_t id)
{
    int status;

    if (thread_count == MAX_THREADS) {
        errno = E2BIG;
        return 0;
    }
    if (ptrace(PTRACE_SEIZE, id, NULL, NULL) != 0) {
        return 0;
    }
    threads[thread_count].id = id;
    threads[thread_count].signal = 0;
    thread_count++;
    if (ptrace(PTRACE_INTERRUPT, id, NULL, NULL) != 0 || waitpid(id, &status, __WALL) != id) {
        return 0;
    }
    if (!WIFSTOPPED(status)) {
        errno = ESRCH;
        return 0;
    }
    if (status >> 16 != PTRACE_EVENT_STOP) {
        threads[thread_count - 1].signal = WSTOPSIG(status);
    }
    return 1;
}

/* Answers how many threads it stopped, -1 on failure. */
static int stop_new_threads(pid_t pid)
{
    char path[64];
    struct dirent *entry;
    DIR *tasks;
    int stopped = 0;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (tasks == NULL) {
        return -1;
    }
    while ((entry = readdir(tasks)) != NULL) {
        pid_t id = (pid_t)atoi(entry->d_name);

        if (id <= 0 || is_stopped(id)) {
            continue;
        }
        if (!stop_thread(id)) {
            if (errno == ESRCH && id != pid) {
                continue; /* It has ended since. */
            }
            closedir(tasks);
            return -1;
        }
        stopped++;
    }
    closedir(tasks);
    return stopped;
}

int process_stop(pid_t pid)
{
    int stopped;

    do {
        stopped = stop_new_threads(pid); /* A thread that still ran may have made another one. */
    } while (stopped > 0);
    if (stopped < 0) {
        fprintf(stderr, "cannot stop process %d: %s\n", (int)pid, strerror(errno));
        process_resume();
        return 0;
    }
    return 1;
}

void process_resume(void)
{
    while (thread_count > 0) {
        thread_count--;
        ptrace(PTRACE_DETACH, threads[thread_count].id, NULL, (void *)(intptr_t)threads[thread_count].signal);
    }
}

int process_read(pid_t pid, uint64_t address, void *data, size_t size)
{
    struct iovec here = {data, size};
    struct iovec there = {(void *)(uintptr_t)address, size};

    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size;
}
