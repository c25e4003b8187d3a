/* Ranks 0 to 2 begin a third nonblocking barrier on "work comm" and wait for it; rank 3 leaves it out, and waits for
 * rank 0's last word. With "late" it makes it, too, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_Comm work)
{
    for (MPI_Request request;;) {
        if (rank == 3)
            come_late();
        MPI_Ibarrier(work, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm work;
    MPI_Request request;
    int word = 0;
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &work);
    MPI_Comm_set_name(work, "work comm");
    if (is("late")) {
        ready();
        go_on(work);
    }
    for (int step = 0; step < 3; ++step) {
        if (step == 2)
            ready();
        if (step == 2 && rank == 3)
            MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Ibarrier(work, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 3, 5, MPI_COMM_WORLD);
    MPI_Finalize();
}
