#define _GNU_SOURCE /* nanosleep, alarm */
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    TIME_LIMIT_SECONDS = 300,
    MAX_COMMUNICATORS = 1100,
    MAX_OPERATIONS = 20100,
    MAX_COLLECTIVES = 32,
    MAX_WINDOWS = 8,
    MAX_RANKS = 192,
    NEVER_SENT = 32766, /* a tag */
};

static const double SETTLE_SECONDS = 0.3;
static const long POLL_NANOSECONDS = 1000000;

struct group {
    int size;
    int world_ranks[MAX_RANKS];
};

struct communicator {
    char key[32];
    MPI_Comm comm;
    unsigned long handle;
    int freed;
    char name[4 * MPI_MAX_OBJECT_NAME];
    int name_length;
    int name_set; /* by the program; an MPI may describe others in words of its own */
    int rank;
    struct group local;
    int inter;
    struct group remote;
    int last_probed;
};

struct collective {
    char communicator[32];
    const char *call;
    int entered;
    int blocking;
};

struct window {
    char key[32];
    MPI_Win window;
};

int world_rank, world_size;
const char *job_directory;

static const char *program_name;
static struct communicator communicators[MAX_COMMUNICATORS];
static int communicator_count;
static struct operation operations[MAX_OPERATIONS];
static int operation_count;
static struct collective collectives[MAX_COLLECTIVES];
static int collective_count;
static struct window windows[MAX_WINDOWS];
static int window_count;
static const char *internal_traffic;
static int in_turn;

static _Noreturn void give_up(const char *why)
{
    fprintf(stderr, "%s: rank %d: %s\n", program_name, world_rank, why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

/* ------------------------------------------------------------------ communicators, windows */

static unsigned long handle_value(const void *handle, size_t size)
{
    unsigned long value = 0; /* MPI handles are ints in some MPIs, pointers in others */
    memcpy(&value, handle, size);
    return value;
}

static struct communicator *find_communicator(MPI_Comm comm)
{
    for (int i = 0; i < communicator_count; i++)
        if (!communicators[i].freed && communicators[i].comm == comm)
            return &communicators[i];
    give_up("an operation on a communicator that was not written down");
}

static void read_group(struct group *result, MPI_Group group)
{
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, &result->size);
    if (result->size > MAX_RANKS)
        give_up("a group with too many ranks");
    int ranks[MAX_RANKS];
    for (int i = 0; i < result->size; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(group, result->size, ranks, world, result->world_ranks);
    for (int i = 0; i < result->size; i++)
        if (result->world_ranks[i] == MPI_UNDEFINED)
            result->world_ranks[i] = -1;
    MPI_Group_free(&world);
}

static void read_communicator(struct communicator *c)
{
    MPI_Group group;
    c->handle = handle_value(&c->comm, sizeof c->comm);
    MPI_Comm_get_name(c->comm, c->name, &c->name_length);
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_group(c->comm, &group);
    read_group(&c->local, group);
    MPI_Group_free(&group);
    MPI_Comm_test_inter(c->comm, &c->inter);
    if (c->inter) {
        MPI_Comm_remote_group(c->comm, &group);
        read_group(&c->remote, group);
        MPI_Group_free(&group);
    }
}

void truth_communicator(const char *key, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        return;
    if (communicator_count == MAX_COMMUNICATORS)
        give_up("too many communicators");
    struct communicator *c = &communicators[communicator_count++];
    *c = (struct communicator){.comm = comm, .last_probed = -1}; /* there may have been another one before */
    snprintf(c->key, sizeof c->key, "%s", key);
    read_communicator(c);
}

void truth_set_name(MPI_Comm comm, const char *name)
{
    find_communicator(comm)->name_set = 1;
    MPI_Comm_set_name(comm, (char *)name);
}

void truth_free_communicator(MPI_Comm *comm)
{
    struct communicator *c = find_communicator(*comm);
    read_communicator(c);
    c->freed = 1;
    MPI_Comm_free(comm);
}

void truth_end_communicator(MPI_Comm *comm)
{
    *find_communicator(*comm) = communicators[--communicator_count];
    MPI_Comm_free(comm);
}

void truth_last_probed(MPI_Comm comm, int source)
{
    find_communicator(comm)->last_probed = source;
}

void truth_window(const char *key, MPI_Win window)
{
    if (window_count == MAX_WINDOWS)
        give_up("too many windows");
    struct window *w = &windows[window_count++];
    snprintf(w->key, sizeof w->key, "%s", key);
    w->window = window;
}

/* ------------------------------------------------------------------ operations */

static int world_rank_of(const struct communicator *c, int peer)
{
    const struct group *peers = c->inter ? &c->remote : &c->local;
    return peer < 0 ? -1 : peers->world_ranks[peer];
}

static struct operation *new_operation(enum queue queue, const char *call, int peer, int tag, MPI_Comm comm)
{
    if (operation_count == MAX_OPERATIONS)
        give_up("too many operations");
    struct communicator *c = find_communicator(comm);
    struct operation *o = &operations[operation_count++];
    memset(o, 0, sizeof *o);
    snprintf(o->communicator, sizeof o->communicator, "%s", c->key);
    o->queue = queue;
    o->call = call;
    o->status = "pending";
    o->peer = peer == MPI_ANY_SOURCE ? -1 : peer;
    o->world_peer = world_rank_of(c, o->peer);
    o->tag = tag == MPI_ANY_TAG ? -1 : tag;
    o->comm = comm;
    o->handle = MPI_REQUEST_NULL;
    o->done = -1;
    o->pattern = -1;
    o->actual_peer = o->actual_world_peer = o->actual_tag = -1;
    o->actual_bytes = -1;
    return o;
}

struct operation *truth_operation(enum queue queue, const char *call, const void *buffer, int count, MPI_Datatype type,
                                  int peer, int tag, MPI_Comm comm)
{
    struct operation *o = new_operation(queue, call, peer, tag, comm);
    MPI_Aint extent;
    int length;
    o->buffer = buffer;
    MPI_Type_get_true_extent(type, &o->gap, &extent);
    o->count = count;
    MPI_Type_size(type, &o->datatype_size);
    MPI_Type_get_name(type, o->datatype, &length);
    o->bytes = (size_t)count * (size_t)o->datatype_size;
    return o;
}

/* Since MPICH 4.2, and in Intel MPI, a persistent request that is done is over once MPI_Request_get_status has said so,
 * against the standard: it calls MPIR_Test (src/binding/c/request_api.txt of 4.2.3). */
static int is_ended_by_asking(const char *call)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, major, minor;
    if (strstr(call, "_init") == NULL)
        return 0;
    MPI_Get_library_version(version, &length);
    if (sscanf(version, "MPICH Version: %d.%d", &major, &minor) == 2)
        return major > 4 || (major == 4 && minor >= 2);
    return strncmp(version, "Intel", strlen("Intel")) == 0;
}

void truth_request(struct operation *operation, MPI_Request request)
{
    if (!is_ended_by_asking(operation->call))
        operation->handle = request;
    else if (strcmp(operation->call, "MPI_Send_init") == 0)
        operation->status = ""; /* nobody knows when its data have left */
    operation->request = handle_value(&request, sizeof request);
}

void truth_free_request(struct operation *operation)
{
    operation->freed = 1;
    MPI_Request_free(&operation->handle); /* leaves MPI_REQUEST_NULL */
}

struct operation *post_irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm)
{
    MPI_Request request;
    struct operation *o = truth_operation(RECEIVES, "MPI_Irecv", buffer, count, type, source, tag, comm);
    MPI_Irecv(buffer, count, type, source, tag, comm, &request);
    truth_request(o, request);
    return o;
}

struct operation *post_isend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
    MPI_Request request;
    struct operation *o = truth_operation(SENDS, "MPI_Isend", buffer, count, type, destination, tag, comm);
    MPI_Isend(buffer, count, type, destination, tag, comm, &request);
    truth_request(o, request);
    return o;
}

struct operation *post_issend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm)
{
    MPI_Request request;
    struct operation *o = truth_operation(SENDS, "MPI_Issend", buffer, count, type, destination, tag, comm);
    MPI_Issend(buffer, count, type, destination, tag, comm, &request);
    truth_request(o, request);
    return o;
}

void truth_matched(struct operation *operation, int source, int tag, long bytes)
{
    operation->status = "matched";
    operation->actual_peer = source;
    operation->actual_world_peer = world_rank_of(find_communicator(operation->comm), source);
    operation->actual_tag = tag;
    operation->actual_bytes = bytes;
}

struct operation *truth_unexpected(int source, int tag, size_t bytes, enum protocol protocol, MPI_Comm comm)
{
    static const char *const status[] = {"complete", "pending", ""};
    struct operation *o = new_operation(UNEXPECTED, "", source, tag, comm);
    o->status = status[protocol];
    o->bytes = bytes;
    o->count = -1;
    if (o > operations && o[-1].queue == UNEXPECTED && o[-1].comm == comm && o[-1].peer == source)
        o[-1].followed = 1;
    return o;
}

void truth_collective(const char *call, MPI_Comm comm, int entered, int blocking)
{
    if (collective_count == MAX_COLLECTIVES)
        give_up("too many collectives");
    struct collective *c = &collectives[collective_count++];
    snprintf(c->communicator, sizeof c->communicator, "%s", find_communicator(comm)->key);
    c->call = call;
    c->entered = entered;
    c->blocking = blocking;
}

void truth_internal_traffic(const char *call)
{
    internal_traffic = call;
}

void truth_overwritten(void)
{
    for (int i = 0; i < operation_count; i++)
        operations[i].overwritten = operations[i].queue == SENDS;
}

void truth_in_turn(void)
{
    in_turn = 1;
}

int truth_may_cancel(void)
{
    return getenv("TRUTH_NEVER_CANCELS") == NULL;
}

/* ------------------------------------------------------------------ time */

static void sleep_briefly(void)
{
    struct timespec pause = {0, POLL_NANOSECONDS};
    nanosleep(&pause, NULL);
}

/* A probe that finds nothing makes the whole library progress and changes nothing. One on MPI_COMM_SELF makes none in
 * MPICH. */
static void make_progress(void)
{
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, NEVER_SENT, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    sleep_briefly();
}

static void ask_whether_done(struct operation *o)
{
    MPI_Status status;
    if (o->handle != MPI_REQUEST_NULL)
        MPI_Request_get_status(o->handle, &o->done, &status);
}

static int is_done_at_once(const struct operation *o)
{
    return strcmp(o->status, "complete") == 0 && (o->queue != SENDS || getenv("TRUTH_SENDS_WAIT") == NULL);
}

static int has_arrived(struct operation *o)
{
    int flag = 1;
    if (o->queue == UNEXPECTED && !o->followed) {
        MPI_Iprobe(o->peer, o->tag, o->comm, &flag, MPI_STATUS_IGNORE);
    } else if (is_done_at_once(o)) {
        ask_whether_done(o);
        flag = o->done;
    }
    return flag;
}

/* What has arrived stays: nothing is asked for twice. */
static int all_has_arrived(void)
{
    static int arrived;
    while (arrived < operation_count && has_arrived(&operations[arrived]))
        arrived++;
    return arrived == operation_count;
}

static void ask_about_all(void)
{
    for (int i = 0; i < operation_count; i++)
        ask_whether_done(&operations[i]);
}

void settle(void)
{
    while (!all_has_arrived())
        sleep_briefly();
    for (double end = MPI_Wtime() + SETTLE_SECONDS; MPI_Wtime() < end;)
        make_progress();
    ask_about_all();
}

static void signal_path(char *path, size_t size, const char *word)
{
    snprintf(path, size, "%s/%s", job_directory, word);
}

void say(const char *word)
{
    char path[1024];
    signal_path(path, sizeof path, word);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        give_up("can't write into the job's directory");
    fclose(file);
}

void wait_for(const char *word)
{
    char path[1024];
    signal_path(path, sizeof path, word);
    while (access(path, F_OK) != 0)
        sleep_briefly();
}

void progress_until(const char *word)
{
    char path[1024];
    signal_path(path, sizeof path, word);
    while (access(path, F_OK) != 0)
        make_progress();
}

void leave_together(const char *word, MPI_Comm comm)
{
    char name[64];
    int rank, size, others, inter;
    MPI_Barrier(comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_test_inter(comm, &inter);
    if (inter)
        give_up("the ranks of an inter-communicator have no common numbers");
    snprintf(name, sizeof name, "%s.%d", word, rank);
    say(name);
    for (others = 0; others < size; others++) {
        snprintf(name, sizeof name, "%s.%d", word, others);
        progress_until(name);
    }
    ask_about_all(); /* a large send may have ended since it settled */
}

void sleep_until_phase(int phase)
{
    char word[32];
    snprintf(word, sizeof word, "go.%d", phase);
    wait_for(word);
}

/* ------------------------------------------------------------------ the file */

static void write_string(FILE *out, const char *field, const char *value)
{
    fprintf(out, "\"%s\": \"%s\", ", field, value);
}

/* Names are bytes in any encoding: they are written in hexadecimal. */
static void write_bytes(FILE *out, const char *field, const char *bytes, int length)
{
    fprintf(out, "\"%s\": \"", field);
    for (int i = 0; i < length; i++)
        fprintf(out, "%02x", (unsigned char)bytes[i]);
    fprintf(out, "\", ");
}

static void write_group(FILE *out, const char *field, const struct group *group)
{
    fprintf(out, "\"%s\": [", field);
    for (int i = 0; i < group->size; i++)
        fprintf(out, "%s%d", i ? ", " : "", group->world_ranks[i]);
    fprintf(out, "], ");
}

static void write_communicator(FILE *out, struct communicator *c)
{
    if (!c->freed)
        read_communicator(c);
    fprintf(out, "{");
    write_string(out, "key", c->key);
    write_bytes(out, "name", c->name, c->name_length);
    write_group(out, "group", &c->local);
    if (c->inter)
        write_group(out, "remote_group", &c->remote);
    fprintf(out, "\"name_set\": %s, \"freed\": %s, \"rank\": %d, \"last_probed\": %d, \"handle\": %lu}",
            c->name_set ? "true" : "false", c->freed ? "true" : "false", c->rank, c->last_probed, c->handle);
}

static void write_operation(FILE *out, const struct operation *o)
{
    static const char *const queues[] = {"sends", "receives", "unexpected"};
    fprintf(out, "{");
    write_string(out, "communicator", o->communicator);
    write_string(out, "queue", queues[o->queue]);
    write_string(out, "call", o->call);
    write_string(out, "status", o->status);
    write_bytes(out, "datatype", o->datatype, (int)strlen(o->datatype));
    fprintf(out, "\"optional\": %s, \"freed\": %s, \"late\": %s, \"overwritten\": %s, \"done\": %d, ",
            o->optional ? "true" : "false", o->freed ? "true" : "false", o->late ? "true" : "false",
            o->overwritten ? "true" : "false", o->done);
    fprintf(out, "\"peer\": %d, \"world_peer\": %d, \"tag\": %d, \"length\": %zu, ", o->peer, o->world_peer, o->tag,
            o->bytes);
    fprintf(out, "\"buffer\": %lu, \"gap\": %ld, ", (unsigned long)o->buffer, (long)o->gap);
    fprintf(out, "\"datatype_size\": %d, \"count\": %d, \"request\": %lu, \"pattern\": %d, ", o->datatype_size,
            o->count, o->request, o->pattern);
    fprintf(out, "\"actual_peer\": %d, \"actual_world_peer\": %d, \"actual_tag\": %d, \"actual_length\": %ld}",
            o->actual_peer, o->actual_world_peer, o->actual_tag, o->actual_bytes);
}

static void write_collective(FILE *out, const struct collective *c)
{
    fprintf(out, "{");
    write_string(out, "communicator", c->communicator);
    write_string(out, "call", c->call);
    fprintf(out, "\"entered\": %s, \"blocking\": %s}", c->entered ? "true" : "false", c->blocking ? "true" : "false");
}

static void write_window(FILE *out, const struct window *w)
{
    char name[4 * MPI_MAX_OBJECT_NAME];
    int length, size;
    MPI_Group group;
    MPI_Win_get_name(w->window, name, &length);
    MPI_Win_get_group(w->window, &group);
    MPI_Group_size(group, &size);
    MPI_Group_free(&group);
    fprintf(out, "{");
    write_string(out, "key", w->key);
    write_bytes(out, "name", name, length);
    fprintf(out, "\"size\": %d, \"handle\": %lu}", size, handle_value(&w->window, sizeof w->window));
}

/* MPI's own name, on one line and without quotes. */
static void write_library_version(FILE *out)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    for (char *c = version; *c != '\0'; c++)
        if (*c < ' ' || *c == '"' || *c == '\\')
            *c = ' ';
    write_string(out, "library_version", version);
}

static void separate(FILE *out, int index)
{
    fprintf(out, index ? ",\n    " : "\n    ");
}

static void write_document(FILE *out, int phase)
{
    fprintf(out, "{");
    write_string(out, "program", program_name);
    write_library_version(out);
    fprintf(out, "\"phase\": %d, \"pid\": %ld, \"world_rank\": %d, \"world_size\": %d, ", phase, (long)getpid(),
            world_rank, world_size);
    fprintf(out, "\"internal_traffic\": \"%s\", \"in_turn\": %s,\n  \"communicators\": [",
            internal_traffic ? internal_traffic : "", in_turn ? "true" : "false");
    for (int i = 0; i < communicator_count; i++) {
        separate(out, i);
        write_communicator(out, &communicators[i]);
    }
    fprintf(out, "],\n  \"operations\": [");
    for (int i = 0; i < operation_count; i++) {
        separate(out, i);
        write_operation(out, &operations[i]);
    }
    fprintf(out, "],\n  \"collectives\": [");
    for (int i = 0; i < collective_count; i++) {
        separate(out, i);
        write_collective(out, &collectives[i]);
    }
    fprintf(out, "],\n  \"windows\": [");
    for (int i = 0; i < window_count; i++) {
        separate(out, i);
        write_window(out, &windows[i]);
    }
    fprintf(out, "]}\n");
}

void truth_write(int phase)
{
    char path[1024], unfinished[1100];
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    snprintf(path, sizeof path, "%s/truth.%s%d.%d.json", job_directory, parent == MPI_COMM_NULL ? "" : "child-",
             world_rank, phase);
    snprintf(unfinished, sizeof unfinished, "%s.unfinished", path);
    FILE *out = fopen(unfinished, "w");
    if (out == NULL)
        give_up("can't write into the job's directory");
    write_document(out, phase);
    if (fclose(out) != 0 || rename(unfinished, path) != 0)
        give_up("can't write into the job's directory");
}

/* ------------------------------------------------------------------ start */

void truth_begin(int *argc, char ***argv, const char *program, int thread_level)
{
    int provided;
    program_name = program;
    alarm(TIME_LIMIT_SECONDS); /* nothing is left behind even when the harness dies */
    MPI_Init_thread(argc, argv, thread_level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (*argc < 2 || provided < thread_level)
        give_up("usage: PROGRAM DIRECTORY [ARGUMENT], with an MPI that supports the program's thread level");
    job_directory = (*argv)[1];
    truth_communicator("world", MPI_COMM_WORLD);
    truth_communicator("self", MPI_COMM_SELF);
}

void fill(void *buffer, size_t bytes, int pattern)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)buffer)[i] = (unsigned char)(pattern + (int)i);
}
