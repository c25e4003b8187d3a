/* Rank 1 gives an MPI_Reduce fewer elements than the others: how an MPI moves data depends on their size, and ranks
 * that go different ways wait for each other. With "turns" all give few and many in turn, and all is well.
 */
#include "hang.h"

enum { COUNT = 200000, FEW = 10 };

static double values[COUNT], sums[COUNT];

static void go_on(void)
{
    for (int turn = 0;; turn++) {
        if (rank == turn % 3)
            come_late();
        MPI_Reduce(values, sums, turn % 2 == 0 ? FEW : COUNT, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int count = rank == 1 ? FEW : COUNT;
    ready();
    if (is("turns"))
        go_on();
    MPI_Reduce(values, sums, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
