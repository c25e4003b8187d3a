/* As much of each as the arguments say, which is what benchmarks.sweep measures. 2 ranks.
 *
 * load DIRECTORY COMMUNICATORS RECEIVES SENDS MESSAGES: rank 0 has so many communicators, MPI_COMM_WORLD and
 * MPI_COMM_SELF among them, and on one of them so many receives and synchronous sends that nothing matches, and so many
 * unexpected messages. */
#include <stdlib.h>

#include "truth.h"

static int value;

/* How many the argument at a place says. */
static int count(int argc, char **argv, int place)
{
    return argc > place ? atoi(argv[place]) : 0;
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "load", MPI_THREAD_SINGLE);
    const int receives = count(argc, argv, 3), sends = count(argc, argv, 4), messages = count(argc, argv, 5);
    MPI_Comm field = MPI_COMM_WORLD;
    MPI_Request request;

    for (int made = 2; made < count(argc, argv, 2); made++)
        MPI_Comm_dup(MPI_COMM_WORLD, &field);
    if (world_rank == 0) {
        for (int i = 0; i < receives; i++)
            MPI_Irecv(&value, 1, MPI_INT, 1, messages + i, field, &request);
        for (int i = 0; i < sends; i++)
            MPI_Issend(&value, 1, MPI_INT, 1, i, field, &request);
        MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* It comes behind all others. */
    } else {
        for (int i = 0; i < messages; i++)
            MPI_Send(&value, 1, MPI_INT, 0, i, field);
        MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    leave_together("loaded", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
