/* Rank 2 computes forever; the others wait for it in MPI_Allreduce. */
#include "hang.h"

int main(int argc, char **argv)
{
    double value = 1, sum;
    begin(argc, argv);
    ready();
    if (rank == 2)
        compute();
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
}
