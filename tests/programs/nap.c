/* Preloaded into ranks. An MPI that polls for another rank offers the processor between two polls, by sched_yield (Open
 * MPI, MPICH 5.0, Intel MPI), and often goes on at once, though the other rank is the one that needs it. Here it
 * sleeps, as MPICH does itself where it is asked to; and all that sleep take their time. */
#define _DEFAULT_SOURCE /* usleep */
#include <sys/prctl.h>
#include <unistd.h>

enum { SLACK_NANOSECONDS = 400000 };

#ifndef MICROSECONDS
#define MICROSECONDS 100 /* longer where timers are dear: on an emulated machine */
#endif

__attribute__((constructor)) static void take_time(void)
{
    prctl(PR_SET_TIMERSLACK, SLACK_NANOSECONDS);
}

int sched_yield(void)
{
    return usleep(MICROSECONDS);
}
