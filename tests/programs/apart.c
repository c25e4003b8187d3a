/* Ranks on several nodes, of which rank 0 waits for rank 1, for ever. 3 ranks.
 *
 * With "busy", ranks 1 and 2 exchange messages all the time. Otherwise they wait, too, in a circle: SIGTERM ends none of
 * them, and each has a file of shared memory, "/dev/shm/NAME.RANK" after the name of its directory. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "truth.h"

static int value;

static void share_memory(void)
{
    char path[4096];
    const char *name = strrchr(job_directory, '/');
    snprintf(path, sizeof path, "/dev/shm%s.%d", name ? name : "/apart", world_rank);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
        perror(path);
    close(file);
}

int main(int argc, char **argv)
{
    const int busy = argc > 2 && strcmp(argv[2], "busy") == 0;
    truth_begin(&argc, &argv, "apart", MPI_THREAD_SINGLE);
    if (!busy) {
        signal(SIGTERM, SIG_IGN);
        share_memory();
    }
    truth_write(1);
    while (busy && world_rank > 0) {
        MPI_Sendrecv(&value, 1, MPI_INT, 3 - world_rank, 1, &value, 1, MPI_INT, 3 - world_rank, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        usleep(20000);
    }
    MPI_Recv(&value, 1, MPI_INT, (world_rank + 1) % world_size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}
