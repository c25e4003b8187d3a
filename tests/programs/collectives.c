/* Collective operations that all ranks have entered but the last. 5 ranks.
 *
 * First nonblocking ones, each on a communicator of its own; then each rank blocks in one of its own, which no other
 * rank enters. The argument, 0 to 2, chooses which. */
#include <stdio.h>
#include <stdlib.h>

#include "truth.h"

enum { COUNT = 4, MAX_RANKS = 8 };

static int out[COUNT * MAX_RANKS], in[COUNT * MAX_RANKS], counts[MAX_RANKS];

static int last(void)
{
    return world_size - 1;
}

static void in_barrier(MPI_Comm comm)
{
    MPI_Barrier(comm);
}

static void in_bcast(MPI_Comm comm)
{
    MPI_Bcast(in, COUNT, MPI_INT, last(), comm);
}

static void in_allreduce(MPI_Comm comm)
{
    MPI_Allreduce(out, in, COUNT, MPI_INT, MPI_SUM, comm);
}

static void in_allgather(MPI_Comm comm)
{
    MPI_Allgather(out, COUNT, MPI_INT, in, COUNT, MPI_INT, comm);
}

static void in_alltoall(MPI_Comm comm)
{
    MPI_Alltoall(out, COUNT, MPI_INT, in, COUNT, MPI_INT, comm);
}

static void in_gather(MPI_Comm comm)
{
    MPI_Gather(out, COUNT, MPI_INT, in, COUNT, MPI_INT, world_rank, comm);
}

static void in_scatter(MPI_Comm comm)
{
    MPI_Scatter(out, COUNT, MPI_INT, in, COUNT, MPI_INT, last(), comm);
}

static void in_reduce(MPI_Comm comm)
{
    MPI_Reduce(out, in, COUNT, MPI_INT, MPI_SUM, world_rank, comm);
}

static void in_scan(MPI_Comm comm)
{
    MPI_Scan(out, in, COUNT, MPI_INT, MPI_SUM, comm);
}

static void in_reduce_scatter(MPI_Comm comm)
{
    MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm);
}

static void in_neighbor_allgather(MPI_Comm comm)
{
    MPI_Neighbor_allgather(out, COUNT, MPI_INT, in, COUNT, MPI_INT, comm);
}

struct blocking {
    const char *call;
    void (*enter)(MPI_Comm comm);
};

/* What ranks 0, 1, 2 and 3 block in. */
static const struct blocking sets[][4] = {
    {{"MPI_Bcast", in_bcast}, {"MPI_Barrier", in_barrier}, {"MPI_Allreduce", in_allreduce}, {NULL, NULL}},
    {{"MPI_Allgather", in_allgather}, {"MPI_Scan", in_scan}, {"MPI_Alltoall", in_alltoall}, {"MPI_Gather", in_gather}},
    {{"MPI_Reduce", in_reduce},
     {"MPI_Reduce_scatter", in_reduce_scatter},
     {"MPI_Scatter", in_scatter},
     {"MPI_Neighbor_allgather", in_neighbor_allgather}},
};

/* All ranks, each the neighbour of the one before and the one behind. */
static MPI_Comm ring(const char *key)
{
    int dims[] = {world_size}, periods[] = {1};
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
    truth_communicator(key, comm);
    truth_set_name(comm, key); /* or nothing would distinguish them */
    return comm;
}

static void enter_nonblocking(void)
{
    static int first[COUNT], second[COUNT], sum[COUNT], neighbours[2 * COUNT];
    MPI_Request request;
    MPI_Comm barrier = ring("ibarrier"), bcast = ring("ibcast"), allreduce = ring("iallreduce");
    MPI_Comm neighbor = ring("ineighbor");
    int entered = world_rank != last(), beside_last = world_rank == 0 || world_rank == last() - 1;
    truth_collective("MPI_Ibarrier", barrier, entered, 0);
    truth_collective("MPI_Ibcast", bcast, entered, 0);
    truth_collective("MPI_Iallreduce", allreduce, entered, 0);
    truth_collective("MPI_Ineighbor_allgather", neighbor, beside_last, 0); /* the others have all that they need */
    if (entered) {
        MPI_Ibarrier(barrier, &request);
        MPI_Ibcast(first, COUNT, MPI_INT, last(), bcast, &request);
        MPI_Iallreduce(second, sum, COUNT, MPI_INT, MPI_SUM, allreduce, &request);
        MPI_Ineighbor_allgather(second, COUNT, MPI_INT, neighbours, COUNT, MPI_INT, neighbor, &request);
    }
}

/* Two groups; a barrier between them starts inside each group, on a communicator that the MPI keeps for itself. */
static MPI_Comm intercommunicator(void)
{
    MPI_Comm half, inter;
    int upper = world_rank >= last() - 1;
    MPI_Comm_split(MPI_COMM_WORLD, upper, world_rank, &half);
    truth_communicator(upper ? "half-upper" : "half-lower", half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : last() - 1, 1, &inter);
    truth_communicator("inter", inter);
    return inter;
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "collectives", MPI_THREAD_SINGLE);
    const struct blocking *set = sets[argc > 2 ? atoi(argv[2]) : 0];
    MPI_Comm own[4], inter = intercommunicator();
    for (int i = 0; i < world_size; i++)
        counts[i] = COUNT;
    for (int i = 0; i < 4; i++) {
        char key[32];
        snprintf(key, sizeof key, "of-rank-%d", i);
        own[i] = ring(key);
        if (set[i].call != NULL)
            truth_collective(set[i].call, own[i], world_rank == i, 1);
        else
            truth_collective("MPI_Barrier", inter, 0, 1);
    }
    enter_nonblocking();
    MPI_Barrier(MPI_COMM_WORLD);
    settle();
    if (world_rank == last()) {
        truth_write(1);
        say("the last sleeps");
        sleep_until_phase(2);
        return 0;
    }
    wait_for("the last sleeps"); /* or it takes in what comes for the inner communicator of "inter", which it hasn't */
    if (set[world_rank].call != NULL) {
        truth_write(1);
        set[world_rank].enter(own[world_rank]);
    } else {
        truth_internal_traffic("MPI_Barrier");
        truth_write(1);
        MPI_Barrier(inter);
    }
    return 0;
}
