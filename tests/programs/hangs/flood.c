/* Rank 1 reports every step to rank 0, which has forgotten to receive these reports (tag 7) and waits for the end (tag
 * 8). Rank 1 waits for a word of rank 0 first. How many reports there are says the argument. With "received" rank 0
 * receives them, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    for (int report = 0;;) {
        if (rank == 0)
            come_late();
        for (int step = 0; step < 1000; step++)
            if (rank == 0)
                MPI_Recv(&report, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else
                MPI_Send(&report, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Send(&report, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
        else
            MPI_Recv(&report, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int report = 0;
    begin(argc, argv);
    if (rank == 1)
        for (int step = 0; step < atoi(variant); step++)
            MPI_Send(&report, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (is("received"))
        go_on();
    if (rank == 0)
        MPI_Recv(&report, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Recv(&report, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
