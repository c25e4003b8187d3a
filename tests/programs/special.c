/* Requests that are neither plain sends nor plain receives: partitioned ones (MPI 4), generalised ones. 2 ranks.
 * Ordinary ones lie among them. */
#include "truth.h"

#include "generalized_request.h"

enum { PARTITIONS = 4, COUNT = 25, ELEMENTS = PARTITIONS * COUNT };

static MPI_Comm field;
static int ordinary[2][8];

#if MPI_VERSION >= 4
static int data[5][ELEMENTS];

static struct operation *start_partitioned(enum queue queue, int *buffer, int peer, int tag)
{
    MPI_Request request;
    const char *call = queue == SENDS ? "MPI_Psend_init" : "MPI_Precv_init";
    struct operation *o = truth_operation(queue, call, buffer, ELEMENTS, MPI_INT, peer, tag, field);
    if (queue == SENDS)
        MPI_Psend_init(buffer, PARTITIONS, COUNT, MPI_INT, peer, tag, field, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(buffer, PARTITIONS, COUNT, MPI_INT, peer, tag, field, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    if (queue == SENDS)
        MPI_Pready(1, request);
    truth_request(o, request);
    return o;
}

static void make_partitioned(void)
{
    MPI_Request idle;
    if (world_rank == 0) {
        start_partitioned(SENDS, data[0], 1, 80);    /* rank 1 has no receive for it */
        start_partitioned(RECEIVES, data[1], 1, 81); /* rank 1 has no send for it */
        start_partitioned(SENDS, data[2], 1, 82);    /* rank 1 receives it; three parts are missing */
        MPI_Psend_init(data[3], PARTITIONS, COUNT, MPI_INT, 1, 83, field, MPI_INFO_NULL, &idle); /* not started */
        MPI_Precv_init(data[4], PARTITIONS, COUNT, MPI_INT, 1, 84, field, MPI_INFO_NULL, &idle);
    } else {
        truth_matched(start_partitioned(RECEIVES, data[0], 0, 82), 0, 82, sizeof data[0]);
    }
}
#else
static void make_partitioned(void)
{
}
#endif

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "special", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    MPI_Barrier(MPI_COMM_WORLD);
    post_irecv(ordinary[0], 8, MPI_INT, 1 - world_rank, 1, field);
    start_generalized(); /* It belongs to no communicator: there is no queue for it. */
    make_partitioned();
    post_irecv(ordinary[1], 4, MPI_INT, MPI_ANY_SOURCE, 2, field);
    settle();
    leave_together("arrived", MPI_COMM_WORLD);
    settle();
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
