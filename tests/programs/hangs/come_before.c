/* Rank 0 receives from any source a message that has come before. Nothing is wrong with that, but MPICH 4.3 and 5.0 don't
 * end the receive over UCX, where a process could be reached by shared memory, too.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    int word = 7;
    begin(argc, argv);
    if (rank == 1)
        MPI_Send(&word, 1, MPI_INT, 0, 44, MPI_COMM_WORLD);
    else
        MPI_Probe(1, 44, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ready();
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 44, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
