/* Ranks that sleep outside MPI, any number of them. Each has a helper: a forked copy of itself, with all of its memory.
 * It is in the truth only as a file, "helper.RANK". With the argument "forget" they overwrite the environment that they
 * were started with, as programs do that show their progress in place of their command line; with "family" they spawn
 * two more, and then another two. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "truth.h"

extern char **environ;

static void start_helper(void)
{
    char path[4096];
    FILE *file;
    pid_t helper = fork();
    if (helper == 0) {
        sleep(120);
        _exit(0);
    }
    snprintf(path, sizeof path, "%s/helper.%d", job_directory, world_rank);
    file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "%d", (int)helper);
    fclose(file);
}

static void forget_environment(void)
{
    for (char **variable = environ; *variable; variable++)
        memset(*variable, 'x', strlen(*variable));
}

static void start_family(char *program)
{
    char *arguments[] = {(char *)job_directory, NULL};
    MPI_Comm children;
    for (int i = 0; i < 2; i++)
        MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "idle", MPI_THREAD_SINGLE);
    if (argc > 2 && strcmp(argv[2], "forget") == 0)
        forget_environment();
    if (argc > 2 && strcmp(argv[2], "family") == 0)
        start_family(argv[0]);
    start_helper();
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
