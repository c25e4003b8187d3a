/* Rank 0 has receives in every state; rank 1 sends what some of them match. 4 ranks. */
#include "truth.h"

enum { POOL = 8, LARGE_ROWS = 1 << 18, LARGE_BYTES = 4 * LARGE_ROWS };

static MPI_Comm field, done;

/* Every second int of an array: an MPI can't send it in one piece. */
static MPI_Datatype strided_type(int rows)
{
    MPI_Datatype type;
    MPI_Type_vector(rows, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Take requests from the MPI's pool and give them back in another order, so that requests made later
 * lie in memory in an order that differs from that of their posting. */
static void shuffle_pool(void)
{
    static const int order[POOL] = {3, 0, 6, 1, 7, 2, 5, 4};
    static int values[POOL];
    MPI_Request requests[POOL];
    if (!truth_may_cancel())
        return;
    for (int i = 0; i < POOL; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, 1, 900 + i, field, &requests[i]);
    for (int i = 0; i < POOL; i++) {
        MPI_Cancel(&requests[order[i]]);
        MPI_Wait(&requests[order[i]], MPI_STATUS_IGNORE);
    }
}

static void post_unmatched(void)
{
    static int numbers[10], more[4], self_value;
    static double reals[3];
    static char bytes[100], letters[7], cells[5 * 16], anything[64];
    MPI_Datatype cell, unnamed;
    MPI_Type_contiguous(2, MPI_DOUBLE, &cell);
    MPI_Type_set_name(cell, "grid cell");
    MPI_Type_commit(&cell);
    MPI_Type_contiguous(3, MPI_SHORT, &unnamed);
    MPI_Type_commit(&unnamed);

    post_irecv(numbers, 10, MPI_INT, 2, 7, field);
    post_irecv(reals, 3, MPI_DOUBLE, MPI_ANY_SOURCE, 8, field);
    post_irecv(bytes, 100, MPI_BYTE, 3, MPI_ANY_TAG, field);
    post_irecv(cells, 5, cell, 1, 9, field);
    post_irecv(letters, 7, MPI_CHAR, 2, 7, field);
    post_irecv(NULL, 0, MPI_INT, 0, 11, field);
    post_irecv(anything, 64, MPI_PACKED, MPI_ANY_SOURCE, MPI_ANY_TAG, field);
    post_irecv(more, 4, MPI_UNSIGNED, 1, 32767, field);
    post_irecv(anything, 3, unnamed, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD);
    post_irecv(&self_value, 1, MPI_INT, 0, 3, MPI_COMM_SELF);
    post_irecv(&self_value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF);

    MPI_Request none; /* complete at once: nothing to show */
    MPI_Irecv(numbers, 1, MPI_INT, MPI_PROC_NULL, 12, field, &none);
}

static void post_persistent(void)
{
    static long started[6], idle[6];
    MPI_Request request;
    MPI_Recv_init(idle, 6, MPI_LONG, 1, 13, field, &request); /* not started: nothing is pending */
    struct operation *o = truth_operation(RECEIVES, "MPI_Recv_init", started, 6, MPI_LONG, 1, 14, field);
    MPI_Recv_init(started, 6, MPI_LONG, 1, 14, field, &request);
    MPI_Start(&request);
    truth_request(o, request);
}

static void post_without_handle(void)
{
    static int value;
    MPI_Request request;
    struct operation *o = truth_operation(RECEIVES, "MPI_Irecv", &value, 1, MPI_INT, 2, 15, field);
    MPI_Irecv(&value, 1, MPI_INT, 2, 15, field, &request);
    truth_request(o, request);
    truth_free_request(o);
}

/* Receives that rank 1's messages match, in this order: two complete ones, a large one that can't complete. */
static void post_matched(void)
{
    static int first[10], second[10], large[2 * LARGE_ROWS], never[10];
    struct operation *o = post_irecv(first, 10, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, done);
    truth_matched(o, 1, 50, 6 * (long)sizeof(int));
    o->status = "complete";
    o = post_irecv(never, 10, MPI_INT, 1, 59, done);
    o = post_irecv(second, 10, MPI_INT, 1, 51, done);
    truth_matched(o, 1, 51, 10 * (long)sizeof(int));
    o->status = "complete";
    o = post_irecv(large, 1, strided_type(LARGE_ROWS), MPI_ANY_SOURCE, 52, done);
    truth_matched(o, 1, 52, LARGE_BYTES);
}

/* A message that a matched probe took out of the queue, and that was not received yet. */
static void probe_matched(void)
{
    int flag = 0, bytes;
    MPI_Status status;
    MPI_Message message;
    while (!flag)
        MPI_Improbe(MPI_ANY_SOURCE, 60, done, &flag, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    struct operation *o = truth_operation(RECEIVES, "MPI_Improbe", NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 60, done);
    truth_matched(o, status.MPI_SOURCE, status.MPI_TAG, bytes);
    o->count = -1;
}

static void receive(void)
{
    shuffle_pool();
    post_unmatched();
    post_persistent();
    post_without_handle();
    post_matched();
    MPI_Barrier(MPI_COMM_WORLD);
    truth_unexpected(1, 61, 4, EAGER, done)->pattern = 61; /* sent last: when it is here, all before it is here */
    settle();
    MPI_Barrier(MPI_COMM_WORLD);
    wait_for("sent");
    settle();
    probe_matched();
    truth_write(1);
}

static void send(void)
{
    static int numbers[10], large[2 * LARGE_ROWS];
    static unsigned char last[4];
    fill(last, sizeof last, 61);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(numbers, 6, MPI_INT, 0, 50, done);
    MPI_Send(numbers, 10, MPI_INT, 0, 51, done);
    MPI_Send(numbers, 5, MPI_INT, 0, 60, done);
    MPI_Send(last, sizeof last, MPI_BYTE, 0, 61, done);
    MPI_Barrier(MPI_COMM_WORLD);
    post_isend(large, 1, strided_type(LARGE_ROWS), 0, 52, done);
    truth_write(1); /* no MPI call from here on: the large message stays under way */
    say("sent");
}

static void stand_by(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    truth_write(1);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "receives", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    MPI_Comm_dup(MPI_COMM_WORLD, &done);
    truth_communicator("done", done);
    if (world_rank == 0)
        receive();
    else if (world_rank == 1)
        send();
    else
        stand_by();
    sleep_until_phase(2);
    return 0;
}
