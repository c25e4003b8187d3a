/* Rank 0 sends more than shared memory takes to rank 1, which makes no MPI call: some messages have left, the others are
 * kept back in rank 0. 2 ranks. */
#include "truth.h"

enum { MESSAGES = 100, SMALL = 1000, LARGE = 1 << 20 };

static MPI_Comm field;
static char small[MESSAGES][SMALL], large[LARGE];

static void flood(void)
{
    post_issend(small[0], 777, MPI_BYTE, 1, 500, field);
    for (int i = 0; i < MESSAGES; i++)
        post_isend(small[i], 100 + i, MPI_BYTE, 1, i, field);
    post_issend(small[1], 333, MPI_BYTE, 1, 501, field);
    post_isend(large, LARGE, MPI_BYTE, 1, 502, field);
    post_isend(small[2], 0, MPI_BYTE, 1, 503, field);
    settle();
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "flood", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0)
        flood();
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
