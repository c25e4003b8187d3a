/* A communicator is freed while a message waits on it that nobody has received; receives of MPI_COMM_WORLD stay. 2 ranks.
 * MPICH since 4.1 receives the message then, and says that there was one. */
#include "truth.h"

enum { BYTES = 64, RECEIVES_LEFT = 3 };

static unsigned char buffers[RECEIVES_LEFT][BYTES], message[BYTES];

int main(int argc, char **argv)
{
    MPI_Comm doomed;
    truth_begin(&argc, &argv, "unmatched", MPI_THREAD_SINGLE);
    int other = 1 - world_rank;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &doomed);
    for (int i = 0; i < RECEIVES_LEFT; i++)
        post_irecv(buffers[i], BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD);
    MPI_Send(message, BYTES, MPI_BYTE, other, 7, doomed);
    MPI_Probe(other, 7, doomed, MPI_STATUS_IGNORE);
    MPI_Comm_free(&doomed);
    settle();
    leave_together("arrived", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
