/* Nothing is wrong: each rank takes a value from the left, works on it, and hands it to the right, forever. */
#include "hang.h"

enum { MICROSECONDS = 20000 };

int main(int argc, char **argv)
{
    int value;
    begin(argc, argv);
    ready();
    for (int step = 0;; ++step) {
        value = step;
        if (rank > 0)
            MPI_Recv(&value, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(MICROSECONDS);
        if (rank < size - 1)
            MPI_Ssend(&value, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
    }
}
