/* Two ranks exchange their halves, and both send first. Small messages would be taken along; these are too large.
 * The argument "synchronous" is for an MPI whose MPI_Send ends whatever the size. */
#include "hang.h"

static int mine[LARGE], theirs[LARGE];

int main(int argc, char **argv)
{
    begin(argc, argv);
    int other = 1 - rank;
    ready();
    if (is("synchronous"))
        MPI_Ssend(mine, LARGE, MPI_INT, other, 3, MPI_COMM_WORLD);
    else
        MPI_Send(mine, LARGE, MPI_INT, other, 3, MPI_COMM_WORLD);
    MPI_Recv(theirs, LARGE, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
