/* Rank 0 waits for rank 1's share, but that rank has none: it is rank 2 that sent one. With "late" rank 1 has a share,
 * too, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    for (int share[10] = {0};;) {
        if (rank == 1)
            come_late();
        if (rank != 0)
            MPI_Send(share, 10, MPI_INT, 0, 9, MPI_COMM_WORLD);
        for (int other = 1; rank == 0 && other < size; other++)
            MPI_Recv(share, 10, MPI_INT, other, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int share[10] = {0};
    begin(argc, argv);
    if (is("late")) {
        ready();
        go_on();
    }
    if (rank == 2)
        MPI_Send(share, 10, MPI_INT, 0, 9, MPI_COMM_WORLD);
    ready();
    if (rank == 0)
        MPI_Recv(share, 10, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
