/* Processes that don't meet. With "accept", all wait in MPI_Comm_accept for a client that nobody has started; with
 * "spawn", for a program that never calls MPI_Init; with "leaders", both make an inter-communicator, each with a tag of
 * its own. With "meet" the tag is the same; with "connect" rank 1 is the client; with "spawns" the program calls
 * MPI_Init: again and again, and all is well.
 */
#include "hang.h"

static void meet(void)
{
    for (MPI_Comm other;;) {
        if (rank == 1)
            come_late();
        MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 7, &other);
        MPI_Comm_free(&other);
    }
}

static void connect_to(char *port)
{
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (MPI_Comm other;;) {
        if (rank == 0)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        come_late();
        if (rank == 1)
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Comm_disconnect(&other);
    }
}

static void spawn(char *program)
{
    char *arguments[] = {(char *)directory, "spawned", NULL};
    for (MPI_Comm other;;) {
        MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&other);
    }
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    char *arguments[] = {"100", NULL};
    MPI_Comm other;
    if (argc > 2 && strcmp(argv[2], "spawned") == 0)
        come_late();
    begin(argc, argv);
    if (is("spawned")) {
        MPI_Comm_get_parent(&other);
        MPI_Comm_disconnect(&other);
        MPI_Finalize();
        return 0;
    }
    if (rank == 0 && (is("accept") || is("connect")))
        MPI_Open_port(MPI_INFO_NULL, port);
    ready();
    if (is("meet"))
        meet();
    if (is("connect"))
        connect_to(port);
    if (is("spawns"))
        spawn(argv[0]);
    if (is("accept"))
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    if (is("spawn"))
        MPI_Comm_spawn("sleep", arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    if (is("leaders"))
        MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, rank, &other);
    MPI_Finalize();
}
