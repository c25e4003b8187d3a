/* Nothing is wrong: ranks hand particles to their neighbours in each direction, in turn. Their number is sent first, with
 * the same tag, and is another number each time; while it is on the way, and they are, the ranks compute. */
#include "hang.h"

enum { DIRECTIONS = 4, MOST = 9000, MICROSECONDS = 4000 };

static double mine[MOST], theirs[MOST];

int main(int argc, char **argv)
{
    static const int steps[DIRECTIONS] = {1, -1, 2, -2};
    begin(argc, argv);
    ready();
    for (unsigned turn = 0;; ++turn) {
        int to = (rank + size + steps[turn % DIRECTIONS]) % size, from = (rank + size - steps[turn % DIRECTIONS]) % size;
        int going = (int)(1000 + (turn * 7919u + (unsigned)rank * 104729u) % (MOST - 1000)), coming;
        MPI_Request count, particles;
        MPI_Irecv(&coming, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &count);
        MPI_Send(&going, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
        MPI_Isend(mine, going, MPI_DOUBLE, to, 0, MPI_COMM_WORLD, &particles);
        usleep(MICROSECONDS); /* computes */
        MPI_Wait(&count, MPI_STATUS_IGNORE);
        MPI_Recv(theirs, coming, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&particles, MPI_STATUS_IGNORE);
    }
}
