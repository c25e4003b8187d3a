/* Rank 2 has nothing to write and skips the others' MPI_File_write_at_all, and waits for rank 0's last word. With
 * "late" it makes it, too, late again and again, and all is well.
 */
#include "hang.h"

static void go_on(MPI_File results)
{
    for (int word = 0;;) {
        if (rank == 2)
            come_late();
        MPI_File_write_at_all(results, rank * (MPI_Offset)sizeof word, &word, rank != 2, MPI_INT, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    int word = 0;
    MPI_File results;
    begin(argc, argv);
    snprintf(path, sizeof path, "%s/results", directory);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &results);
    ready();
    if (is("late"))
        go_on(results);
    if (rank != 2)
        MPI_File_write_at_all(results, rank * sizeof word, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 2, 1, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
