/* The ranks enter two barriers in different order, those of "rows" and of "columns". With "same" the order is the same,
 * and all is well.
 */
#include "hang.h"

static void go_on(MPI_Comm rows, MPI_Comm columns)
{
    for (int turn = 0;; turn++) {
        if (rank == turn % size)
            come_late();
        MPI_Barrier(rows);
        MPI_Barrier(columns);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm rows, columns;
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &rows);
    MPI_Comm_set_name(rows, "rows");
    MPI_Comm_dup(MPI_COMM_WORLD, &columns);
    MPI_Comm_set_name(columns, "columns");
    ready();
    if (is("same"))
        go_on(rows, columns);
    MPI_Barrier(rank == 0 ? rows : columns);
    MPI_Barrier(rank == 0 ? columns : rows);
    MPI_Finalize();
}
