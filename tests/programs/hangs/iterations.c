/* Nothing is wrong: a solver adds up its residual, again and again. */
#include "hang.h"

static double mine = 1, sum;

int main(int argc, char **argv)
{
    begin(argc, argv);
    ready();
    for (;;) {
        rest();
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}
