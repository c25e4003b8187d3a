/* Rank 0 sends on "halo exchange" what rank 1 waits for on "results", and then waits for an answer. */
#include "hang.h"

int main(int argc, char **argv)
{
    MPI_Comm halo, results;
    int value = 0;
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo exchange");
    MPI_Comm_dup(MPI_COMM_WORLD, &results);
    MPI_Comm_set_name(results, "results");
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, 5, halo);
    ready();
    if (rank == 0) {
        MPI_Recv(&value, 1, MPI_INT, 1, 6, halo, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, 5, results, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, 6, halo);
    }
    MPI_Finalize();
}
