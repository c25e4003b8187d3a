/* All are workers: each waits for a task from anybody, and nobody hands out any. */
#include "hang.h"

int main(int argc, char **argv)
{
    int task;
    begin(argc, argv);
    ready();
    MPI_Recv(&task, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
