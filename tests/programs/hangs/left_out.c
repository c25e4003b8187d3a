/* Rank 2 skips a broadcast that the others have made, and left: it waits for a message that nobody sends. */
#include "hang.h"

int main(int argc, char **argv)
{
    int settings[10] = {0}, result;
    begin(argc, argv);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (rank != 2)
        MPI_Bcast(settings, 10, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(&result, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Recv(&result, 1, MPI_INT, 2, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
