/* The ranks enter two barriers in different order, those of "rows" and of "columns". */
#include "hang.h"

int main(int argc, char **argv)
{
    MPI_Comm rows, columns;
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &rows);
    MPI_Comm_set_name(rows, "rows");
    MPI_Comm_dup(MPI_COMM_WORLD, &columns);
    MPI_Comm_set_name(columns, "columns");
    ready();
    MPI_Barrier(rank == 0 ? rows : columns);
    MPI_Barrier(rank == 0 ? columns : rows);
    MPI_Finalize();
}
