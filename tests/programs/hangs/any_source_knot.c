/* All are workers: each waits for a task from anybody, and nobody hands out any. With "tasks" rank 0 hands them out,
 * again and again, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    for (int task = 0;; task++) {
        come_late();
        if (rank == 0)
            MPI_Send(&task, 1, MPI_INT, 1 + task % (size - 1), 1, MPI_COMM_WORLD);
        else
            MPI_Recv(&task, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int task;
    begin(argc, argv);
    ready();
    if (is("tasks"))
        go_on();
    MPI_Recv(&task, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
