/* Every rank sits in a blocking call. 6 ranks; the argument "multiple" asks for MPI_THREAD_MULTIPLE, "buffering" says
 * that this MPI's MPI_Send ends whatever the size of its message, so that rank 3 must block in MPI_Ssend. */
#include <string.h>

#include "truth.h"

enum { LARGE = 1 << 20 };

static MPI_Comm field;
static char large[LARGE];
static int buffering;

static void block_in_recv(void)
{
    static int numbers[3];
    truth_unexpected(3, 71, LARGE, RENDEZVOUS, field);
    truth_unexpected(4, 72, 40, SYNCHRONOUS, field);
    settle();
    truth_operation(RECEIVES, "MPI_Recv", numbers, 3, MPI_INT, 5, 70, field);
    truth_write(1);
    MPI_Recv(numbers, 3, MPI_INT, 5, 70, field, MPI_STATUS_IGNORE);
}

static void block_in_probe(void)
{
    truth_operation(RECEIVES, "MPI_Probe", NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 73, field)->count = -1;
    truth_write(1);
    MPI_Probe(MPI_ANY_SOURCE, 73, field, MPI_STATUS_IGNORE);
}

static void block_in_waitall(void)
{
    static int values[3][8];
    MPI_Request requests[3];
    MPI_Status statuses[3];
    struct operation *o = truth_operation(RECEIVES, "MPI_Irecv", values[0], 8, MPI_INT, 5, 76, field);
    MPI_Irecv(values[0], 8, MPI_INT, 5, 76, field, &requests[0]);
    truth_request(o, requests[0]);
    o = truth_operation(RECEIVES, "MPI_Irecv", values[1], 8, MPI_INT, 5, 74, field);
    MPI_Irecv(values[1], 8, MPI_INT, 5, 74, field, &requests[1]);
    truth_request(o, requests[1]);
    truth_matched(o, 5, 74, 4 * (long)sizeof(int));
    o->status = "complete";
    o = truth_operation(RECEIVES, "MPI_Irecv", values[2], 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, field);
    MPI_Irecv(values[2], 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, field, &requests[2]);
    truth_request(o, requests[2]);
    settle();
    truth_write(1);
    MPI_Waitall(3, requests, statuses);
}

static void block_in_send(void)
{
    truth_operation(SENDS, buffering ? "MPI_Ssend" : "MPI_Send", large, LARGE, MPI_CHAR, 0, 71, field);
    truth_write(1);
    (buffering ? MPI_Ssend : MPI_Send)(large, LARGE, MPI_CHAR, 0, 71, field);
}

static void block_in_ssend(void)
{
    static double reals[5];
    truth_operation(SENDS, "MPI_Ssend", reals, 5, MPI_DOUBLE, 0, 72, field);
    truth_write(1);
    MPI_Ssend(reals, 5, MPI_DOUBLE, 0, 72, field);
}

static void block_in_mprobe(void)
{
    static int values[4];
    MPI_Message message;
    MPI_Send(values, 4, MPI_INT, 2, 74, field);
    truth_operation(RECEIVES, "MPI_Mprobe", NULL, 0, MPI_BYTE, 0, MPI_ANY_TAG, field)->count = -1;
    truth_write(1);
    MPI_Mprobe(0, MPI_ANY_TAG, field, &message, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static void (*const block[])(void) = {block_in_recv, block_in_probe, block_in_waitall,
                                          block_in_send, block_in_ssend, block_in_mprobe};
    int multiple = argc > 2 && strcmp(argv[2], "multiple") == 0;
    buffering = argc > 2 && strcmp(argv[2], "buffering") == 0;
    truth_begin(&argc, &argv, "blocked", multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    MPI_Barrier(MPI_COMM_WORLD);
    block[world_rank]();
    return 1; /* never reached: nobody sends what these calls wait for */
}
