/* Nothing is wrong: all ranks take turns to count something in rank 0's part of a window, forever. */
#include "hang.h"

int main(int argc, char **argv)
{
    int one = 1, *counter;
    MPI_Win turns;
    begin(argc, argv);
    MPI_Win_allocate(sizeof *counter, sizeof *counter, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &turns);
    ready();
    for (;;) {
        rest();
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, turns);
        MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, turns);
        MPI_Win_unlock(0, turns);
    }
}
