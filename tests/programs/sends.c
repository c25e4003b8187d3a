/* Rank 0 has sends of every mode; ranks 1, 2 and 3 receive none of them wholly. 4 ranks. */
#include <stdlib.h>

#include "truth.h"

enum { SMALL = 64, MIDDLE = 2000, LARGE = 1 << 20, STRIDED_ROWS = 1 << 21 };

static MPI_Comm field;
static MPI_Comm hearing; /* all but rank 3, which makes no MPI call after the first barrier */
static char small[SMALL], middle[MIDDLE], large[LARGE], buffered[LARGE], other[LARGE];
static int strided_out[2 * STRIDED_ROWS], strided_in[2 * STRIDED_ROWS];
static double reals[LARGE / sizeof(double)];

static MPI_Datatype strided_type(void)
{
    MPI_Datatype type;
    MPI_Type_vector(STRIDED_ROWS, 1, 2, MPI_INT, &type);
    MPI_Type_set_name(type, "column");
    MPI_Type_commit(&type);
    return type;
}

static void attach_buffer(void)
{
    int size = 3 * (LARGE + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(malloc((size_t)size), size);
}

/* A message that fits into the transport leaves at once: its request is complete, its trace may be gone. */
static void post_eager(void)
{
    struct operation *o = post_isend(small, SMALL, MPI_BYTE, 1, 20, field);
    o->status = "complete";
    o->optional = 1;
    post_isend(middle, MIDDLE, MPI_CHAR, 1, 21, field)->status = "complete";
}

static void post_rendezvous(void)
{
    MPI_Request request;
    struct operation *o;
    post_isend(large, LARGE, MPI_BYTE, 1, 22, field);
    post_issend(small, SMALL, MPI_SIGNED_CHAR, 1, 23, field);
    post_issend(reals, LARGE / sizeof(double), MPI_DOUBLE, 2, 24, field);

    o = truth_operation(SENDS, "MPI_Ibsend", buffered, LARGE, MPI_BYTE, 1, 25, field);
    MPI_Ibsend(buffered, LARGE, MPI_BYTE, 1, 25, field, &request);
    truth_request(o, request);
    o->status = "complete"; /* as far as the program can see */
    truth_operation(SENDS, "MPI_Bsend", other, LARGE, MPI_BYTE, 2, 26, field);
    MPI_Bsend(other, LARGE, MPI_BYTE, 2, 26, field);

    post_isend(other, LARGE, MPI_BYTE, 1, 22, field); /* the same destination and tag again, behind the first */
    post_isend(large, LARGE / 2, MPI_BYTE, 1, 30, MPI_COMM_WORLD);
}

static void post_persistent(void)
{
    MPI_Request request;
    struct operation *o;
    MPI_Send_init(large, LARGE, MPI_BYTE, 1, 31, field, &request); /* not started: nothing is pending */
    o = truth_operation(SENDS, "MPI_Ssend_init", small, SMALL, MPI_BYTE, 2, 32, field);
    MPI_Ssend_init(small, SMALL, MPI_BYTE, 2, 32, field, &request);
    MPI_Start(&request);
    truth_request(o, request);
    o = truth_operation(SENDS, "MPI_Send_init", large, LARGE, MPI_BYTE, 1, 33, field);
    MPI_Send_init(large, LARGE, MPI_BYTE, 1, 33, field, &request);
    MPI_Start(&request);
    truth_request(o, request);
}

static void post_without_handle(void)
{
    MPI_Request request;
    struct operation *o = truth_operation(SENDS, "MPI_Isend", other, LARGE / 4, MPI_BYTE, 2, 34, field);
    MPI_Isend(other, LARGE / 4, MPI_BYTE, 2, 34, field, &request);
    truth_request(o, request);
    truth_free_request(o);
}

/* Rank 3 has posted the receive, as the ready mode demands, and makes no further MPI call. */
static void post_ready(void)
{
    MPI_Request request;
    struct operation *o = truth_operation(SENDS, "MPI_Irsend", large, LARGE, MPI_BYTE, 3, 40, field);
    wait_for("deaf.3");
    MPI_Irsend(large, LARGE, MPI_BYTE, 3, 40, field, &request);
    truth_request(o, request);
}

static void send(void)
{
    struct operation *transfer;
    attach_buffer();
    MPI_Barrier(MPI_COMM_WORLD);
    post_eager();
    post_rendezvous();
    post_persistent();
    post_without_handle();
    post_ready();
    MPI_Send(small, 4, MPI_BYTE, 1, 49, field);
    MPI_Send(small, 4, MPI_BYTE, 2, 49, field);
    MPI_Barrier(hearing);
    transfer = post_isend(strided_out, 1, strided_type(), 2, 41, field);
    say("transfer");
    wait_for("deaf.2"); /* rank 2 has answered: the data starts to flow, and stops */
    settle();
    transfer->status = "matched";
    truth_overwritten();
    truth_write(1);
}

static void receive_none_of_rank_1(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    truth_unexpected(0, 20, SMALL, EAGER, field);
    truth_unexpected(0, 21, MIDDLE, EAGER, field);
    truth_unexpected(0, 22, LARGE, RENDEZVOUS, field);
    truth_unexpected(0, 23, SMALL, SYNCHRONOUS, field);
    truth_unexpected(0, 25, LARGE, RENDEZVOUS, field);
    truth_unexpected(0, 22, LARGE, RENDEZVOUS, field);
    truth_unexpected(0, 33, LARGE, RENDEZVOUS, field);
    truth_unexpected(0, 49, 4, EAGER, field);
    truth_unexpected(0, 30, LARGE / 2, RENDEZVOUS, MPI_COMM_WORLD);
    settle();
    MPI_Barrier(hearing);
    truth_write(1);
}

static void begin_to_receive(void)
{
    struct operation *o = post_irecv(strided_in, 1, strided_type(), 0, 41, field);
    truth_matched(o, 0, 41, sizeof(int) * (long)STRIDED_ROWS);
    MPI_Barrier(MPI_COMM_WORLD);
    truth_unexpected(0, 24, LARGE, RENDEZVOUS, field);
    truth_unexpected(0, 26, LARGE, RENDEZVOUS, field);
    truth_unexpected(0, 32, SMALL, SYNCHRONOUS, field);
    truth_unexpected(0, 34, LARGE / 4, RENDEZVOUS, field);
    truth_unexpected(0, 49, 4, EAGER, field);
    settle();
    MPI_Barrier(hearing);
    wait_for("transfer");
    settle();
    truth_write(1);
    say("deaf.2");
}

static void post_and_be_deaf(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    post_irecv(strided_in, LARGE, MPI_BYTE, 0, 40, field);
    truth_write(1);
    say("deaf.3");
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "sends", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    MPI_Comm_split(MPI_COMM_WORLD, world_rank == 3 ? MPI_UNDEFINED : 0, world_rank, &hearing);
    truth_communicator("hearing", hearing);
    if (world_rank == 0)
        send();
    else if (world_rank == 1)
        receive_none_of_rank_1();
    else if (world_rank == 2)
        begin_to_receive();
    else
        post_and_be_deaf();
    sleep_until_phase(2);
    return 0;
}
