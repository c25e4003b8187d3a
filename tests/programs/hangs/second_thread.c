/* Rank 0 waits for rank 1, which waits for what rank 0's second thread will send, once it has done its work; with the
 * argument "receives", once rank 2 has done its work and sent it a word; with "stuck", once rank 1 has sent it another.
 * With "sends" that thread does so again and again, and all is well.
 */
#include "hang.h"

#include <pthread.h>

static void *help(void *unused)
{
    int word = 0;
    (void)unused;
    if (is("receives"))
        MPI_Recv(&word, 1, MPI_INT, 2, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (is("stuck"))
        MPI_Recv(&word, 1, MPI_INT, 1, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        compute();
    MPI_Send(&word, 1, MPI_INT, 1, 16, MPI_COMM_WORLD);
    return NULL;
}

static void *send_on(void *unused)
{
    (void)unused;
    for (int word = 0;;) {
        come_late();
        MPI_Send(&word, 1, MPI_INT, 1, 16, MPI_COMM_WORLD);
    }
    return NULL;
}

static void go_on(void)
{
    pthread_t helper;
    if (rank == 0)
        pthread_create(&helper, NULL, send_on, NULL);
    for (int word = 0; rank != 2;)
        if (rank == 0) {
            MPI_Recv(&word, 1, MPI_INT, 1, 17, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&word, 1, MPI_INT, 0, 16, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_INT, 0, 17, MPI_COMM_WORLD);
        }
}

int main(int argc, char **argv)
{
    int word = 0;
    pthread_t helper;
    begin_with(argc, argv, MPI_THREAD_MULTIPLE);
    if (is("sends")) {
        ready();
        go_on();
    }
    if (rank == 0)
        pthread_create(&helper, NULL, help, NULL);
    ready();
    if (rank == 0) {
        MPI_Recv(&word, 1, MPI_INT, 1, 17, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_join(helper, NULL);
    } else if (rank == 1) {
        MPI_Recv(&word, 1, MPI_INT, 0, 16, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, 0, 17, MPI_COMM_WORLD);
        MPI_Send(&word, 1, MPI_INT, 0, 15, MPI_COMM_WORLD);
    } else {
        compute();
        MPI_Send(&word, 1, MPI_INT, 0, 14, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
