/* Preloaded into ranks: an MPI that polls for another rank gives up the processor between two polls, by sched_yield (Open
 * MPI, MPICH 5.0, Intel MPI), which does nothing for as long as others want it less. Here it sleeps. */
#define _DEFAULT_SOURCE /* usleep */
#include <unistd.h>

int sched_yield(void)
{
    return usleep(100);
}
