/* Rank 0 waits for a generalized request, which the program forgets to complete, before it sends what rank 1 waits for;
 * another request of rank 0's is for rank 1's answer.
 */
#include "hang.h"

#include "../generalized_request.h"

int main(int argc, char **argv)
{
    int answer = 0, question = 0;
    MPI_Request work, reply;
    begin(argc, argv);
    if (rank == 0) {
        MPI_Irecv(&answer, 1, MPI_INT, 1, 14, MPI_COMM_WORLD, &reply);
        work = start_generalized();
    }
    ready();
    if (rank == 0) {
        MPI_Wait(&work, MPI_STATUS_IGNORE);
        MPI_Send(&question, 1, MPI_INT, 1, 15, MPI_COMM_WORLD);
        MPI_Wait(&reply, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&question, 1, MPI_INT, 0, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&answer, 1, MPI_INT, 0, 14, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
