/* Two processes spawn two more; parents and children then have traffic with each other. 2 ranks. */
#include "truth.h"

enum { CHILDREN = 2, MIDDLE = 1000 };

static unsigned char message[MIDDLE];
static int numbers[4];
static MPI_Comm merged;

static void parent(char *program)
{
    MPI_Comm children;
    char *arguments[] = {(char *)job_directory, NULL};
    MPI_Comm_spawn(program, arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    truth_communicator("spawned", children);
    MPI_Intercomm_merge(children, 0, &merged);
    truth_communicator("merged", merged);
    MPI_Barrier(merged);
    if (world_rank == 0) {
        post_irecv(numbers, 4, MPI_INT, 1, 5, children);
        post_irecv(numbers, 4, MPI_INT, MPI_ANY_SOURCE, 6, merged);
    } else {
        post_issend(message, MIDDLE, MPI_BYTE, 1, 7, children);
        truth_unexpected(2, 8, MIDDLE, SYNCHRONOUS, merged);
    }
}

static void child(MPI_Comm parents)
{
    truth_communicator("spawned", parents);
    if (world_rank == 1)
        truth_set_name(parents, "my parents");
    MPI_Intercomm_merge(parents, 1, &merged);
    truth_communicator("merged", merged);
    MPI_Barrier(merged);
    if (world_rank == 0) {
        post_irecv(numbers, 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, parents);
        post_issend(message, MIDDLE, MPI_BYTE, 1, 8, merged);
    } else {
        truth_unexpected(1, 7, MIDDLE, SYNCHRONOUS, parents);
        post_irecv(numbers, 4, MPI_INT, 1, 9, merged);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parents;
    truth_begin(&argc, &argv, "spawn", MPI_THREAD_SINGLE);
    MPI_Comm_get_parent(&parents);
    if (parents == MPI_COMM_NULL)
        parent(argv[0]);
    else
        child(parents);
    settle();
    leave_together("arrived", merged);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
