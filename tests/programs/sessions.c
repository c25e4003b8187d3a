/* A program that never calls MPI_Init: its communicators come from a session (MPI 4). 3 ranks.
 * The shared truth.c needs MPI_COMM_WORLD, which does not exist here, so this program writes its own short truth. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MPI_SESSION_NULL
int main(void)
{
    fprintf(stderr, "this MPI has no sessions\n");
    return 77;
}
#else
enum { ITEMS = 10, POLLS = 500, SECONDS = 600 };

static int items[ITEMS];

static void ready(const char *directory, int rank)
{
    char path[4096], temporary[4096];
    snprintf(path, sizeof path, "%s/truth.%d.1.json", directory, rank);
    snprintf(temporary, sizeof temporary, "%s/unfinished.%d", directory, rank);
    FILE *file = fopen(temporary, "w");
    if (file == NULL)
        exit(1);
    fprintf(file, "{\"pid\": %d, \"receive_buffer\": %lu}\n", (int)getpid(), (unsigned long)items);
    fclose(file);
    rename(temporary, path);
}

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Group world, pair;
    MPI_Comm all, backwards = MPI_COMM_NULL, copy;
    MPI_Request request;
    int rank, flag, ranks[] = {1, 0};
    if (argc < 2)
        return 1;
    alarm(SECONDS);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Comm_create_from_group(world, "all", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Group_incl(world, 2, ranks, &pair);
    if (rank < 2) {
        MPI_Comm_create_from_group(pair, "pair", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &backwards);
        MPI_Comm_set_name(backwards, "backwards");
    }
    MPI_Comm_dup(all, &copy);
    MPI_Comm_set_name(copy, "copy");
    if (rank == 0)
        MPI_Irecv(items, ITEMS, MPI_INT, 1, 5, copy, &request);
    if (rank == 1) {
        MPI_Isend(items, 3, MPI_INT, 0, 6, copy, &request);
        MPI_Isend(items, 4, MPI_INT, 0, 7, all, &request);
        MPI_Isend(items, 5, MPI_INT, 1, 8, backwards, &request);
    }
    for (int i = 0; i < POLLS; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, 99, copy, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    ready(argv[1], rank);
    for (;;)
        pause();
}
#endif
