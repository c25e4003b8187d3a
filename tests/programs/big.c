/* A great many of one thing; the argument says which: "communicators", "receives" or "unexpected". 2 ranks. */
#include <stdio.h>
#include <string.h>

#include "truth.h"

enum { COMMUNICATORS = 1000, OPERATIONS = 20000 };

static MPI_Comm field;
static int values[OPERATIONS];

static void make_communicators(void)
{
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm comm;
        char name[32];
        snprintf(name, sizeof name, "number %d", i);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        truth_communicator(name, comm);
        truth_set_name(comm, name);
    }
}

/* Every tenth is for any source. */
static void post_receives(void)
{
    if (world_rank == 0)
        for (int i = 0; i < OPERATIONS; i++)
            post_irecv(&values[i], 1, MPI_INT, i % 10 ? 1 : MPI_ANY_SOURCE, i, field);
}

/* One more message, which the receiver waits for, comes behind all others. */
static void send_messages(void)
{
    int end = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        if (world_rank == 0)
            truth_unexpected(1, i, sizeof values[0], EAGER, field);
        else
            MPI_Send(&values[i], 1, MPI_INT, 0, i, field);
    }
    if (world_rank == 0)
        MPI_Recv(&end, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&end, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "big", MPI_THREAD_SINGLE);
    const char *what = argc > 2 ? argv[2] : "";
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    if (strcmp(what, "communicators") == 0)
        make_communicators();
    else if (strcmp(what, "receives") == 0)
        post_receives();
    else
        send_messages();
    settle();
    leave_together("arrived", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
