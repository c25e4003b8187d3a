/* Two ranks start their persistent receives and wait for them, but both forgot to start the sends. With "started" both
 * start them, again and again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Request *send, MPI_Request *receive)
{
    for (int turn = 0;; turn++) {
        MPI_Start(receive);
        if (rank == turn % 2)
            come_late();
        MPI_Start(send);
        MPI_Wait(receive, MPI_STATUS_IGNORE);
        MPI_Wait(send, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int mine = 0, theirs;
    MPI_Request send, receive;
    begin(argc, argv);
    int other = 1 - rank;
    MPI_Send_init(&mine, 1, MPI_INT, other, 11, MPI_COMM_WORLD, &send);
    MPI_Recv_init(&theirs, 1, MPI_INT, other, 11, MPI_COMM_WORLD, &receive);
    if (is("started")) {
        ready();
        go_on(&send, &receive);
    }
    MPI_Start(&receive);
    ready();
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
