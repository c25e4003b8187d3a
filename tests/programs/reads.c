/* Ends by itself: rank 0 reads numbers from the standard input, up to a zero: PRRTE doesn't pass the end of a pipe on. The
 * ranks add each of them up, and rank 0 prints the sum. Its exit code is the last one. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, number = 0, sum = 0, left = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (;;) {
        if (rank == 0)
            left = scanf("%d", &number) == 1 && number != 0;
        MPI_Bcast(&left, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!left)
            break;
        MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%d\n", sum);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return rank == 0 ? sum : 0;
}
