/* A process that is looked at: stopped with ptrace, its memory read. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Stops all threads of a process. Answers 1, or 0 after a line on stderr, with nothing left stopped. */
int process_stop(pid_t pid);

/* Lets go of what process_stop stopped: the process runs on. */
void process_resume(void);

/* Reads exactly `size` bytes. Answers 1, or 0 when any of them can't be read. */
int process_read(pid_t pid, uint64_t address, void *data, size_t size);

#endif
