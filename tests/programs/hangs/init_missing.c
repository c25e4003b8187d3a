/* Rank 1 waits for a file that nobody writes before it calls MPI_Init; the others are in MPI_Init. */
#include "hang.h"

int main(int argc, char **argv)
{
    const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
    rank = atoi(open_mpi != NULL ? open_mpi : mpich != NULL ? mpich : "0");
    directory = argv[1];
    ready();
    if (rank == 1)
        await(99);
    begin(argc, argv);
    MPI_Finalize();
}
