/* Rank 1 was stopped by a signal, as a batch system or Ctrl-Z does it; the others wait for it in MPI_Allreduce. */
#include "hang.h"

#include <signal.h>

int main(int argc, char **argv)
{
    double value = 1, sum;
    begin(argc, argv);
    ready();
    if (rank == 1)
        raise(SIGSTOP);
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
}
