/* Two threads of rank 1 each wait for the mutex that the other holds; rank 0 waits for rank 1's word. With "released"
 * they share one mutex, each lets it go again, and all is well.
 */
#include "hang.h"

#include <pthread.h>

static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER, yours = PTHREAD_MUTEX_INITIALIZER;

static void *help(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&yours);
    pthread_mutex_lock(&mine);
    return NULL;
}

static void *share(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&mine);
        come_late();
        pthread_mutex_unlock(&mine);
        usleep(1000);
    }
    return NULL;
}

static void go_on(void)
{
    pthread_t helper;
    if (rank == 1)
        pthread_create(&helper, NULL, share, NULL);
    for (int word = 0;;) {
        if (rank == 1)
            pthread_mutex_lock(&mine);
        if (rank == 1)
            MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            pthread_mutex_unlock(&mine);
    }
}

int main(int argc, char **argv)
{
    int word = 0;
    pthread_t helper;
    begin(argc, argv);
    ready();
    if (is("released"))
        go_on();
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) {
        pthread_mutex_lock(&mine);
        pthread_create(&helper, NULL, help, NULL);
        usleep(100 * 1000);
        pthread_mutex_lock(&yours);
        MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
