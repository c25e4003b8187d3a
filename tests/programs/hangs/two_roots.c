/* Ranks 0 and 1 both take themselves for the root of an MPI_Reduce, or of what the argument names, "bcast", "gather"
 * or "scatter"; the others believe rank 0.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    enum { COUNT = 20000 };
    static int values[COUNT], sums[1], all[4 * COUNT];
    begin(argc, argv);
    int root = rank == 1 ? 1 : 0;
    ready();
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
