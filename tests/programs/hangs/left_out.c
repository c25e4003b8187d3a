/* Rank 2 skips a broadcast that the others have made, and left: it waits for a message that nobody sends. With "late"
 * it makes it, too, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    int settings[10] = {0}, result = 0;
    for (;;) {
        if (rank == 2)
            come_late();
        MPI_Bcast(settings, 10, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Send(&result, 1, MPI_INT, 2, 5, MPI_COMM_WORLD);
        if (rank == 2) {
            MPI_Recv(&result, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&result, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
        }
        if (rank == 0)
            MPI_Recv(&result, 1, MPI_INT, 2, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int settings[10] = {0}, result;
    begin(argc, argv);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (is("late"))
        go_on();
    if (rank != 2)
        MPI_Bcast(settings, 10, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(&result, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Recv(&result, 1, MPI_INT, 2, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
