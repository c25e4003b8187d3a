/* Messages of all sizes lie unexpected in rank 0, from every other rank and from itself. 4 ranks. */
#include "truth.h"

enum { TINY = 16, SMALL = 128, MIDDLE = 1000, BIG = 3000, LARGE = 1 << 20, STRIDED_ROWS = 1 << 16 };

static MPI_Comm field;

static MPI_Datatype strided_type(void)
{
    MPI_Datatype type;
    MPI_Type_vector(STRIDED_ROWS, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* One message that every rank knows of: its sender posts it, its receiver writes it down. */
static void message(int source, int tag, int bytes, enum protocol protocol, MPI_Comm comm)
{
    static unsigned char buffers[LARGE + 64 * BIG], *next = buffers;
    if (world_rank == 0)
        truth_unexpected(source, tag, (size_t)bytes, protocol, comm)->pattern = tag;
    if (world_rank == source) {
        fill(next, (size_t)bytes, tag);
        struct operation *o = protocol == SYNCHRONOUS ? post_issend(next, bytes, MPI_BYTE, 0, tag, comm)
                                                      : post_isend(next, bytes, MPI_BYTE, 0, tag, comm);
        if (protocol == EAGER) {
            o->status = "complete";
            o->optional = bytes <= 256; /* such a message may leave without a request */
        }
        next += bytes;
    }
}

static void messages_from(int source)
{
    message(source, 100, TINY, EAGER, field);
    message(source, 101, SMALL, EAGER, field);
    message(source, 102, MIDDLE, EAGER, field);
    message(source, 103, BIG, EAGER, field);
    message(source, 104, 0, EAGER, field);
    message(source, 105, TINY, SYNCHRONOUS, field);
    message(source, 106, 0, SYNCHRONOUS, field);
    message(source, 107, MIDDLE, SYNCHRONOUS, field);
    message(source, 100, TINY / 2, EAGER, field); /* the first tag again, behind it */
    message(source, 108, TINY, EAGER, field);
    message(source, 200, MIDDLE, EAGER, MPI_COMM_WORLD);
    message(source, 201, TINY, EAGER, MPI_COMM_WORLD);
}

/* Large ones: contiguous, and one that the sender has to pack. */
static void large_messages(void)
{
    static int rows[2 * STRIDED_ROWS];
    for (int i = 0; i < STRIDED_ROWS; i++) /* the message is what lies in every second one */
        fill(&rows[2 * i], sizeof rows[0], 111 + i * (int)sizeof rows[0]);
    message(2, 110, LARGE, RENDEZVOUS, field);
    if (world_rank == 3)
        post_isend(rows, 1, strided_type(), 0, 111, field);
    if (world_rank == 0)
        truth_unexpected(3, 111, sizeof(int) * STRIDED_ROWS, RENDEZVOUS, field)->pattern = 111;
}

static void messages_to_self(void)
{
    static unsigned char small[TINY], synchronous[MIDDLE], large[LARGE];
    fill(small, sizeof small, 120);
    fill(synchronous, sizeof synchronous, 121);
    fill(large, sizeof large, 122);
    struct operation *o = post_isend(small, TINY, MPI_BYTE, 0, 120, MPI_COMM_SELF);
    o->status = ""; /* an MPI may leave it where it is until a receive is posted */
    o->optional = 1;
    post_issend(synchronous, MIDDLE, MPI_BYTE, 0, 121, MPI_COMM_SELF);
    post_isend(large, LARGE, MPI_BYTE, 0, 122, MPI_COMM_SELF);
    truth_unexpected(0, 120, TINY, EAGER, MPI_COMM_SELF)->pattern = 120;
    truth_unexpected(0, 121, MIDDLE, SYNCHRONOUS, MPI_COMM_SELF)->pattern = 121;
    truth_unexpected(0, 122, LARGE, RENDEZVOUS, MPI_COMM_SELF)->pattern = 122;
}

/* A wildcard receive searches the sources in turn, from the one behind the last found. */
static void probe_any(MPI_Comm comm)
{
    int flag;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
    truth_last_probed(comm, status.MPI_SOURCE);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "unexpected", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int source = 1; source < world_size; source++)
        messages_from(source);
    large_messages();
    if (world_rank == 0)
        messages_to_self();
    settle();
    leave_together("arrived", MPI_COMM_WORLD);
    if (world_rank == 0) {
        probe_any(field);
        probe_any(field);
        probe_any(MPI_COMM_WORLD);
    }
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
