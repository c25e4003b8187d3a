/* Rank 1 matches rank 0's message by MPI_Mprobe, and forgets to receive it with MPI_Mrecv before it waits for the next
 * one. With "outside" it goes on to compute; with "received" it receives each, and all is well.
 */
#include "hang.h"

static void take(MPI_Message *message)
{
    int word;
    MPI_Mprobe(0, 5, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE);
    if (is("received"))
        MPI_Mrecv(&word, 1, MPI_INT, message, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int word = 0;
    MPI_Message message;
    begin(argc, argv);
    ready();
    do {
        if (rank == 0)
            MPI_Ssend(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        else
            take(&message);
        if (is("outside"))
            compute();
        if (rank == 0)
            MPI_Send(&word, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
        else
            MPI_Recv(&word, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        rest();
    } while (is("received"));
    MPI_Finalize();
}
