/* Nothing is wrong: all ranks hand a value to the right and take one from the left, forever, by one call. */
#include "hang.h"

static int mine, theirs;

int main(int argc, char **argv)
{
    begin(argc, argv);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    ready();
    for (;;)
        MPI_Sendrecv(&mine, 1, MPI_INT, right, 7, &theirs, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
