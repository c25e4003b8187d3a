/* Rank 1 has room for 1000 cells, and computes until they are there; rank 0 sends more than that. With the argument
 * "arrived" they are there, and the ranks wait for each other's next word: the error has still to come. */
#include "hang.h"

static int cells[LARGE];

int main(int argc, char **argv)
{
    MPI_Request request;
    int word = 0;
    begin(argc, argv);
    if (rank == 1)
        MPI_Irecv(cells, 1000, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (rank == 0) {
        await(1); /* in the barrier it would take the message */
        MPI_Send(cells, LARGE, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else if (!is("arrived")) {
        compute();
    }
    MPI_Recv(&word, 1, MPI_INT, 1 - rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
