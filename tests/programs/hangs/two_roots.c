/* Ranks 0 and 1 both take themselves for the root of an MPI_Reduce, or of what the argument names, "bcast", "gather" or
 * "scatter"; the others believe rank 0. With "turns" all take turns to be the root, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    int value = 0, sum;
    for (int turn = 0;; turn++) {
        if (rank == turn % 3)
            come_late();
        MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, turn % size, MPI_COMM_WORLD);
        MPI_Bcast(&value, 1, MPI_INT, (turn + 1) % size, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    enum { COUNT = 20000 };
    static int values[COUNT], sums[1], all[4 * COUNT];
    begin(argc, argv);
    int root = rank == 1 ? 1 : 0;
    ready();
    if (is("turns"))
        go_on();
    if (is("bcast"))
        MPI_Bcast(values, COUNT, MPI_INT, root, MPI_COMM_WORLD);
    else if (is("gather"))
        MPI_Gather(values, COUNT, MPI_INT, all, COUNT, MPI_INT, root, MPI_COMM_WORLD);
    else if (is("scatter"))
        MPI_Scatter(all, COUNT, MPI_INT, values, COUNT, MPI_INT, root, MPI_COMM_WORLD);
    else
        MPI_Reduce(values, sums, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
