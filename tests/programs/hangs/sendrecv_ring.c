/* Each rank sends to its right neighbour, and by mistake receives from it too. */
#include "hang.h"

int main(int argc, char **argv)
{
    int mine = 0, theirs;
    begin(argc, argv);
    int right = (rank + 1) % size;
    ready();
    MPI_Sendrecv(&mine, 1, MPI_INT, right, 7, &theirs, 1, MPI_INT, right, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
