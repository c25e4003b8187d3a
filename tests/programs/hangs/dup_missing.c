/* Ranks 0 and 1 duplicate a communicator, which takes all of its ranks; rank 2 does not, and waits for rank 0. With
 * "late" it does, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    for (MPI_Comm copy;;) {
        if (rank == 2)
            come_late();
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Comm_free(&copy);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm copy;
    int value = 0;
    begin(argc, argv);
    ready();
    if (is("late"))
        go_on();
    if (rank != 2)
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
