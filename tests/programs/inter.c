/* Traffic between two groups, and on communicators whose ranks differ from those of MPI_COMM_WORLD. 5 ranks. */
#include "truth.h"

enum { LOWER = 3, MIDDLE = 1000, LARGE = 1 << 20 };

static MPI_Comm inter, merged, reversed;
static unsigned char large[LARGE], middle[MIDDLE];

static int in_upper(void)
{
    return world_rank >= LOWER;
}

static void make_communicators(void)
{
    MPI_Comm half, more = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, in_upper(), world_rank, &half);
    truth_communicator(in_upper() ? "half-upper" : "half-lower", half);
    if (!in_upper()) /* its number may be that by which the other group receives on the inter-communicator */
        MPI_Comm_dup(half, &more);
    truth_communicator("more-lower", more);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, in_upper() ? 0 : LOWER, 1, &inter);
    truth_communicator("inter", inter);
    truth_set_name(inter, "coupling");
    MPI_Intercomm_merge(inter, !in_upper(), &merged); /* ranks 3, 4, 0, 1, 2 of MPI_COMM_WORLD */
    truth_communicator("merged", merged);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
    truth_communicator("reversed", reversed);
}

/* World rank 0 waits for both ranks of the other group. */
static void rank_0(void)
{
    static double reals[8];
    static int numbers[4];
    post_irecv(reals, 8, MPI_DOUBLE, 1, 5, inter);
    post_irecv(numbers, 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter);
    post_irecv(numbers, 2, MPI_INT, 0, 6, inter);
    post_irecv(numbers, 2, MPI_INT, 1, 7, merged);
    post_irecv(numbers, 2, MPI_INT, 0, 8, reversed);
}

static void rank_1(void)
{
    post_issend(large, LARGE, MPI_BYTE, 0, 15, inter);
    post_issend(middle, MIDDLE, MPI_BYTE, 1, 16, inter);
    post_issend(middle, MIDDLE, MPI_BYTE, 0, 17, merged);
    post_issend(middle, MIDDLE, MPI_BYTE, 0, 18, reversed);
}

static void rank_2(void)
{
    truth_unexpected(0, 25, MIDDLE, EAGER, inter)->pattern = 25;
    truth_unexpected(1, 26, LARGE, RENDEZVOUS, inter);
}

static void rank_3(void)
{
    static unsigned char message[MIDDLE];
    fill(message, sizeof message, 25);
    post_isend(message, MIDDLE, MPI_BYTE, 2, 25, inter)->status = "complete";
    truth_unexpected(1, 15, LARGE, RENDEZVOUS, inter);
    truth_unexpected(3, 17, MIDDLE, SYNCHRONOUS, merged);
}

static void rank_4(void)
{
    post_isend(large, LARGE, MPI_BYTE, 2, 26, inter);
    truth_unexpected(1, 16, MIDDLE, SYNCHRONOUS, inter);
    truth_unexpected(3, 18, MIDDLE, SYNCHRONOUS, reversed);
}

int main(int argc, char **argv)
{
    static void (*const ranks[])(void) = {rank_0, rank_1, rank_2, rank_3, rank_4};
    truth_begin(&argc, &argv, "inter", MPI_THREAD_SINGLE);
    make_communicators();
    MPI_Barrier(MPI_COMM_WORLD);
    ranks[world_rank]();
    settle();
    leave_together("arrived", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
