/* All but rank 2 have called MPI_Finalize, which ends when all have; rank 2 computes forever. */
#include "hang.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    ready();
    if (rank == 2)
        compute();
    MPI_Finalize();
}
