/* Preloaded into ranks. An MPI that polls for another rank offers the processor between two polls, by sched_yield (Open
 * MPI, MPICH 5.0, Intel MPI), and often goes on at once, though the other rank is the one that needs it. Here it
 * sleeps. */
#define _DEFAULT_SOURCE /* usleep */
#include <unistd.h>

int sched_yield(void)
{
    return usleep(100);
}
