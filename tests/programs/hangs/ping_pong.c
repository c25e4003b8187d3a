/* Nothing is wrong: a value goes to and fro as fast as it can, and nothing on the ranks' stacks distinguishes one turn
 * from the next. */
#include "hang.h"

static int value;

int main(int argc, char **argv)
{
    begin(argc, argv);
    int other = 1 - rank;
    ready();
    for (;;) {
        if (rank == 0)
            MPI_Send(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    }
}
