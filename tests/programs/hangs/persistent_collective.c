/* All start one persistent MPI_Allreduce in each step; in the third rank 0 waits for rank 1's word first. With "late"
 * it comes late in every step, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Request *request)
{
    for (;;) {
        if (rank == 0)
            come_late();
        MPI_Start(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int mine = 1, sum;
    MPI_Request request;
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (is("late")) {
        ready();
        go_on(&request);
    }
    for (int step = 0; step < 3; step++) {
        if (step == 2)
            ready();
        if (step == 2 && rank == 0)
            MPI_Recv(&mine, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Finalize();
}
