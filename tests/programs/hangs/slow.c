/* Nothing is wrong: rank 1 takes its time for each answer, and rank 0 waits for it. With the argument "longer" that is
 * longer than the time between two samples. */
#include "hang.h"

enum { MICROSECONDS = 200000, LONGER = 1200000 };

int main(int argc, char **argv)
{
    int value;
    begin(argc, argv);
    ready();
    for (int step = 0;; ++step) {
        value = step;
        if (rank == 0) {
            MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            usleep(is("longer") ? LONGER : MICROSECONDS);
            MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        }
    }
}
