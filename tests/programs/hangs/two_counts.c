/* Rank 1 gives an MPI_Reduce fewer elements than the others: how an MPI moves data depends on their size, and ranks that
 * go different ways wait for each other.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    enum { COUNT = 200000, FEW = 10 };
    static double values[COUNT], sums[COUNT];
    begin(argc, argv);
    int count = rank == 1 ? FEW : COUNT;
    ready();
    MPI_Reduce(values, sums, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
