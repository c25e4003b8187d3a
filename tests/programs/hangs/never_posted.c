/* Rank 0 writes into the window "halo" of the ranks 1 and 2; rank 2 forgot MPI_Win_post, and waits for rank 0's word.
 * With "posted" it does, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Win halo, MPI_Group writer, MPI_Group readers)
{
    for (double mine = 1;;) {
        if (rank == 0) {
            MPI_Win_start(readers, 0, halo);
            MPI_Put(&mine, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, halo);
            MPI_Put(&mine, 1, MPI_DOUBLE, 2, 0, 1, MPI_DOUBLE, halo);
            MPI_Win_complete(halo);
        } else {
            if (rank == 2)
                come_late();
            MPI_Win_post(writer, 0, halo);
            MPI_Win_wait(halo);
        }
    }
}

int main(int argc, char **argv)
{
    double *cells, mine = 1;
    int word = 0;
    MPI_Win halo;
    MPI_Group world, writer, readers;
    begin(argc, argv);
    MPI_Win_allocate(sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &halo);
    MPI_Win_set_name(halo, "halo");
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, (int[]){0}, &writer);
    MPI_Group_incl(world, 2, (int[]){1, 2}, &readers);
    ready();
    if (is("posted"))
        go_on(halo, writer, readers);
    if (rank == 0) {
        MPI_Win_start(readers, 0, halo);
        MPI_Put(&mine, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, halo);
        MPI_Put(&mine, 1, MPI_DOUBLE, 2, 0, 1, MPI_DOUBLE, halo);
        MPI_Win_complete(halo);
        MPI_Send(&word, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
    }
    if (rank == 1) {
        MPI_Win_post(writer, 0, halo);
        MPI_Win_wait(halo);
    }
    if (rank == 2)
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
