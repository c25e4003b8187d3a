/* Rank 1 reports every step to rank 0, which has forgotten to receive these reports (tag 7) and waits for the end (tag 8).
 * Rank 1 waits for a word of rank 0 first. How many reports there are says the argument.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    int report = 0;
    begin(argc, argv);
    if (rank == 1)
        for (int step = 0; step < atoi(variant); step++)
            MPI_Send(&report, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (rank == 0)
        MPI_Recv(&report, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Recv(&report, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
