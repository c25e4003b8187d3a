/* Rank 1 is done and leaves, by MPI_Finalize or ("exits") without it; rank 0 still waits for its word. */
#include "hang.h"

int main(int argc, char **argv)
{
    int word;
    begin(argc, argv);
    ready();
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (is("exits"))
        _exit(0);
    MPI_Finalize();
}
