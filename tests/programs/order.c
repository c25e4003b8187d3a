/* Rank 0 has sends of several kinds to each of the others, whose requests served other messages before. 3 ranks.
 * Rank 1 has taken in all messages, rank 2 makes no MPI call. */
#include "truth.h"

enum { SMALL = 200, LARGE = 1 << 17, MOST = 6 };

static MPI_Comm field;
static char out[LARGE], in[LARGE];

/* Lets the requests that follow come from the pool in another order than that of their addresses. */
static void use_requests(void)
{
    MPI_Request requests[MOST];
    for (int i = 0; i < MOST; i++)
        if (world_rank == 0)
            MPI_Issend(out, SMALL, MPI_BYTE, 1, 100 + i, field, &requests[i]);
        else if (world_rank == 1)
            MPI_Irecv(in, SMALL, MPI_BYTE, 0, 100 + i, field, &requests[i]);
    if (world_rank == 2)
        return;
    for (int i = 0; i < MOST; i++)
        MPI_Wait(&requests[i * 5 % MOST], MPI_STATUS_IGNORE);
}

static void send(int target)
{
    for (int tag = 1; tag <= 3; tag++)
        post_isend(out, LARGE, MPI_BYTE, target, tag, field);
    post_issend(out, LARGE, MPI_BYTE, target, 4, field);
    post_isend(out, LARGE, MPI_BYTE, target, 5, field);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "order", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    use_requests();
    leave_together("begin", field);
    if (world_rank == 0) {
        wait_for("silent");
        send(1);
        send(2);
        say("sent");
        settle();
    } else if (world_rank == 1) {
        for (int tag = 1; tag <= 5; tag++)
            truth_unexpected(0, tag, LARGE, RENDEZVOUS, field);
        settle();
    } else {
        say("silent"); /* it may have left later than the others, and would have taken in what was sent */
        wait_for("sent");
    }
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
