/* A model and its coupler, each with a communicator of its own, both wait for the other's first word between them. With
 * "answers" the model speaks first, again and again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Comm coupling)
{
    for (int word = 0;;) {
        if (rank == 0)
            MPI_Send(&word, 1, MPI_INT, 0, 12, coupling);
        MPI_Recv(&word, 1, MPI_INT, 0, 12, coupling, MPI_STATUS_IGNORE);
        come_late();
        if (rank == 1)
            MPI_Send(&word, 1, MPI_INT, 0, 12, coupling);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm mine, coupling;
    int word = 0;
    begin(argc, argv);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &mine);
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1 - rank, 1, &coupling);
    MPI_Comm_set_name(coupling, "coupling");
    ready();
    if (is("answers"))
        go_on(coupling);
    MPI_Recv(&word, 1, MPI_INT, 0, 12, coupling, MPI_STATUS_IGNORE);
    MPI_Send(&word, 1, MPI_INT, 0, 12, coupling);
    MPI_Finalize();
}
