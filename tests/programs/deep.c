/* Ranks that call a function thousands of times within itself: all but the last wait at different depths for a message
 * that the last one never sends, which computes. */
#include "hangs/hang.h"

enum { DEEP = 3000, DEEPEST = 10000 };

/* It never returns: behind its call of itself, its last instruction, another function starts. */
__attribute__((noinline, noreturn)) static void descend(int left, const int *outer)
{
    int own[2] = {left, *outer};
    if (left == 0) {
        ready();
        if (rank == size - 1)
            compute();
        MPI_Recv(own, 2, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        abort();
    }
    descend(left - 1, own);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int none = 0;
    descend(rank == size - 1 ? DEEPEST : DEEP * (rank + 1), &none);
}
