/* Rank 2 skips the others' MPI_Win_fence on the window "pressure", and waits for rank 0's last word. With "late" it
 * makes it, too, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Win pressure)
{
    for (;;) {
        if (rank == 2)
            come_late();
        MPI_Win_fence(0, pressure);
    }
}

int main(int argc, char **argv)
{
    double *cells;
    int word = 0;
    MPI_Win pressure;
    begin(argc, argv);
    MPI_Win_allocate(sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &pressure);
    MPI_Win_set_name(pressure, "pressure");
    ready();
    if (is("late"))
        go_on(pressure);
    if (rank != 2)
        MPI_Win_fence(0, pressure);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
