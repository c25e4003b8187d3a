/* Rank 0 waits for whichever of the ranks 1 and 2 answers first, and both wait for rank 0. With the argument "alive"
 * rank 2 computes, and may still answer. With "answered" rank 0 asks both, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    int answers[2], question = 0, which;
    MPI_Request requests[2];
    for (;;) {
        if (rank == 0) {
            for (int other = 1; other < 3; other++) {
                MPI_Irecv(&answers[other - 1], 1, MPI_INT, other, 6, MPI_COMM_WORLD, &requests[other - 1]);
                MPI_Send(&question, 1, MPI_INT, other, 5, MPI_COMM_WORLD);
            }
            MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
            MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&question, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            come_late();
            MPI_Send(&question, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    int answers[2], question = 0, which;
    MPI_Request requests[2];
    begin(argc, argv);
    ready();
    if (is("answered"))
        go_on();
    if (rank == 0) {
        MPI_Irecv(&answers[0], 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&answers[1], 1, MPI_INT, 2, 6, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
    } else if (rank == 2 && is("alive")) {
        compute();
    } else {
        MPI_Recv(&question, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&question, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
