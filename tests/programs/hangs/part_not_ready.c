/* Rank 0 sends a partitioned message to rank 1, and leaves out MPI_Pready for one of its parts. With "ready" it marks all
 * of them, again and again, and all is well.
 */
#include "hang.h"

enum { PARTS = 4 };

int main(int argc, char **argv)
{
    double field[PARTS] = {0};
    MPI_Request request;
    begin(argc, argv);
    if (rank == 0)
        MPI_Psend_init(field, PARTS, 1, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(field, PARTS, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    ready();
    do {
        MPI_Start(&request);
        for (int part = 0; rank == 0 && part < PARTS; part++)
            if (part != 2 || is("ready"))
                MPI_Pready(part, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        rest();
    } while (is("ready"));
    MPI_Finalize();
}
