/* Rank 0 puts into rank 1's part of the window "table" while rank 1 computes: some MPIs move such data only when their
 * target calls MPI, which it never does. With "rget" rank 0 asks for a value by MPI_Rget and waits for the request; with
 * "serves" rank 1 calls MPI now and then, and all is well.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    double cells[2] = {0, 0}, *own = cells + 1;
    int arrived;
    MPI_Win table;
    MPI_Request request = MPI_REQUEST_NULL;
    begin(argc, argv);
    MPI_Win_create(cells, sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &table);
    MPI_Win_set_name(table, "table");
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (rank == 1 && !is("serves"))
        compute();
    while (rank == 1) {
        MPI_Iprobe(0, 1, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
        rest();
    }
    await(1); /* in the barrier it would still serve what is asked of it */
    do {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, table);
        if (is("rget"))
            MPI_Rget(own, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, table, &request);
        else
            MPI_Put(own, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, table);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Win_flush(1, table);
        MPI_Win_unlock(1, table);
        rest();
    } while (is("serves"));
    MPI_Finalize();
}
