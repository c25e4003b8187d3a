/* What the programs of the gallery share. Each is a small program as people write them, with one mistake or none.
 *
 * begin() starts MPI, ready() says that this rank goes on to its last MPI call: it writes "truth.RANK.1.json" with its
 * PID into the directory that is the program's first argument. The harness ends a program by killing it.
 */
#ifndef MQS_TESTS_HANG_H
#define MQS_TESTS_HANG_H

#define _DEFAULT_SOURCE /* usleep */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LARGE = 1 << 20, /* ints: MPI_Send waits for the receiver before it sends so much */
};

#ifndef TIME_LIMIT_SECONDS
#define TIME_LIMIT_SECONDS 300 /* an emulated machine needs more */
#endif

static int rank, size;
static const char *directory, *variant;

static inline void begin_with(int argc, char **argv, int threads)
{
    int provided;
    alarm(TIME_LIMIT_SECONDS); /* nothing is left behind even when the harness dies */
    MPI_Init_thread(&argc, &argv, threads, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    directory = argc > 1 ? argv[1] : ".";
    variant = argc > 2 ? argv[2] : "";
}

static inline void begin(int argc, char **argv)
{
    begin_with(argc, argv, MPI_THREAD_SINGLE);
}

static inline int is(const char *wanted)
{
    return strcmp(variant, wanted) == 0;
}

static inline void ready(void)
{
    char draft[4096], path[4096];
    snprintf(draft, sizeof draft, "%s/draft.%d", directory, rank);
    snprintf(path, sizeof path, "%s/truth.%d.1.json", directory, rank);
    FILE *file = fopen(draft, "w");
    if (file == NULL || fprintf(file, "{\"pid\": %d}\n", (int)getpid()) < 0 || fclose(file) != 0 ||
        rename(draft, path) != 0) {
        perror(path);
        exit(1);
    }
}

/* Does work of its own, without MPI, and never ends; with short rests, for others. It is one line, which reports name. */
static inline void compute(void)
{
    for (volatile double sum = 0;; sum += 1) if ((long)sum % 10000000 == 0) usleep(5000);
}

/* In each turn of a loop that never ends: a rest now and then, for others. Other ranks wait for this one meanwhile. */
static inline void rest(void)
{
    static double rested;
    if (MPI_Wtime() > rested + 0.002) {
        usleep(5000);
        rested = MPI_Wtime();
    }
}

static inline int is_ready(int other)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/truth.%d.1.json", directory, other);
    return access(path, F_OK) == 0;
}

/* Waits outside MPI until another rank is ready, and so has left the MPI call before. */
static inline void await(int other)
{
    while (!is_ready(other))
        usleep(1000);
}

/* In each turn of a loop that never ends, and all is well: others have to wait for this rank. */
static inline void come_late(void)
{
    usleep(20 * 1000);
}

#endif
