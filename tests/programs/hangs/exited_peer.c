/* Rank 1 is done and leaves, by MPI_Finalize or ("exits", "probe") without it; rank 0 still waits for its word, or for a
 * look at it ("probe").
 */
#include "hang.h"

int main(int argc, char **argv)
{
    int word;
    begin(argc, argv);
    ready();
    if (rank == 0 && is("probe"))
        MPI_Probe(1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (is("exits") || is("probe"))
        _exit(0);
    MPI_Finalize();
}
