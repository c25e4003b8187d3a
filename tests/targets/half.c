/* Exports one of Open MPI's variables, as a library with hidden symbols might; says "ready" and sleeps. */
#include <unistd.h>

char ompi_mpi_communicators[120];

int main(void)
{
    alarm(120);
    if (write(1, "ready\n", 6) < 0)
        return 1;
    for (;;)
        pause();
}
