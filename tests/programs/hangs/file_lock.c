/* Rank 0 has locked a file and waits for rank 1's word; rank 1 wants the same lock before it says anything, by flock(2)
 * or ("fcntl") by fcntl(2). With "released" each lets it go again, and all is well.
 */
#include "hang.h"

#include <fcntl.h>
#include <sys/file.h>

static void lock(int file)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if ((is("fcntl") ? fcntl(file, F_SETLKW, &whole) : flock(file, LOCK_EX)) != 0)
        exit(1);
}

static void go_on(int file)
{
    for (int word = 0;;) {
        lock(file);
        come_late();
        flock(file, LOCK_UN);
        if (rank == 0)
            MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    int word = 0;
    begin(argc, argv);
    snprintf(path, sizeof path, "%s/lock", directory);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (rank == 0)
        lock(file);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (is("released"))
        go_on(file);
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) {
        lock(file);
        MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
