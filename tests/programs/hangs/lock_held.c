/* Rank 0 has locked rank 2's part of the window "table" and waits for rank 1's word, without having unlocked it; rank 1
 * wants the same lock before it says anything. With "unlocked" both let it go again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Win table, double *cells)
{
    for (int word = 0;; MPI_Barrier(MPI_COMM_WORLD)) {
        if (rank == 2)
            continue;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, table);
        MPI_Put(cells, 1, MPI_DOUBLE, 2, 0, 1, MPI_DOUBLE, table);
        come_late();
        MPI_Win_unlock(2, table);
        if (rank == 0)
            MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Ssend(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    double *cells;
    int word = 0;
    MPI_Win table;
    begin(argc, argv);
    MPI_Win_allocate(sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &table);
    MPI_Win_set_name(table, "table");
    if (is("unlocked")) {
        ready();
        go_on(table, cells);
    }
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, table);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, table);
        MPI_Put(cells, 1, MPI_DOUBLE, 2, 0, 1, MPI_DOUBLE, table);
        MPI_Win_unlock(2, table);
        MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
