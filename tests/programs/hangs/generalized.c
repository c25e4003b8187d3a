/* Rank 0 waits for a generalized request, which the program forgets to complete, before it sends what rank 1 waits for;
 * another request of rank 0's is for rank 1's answer. With "completed" a thread completes it, again and again, and all
 * is well.
 */
#include "hang.h"

#include "../generalized_request.h"

#include <pthread.h>

static void *complete(void *request)
{
    come_late();
    MPI_Grequest_complete(*(MPI_Request *)request);
    return NULL;
}

static void go_on(void)
{
    pthread_t helper;
    MPI_Request work, reply;
    for (int word = 0;;)
        if (rank == 0) {
            MPI_Irecv(&word, 1, MPI_INT, 1, 14, MPI_COMM_WORLD, &reply);
            work = start_generalized();
            pthread_create(&helper, NULL, complete, &(MPI_Request){work});
            MPI_Wait(&work, MPI_STATUS_IGNORE);
            pthread_join(helper, NULL);
            MPI_Send(&word, 1, MPI_INT, 1, 15, MPI_COMM_WORLD);
            MPI_Wait(&reply, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&word, 1, MPI_INT, 0, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_INT, 0, 14, MPI_COMM_WORLD);
        }
}

int main(int argc, char **argv)
{
    int answer = 0, question = 0;
    MPI_Request work, reply;
    begin_with(argc, argv, argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (is("completed")) {
        ready();
        go_on();
    }
    if (rank == 0) {
        MPI_Irecv(&answer, 1, MPI_INT, 1, 14, MPI_COMM_WORLD, &reply);
        work = start_generalized();
    }
    ready();
    if (rank == 0) {
        MPI_Wait(&work, MPI_STATUS_IGNORE);
        MPI_Send(&question, 1, MPI_INT, 1, 15, MPI_COMM_WORLD);
        MPI_Wait(&reply, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&question, 1, MPI_INT, 0, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&answer, 1, MPI_INT, 0, 14, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
