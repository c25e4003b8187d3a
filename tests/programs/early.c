/* Messages that can't be received yet. 2 ranks.
 *
 * Before the second phase the harness changes rank 1's memory, so that it takes what rank 0 sends for messages that
 * overtook an earlier one ("field"), or that belong to a communicator which it has not made yet ("ghost"). */
#include "truth.h"

enum { SMALL = 40, MIDDLE = 2000 };

static unsigned char small[SMALL], middle[MIDDLE];

static void send_two(int tag, MPI_Comm comm)
{
    post_isend(small, SMALL, MPI_BYTE, 1, tag, comm)->optional = 1;
    post_isend(middle, MIDDLE, MPI_BYTE, 1, tag + 1, comm)->optional = 1;
}

int main(int argc, char **argv)
{
    MPI_Comm field, ghost;
    truth_begin(&argc, &argv, "early", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    MPI_Comm_dup(MPI_COMM_WORLD, &ghost);
    truth_communicator("field", field);
    truth_communicator("ghost", ghost);
    if (world_rank == 0) { /* the ranks know each other on these communicators */
        MPI_Send(small, SMALL, MPI_BYTE, 1, 1, field);
        MPI_Send(small, SMALL, MPI_BYTE, 1, 1, ghost);
    } else {
        MPI_Recv(small, SMALL, MPI_BYTE, 0, 1, field, MPI_STATUS_IGNORE);
        MPI_Recv(small, SMALL, MPI_BYTE, 0, 1, ghost, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    if (world_rank == 0) {
        send_two(80, field);
        send_two(90, ghost);
        say("sent");
    } else {
        wait_for("sent");
    }
    settle();
    truth_write(2);
    sleep_until_phase(3);
    return 0;
}
