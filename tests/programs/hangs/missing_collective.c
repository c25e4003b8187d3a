/* Rank 2 believes that it has converged: it skips the others' MPI_Allreduce, and waits for rank 0's last word. */
#include "hang.h"

int main(int argc, char **argv)
{
    MPI_Comm solver;
    double residual = 1, sum;
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &solver);
    MPI_Comm_set_name(solver, "solver");
    ready();
    if (rank != 2)
        MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, solver);
    if (rank == 0)
        MPI_Send(&residual, 1, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(&residual, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
