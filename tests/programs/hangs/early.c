/* Nothing is wrong: rank 0 computes and has asked for tag 1; tag 2, for which it will ask later, has come already. */
#include "hang.h"

int main(int argc, char **argv)
{
    int first = 0, second = 0, done;
    MPI_Request request;
    begin(argc, argv);
    if (rank == 0) {
        MPI_Irecv(&first, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Probe(1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&second, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    }
    ready();
    compute();
}
