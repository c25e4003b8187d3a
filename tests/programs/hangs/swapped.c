/* Rank 0 sends tag 11, waits for an answer, and would then send tag 10; rank 1 wants tag 10 first, and tag 11 after its
 * answer: the tags are right, their order isn't. With the argument "synchronous" rank 0 waits in its first send. With
 * "patient" rank 0 sends both before it waits, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    for (int word = 0;;) {
        if (rank == 0) {
            MPI_Send(&word, 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
            come_late();
            MPI_Send(&word, 1, MPI_INT, 1, 10, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&word, 1, MPI_INT, 0, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            come_late();
            MPI_Send(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_INT, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int word = 0;
    ready();
    if (is("patient"))
        go_on();
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
