/* Rank 0 sends tag 11, waits for an answer, and would then send tag 10; rank 1 wants tag 10 first, and tag 11 after its
 * answer: the tags are right, their order isn't. With the argument "synchronous" rank 0 waits in its first send. */
#include "hang.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    int word = 0;
    ready();
    if (rank == 0) {
        if (is("synchronous"))
            MPI_Ssend(&word, 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
        else
            MPI_Send(&word, 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, 1, 10, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
}
