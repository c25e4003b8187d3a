/* Rank 0 waits for four faces of rank 1, which sends three of them and then waits for rank 0. */
#include "hang.h"

int main(int argc, char **argv)
{
    int faces[4] = {0};
    MPI_Request requests[4];
    MPI_Status statuses[4];
    begin(argc, argv);
    if (rank == 0)
        for (int face = 0; face < 4; ++face)
            MPI_Irecv(&faces[face], 1, MPI_INT, 1, 10 + face, MPI_COMM_WORLD, &requests[face]);
    else
        for (int face = 0; face < 3; ++face)
            MPI_Send(&faces[face], 1, MPI_INT, 0, 10 + face, MPI_COMM_WORLD);
    ready();
    if (rank == 0) {
        MPI_Waitall(4, requests, statuses);
        MPI_Send(faces, 1, MPI_INT, 1, 20, MPI_COMM_WORLD);
    } else {
        MPI_Recv(faces, 1, MPI_INT, 0, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
}
