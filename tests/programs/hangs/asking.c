/* Rank 1 asks again and again by MPI_Test whether rank 0's word is here, whose tag is another one; with the argument
 * "probe" by MPI_Iprobe; with "rests" it sleeps between two questions. Rank 0 waits for rank 1's answer. With
 * "answered" the tag is right, again and again, and all is well.
 */
#include "hang.h"

static void go_on(void)
{
    MPI_Request request;
    for (int word = 0, is_here = 0;; is_here = 0) {
        if (rank == 0) {
            come_late();
            MPI_Send(&word, 1, MPI_INT, 1, 15, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_INT, 1, 16, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(&word, 1, MPI_INT, 0, 15, MPI_COMM_WORLD, &request);
            for (; !is_here; rest())
                MPI_Test(&request, &is_here, MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_INT, 0, 16, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    int word = 0, is_here = 0;
    MPI_Request request;
    begin(argc, argv);
    if (is("answered")) {
        ready();
        go_on();
    }
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 1, 14, MPI_COMM_WORLD);
    else if (!is("probe"))
        MPI_Irecv(&word, 1, MPI_INT, 0, 15, MPI_COMM_WORLD, &request);
    ready();
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 1, 16, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!is_here) {
        if (is("probe"))
            MPI_Iprobe(0, 15, MPI_COMM_WORLD, &is_here, MPI_STATUS_IGNORE);
        else
            MPI_Test(&request, &is_here, MPI_STATUS_IGNORE);
        if (is("rests"))
            usleep(1000);
    }
    MPI_Send(&word, 1, MPI_INT, 0, 16, MPI_COMM_WORLD);
    MPI_Finalize();
}
