/* A model and its coupler, each with a communicator of its own, both wait for the other's first word between them. */
#include "hang.h"

int main(int argc, char **argv)
{
    MPI_Comm mine, coupling;
    int word = 0;
    begin(argc, argv);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &mine);
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1 - rank, 1, &coupling);
    MPI_Comm_set_name(coupling, "coupling");
    ready();
    MPI_Recv(&word, 1, MPI_INT, 0, 12, coupling, MPI_STATUS_IGNORE);
    MPI_Send(&word, 1, MPI_INT, 0, 12, coupling);
    MPI_Finalize();
}
