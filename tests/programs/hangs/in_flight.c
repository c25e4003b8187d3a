/* Nothing is wrong: the ranks compute while their halos are on the way, each with a partner that wants it. */
#include "hang.h"

static int mine[LARGE], theirs[LARGE];

int main(int argc, char **argv)
{
    MPI_Request requests[2];
    begin(argc, argv);
    int other = 1 - rank;
    MPI_Irecv(theirs, LARGE, MPI_INT, other, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(mine, LARGE, MPI_INT, other, 3, MPI_COMM_WORLD, &requests[1]);
    ready();
    compute();
}
