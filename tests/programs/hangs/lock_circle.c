/* Each of two ranks has locked its own part of the window "table", and wants to put something into the other's before it
 * unlocks. With "late" Open MPI uses its component pt2pt, which asks for a lock only when data is to move.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    double value = 1, *cells;
    int other;
    MPI_Win table;
    begin(argc, argv);
    other = !rank;
    MPI_Win_allocate(sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &table);
    MPI_Win_set_name(table, "table");
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, table);
    MPI_Put(&value, 1, MPI_DOUBLE, rank, 0, 1, MPI_DOUBLE, table);
    MPI_Win_flush(rank, table);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, table);
    MPI_Put(&value, 1, MPI_DOUBLE, other, 0, 1, MPI_DOUBLE, table);
    MPI_Win_unlock(other, table);
    MPI_Win_unlock(rank, table);
    MPI_Finalize();
}
