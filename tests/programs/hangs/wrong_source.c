/* Rank 0 waits for rank 1's share, but that rank has none: it is rank 2 that sent one. */
#include "hang.h"

int main(int argc, char **argv)
{
    int share[10] = {0};
    begin(argc, argv);
    if (rank == 2)
        MPI_Send(share, 10, MPI_INT, 0, 9, MPI_COMM_WORLD);
    ready();
    if (rank == 0)
        MPI_Recv(share, 10, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
