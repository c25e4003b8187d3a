/* Nothing is wrong: all ranks compute, and nothing is pending. */
#include "hang.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    compute();
}
