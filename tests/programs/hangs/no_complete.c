/* Rank 0 waits for the end of what rank 1 does to its part of the window "halo"; but rank 1 goes on to a barrier
 * without MPI_Win_complete. With "completed" it calls that first, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Win halo, MPI_Group others)
{
    for (double cell = 1;;) {
        if (rank == 0) {
            MPI_Win_post(others, 0, halo);
            MPI_Win_wait(halo);
        } else {
            MPI_Win_start(others, 0, halo);
            MPI_Put(&cell, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, halo);
            come_late();
            MPI_Win_complete(halo);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    double *cells;
    MPI_Win halo;
    MPI_Group all, others;
    begin(argc, argv);
    MPI_Win_allocate(sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &halo);
    MPI_Win_set_name(halo, "halo");
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &rank, &others);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (is("completed"))
        go_on(halo, others);
    if (rank == 0) {
        MPI_Win_post(others, 0, halo);
        MPI_Win_wait(halo);
    } else {
        MPI_Win_start(others, 0, halo);
        MPI_Put(cells, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, halo);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
