/* On one communicator, rank 0 goes to MPI_Barrier first and rank 1 to MPI_Bcast. */
#include "hang.h"

int main(int argc, char **argv)
{
    int settings[10] = {0};
    begin(argc, argv);
    ready();
    if (rank == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(settings, 10, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
