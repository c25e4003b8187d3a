/* Ranks 0, 1 and 2 each wait for the next one's value before they pass on their own; rank 3 waits for rank 0's. */
#include "hang.h"

int main(int argc, char **argv)
{
    int value = 0;
    begin(argc, argv);
    int next = rank < 3 ? (rank + 1) % 3 : 0;
    ready();
    MPI_Recv(&value, 1, MPI_INT, next, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank < 3)
        MPI_Send(&value, 1, MPI_INT, (rank + 2) % 3, 4, MPI_COMM_WORLD);
    MPI_Finalize();
}
