/* Traffic on so many communicators that an MPI with several virtual interfaces uses them all. 2 ranks. */
#include <stdio.h>

#include "truth.h"

enum { COMMUNICATORS = 6, EACH = 3, BYTES = 64 };

static unsigned char buffers[COMMUNICATORS][EACH][BYTES], message[BYTES];

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "vcis", MPI_THREAD_MULTIPLE);
    int other = 1 - world_rank;
    for (int i = 0; i < COMMUNICATORS; i++) {
        char name[32];
        MPI_Comm comm;
        snprintf(name, sizeof name, "interface %d", i);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        truth_communicator(name, comm);
        truth_set_name(comm, name);
        for (int j = 0; j < EACH; j++)
            post_irecv(buffers[i][j], BYTES, MPI_BYTE, j ? other : MPI_ANY_SOURCE, 100 * i + j, comm);
        fill(message, sizeof message, 7);
        MPI_Send(message, BYTES, MPI_BYTE, other, 1000 + i, comm);
        truth_unexpected(other, 1000 + i, BYTES, EAGER, comm)->pattern = 7;
        post_issend(message, BYTES, MPI_BYTE, other, 2000 + i, comm);
        truth_unexpected(other, 2000 + i, BYTES, SYNCHRONOUS, comm)->pattern = 7;
    }
    settle();
    leave_together("arrived", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
