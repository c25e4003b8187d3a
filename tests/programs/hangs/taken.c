/* Nothing is wrong: rank 1 has taken rank 0's halo, and waits for a word with the same tag, which rank 0 sends when it
 * has computed. Rank 0 has not called MPI since, and doesn't know that its halo has been taken. With the argument "twice"
 * another halo follows the first, and rank 1 waits for a word with another tag. */
#include "hang.h"

enum { CELLS = 100 };

static int halo[CELLS];

int main(int argc, char **argv)
{
    MPI_Request requests[2];
    int word = 0, here = 0, twice;
    begin(argc, argv);
    twice = is("twice");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Issend(halo, CELLS, MPI_INT, 1, 3, MPI_COMM_WORLD, &requests[0]);
        if (twice)
            MPI_Issend(halo, CELLS / 2, MPI_INT, 1, 3, MPI_COMM_WORLD, &requests[1]);
        while (!is_ready(1))
            MPI_Iprobe(1, 5, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
        ready();
        compute();
    }
    while (!here)
        MPI_Iprobe(0, 3, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
    ready();
    await(0);
    MPI_Recv(halo, CELLS, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&word, 1, MPI_INT, 0, twice ? 4 : 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
