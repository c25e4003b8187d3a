/* Nothing is wrong: communicators are made and freed as fast as that goes, so that a sample often meets a rank's list
 * of them half changed. */
#include "hang.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    ready();
    for (;;) {
        MPI_Comm copy, half;
        MPI_Comm_dup(MPI_COMM_SELF, &copy);
        MPI_Comm_split(copy, 0, 0, &half);
        MPI_Comm_free(&copy);
        MPI_Comm_free(&half);
    }
}
