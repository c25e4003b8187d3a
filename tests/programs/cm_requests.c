/* Requests whose traces a transport that leaves the matching to its network could misread. 2 ranks.
 *
 * Rank 0 has receives that are done but not collected, matched by synchronous messages among them, one cancelled, one too
 * small for its message; and sends of datatypes whose data starts elsewhere than at the address. */
#include "truth.h"

enum { SHIFT = 3, LARGE = 1 << 22 };

static MPI_Comm field;
static int values[32];

/* One block of four ints, SHIFT ints behind (or before) the address that the program gives. */
static MPI_Datatype displaced(int shift)
{
    const int length = 4;
    const MPI_Aint displacement = shift * (MPI_Aint)sizeof(int);
    MPI_Datatype type;
    MPI_Type_create_hindexed(1, &length, &displacement, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static void done(struct operation *operation, int tag, int count)
{
    truth_matched(operation, 1, tag, count * (long)sizeof(int));
    operation->status = "complete";
}

static void post_receives(void)
{
    done(post_irecv(&values[0], 4, MPI_INT, MPI_ANY_SOURCE, 10, field), 10, 4);
    done(post_irecv(&values[4], 4, MPI_INT, 1, 11, field), 11, 4);
    done(post_irecv(&values[8], 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, field), 12, 2);
    done(post_irecv(&values[12], 4, MPI_INT, 1, 0, field), 0, 1);
    post_irecv(&values[14], 1, MPI_INT, 1, 0, field);
}

static void cancel(void)
{
    struct operation *o = post_irecv(&values[20], 2, MPI_INT, 1, 14, field);
    MPI_Cancel(&o->handle);
    o->status = "complete";
}

/* The message is longer than the buffer: the receive ends with an error. */
static void receive_too_much(void)
{
    MPI_Comm_set_errhandler(field, MPI_ERRORS_RETURN);
    struct operation *o = post_irecv(&values[24], 1, MPI_INT, 1, 15, field);
    truth_matched(o, 1, 15, 4 * (long)sizeof(int));
    o->status = "";
}

static void post_sends(void)
{
    static char large[LARGE];
    MPI_Datatype ahead = displaced(SHIFT), behind = displaced(-SHIFT);
    post_issend(values, 1, ahead, 1, 20, field);
    post_issend(&values[16], 1, behind, 1, 21, field);
    post_issend(values, 2, ahead, 1, 22, field);
    post_issend(NULL, 0, MPI_INT, 1, 23, field);
    post_irecv(values, 1, ahead, 1, 24, field);
    post_isend(large, LARGE, MPI_BYTE, 1, 25, field);
}

static void receive(void)
{
    post_receives();
    receive_too_much();
    MPI_Barrier(MPI_COMM_WORLD);
    cancel();
    post_sends();
    settle();
    truth_write(1);
}

static void send(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Ssend(values, 4, MPI_INT, 0, 10, field);
    MPI_Ssend(values, 4, MPI_INT, 0, 11, field);
    MPI_Ssend(values, 2, MPI_INT, 0, 12, field);
    MPI_Send(values, 1, MPI_INT, 0, 0, field);
    MPI_Send(values, 4, MPI_INT, 0, 15, field);
    truth_write(1);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "cm_requests", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    if (world_rank == 0)
        receive();
    else
        send();
    sleep_until_phase(2);
    return 0;
}
