/* Each rank sits in another MPI call, which a function of known name made. 5 ranks; 1 rank with the argument "threads",
 * whose main thread computes while another thread is in MPI, "starting", which starts one thread after the other, or
 * "waitall". */
#include "hangs/hang.h"

#include <pthread.h>

enum { NEVER_SENT = 70, NEVER_RECEIVED, TAGS = 30000 };

static int values[8];

__attribute__((noinline)) static int receive(void)
{
    int error = MPI_Recv(values, 8, MPI_INT, MPI_ANY_SOURCE, NEVER_SENT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return error + values[0];
}

__attribute__((noinline)) static int wait_for_all(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(values, 4, MPI_INT, 0, NEVER_SENT, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(values + 4, 4, MPI_INT, 0, NEVER_SENT, MPI_COMM_WORLD, &requests[1]);
    int error = MPI_Waitall(2, requests, statuses);
    return error + values[0];
}

__attribute__((noinline)) static int send(void)
{
    int error = MPI_Ssend(values, 1, MPI_INT, 0, NEVER_RECEIVED, MPI_COMM_WORLD);
    return error + values[0];
}

__attribute__((noinline)) static int meet(void)
{
    int error = MPI_Barrier(MPI_COMM_WORLD);
    return error + values[0];
}

/* Goes on forever; what distinguishes one turn from the next is a local variable alone. */
__attribute__((noinline)) static int turn(void)
{
    int sum = 0;
    for (int step = 0; values[0] >= 0; step = (step + 1) % TAGS)
        sum += MPI_Sendrecv_replace(values, 1, MPI_INT, 0, step, 0, step, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return sum;
}

static void *receive_in_thread(void *unused)
{
    values[1] = receive();
    return unused;
}

static int with_threads(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, receive_in_thread, NULL);
    ready();
    compute();
    return 0;
}

static void *end_at_once(void *unused)
{
    return unused;
}

__attribute__((noinline)) static int start(void)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, end_at_once, NULL);
    return error ? error : pthread_join(thread, NULL);
}

static int starting(void)
{
    ready();
    while (start() == 0)
        continue;
    return 1;
}

int main(int argc, char **argv)
{
    static int (*const block[])(void) = {receive, wait_for_all, send, meet, turn};
    int provided;
    alarm(TIME_LIMIT_SECONDS);
    directory = argc > 1 ? argv[1] : ".";
    variant = argc > 2 ? argv[2] : "";
    MPI_Init_thread(&argc, &argv, is("threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is("threads"))
        return with_threads();
    if (is("starting"))
        return starting();
    ready();
    return is("waitall") ? wait_for_all() : block[rank]();
}
