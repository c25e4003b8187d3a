/* Ranks 0 and 1 each wait for a value of the other, by MPI_Wait, or by MPI_Waitall with the argument "all". Rank 0 has
 * asked rank 2 for one, too, which that may send any time; but rank 0 does not wait for it. The program uses threads.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    int values[2] = {0};
    MPI_Request request, other;
    begin_with(argc, argv, MPI_THREAD_MULTIPLE);
    if (rank == 0)
        MPI_Irecv(&values[1], 1, MPI_INT, 2, 15, MPI_COMM_WORLD, &other);
    if (rank < 2)
        MPI_Irecv(&values[0], 1, MPI_INT, 1 - rank, 14, MPI_COMM_WORLD, &request);
    ready();
    if (rank == 2)
        compute();
    if (is("all"))
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    else
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send(values, 1, MPI_INT, 1 - rank, 14, MPI_COMM_WORLD);
    MPI_Finalize();
}
