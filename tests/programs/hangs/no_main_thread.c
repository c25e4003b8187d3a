/* Rank 0 waits for a word that rank 1's second thread will send, once it has done its work; rank 1's main thread has ended
 * by pthread_exit.
 */
#include "hang.h"

#include <pthread.h>

static void *help(void *unused)
{
    int word = 0;
    (void)unused;
    compute();
    MPI_Send(&word, 1, MPI_INT, 0, 14, MPI_COMM_WORLD);
    MPI_Finalize();
    exit(0);
}

int main(int argc, char **argv)
{
    int word = 0;
    pthread_t helper;
    begin_with(argc, argv, MPI_THREAD_MULTIPLE);
    ready();
    if (rank == 1) {
        pthread_create(&helper, NULL, help, NULL);
        pthread_exit(NULL);
    }
    MPI_Recv(&word, 1, MPI_INT, 1, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
