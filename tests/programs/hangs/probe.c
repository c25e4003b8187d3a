/* Rank 0 probes for tag 42 of rank 1, which waits for rank 0. */
#include "hang.h"

int main(int argc, char **argv)
{
    int value = 0;
    begin(argc, argv);
    ready();
    if (rank == 0)
        MPI_Probe(1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Recv(&value, 1, MPI_INT, 0, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
