/* Two ranks start their persistent receives and wait for them, but both forgot to start the sends. */
#include "hang.h"

int main(int argc, char **argv)
{
    int mine = 0, theirs;
    MPI_Request send, receive;
    begin(argc, argv);
    int other = 1 - rank;
    MPI_Send_init(&mine, 1, MPI_INT, other, 11, MPI_COMM_WORLD, &send);
    MPI_Recv_init(&theirs, 1, MPI_INT, other, 11, MPI_COMM_WORLD, &receive);
    MPI_Start(&receive);
    ready();
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
