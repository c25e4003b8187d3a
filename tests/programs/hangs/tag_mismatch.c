/* Rank 1 waits for tag 7777 from rank 2 on "halo exchange", but rank 2 sends 7776, and then waits for an answer. */
#include "hang.h"

int main(int argc, char **argv)
{
    MPI_Comm halo;
    int cells[100] = {0}, answer = 0;
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo exchange");
    if (rank == 2)
        MPI_Send(cells, 100, MPI_INT, 1, 7776, halo);
    ready();
    if (rank == 1) {
        MPI_Recv(cells, 100, MPI_INT, 2, 7777, halo, MPI_STATUS_IGNORE);
        MPI_Send(&answer, 1, MPI_INT, 2, 7778, halo);
    } else if (rank == 2) {
        MPI_Recv(&answer, 1, MPI_INT, 1, 7778, halo, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
