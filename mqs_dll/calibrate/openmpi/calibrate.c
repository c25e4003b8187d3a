/* A program in a known state: what mqs calibrate observes to find the layouts of Open MPI's structs.
 *
 *     calibrate DIRECTORY MODE        (plain; early: messages overtake each other, which needs several TCP links;
 *                                      hold: as plain, and wait to be killed; posted: receives and no messages)
 *
 * It makes objects and operations whose values can be found again in memory, in an Open MPI of any release. Each rank
 * writes what is true of them (truth.RANK, JSON) and a copy of its own readable memory (memory.RANK, laid out as
 * "regions" of the truth says). A handle of Open MPI is the address of the struct behind it: that is the one thing
 * this program knows of Open MPI's insides, besides names of exported symbols, which DIRECTORY/symbols lists.
 *
 * The memory is copied by write() and not through /proc/self/mem, so that it works under an emulator too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
#define HAVE_SESSIONS 1
#else
#define HAVE_SESSIONS 0
#endif

enum {
    PAGE = 4096,
    LARGEST_REGION = 256 << 20, /* larger mappings hold payloads, not structs */
    LARGE_ROWS = 1 << 20,       /* ints of a message that can't be sent in one piece */
    SECONDS_TO_LIVE = 300,
    EARLY_MESSAGES = 7,
    EARLY_FIRST_BYTES = 900000  /* eager, but more than the sockets take at once */
};

static int my_rank, ranks;
static const char *directory, *mode;

/* ---------------------------------------------------------------- failing */

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "calibrate: rank %d: %s: %s\n", my_rank, what, strerror(errno));
    _exit(1);
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        fail("calloc");
    return memory;
}

/* ---------------------------------------------------------------- the truth, as JSON */

static FILE *truth;
static int need_comma;

static void separate(void)
{
    fputs(need_comma ? ",\n" : "\n", truth);
    need_comma = 1;
}

static void key(const char *name)
{
    separate();
    if (name)
        fprintf(truth, "\"%s\": ", name);
}

static void begin(const char *name, char bracket)
{
    key(name);
    fputc(bracket, truth);
    need_comma = 0;
}

static void end(char bracket)
{
    fputc(bracket, truth);
    need_comma = 1;
}

static void say_number(const char *name, intmax_t value)
{
    key(name);
    fprintf(truth, "%jd", value);
}

static void say_address(const char *name, const void *address)
{
    key(name);
    fprintf(truth, "%" PRIuPTR, (uintptr_t)address);
}

static void say_text(const char *name, const char *text)
{
    key(name);
    fputc('"', truth);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', truth);
        if ((unsigned char)*text >= ' ')
            fputc(*text, truth);
    }
    fputc('"', truth);
}

/* ---------------------------------------------------------------- waiting */

/* Let messages come in, or stay away from MPI while others work. */
static void progress(double seconds)
{
    double until = MPI_Wtime() + seconds;
    int flag;
    do
        MPI_Iprobe(MPI_ANY_SOURCE, 32767, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    while (MPI_Wtime() < until);
}

static void path_of(char *path, size_t size, const char *kind, int rank)
{
    snprintf(path, size, "%s/%s.%d", directory, kind, rank);
}

/* A barrier that makes no MPI call: nothing moves in the MPI meanwhile. */
static void quiet_barrier(const char *name)
{
    char path[4096];
    struct timespec pause = {0, 10000000};
    path_of(path, sizeof path, name, my_rank);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file < 0 || close(file) != 0)
        fail(path);
    for (int rank = 0; rank < ranks; rank++) {
        path_of(path, sizeof path, name, rank);
        while (access(path, F_OK) != 0)
            nanosleep(&pause, NULL);
    }
}

/* A barrier with progress: what MPI_Barrier and others before it have begun to send leaves this rank. */
static void busy_barrier(const char *name)
{
    char path[4096];
    path_of(path, sizeof path, name, my_rank);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file < 0 || close(file) != 0)
        fail(path);
    for (int rank = 0; rank < ranks; rank++) {
        path_of(path, sizeof path, name, rank);
        while (access(path, F_OK) != 0)
            progress(0.01);
    }
}

static void wait_until_complete(MPI_Request request)
{
    int flag = 0;
    while (!flag)
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
}

/* ---------------------------------------------------------------- communicators and groups */

enum topology { NO_TOPOLOGY, CARTESIAN, GRAPH };

static void say_group(MPI_Group group)
{
    int size, rank;
    MPI_Group_size(group, &size);
    MPI_Group_rank(group, &rank);
    begin(NULL, '{');
    say_address("address", group);
    say_number("size", size);
    say_number("rank", rank);
    say_number("fortran", MPI_Group_c2f(group));
    say_number("predefined", group == MPI_GROUP_EMPTY);
    begin("members", '[');
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < size; i++) {
        int in_world;
        MPI_Group_translate_ranks(group, 1, &i, world, &in_world);
        say_number(NULL, in_world);
    }
    end(']');
    end('}');
}

struct known_comm {
    char label[32];
    MPI_Comm comm;
    int predefined, named, topology, session, info;
};

static struct known_comm comms[64];
static int comm_count;

static struct known_comm *know_comm(const char *label, MPI_Comm comm)
{
    struct known_comm *known = &comms[comm_count++];
    snprintf(known->label, sizeof known->label, "%s", label);
    known->comm = comm;
    return known;
}

static struct known_comm *know_named_comm(const char *label, MPI_Comm comm)
{
    struct known_comm *known = know_comm(label, comm);
    char name[64];
    snprintf(name, sizeof name, "calibrate: %s", label);
    MPI_Comm_set_name(comm, name);
    known->named = 1;
    return known;
}

static MPI_Comm named_dup(const char *label)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    know_named_comm(label, comm);
    return comm;
}

static const char *label_of(MPI_Comm comm)
{
    for (int i = 0; i < comm_count; i++)
        if (comms[i].comm == comm)
            return comms[i].label;
    fail("a communicator without a label");
}

static MPI_Comm comm_of(const char *label)
{
    for (int i = 0; i < comm_count; i++)
        if (strcmp(comms[i].label, label) == 0)
            return comms[i].comm;
    fail(label);
}

static void say_communicators(void)
{
    begin("communicators", '[');
    for (int i = 0; i < comm_count; i++) {
        struct known_comm *known = &comms[i];
        int inter, size, remote_size = 0, rank, length;
        char name[MPI_MAX_OBJECT_NAME];
        MPI_Group group, remote_group = NULL;
        MPI_Comm_test_inter(known->comm, &inter);
        MPI_Comm_size(known->comm, &size);
        MPI_Comm_rank(known->comm, &rank);
        MPI_Comm_get_name(known->comm, name, &length);
        MPI_Comm_group(known->comm, &group);
        if (inter) {
            MPI_Comm_remote_size(known->comm, &remote_size);
            MPI_Comm_remote_group(known->comm, &remote_group);
        }
        begin(NULL, '{');
        say_text("label", known->label);
        say_address("address", known->comm);
        say_text("name", name);
        say_number("predefined", known->predefined);
        say_number("named", known->named);
        say_number("topology", known->topology);
        say_number("session", known->session);
        say_number("info", known->info);
        say_number("inter", inter);
        say_number("rank", rank);
        say_number("size", size);
        say_number("remote_size", remote_size);
        say_address("group", group);
        say_address("remote_group", remote_group);
        say_number("fortran", MPI_Comm_c2f(known->comm));
        end('}');
    }
    end(']');
}

/* Each rank makes another number of communicators of its own: their numbers differ from other tables' then. */
static void make_communicators(void)
{
    MPI_Comm comm, half;
    struct known_comm *known;
    MPI_Info info;
    char label[32];

    known = know_comm("world", MPI_COMM_WORLD);
    known->predefined = known->named = 1;
    known = know_comm("self", MPI_COMM_SELF);
    known->predefined = known->named = 1;
    for (int i = 0; i <= my_rank; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        snprintf(label, sizeof label, "own %d", i);
        know_named_comm(label, comm);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    know_comm("unnamed", comm);
    MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - my_rank, &comm);
    know_named_comm("reversed", comm);
    MPI_Comm_split(MPI_COMM_WORLD, my_rank == 0, my_rank, &half);
    know_named_comm("half", half);

    int dims[1] = {ranks}, periods[1] = {1}, index[1] = {0}, edges[1] = {0};
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
    know_named_comm("cartesian", comm)->topology = CARTESIAN;
    MPI_Cart_create(half, 1, (int[]){1}, periods, 0, &comm);
    if (comm != MPI_COMM_NULL)
        know_comm("cartesian half", comm)->topology = CARTESIAN;
    MPI_Graph_create(MPI_COMM_WORLD, 1, index, edges, 0, &comm);
    if (comm != MPI_COMM_NULL)
        know_named_comm("graph", comm)->topology = GRAPH;

    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", "false");
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
        MPI_Comm_set_info(comm, info);
        know_named_comm(i ? "info 1" : "info 0", comm)->info = 1;
    }
    if (ranks > 1) {
        for (int i = 0; i < 2; i++) {
            MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, my_rank == 0 ? 1 : 0, 5 + i, &comm);
            if (i)
                know_named_comm("inter 1", comm);
            else
                know_comm("inter 0", comm);
        }
    }
#if HAVE_SESSIONS
    MPI_Session session;
    MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_create_from_group(group, i ? "calibrate 1" : "calibrate 0", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                   &comm);
        know_comm(i ? "session 1" : "session 0", comm)->session = 1;
        MPI_Comm_dup(comm, &comm);
        know_comm(i ? "session 1 dup" : "session 0 dup", comm)->session = 1;
    }
#endif
}

static MPI_Group groups[32];
static int group_count;

static void make_groups(void)
{
    MPI_Group world;
    int reversed[64], count = ranks < 64 ? ranks : 64;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    groups[group_count++] = world;
    groups[group_count++] = MPI_GROUP_EMPTY;
    for (int i = 0; i < count; i++)
        reversed[i] = count - 1 - i;
    for (int size = 1; size <= count; size++)
        MPI_Group_incl(world, size, reversed, &groups[group_count++]);
    for (int first = 1; first < count; first++)
        MPI_Group_excl(world, first, reversed, &groups[group_count++]);
}

static void say_groups(void)
{
    begin("groups", '[');
    for (int i = 0; i < group_count; i++)
        say_group(groups[i]);
    for (int i = 0; i < comm_count; i++) {
        MPI_Group group;
        int inter;
        MPI_Comm_group(comms[i].comm, &group);
        say_group(group);
        MPI_Comm_test_inter(comms[i].comm, &inter);
        if (inter) {
            MPI_Comm_remote_group(comms[i].comm, &group);
            say_group(group);
        }
    }
    end(']');
}

/* Groups that are stored as a part of their parent. Programs get them only where Open MPI is configured so, but the
 * functions that make them are in every build. In other builds they fall over their last step, when all of the group
 * but this process's rank in it is made; the table of Fortran handles has the group all the same. */
typedef int (*include_function)(MPI_Group parent, int count, const int *members, MPI_Group *group);

static sigjmp_buf last_step;

static void leave_last_step(int signal)
{
    siglongjmp(last_step, signal);
}

static MPI_Group include_members(include_function include, MPI_Group parent, int count, const int *members)
{
    struct sigaction leave = {.sa_handler = leave_last_step}, before;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Group_incl(parent, 1, members, &group);
    MPI_Fint next = MPI_Group_c2f(group); /* the number that the next group gets, once this one is gone */
    MPI_Group_free(&group);
    sigaction(SIGSEGV, &leave, &before);
    if (sigsetjmp(last_step, 1) == 0)
        include(parent, count, members, &group);
    sigaction(SIGSEGV, &before, NULL);
    return MPI_Group_f2c(next);
}

static void say_sparse_group(const char *kind, include_function include, int count, const int *members, int length)
{
    MPI_Group parent, group;
    if (!include)
        return;
    MPI_Comm_group(MPI_COMM_WORLD, &parent);
    group = include_members(include, parent, count, members);
    if (group == MPI_GROUP_NULL)
        return;
    begin(NULL, '{');
    say_text("kind", kind);
    say_address("address", group);
    say_address("parent", parent);
    say_number("size", count);
    say_number("length", length);
    begin("members", '[');
    for (int i = 0; i < count; i++)
        say_number(NULL, members[i]);
    end(']');
    end('}');
}

static include_function group_function(const char *name)
{
    include_function function;
    *(void **)&function = dlsym(RTLD_DEFAULT, name);
    return function;
}

static void say_sparse_groups(void)
{
    begin("sparse_groups", '[');
    if (ranks >= 3) {
        include_function strided = group_function("ompi_group_incl_strided");
        include_function bitmap = group_function("ompi_group_incl_bmap");
        say_sparse_group("strided", strided, 2, (int[]){0, 2}, 0);
        say_sparse_group("strided", strided, 2, (int[]){1, 2}, 0);
        say_sparse_group("strided", strided, 3, (int[]){0, 1, 2}, 0);
        say_sparse_group("bitmap", bitmap, 2, (int[]){0, 2}, 1);
        say_sparse_group("bitmap", bitmap, 2, (int[]){1, 2}, 1);
    }
    end(']');
}

/* ---------------------------------------------------------------- datatypes, error handlers, windows */

static MPI_Datatype cell, column, unnamed, uncommitted, shifted, shifted_more;

static MPI_Datatype shifted_double(MPI_Aint by)
{
    MPI_Datatype type;
    MPI_Type_create_hindexed(1, (int[]){1}, &by, MPI_DOUBLE, &type);
    return type;
}

static void make_datatypes(void)
{
    MPI_Type_contiguous(2, MPI_DOUBLE, &cell);
    MPI_Type_set_name(cell, "calibrate: cell");
    MPI_Type_commit(&cell);
    MPI_Type_vector(LARGE_ROWS, 1, 2, MPI_INT, &column);
    MPI_Type_set_name(column, "calibrate: column");
    MPI_Type_commit(&column);
    MPI_Type_contiguous(3, MPI_SHORT, &unnamed);
    MPI_Type_commit(&unnamed);
    MPI_Type_vector(5, 1, 3, MPI_CHAR, &uncommitted);
    MPI_Type_set_name(uncommitted, "calibrate: uncommitted");
    MPI_Type_create_resized(shifted_double(40), 8, 200, &shifted);
    MPI_Type_commit(&shifted);
    MPI_Type_create_resized(shifted_double(72), -16, 300, &shifted_more);
    MPI_Type_commit(&shifted_more);
}

static void say_datatype(MPI_Datatype type, int predefined, int committed)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, size;
    MPI_Type_get_name(type, name, &length);
    MPI_Type_size(type, &size);
    MPI_Aint true_lower_bound, true_extent;
    MPI_Type_get_true_extent(type, &true_lower_bound, &true_extent);
    begin(NULL, '{');
    say_address("address", type);
    say_text("name", name);
    say_number("size", size);
    say_number("predefined", predefined);
    say_number("committed", committed);
    say_number("true_lower_bound", true_lower_bound);
    say_number("fortran", MPI_Type_c2f(type));
    end('}');
}

static void say_datatypes(void)
{
    begin("datatypes", '[');
    say_datatype(MPI_INT, 1, 1);
    say_datatype(MPI_DOUBLE, 1, 1);
    say_datatype(MPI_CHAR, 1, 1);
    say_datatype(MPI_BYTE, 1, 1);
    say_datatype(cell, 0, 1);
    say_datatype(column, 0, 1);
    say_datatype(unnamed, 0, 1);
    say_datatype(uncommitted, 0, 0);
    say_datatype(shifted, 0, 1);
    say_datatype(shifted_more, 0, 1);
    end(']');
}

static void ignore_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

/* An error handler has one reference from its handle and one from each communicator that uses it. */
static void say_error_handlers(void)
{
    int used = 0;
    begin("error_handlers", '[');
    for (int uses = 0; uses <= 4; uses++) {
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(ignore_error, &handler);
        for (int i = 0; i < uses; i++)
            MPI_Comm_set_errhandler(comms[used++ % comm_count].comm, handler);
        begin(NULL, '{');
        say_address("address", handler);
        say_number("references", 1 + uses);
        end('}');
        if (used + uses + 1 > comm_count)
            break;
    }
    end(']');
}

struct known_window {
    MPI_Win window;
    int no_locks;
};

static struct known_window windows[4];
static int window_count;

/* Whether the MPI refuses locks on a window: not every component that makes windows heeds the info key. */
static int refuses_locks(MPI_Win window)
{
    int rank;
    MPI_Group group;
    MPI_Win_get_group(window, &group);
    MPI_Group_rank(group, &rank);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    if (MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window) != MPI_SUCCESS)
        return 1;
    MPI_Win_unlock(rank, window);
    return 0;
}

static void make_windows(void)
{
    for (; window_count < 4; window_count++) {
        void *base;
        char name[64];
        MPI_Info info;
        struct known_window *known = &windows[window_count];
        MPI_Info_create(&info);
        MPI_Info_set(info, "no_locks", window_count % 2 ? "true" : "false");
        MPI_Win_allocate(1024, 1, info, window_count < 2 ? MPI_COMM_WORLD : comm_of("reversed"), &base, &known->window);
        snprintf(name, sizeof name, "calibrate: window %d", window_count);
        MPI_Win_set_name(known->window, name);
        known->no_locks = refuses_locks(known->window);
    }
}

static void say_windows(void)
{
    begin("windows", '[');
    for (int i = 0; i < window_count; i++) {
        char name[MPI_MAX_OBJECT_NAME];
        int length;
        MPI_Group group;
        MPI_Win_get_name(windows[i].window, name, &length);
        MPI_Win_get_group(windows[i].window, &group);
        begin(NULL, '{');
        say_address("address", windows[i].window);
        say_text("name", name);
        say_address("group", group);
        say_number("no_locks", windows[i].no_locks);
        say_number("fortran", MPI_Win_c2f(windows[i].window));
        end('}');
    }
    end(']');
}

/* ---------------------------------------------------------------- operations */

enum state { INACTIVE, PENDING, IN_PROGRESS, COMPLETE, GONE };
static const char *const state_names[] = {"inactive", "pending", "in progress", "complete", "gone"};

struct known_request {
    const char *kind; /* "receive", "send", "collective", "generalized" */
    MPI_Request request;
    MPI_Comm comm;
    enum state state;
    int peer, tag, count;
    MPI_Datatype type;
    const void *buffer;
    const char *mode; /* of a send */
    int persistent, freed;
    int pair;         /* equal in the send and the receive of one message; 0: no such */
    int transferred;  /* bytes of a message that has come, -1 for none */
};

static struct known_request requests[512];
static int request_count;
static char *attached;
static size_t attached_bytes;

static struct known_request *know_request(const char *kind, MPI_Request request, enum state state, const void *buffer,
                                          int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    struct known_request *known = &requests[request_count++];
    *known = (struct known_request){.kind = kind, .request = request, .comm = comm, .state = state, .peer = peer,
                                    .tag = tag, .count = count, .type = type, .buffer = buffer, .mode = "",
                                    .transferred = -1};
    return known;
}

static struct known_request *receive(int count, MPI_Datatype type, int source, int tag, MPI_Comm comm)
{
    MPI_Aint lower, extent;
    MPI_Request request;
    MPI_Type_get_extent(type, &lower, &extent);
    void *buffer = allocate((size_t)extent * (size_t)count);
    MPI_Irecv(buffer, count, type, source, tag, comm, &request);
    return know_request("receive", request, PENDING, buffer, count, type, source, tag, comm);
}

/* The bytes of a message: its tag, then 0, 1, 2, ... */
static char *payload(int bytes, int tag)
{
    char *buffer = allocate((size_t)bytes);
    for (int i = 0; i < bytes; i++)
        buffer[i] = (char)(i == 0 ? tag : i);
    return buffer;
}

typedef int (*send_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static struct known_request *send_bytes(const char *mode, send_function function, int bytes, int peer, int tag,
                                        MPI_Comm comm)
{
    MPI_Request request;
    char *buffer = payload(bytes, tag);
    function(buffer, bytes, MPI_BYTE, peer, tag, comm, &request);
    struct known_request *known = know_request("send", request, PENDING, buffer, bytes, MPI_BYTE, peer, tag, comm);
    known->mode = mode;
    return known;
}

static void say_status(MPI_Request request)
{
    MPI_Status status;
    int flag, bytes;
    MPI_Request_get_status(request, &flag, &status);
    if (!flag)
        return;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    begin("status", '{');
    say_number("source", status.MPI_SOURCE);
    say_number("tag", status.MPI_TAG);
    say_number("bytes", bytes);
    end('}');
}

static void say_requests(void)
{
    begin("requests", '[');
    for (int i = 0; i < request_count; i++) {
        struct known_request *known = &requests[i];
        int size = 0;
        if (known->type != MPI_DATATYPE_NULL)
            MPI_Type_size(known->type, &size);
        begin(NULL, '{');
        say_text("kind", known->kind);
        say_address("address", known->request);
        say_text("state", state_names[known->state]);
        say_text("label", label_of(known->comm));
        say_address("comm", known->comm);
        say_number("peer", known->peer);
        say_number("tag", known->tag);
        say_number("count", known->count);
        say_number("bytes", (intmax_t)size * known->count);
        say_address("datatype", known->type);
        say_address("buffer", known->buffer);
        say_text("mode", known->mode);
        say_number("persistent", known->persistent);
        say_number("freed", known->freed);
        say_number("pair", known->pair);
        say_number("transferred", known->transferred);
        if (known->state == COMPLETE)
            say_status(known->request);
        end('}');
    }
    end(']');
}

/* A message that lies in this rank without a receive. */
struct known_message {
    const char *where; /* "unexpected", "early" or "foreign" */
    MPI_Comm comm;     /* MPI_COMM_NULL for a foreign one */
    int source, tag, bytes, rendezvous;
};

static struct known_message messages[256];
static int message_count;

static void expect_message(const char *where, MPI_Comm comm, int source, int tag, int bytes, int rendezvous)
{
    messages[message_count++] = (struct known_message){where, comm, source, tag, bytes, rendezvous};
}

static void say_messages(void)
{
    begin("messages", '[');
    for (int i = 0; i < message_count; i++) {
        struct known_message *known = &messages[i];
        begin(NULL, '{');
        say_text("where", known->where);
        say_text("label", known->comm == MPI_COMM_NULL ? "" : label_of(known->comm));
        say_address("comm", known->comm);
        say_number("source", known->source);
        say_number("tag", known->tag);
        say_number("bytes", known->bytes);
        say_number("rendezvous", known->rendezvous);
        end('}');
    }
    end(']');
}

static int next_rank(void) { return (my_rank + 1) % ranks; }
static int previous_rank(void) { return (my_rank + ranks - 1) % ranks; }

/* Receives that nothing matches: two communicators with lists of different lengths. */
static void post_unmatched(void)
{
    MPI_Comm first = named_dup("posted 0"), second = named_dup("posted 1"), third = named_dup("posted 2");
    int from = previous_rank(), to = next_rank();
    receive(10, MPI_INT, from, 7, first);
    receive(3, MPI_DOUBLE, MPI_ANY_SOURCE, 8, first);
    receive(100, MPI_BYTE, from, MPI_ANY_TAG, first);
    receive(5, cell, MPI_ANY_SOURCE, 9, first);
    receive(7, MPI_CHAR, from, 7, first);
    receive(64, MPI_PACKED, MPI_ANY_SOURCE, MPI_ANY_TAG, first);
    receive(11, unnamed, my_rank, 32767, first);
    receive(13, MPI_SHORT, from, 12, first);
    receive(17, MPI_INT, MPI_ANY_SOURCE, 13, second);
    receive(19, MPI_INT, MPI_ANY_SOURCE, 14, second);
    receive(23, MPI_DOUBLE, to, 15, second);
    receive(24, MPI_DOUBLE, to, 16, second);
    receive(25, MPI_DOUBLE, to, 17, second);
    receive(29, MPI_INT, MPI_ANY_SOURCE, 18, third);

    struct known_request *known = receive(31, MPI_INT, from, 19, second);
    MPI_Request to_free = known->request;
    MPI_Request_free(&to_free);
    known->freed = 1;
    known = receive(32, MPI_INT, MPI_ANY_SOURCE, 20, third);
    to_free = known->request;
    MPI_Request_free(&to_free);
    known->freed = 1;

    for (int started = 0; started < 2; started++) {
        for (int i = 0; i < 2; i++) {
            MPI_Request request;
            int count = 37 + 2 * started + i, tag = 21 + 2 * started + i;
            long *buffer = allocate(sizeof(long) * (size_t)count);
            MPI_Recv_init(buffer, count, MPI_LONG, i ? MPI_ANY_SOURCE : from, tag, third, &request);
            if (started)
                MPI_Start(&request);
            know_request("receive", request, started ? PENDING : INACTIVE, buffer, count, MPI_LONG,
                         i ? MPI_ANY_SOURCE : from, tag, third)->persistent = 1;
        }
    }
}

/* Fill the pools beyond their first chunks, and leave requests behind that nobody uses. */
static void use_pools(void)
{
    MPI_Comm comm = named_dup("pool");
    enum { MANY = 150 };
    static MPI_Request many[MANY];
    static int value;
    for (int i = 0; i < MANY; i++)
        MPI_Irecv(&value, 1, MPI_INT, my_rank, 100 + i, comm, &many[i]);
    for (int i = 0; i < MANY; i++) {
        MPI_Request request = many[i];
        MPI_Cancel(&many[i]);
        MPI_Wait(&many[i], MPI_STATUS_IGNORE);
        if (i < 3) /* given back first, taken again last */
            know_request("receive", request, GONE, NULL, 0, MPI_DATATYPE_NULL, 0, 0, comm);
    }
}

/* Receives and sends that are complete, and that the program has not waited for. */
static void make_complete(void)
{
    MPI_Comm comm = named_dup("done");
    int from = previous_rank(), to = next_rank();
    struct known_request *received[4], *sent[3];
    received[0] = receive(1000, MPI_INT, from, 30, comm);
    received[1] = receive(700, MPI_INT, MPI_ANY_SOURCE, 31, comm);
    received[2] = receive(600, MPI_INT, from, MPI_ANY_TAG, comm);
    received[3] = receive(900, MPI_INT, from, 33, comm);
    MPI_Barrier(MPI_COMM_WORLD);
    sent[0] = send_bytes("synchronous", MPI_Issend, 1000, to, 30, comm);
    sent[1] = send_bytes("synchronous", MPI_Issend, 1200, to, 31, comm);
    sent[2] = send_bytes("ready", MPI_Irsend, 1400, to, 32, comm);
    struct known_request *last = send_bytes("standard", MPI_Isend, 1600, to, 33, comm);
    for (int i = 0; i < 4; i++) {
        wait_until_complete(received[i]->request);
        received[i]->state = COMPLETE;
        received[i]->transferred = 1000 + 200 * i;
    }
    for (int i = 0; i < 3; i++) {
        wait_until_complete(sent[i]->request);
        sent[i]->state = COMPLETE;
    }
    sent[0]->pair = received[0]->pair = 1;
    sent[1]->pair = received[1]->pair = 2;
    last->state = COMPLETE;
    wait_until_complete(last->request);
}

/* Messages that no receive matches: the sender has a request for each that waits for the receiver. */
static void leave_unexpected(void)
{
    MPI_Comm first = named_dup("surprise 0"), second = named_dup("surprise 1");
    int from = previous_rank(), to = next_rank();
    struct known_request *known;
    MPI_Request request;

    attached_bytes = 4u << 20;
    attached = allocate(attached_bytes);
    MPI_Buffer_attach(attached, (int)attached_bytes);

    send_bytes("standard", MPI_Isend, 400, to, 40, first)->state = COMPLETE;
    expect_message("unexpected", first, from, 40, 400, 0);
    send_bytes("standard", MPI_Isend, 3000, to, 41, first)->state = COMPLETE;
    expect_message("unexpected", first, from, 41, 3000, 0);
    MPI_Send(payload(16, 42), 16, MPI_BYTE, to, 42, first);
    expect_message("unexpected", first, from, 42, 16, 0);
    send_bytes("synchronous", MPI_Issend, 500, to, 43, first);
    expect_message("unexpected", first, from, 43, 500, 1);
    send_bytes("synchronous", MPI_Issend, 2100, to, 44, first);
    expect_message("unexpected", first, from, 44, 2100, 1);
    send_bytes("standard", MPI_Isend, 1 << 20, to, 45, first);
    expect_message("unexpected", first, from, 45, 1 << 20, 1);
    send_bytes("buffered", MPI_Ibsend, 1 << 20, to, 46, first)->state = COMPLETE;
    expect_message("unexpected", first, from, 46, 1 << 20, 1);
    send_bytes("buffered", MPI_Ibsend, 3 << 19, to, 47, first)->state = COMPLETE;
    expect_message("unexpected", first, from, 47, 3 << 19, 1);

    MPI_Send(payload(48, 50), 48, MPI_BYTE, to, 50, second);
    expect_message("unexpected", second, from, 50, 48, 0);
    known = send_bytes("standard", MPI_Isend, 5 << 18, to, 51, second);
    expect_message("unexpected", second, from, 51, 5 << 18, 1);
    request = known->request;
    MPI_Request_free(&request);
    known->freed = 1;
    known = send_bytes("synchronous", MPI_Issend, 777, to, 52, second);
    expect_message("unexpected", second, from, 52, 777, 1);
    request = known->request;
    MPI_Request_free(&request);
    known->freed = 1;

    for (int started = 0; started < 2; started++) {
        for (int synchronous = 0; synchronous < 2; synchronous++) {
            int bytes = (1 << 20) + 8 * (2 * started + synchronous), tag = 53 + 2 * started + synchronous;
            char *buffer = payload(bytes, tag);
            (synchronous ? MPI_Ssend_init : MPI_Send_init)(buffer, bytes, MPI_BYTE, to, tag, second, &request);
            if (started) {
                MPI_Start(&request);
                expect_message("unexpected", second, from, tag, bytes, 1);
            }
            known = know_request("send", request, started ? PENDING : INACTIVE, buffer, bytes, MPI_BYTE, to, tag,
                                 second);
            known->mode = synchronous ? "synchronous" : "standard";
            known->persistent = 1;
        }
    }
}

struct probe {
    MPI_Comm comm;
    int source;
};

static struct probe probes[16];
static int probe_count;

/* One communicator for each source: a wildcard probe finds a message from there, whatever it looked at before. */
static void probe_each_source(void)
{
    for (int source = 0; source < ranks; source++) {
        char label[32];
        snprintf(label, sizeof label, "probe %d", source);
        MPI_Comm comm = named_dup(label);
        if (my_rank == source)
            for (int to = 0; to < ranks; to++)
                MPI_Send(payload(20, 60 + source), 20, MPI_BYTE, to, 60 + source, comm);
        int flag = 0;
        while (!flag)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
        expect_message("unexpected", comm, source, 60 + source, 20, 0);
        probes[probe_count++] = (struct probe){comm, source};
    }
}

static void say_probes(void)
{
    begin("probes", '[');
    for (int i = 0; i < probe_count; i++) {
        begin(NULL, '{');
        say_address("comm", probes[i].comm);
        say_number("source", probes[i].source);
        end('}');
    }
    end(']');
}

static int complete_generalized(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    return MPI_SUCCESS;
}

static int do_nothing(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int do_not_cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

/* Requests that are no messages. */
static void make_other_requests(void)
{
    MPI_Request request;
    MPI_Comm comm = named_dup("collective");
    for (int i = 0; i < 2; i++) {
        MPI_Grequest_start(complete_generalized, do_nothing, do_not_cancel, NULL, &request);
        know_request("generalized", request, PENDING, NULL, 0, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD);
        int *values = allocate(2 * sizeof(int));
        MPI_Iallreduce(values, values + 1, 1, MPI_INT, MPI_SUM, comm, &request);
        wait_until_complete(request);
        know_request("collective", request, COMPLETE, NULL, 0, MPI_DATATYPE_NULL, 0, 0, comm);
    }
    know_request("null", MPI_REQUEST_NULL, GONE, NULL, 0, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD);
}

/* Transfers that have begun and can't end: all announce a large message and go quiet; then one after the other looks
 * once, matches what was announced to it, answers, and goes quiet for good. */
static void begin_transfers(MPI_Comm comm)
{
    int to = next_rank();
    struct known_request *received, *sent;
    MPI_Request request;
    int *out = allocate(sizeof(int) * 2 * LARGE_ROWS);

    if (ranks == 1)
        return;
    received = receive(1, column, MPI_ANY_SOURCE, 70, comm);
    received->pair = 3;
    quiet_barrier("ready");
    MPI_Isend(out, 1, column, to, 70, comm, &request);
    sent = know_request("send", request, IN_PROGRESS, out, 1, column, to, 70, comm);
    sent->mode = "standard";
    /* the rank that looks last finds the answer to its own message: its transfer is under way */
    sent->pair = my_rank == ranks - 1 ? 3 : 0;
    sent->state = my_rank == ranks - 1 ? IN_PROGRESS : PENDING;
    quiet_barrier("announced");
    for (int turn = 0; turn < ranks; turn++) {
        char name[32];
        if (turn == my_rank)
            progress(0.3);
        snprintf(name, sizeof name, "looked.%d", turn);
        quiet_barrier(name);
    }
    received->state = IN_PROGRESS;
    received->transferred = (int)sizeof(int) * LARGE_ROWS;
}

/* Messages for a communicator that this rank has freed, and the others have not: it doesn't know where they belong. */
static void send_to_freed(MPI_Comm *ghosts)
{
    for (int rank = 0; rank < ranks; rank++)
        if (rank == my_rank)
            MPI_Comm_free(&ghosts[rank]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; rank != my_rank && i <= rank; i++)
            MPI_Send(payload(24, 80), 24, MPI_BYTE, rank, 80 + my_rank, ghosts[rank]);
    for (int source = 0; source < ranks; source++)
        for (int i = 0; source != my_rank && i <= my_rank; i++)
            expect_message("foreign", MPI_COMM_NULL, source, 80 + source, 24, 0);
    busy_barrier("sent");
    progress(0.5);
}

/* Messages that overtake one: with several TCP links, the first message is eager and too large for its link's socket,
 * the next ones go over other links, and the sender stays away from MPI, so that the first never arrives whole. */
static void overtake(MPI_Comm comm)
{
    for (int turn = 0; turn < ranks; turn++) {
        char name[32];
        if (turn == my_rank)
            for (int i = 0; i < EARLY_MESSAGES; i++)
                send_bytes("standard", MPI_Isend, i ? 300 : EARLY_FIRST_BYTES, next_rank(), 90 + i, comm);
        snprintf(name, sizeof name, "overtook.%d", turn);
        quiet_barrier(name);
        if (turn == previous_rank())
            progress(1.0);
        snprintf(name, sizeof name, "noticed.%d", turn);
        quiet_barrier(name);
    }
    for (int i = 1; i < EARLY_MESSAGES; i++)
        expect_message("early", comm, previous_rank(), 90 + i, 300, 0);
    /* which of these requests are complete isn't known */
    request_count -= EARLY_MESSAGES;
}

/* ---------------------------------------------------------------- what a call leaves on its stack */

enum { PACKS = 3, STACK_BYTES = 1 << 20 };

/* A conversion to a format in which a long has another size than here: the convertor counts both ways. It is gone when
 * the call returns, but its bytes stay on the stack of a thread that does nothing else. */
struct pack {
    char *stack;
    int count;
};

static struct pack packs[PACKS];

static void *pack_longs(void *argument)
{
    const struct pack *pack = argument;
    size_t bytes = sizeof(long) * (size_t)pack->count;
    MPI_Aint position = 0;
    void *in = allocate(bytes), *out = allocate(2 * bytes);
    MPI_Pack_external("external32", in, pack->count, MPI_LONG, out, 2 * (MPI_Aint)bytes, &position);
    return NULL;
}

static void make_packs(void)
{
    for (int i = 0; i < PACKS; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        packs[i].count = 37 + 16 * i;
        packs[i].stack = allocate(STACK_BYTES);
        if (pthread_attr_init(&attributes) != 0 ||
            pthread_attr_setstack(&attributes, packs[i].stack, STACK_BYTES) != 0 ||
            pthread_create(&thread, &attributes, pack_longs, &packs[i]) != 0 || pthread_join(thread, NULL) != 0)
            fail("a thread");
    }
}

static void say_packs(void)
{
    begin("packs", '[');
    for (int i = 0; i < PACKS; i++) {
        begin(NULL, '{');
        say_address("stack", packs[i].stack);
        say_number("stack_bytes", STACK_BYTES);
        say_number("count", packs[i].count);
        say_number("bytes", (intmax_t)sizeof(long) * packs[i].count);
        end('}');
    }
    end(']');
}

/* ---------------------------------------------------------------- symbols */

enum { MOST_OBJECTS = 256 };

/* The load addresses of the objects that have a wanted symbol. */
static uintptr_t objects[MOST_OBJECTS];
static int object_count;

static void remember_object(const void *base)
{
    for (int i = 0; i < object_count; i++)
        if (objects[i] == (uintptr_t)base)
            return;
    if (object_count < MOST_OBJECTS)
        objects[object_count++] = (uintptr_t)base;
}

static const char *wanted_symbol;
static void *found_symbol;

static int look_in_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    if (!info->dlpi_name || !*info->dlpi_name)
        return 0;
    void *object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!object)
        return 0;
    found_symbol = dlsym(object, wanted_symbol);
    dlclose(object);
    return found_symbol != NULL;
}

/* The components of Open MPI 4.1 are opened with RTLD_LOCAL: they are looked at one by one. */
static void *find_symbol(const char *name)
{
    found_symbol = dlsym(RTLD_DEFAULT, name);
    wanted_symbol = name;
    if (!found_symbol)
        dl_iterate_phdr(look_in_object, NULL);
    return found_symbol;
}

/* An address, and the size that the linker's symbol table gives. */
static void say_symbols(void)
{
    char path[4096], name[256];
    snprintf(path, sizeof path, "%s/symbols", directory);
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    begin("symbols", '{');
    while (fscanf(file, "%255s", name) == 1) {
        void *address = find_symbol(name);
        Dl_info info;
        ElfW(Sym) *symbol = NULL;
        if (!address)
            continue;
        int known = dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT);
        if (known)
            remember_object(info.dli_fbase);
        begin(name, '[');
        say_address(NULL, address);
        say_number(NULL, known && symbol ? (intmax_t)symbol->st_size : 0);
        end(']');
    }
    end('}');
    fclose(file);
}

/* ---------------------------------------------------------------- memory */

struct region {
    uintptr_t start, end;
    char permissions[5];
    char path[256];
};

/* Read the list first and copy then: copying may make mappings. */
static size_t list_regions(struct region *regions, size_t most)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    size_t count = 0;
    if (!maps)
        fail("/proc/self/maps");
    while (count < most && fgets(line, sizeof line, maps)) {
        struct region *region = &regions[count];
        region->path[0] = 0;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %255s", &region->start, &region->end,
                   region->permissions, region->path) >= 3)
            count++;
    }
    fclose(maps);
    return count;
}

/* All that is written, and of the rest what belongs to an object with a wanted symbol: names are there. */
static int is_wanted(const struct region *region, const struct region *regions, size_t count)
{
    if (region->permissions[0] != 'r' || region->permissions[3] == 's' || region->end - region->start > LARGEST_REGION)
        return 0;
    if (region->permissions[1] == 'w')
        return 1;
    for (size_t i = 0; i < count; i++)
        for (int object = 0; object < object_count; object++)
            if (regions[i].start == objects[object] && strcmp(regions[i].path, region->path) == 0)
                return 1;
    return 0;
}

static int is_zero(const unsigned char *page)
{
    return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

/* Copy a region page by page; pages of zeros stay holes in the file. */
static void copy_region(int file, const struct region *region, off_t offset)
{
    static unsigned char page[PAGE];
    int out[2];
    if (pipe(out) != 0)
        fail("pipe");
    for (uintptr_t address = region->start; address < region->end; address += PAGE, offset += PAGE) {
        if (write(out[1], (const void *)address, PAGE) != PAGE) /* EFAULT: it can't be read */
            continue;
        if (read(out[0], page, PAGE) != PAGE)
            fail("read");
        if (!is_zero(page) && pwrite(file, page, PAGE, offset) != PAGE)
            fail("pwrite");
    }
    close(out[0]);
    close(out[1]);
}

static void dump_memory(void)
{
    static struct region regions[8192];
    char path[4096];
    off_t offset = 0;
    path_of(path, sizeof path, "memory", my_rank);
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (file < 0)
        fail(path);
    size_t count = list_regions(regions, sizeof regions / sizeof *regions);
    begin("regions", '[');
    for (size_t i = 0; i < count; i++) {
        size_t bytes = regions[i].end - regions[i].start;
        if (!is_wanted(&regions[i], regions, count))
            continue;
        copy_region(file, &regions[i], offset);
        begin(NULL, '[');
        say_number(NULL, (intmax_t)regions[i].start);
        say_number(NULL, (intmax_t)bytes);
        say_number(NULL, (intmax_t)offset);
        say_number(NULL, regions[i].permissions[1] == 'w');
        end(']');
        offset += (off_t)bytes;
    }
    end(']');
    if (ftruncate(file, offset) != 0 || close(file) != 0)
        fail(path);
}

/* ---------------------------------------------------------------- all of it */

/* MPI_Status is public: the compiler tells where its members are. */
static void say_status_layout(void)
{
    begin("ompi_status_public_t", '{');
    say_number("size", sizeof(MPI_Status));
    say_number("MPI_SOURCE", offsetof(MPI_Status, MPI_SOURCE));
    say_number("MPI_TAG", offsetof(MPI_Status, MPI_TAG));
    say_number("MPI_ERROR", offsetof(MPI_Status, MPI_ERROR));
    say_number("_cancelled", offsetof(MPI_Status, _cancelled));
    say_number("_ucount", offsetof(MPI_Status, _ucount));
    end('}');
}

static int largest_tag(void)
{
    int *value, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    return flag ? *value : 0;
}

/* What mpiexec was told with --mca; empty for nothing. */
static const char *parameter(const char *variable)
{
    const char *value = getenv(variable);
    return value ? value : "";
}

static void say_machine(void)
{
    struct utsname name;
    Dl_info library;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    uname(&name);
    MPI_Get_library_version(version, &length);
    say_text("machine", name.machine);
    say_text("library", version);
    /* a function that this program doesn't call has no address of its own in the program */
    say_text("library_file", dladdr(dlsym(RTLD_DEFAULT, "PMPI_Init"), &library) ? library.dli_fname : "");
    say_text("namespace", parameter("PMIX_NAMESPACE"));
    say_text("mode", mode);
    say_text("pml", parameter("OMPI_MCA_pml"));
    say_number("contexts", atoi(parameter("OMPI_MCA_mtl_ofi_num_ctxts")));
    say_number("largest_tag", largest_tag());
    say_number("pid", getpid());
    say_number("rank", my_rank);
    say_number("ranks", ranks);
    say_address("attached", attached);
    say_number("attached_bytes", (intmax_t)attached_bytes);
}

int main(int argc, char **argv)
{
    char path[4096], final_path[4096];
    if (argc != 3) {
        fprintf(stderr, "usage: calibrate DIRECTORY MODE\n");
        return 2;
    }
    directory = argv[1];
    mode = argv[2];
    alarm(SECONDS_TO_LIVE);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    path_of(path, sizeof path, "unfinished", my_rank);
    path_of(final_path, sizeof final_path, "truth", my_rank);
    truth = fopen(path, "w");
    if (!truth)
        fail(path);
    begin(NULL, '{');

    MPI_Comm ghosts[16], flow, early;
    make_communicators();
    make_groups();
    make_datatypes();
    make_packs();
    if (strcmp(mode, "posted") != 0)
        make_windows();
    for (int rank = 0; rank < ranks; rank++)
        MPI_Comm_dup(MPI_COMM_WORLD, &ghosts[rank]);
    flow = named_dup("flow");
    early = named_dup("early");
    post_unmatched();
    if (strcmp(mode, "posted") != 0) {
        use_pools();
        make_complete();
        make_other_requests();
        probe_each_source();
        leave_unexpected();
        send_to_freed(ghosts);
    }
    say_communicators();
    say_groups();
    say_sparse_groups();
    say_datatypes();
    say_error_handlers();
    say_windows();
    if (strcmp(mode, "posted") != 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        busy_barrier("settled");
        progress(0.3);
        busy_barrier("still");
        if (strcmp(mode, "early") == 0)
            overtake(early);
        else
            begin_transfers(flow);
    }

    say_requests();
    say_messages();
    say_probes();
    say_packs();
    say_machine();
    say_status_layout();
    say_symbols();
    dump_memory();
    end('}');
    if (fclose(truth) != 0 || rename(path, final_path) != 0)
        fail(path);
    quiet_barrier("written");
    if (strcmp(mode, "hold") == 0)
        pause();
    _exit(0);
}
