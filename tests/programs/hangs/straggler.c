/* Rank 2 computes forever; the others wait for it in MPI_Allreduce. With "rests" it sleeps again and again, as one that
 * waits for a file: whenever it is sampled, it is in the same sleep.
 */
#include "hang.h"

static void rest_again_and_again(void)
{
    for (;;) usleep(1000);
}

int main(int argc, char **argv)
{
    double value = 1, sum;
    begin(argc, argv);
    ready();
    if (rank == 2 && is("rests"))
        rest_again_and_again();
    if (rank == 2)
        compute();
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
}
