/* Rank 0 blocks in one MPI call after another, whose arguments it writes down before the first; rank 1 lets it go on to
 * the next one when "go.CALL" appears. Arguments are ints that nobody can know beforehand: from `seed`, which is 1.
 *
 * Both write the truth of phase 1, then rank 0 goes into its first call. 2 ranks. */
#include <stdio.h>
#include <stdlib.h>

#include "truth.h"

enum { LARGE = 1 << 20, MOST = 64 };

static volatile int seed = 1;
static int out[LARGE + MOST], in[2 * LARGE + MOST];
static MPI_Comm comm;
static MPI_Request requests[2];
static MPI_Status statuses[2];

static inline int count_of(int call) { return 3 * call + seed; }
static inline int tag_of(int call) { return 100 * call + 7 * seed; }
static inline int other(void) { return seed; }
static inline int self(void) { return 0 * seed; }

/* ---- what rank 0 is blocked in, and what rank 1 does about it */

#define CALL(name) __attribute__((noinline)) static int blocked_##name(int call)
#define RELEASE(name) static void release_##name(int call)

CALL(recv) { return MPI_Recv(in, count_of(call), MPI_INT, other(), tag_of(call), comm, &statuses[0]) + in[0]; }
RELEASE(recv) { MPI_Send(out, 1, MPI_INT, 0, tag_of(call), comm); }

CALL(ssend) { return MPI_Ssend(out, count_of(call), MPI_INT, other(), tag_of(call), comm) + call; }
RELEASE(ssend) { MPI_Recv(in, MOST * 3, MPI_INT, 0, tag_of(call), comm, MPI_STATUS_IGNORE); }

CALL(recv_any) { return MPI_Recv(in, count_of(call), MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE); }
RELEASE(recv_any) { MPI_Send(out, 1, MPI_INT, 0, tag_of(call), comm); }

CALL(send) { return MPI_Send(out, LARGE + count_of(call), MPI_INT, other(), tag_of(call), comm) + call; }
RELEASE(send) { MPI_Recv(in, LARGE + MOST * 3, MPI_INT, 0, tag_of(call), comm, MPI_STATUS_IGNORE); }

CALL(sendrecv)
{
    return MPI_Sendrecv(out, 1 + count_of(call), MPI_INT, other(), tag_of(call), in, count_of(call), MPI_INT, other(),
                        tag_of(call) + 1, comm, &statuses[0]) + call;
}
RELEASE(sendrecv)
{
    MPI_Recv(in, MOST * 3, MPI_INT, 0, tag_of(call), comm, MPI_STATUS_IGNORE);
    MPI_Send(out, 1, MPI_INT, 0, tag_of(call) + 1, comm);
}

static void post(int call)
{
    MPI_Irecv(in, 1, MPI_INT, 1, tag_of(call), comm, &requests[0]);
    MPI_Irecv(in + 1, 1, MPI_INT, 1, tag_of(call), comm, &requests[1]);
}
static void send_two(int call)
{
    MPI_Send(out, 1, MPI_INT, 0, tag_of(call), comm);
    MPI_Send(out, 1, MPI_INT, 0, tag_of(call), comm);
}

CALL(wait) { post(call); int r = MPI_Wait(&requests[0], &statuses[0]); return r + MPI_Wait(&requests[1], &statuses[0]); }
RELEASE(wait) { send_two(call); }

CALL(probe) { return MPI_Probe(other(), tag_of(call), comm, &statuses[0]) + blocked_recv(call); }
RELEASE(probe) { MPI_Send(out, 1, MPI_INT, 0, tag_of(call), comm); }

CALL(waitall) { post(call); return MPI_Waitall(1 + seed, requests, statuses) + call; }
RELEASE(waitall) { send_two(call); }

CALL(mprobe)
{
    MPI_Message message;
    int r = MPI_Mprobe(other(), tag_of(call), comm, &message, &statuses[0]);
    return r + MPI_Mrecv(in, 1, MPI_INT, &message, &statuses[0]);
}
RELEASE(mprobe) { MPI_Send(out, 1, MPI_INT, 0, tag_of(call), comm); }

CALL(waitany)
{
    int which;
    post(call);
    int r = MPI_Waitany(1 + seed, requests, &which, &statuses[0]);
    return r + MPI_Wait(&requests[1 - which], &statuses[0]);
}
RELEASE(waitany) { send_two(call); }

CALL(waitsome)
{
    int done, which[2];
    post(call);
    int r = MPI_Waitsome(1 + seed, requests, &done, which, statuses);
    return r + MPI_Waitall(1 + seed, requests, statuses);
}
RELEASE(waitsome) { send_two(call); }

#define TOGETHER(name, ...) \
    CALL(name) { (void)call; return __VA_ARGS__; } \
    RELEASE(name) { (void)call; (void)(__VA_ARGS__); }

TOGETHER(barrier, MPI_Barrier(comm))
TOGETHER(bcast, MPI_Bcast(in, count_of(call), MPI_INT, other(), comm) + call)
TOGETHER(reduce, MPI_Reduce(out, in, count_of(call), MPI_INT, MPI_SUM, self(), comm) + call)
TOGETHER(allreduce, MPI_Allreduce(out, in, count_of(call), MPI_INT, MPI_MAX, comm) + call)
TOGETHER(gather, MPI_Gather(out, count_of(call), MPI_INT, in, count_of(call), MPI_INT, self(), comm) + call)
TOGETHER(scatter, MPI_Scatter(out, count_of(call), MPI_INT, in, count_of(call), MPI_INT, other(), comm) + call)
TOGETHER(alltoall, MPI_Alltoall(out, count_of(call), MPI_INT, in, count_of(call), MPI_INT, comm) + call)
TOGETHER(allgather, MPI_Allgather(out, count_of(call), MPI_INT, in, count_of(call), MPI_INT, comm) + call)

CALL(comm_split)
{
    MPI_Comm made;
    int r = MPI_Comm_split(comm, seed, count_of(call), &made);
    return r + MPI_Comm_free(&made);
}
RELEASE(comm_split) { blocked_comm_split(call); }

CALL(comm_dup)
{
    MPI_Comm made;
    int r = MPI_Comm_dup(comm, &made);
    return r + MPI_Comm_free(&made) + call;
}
RELEASE(comm_dup) { blocked_comm_dup(call); }

/* ---- what is true of them */

static unsigned long handle_of(const void *handle, size_t size)
{
    return size == 4 ? *(const unsigned *)handle : *(const unsigned long *)handle;
}


static FILE *file;
static int call_written;

static void begin_call(const char *name)
{
    fprintf(file, "%s{\"call\": \"%s\"", call_written++ ? ",\n" : "", name);
}

static void number(const char *name, long value) { fprintf(file, ", \"%s\": %ld", name, value); }
static void handle(const char *name, unsigned long value) { fprintf(file, ", \"%s\": %lu", name, value); }
static void end_call(void) { fprintf(file, "}"); }

#define H(x) handle_of(&(x), sizeof (x))

static void message(const char *call_name, int call, const void *buffer, int more, const char *peer_name, int peer, int tag)
{
    begin_call(call_name);
    number("buf", (long)buffer);
    number("count", more + count_of(call));
    MPI_Datatype type = MPI_INT;
    handle("datatype", H(type));
    number(peer_name, peer);
    number("tag", tag);
    handle("comm", H(comm));
}

static void probe(const char *name, int call)
{
    begin_call(name);
    number("source", 1);
    number("tag", tag_of(call));
    handle("comm", H(comm));
    number("status", (long)&statuses[0]);
    end_call();
}

static void waiting(const char *name)
{
    begin_call(name);
    number(name[8] == 's' ? "incount" : "count", 2);
    number("array_of_requests", (long)requests);
    end_call();
}

static void collective(const char *name, int call, int root, int has_two_types)
{
    MPI_Datatype type = MPI_INT;
    begin_call(name);
    if (has_two_types) {
        number("sendbuf", (long)out);
        number("sendcount", count_of(call));
        handle("sendtype", H(type));
        number("recvbuf", (long)in);
        number("recvcount", count_of(call));
        handle("recvtype", H(type));
    } else {
        number("count", count_of(call));
        handle("datatype", H(type));
    }
    if (root >= 0)
        number("root", root);
    handle("comm", H(comm));
}

struct entry {
    int (*blocked)(int);
    void (*release)(int);
};

#define ENTRY(name) {blocked_##name, release_##name}

static const struct entry entries[] = {
    ENTRY(recv),    ENTRY(ssend),    ENTRY(recv_any), ENTRY(send),      ENTRY(sendrecv), ENTRY(wait),
    ENTRY(probe),   ENTRY(waitall),  ENTRY(mprobe),   ENTRY(waitany),   ENTRY(waitsome), ENTRY(barrier),
    ENTRY(bcast),   ENTRY(reduce),   ENTRY(gather),   ENTRY(allreduce), ENTRY(scatter),  ENTRY(alltoall),
    ENTRY(allgather), ENTRY(comm_split), ENTRY(comm_dup),
};
enum { CALLS = sizeof entries / sizeof entries[0] };

static void write_down(void)
{
    char path[4096];
    int call = 0;
    MPI_Op sum = MPI_SUM, max = MPI_MAX;
    MPI_Datatype type = MPI_INT;
    snprintf(path, sizeof path, "%s/arguments.json", job_directory);
    file = fopen(path, "w");
    if (!file)
        exit(1);
    fprintf(file, "[");
    message("MPI_Recv", call, in, 0, "source", 1, tag_of(call)), number("status", (long)&statuses[0]), end_call(), call++;
    message("MPI_Ssend", call, out, 0, "dest", 1, tag_of(call)), end_call(), call++;
    message("MPI_Recv", call, in, 0, "source", MPI_ANY_SOURCE, MPI_ANY_TAG);
    number("status", (long)MPI_STATUS_IGNORE), end_call(), call++;
    message("MPI_Send", call, out, LARGE, "dest", 1, tag_of(call)), end_call(), call++;
    begin_call("MPI_Sendrecv");
    number("sendbuf", (long)out), number("sendcount", 1 + count_of(call)), handle("sendtype", H(type)), number("dest", 1);
    number("sendtag", tag_of(call)), number("recvbuf", (long)in), number("recvcount", count_of(call));
    handle("recvtype", H(type)), number("source", 1), number("recvtag", tag_of(call) + 1), handle("comm", H(comm));
    number("status", (long)&statuses[0]), end_call(), call++;
    begin_call("MPI_Wait"), number("request", (long)&requests[0]), number("status", (long)&statuses[0]), end_call(), call++;
    probe("MPI_Probe", call), call++;
    waiting("MPI_Waitall"), call++;
    probe("MPI_Mprobe", call), call++;
    waiting("MPI_Waitany"), call++;
    waiting("MPI_Waitsome"), call++;
    begin_call("MPI_Barrier"), handle("comm", H(comm)), end_call(), call++;
    collective("MPI_Bcast", call, 1, 0), number("buffer", (long)in), end_call(), call++;
    collective("MPI_Reduce", call, 0, 0), number("sendbuf", (long)out), number("recvbuf", (long)in);
    handle("op", H(sum)), end_call(), call++;
    collective("MPI_Gather", call, 0, 1), end_call(), call++;
    collective("MPI_Allreduce", call, -1, 0), number("sendbuf", (long)out), number("recvbuf", (long)in);
    handle("op", H(max)), end_call(), call++;
    collective("MPI_Scatter", call, 1, 1), end_call(), call++;
    collective("MPI_Alltoall", call, -1, 1), end_call(), call++;
    collective("MPI_Allgather", call, -1, 1), end_call(), call++;
    begin_call("MPI_Comm_split"), handle("comm", H(comm)), number("color", 1), number("key", count_of(call)), end_call();
    call++;
    begin_call("MPI_Comm_dup"), handle("comm", H(comm)), end_call(), call++;
    fprintf(file, "]\n");
    if (call != CALLS || fclose(file))
        exit(1);
}

int main(int argc, char **argv)
{
    char word[16];
    truth_begin(&argc, &argv, "arguments", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (world_rank == 0)
        write_down();
    truth_write(1);
    for (int call = 0; call < CALLS; call++) {
        if (world_rank == 0) {
            entries[call].blocked(call);
        } else {
            snprintf(word, sizeof word, "go.%d", call);
            wait_for(word);
            entries[call].release(call);
        }
    }
    MPI_Finalize();
    return 0;
}
