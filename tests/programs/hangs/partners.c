/* Processes that don't meet. With "accept", all wait in MPI_Comm_accept for a client that nobody has started; with "spawn",
 * for a program that never calls MPI_Init; with "leaders", both make an inter-communicator, each with a tag of its own.
 */
#include "hang.h"

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    char *arguments[] = {"100", NULL};
    MPI_Comm other;
    begin(argc, argv);
    if (rank == 0 && is("accept"))
        MPI_Open_port(MPI_INFO_NULL, port);
    ready();
    if (is("accept"))
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    if (is("spawn"))
        MPI_Comm_spawn("sleep", arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    if (is("leaders"))
        MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, rank, &other);
    MPI_Finalize();
}
