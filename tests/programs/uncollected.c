/* Every rank has sent to every other and received from it, persistent requests among them; all is done, and no rank has
 * collected any of it. 4 ranks.
 * The tags are those of MPICH's collectives. Rank 0's requests were used before, in another order. */
#include <stdlib.h>

#include "truth.h"

enum { SMALL = 500, LARGE = 1 << 16, RANKS = 4, KINDS = 3 };

static const int tags[KINDS] = {9, 11, 12};
static const int sizes[KINDS] = {LARGE, SMALL, LARGE / 2};
static char given[SMALL], taken[SMALL];
static char out[RANKS][KINDS][LARGE], in[2][RANKS][KINDS][LARGE];

static void receive(MPI_Comm comm, int set)
{
    for (int source = 0; source < RANKS; source++)
        for (int kind = 0; kind < KINDS && source != world_rank; kind++) {
            struct operation *o = post_irecv(in[set][source][kind], LARGE, MPI_BYTE, source, tags[kind], comm);
            truth_matched(o, source, tags[kind], sizes[kind]);
            o->status = "complete";
        }
}

/* A rendezvous, a small one that is synchronous, a rendezvous. */
static void send(MPI_Comm comm)
{
    for (int target = 0; target < RANKS; target++)
        for (int kind = 0; kind < KINDS && target != world_rank; kind++) {
            struct operation *o = kind == 1 ? post_issend(out[target][kind], SMALL, MPI_CHAR, target, tags[kind], comm)
                                            : post_isend(out[target][kind], sizes[kind], MPI_BYTE, target, tags[kind], comm);
            o->status = "complete";
        }
}

static void start_receive(MPI_Comm comm)
{
    MPI_Request request;
    struct operation *o = truth_operation(RECEIVES, "MPI_Recv_init", taken, SMALL, MPI_CHAR, MPI_ANY_SOURCE,
                                          MPI_ANY_TAG, comm);
    MPI_Recv_init(taken, SMALL, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    MPI_Start(&request);
    truth_request(o, request);
    truth_matched(o, (world_rank + RANKS - 1) % RANKS, tags[0], SMALL / 2);
    o->status = "complete";
}

static void start_send(MPI_Comm comm)
{
    int target = (world_rank + 1) % RANKS;
    MPI_Request request;
    struct operation *o = truth_operation(SENDS, "MPI_Ssend_init", given, SMALL / 2, MPI_CHAR, target, tags[0], comm);
    MPI_Ssend_init(given, SMALL / 2, MPI_CHAR, target, tags[0], comm, &request);
    MPI_Start(&request);
    truth_request(o, request);
    o->status = "complete";
}

/* What is done and was collected, or freed, leaves nothing. */
static void send_and_collect(void)
{
    MPI_Request requests[2 * RANKS];
    int count = 0;
    for (int peer = 0; peer < RANKS; peer++) {
        MPI_Irecv(in[0][peer][0], LARGE, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &requests[count++]);
        MPI_Isend(out[peer][0], LARGE, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &requests[count++]);
    }
    for (int i = count; i-- > 0;)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Isend(out[0][0], LARGE, MPI_BYTE, (world_rank + 1) % RANKS, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv(in[0][0][0], LARGE, MPI_BYTE, (world_rank + RANKS - 1) % RANKS, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request_free(&requests[0]);
}

int main(int argc, char **argv)
{
    MPI_Comm field, ring;
    truth_begin(&argc, &argv, "uncollected", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    MPI_Comm_dup(MPI_COMM_WORLD, &ring);
    truth_communicator("ring", ring);
    truth_set_name(ring, "ring");
    send_and_collect();
    receive(MPI_COMM_WORLD, 0);
    receive(field, 1);
    start_receive(ring);
    leave_together("posted", MPI_COMM_WORLD);
    send(MPI_COMM_WORLD);
    send(field);
    start_send(ring);
    settle();
    leave_together("done", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
