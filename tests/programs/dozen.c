/* Rank 0 has 8 communicators and 12 pending operations: 5 receives, 3 sends, 4 unexpected messages. 4 ranks.
 * This is the state that the benchmark sweeps, and in which the number of reads is bounded by a test. */
#include "truth.h"

#include <stdio.h>

enum { NAMED = 6, BYTES = 1000 };

static unsigned char buffers[16][BYTES];

static void unexpected(int source, int tag, MPI_Comm comm)
{
    if (world_rank == 0)
        truth_unexpected(source, tag, BYTES, 1, comm);
    if (world_rank == source)
        post_isend(buffers[0], BYTES, MPI_BYTE, 0, tag, comm)->status = "complete";
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "dozen", MPI_THREAD_SINGLE);
    truth_communicator("world", MPI_COMM_WORLD);
    truth_communicator("self", MPI_COMM_SELF);
    MPI_Comm comms[NAMED];
    for (int i = 0; i < NAMED; i++) {
        char name[32];
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        snprintf(name, sizeof name, "field %d", i);
        MPI_Comm_set_name(comms[i], name);
        truth_communicator(name, comms[i]);
    }
    if (world_rank == 0) {
        post_irecv(buffers[1], BYTES, MPI_BYTE, 1, 1, comms[0]);
        post_irecv(buffers[2], BYTES, MPI_BYTE, MPI_ANY_SOURCE, 2, comms[0]);
        post_irecv(buffers[3], BYTES, MPI_BYTE, 2, MPI_ANY_TAG, comms[1]);
        post_irecv(buffers[4], BYTES, MPI_BYTE, 3, 4, comms[2]);
        post_irecv(buffers[5], BYTES, MPI_BYTE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD);
        post_issend(buffers[6], BYTES, MPI_BYTE, 1, 6, comms[3]);
        post_issend(buffers[7], BYTES, MPI_BYTE, 2, 7, comms[4]);
        post_issend(buffers[8], BYTES, MPI_BYTE, 3, 8, MPI_COMM_WORLD);
    }
    unexpected(1, 11, comms[5]);
    unexpected(2, 12, comms[5]);
    unexpected(3, 13, comms[0]);
    unexpected(1, 14, MPI_COMM_WORLD);
    if (world_rank > 0) { /* where the synchronous sends of rank 0 lie */
        const MPI_Comm at[] = {comms[3], comms[4], MPI_COMM_WORLD};
        truth_unexpected(0, 5 + world_rank, BYTES, 0, at[world_rank - 1])->status = "";
    }
    settle();
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
