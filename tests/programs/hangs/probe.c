/* Rank 0 probes for tag 42 of rank 1, which waits for rank 0. With "answered" rank 0 has sent its word before, and all
 * is well.
 */
#include "hang.h"

static void go_on(void)
{
    for (int value = 0;;) {
        if (rank == 0) {
            MPI_Send(&value, 1, MPI_INT, 1, 43, MPI_COMM_WORLD);
            MPI_Probe(1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(&value, 1, MPI_INT, 1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            come_late();
        } else {
            MPI_Recv(&value, 1, MPI_INT, 0, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            come_late();
            MPI_Send(&value, 1, MPI_INT, 0, 42, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    int value = 0;
    begin(argc, argv);
    ready();
    if (is("answered"))
        go_on();
    if (rank == 0)
        MPI_Probe(1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Recv(&value, 1, MPI_INT, 0, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
