/* A state made at random: communicators, receives, sends, messages. 2 to 4 ranks; the argument is the seed.
 *
 * Every rank draws the same plan from the seed and carries out its part of it. What may be drawn never leaves open what
 * becomes of it: each pair of a communicator and a receiver has either receives that nothing matches (wildcards among
 * them), or messages that nothing receives, or both with tags of their own, some of which meet, or only such as meet.
 * Messages are sent in turn, each when the one before has arrived, so that their order is known, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "truth.h"

enum {
    COMMUNICATORS = 6,
    EVENTS = 40,
    MAX_RANKS = 4,
    SMALL = 600,
    LARGE = 1 << 20,
    ATTACHED = 1 << 26,
    FIRST_TAG = 100,
    PAST = 5,
};

/* ------------------------------------------------------------------ numbers that all ranks draw alike */

static unsigned long state;

static int draw(int below)
{
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (int)((state >> 33) % (unsigned long)below);
}

static int one_in(int chances)
{
    return draw(chances) == 0;
}

/* ------------------------------------------------------------------ communicators */

/* What every rank knows of a communicator, its own or not: the MPI_COMM_WORLD ranks on each side. */
struct room {
    MPI_Comm comm; /* MPI_COMM_NULL in a rank that is not in it */
    int inter;
    int sizes[2];
    int members[2][MAX_RANKS]; /* an intra-communicator has one side */
};

static struct room rooms[COMMUNICATORS + 1];
static int room_count;

static void add_world(void)
{
    struct room *room = &rooms[room_count++];
    room->comm = MPI_COMM_WORLD;
    room->sizes[0] = world_size;
    for (int i = 0; i < world_size; i++)
        room->members[0][i] = i;
}

static void name_room(struct room *room)
{
    static const char filler[] = "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ-abcdefghijklmnopqrstuvwxyz";
    char key[32], name[128];
    int length = draw((int)sizeof filler - 1);
    snprintf(key, sizeof key, "room-%d", room_count - 1);
    snprintf(name, sizeof name, "%s %.*s", key, length, filler);
    truth_communicator(key, room->comm);
    if (room->comm != MPI_COMM_NULL)
        truth_set_name(room->comm, name);
}

static void add_dup(void)
{
    struct room *room = &rooms[room_count++];
    *room = rooms[0];
    MPI_Comm_dup(MPI_COMM_WORLD, &room->comm);
    name_room(room);
}

/* The ranks of one colour, in ascending or descending order; the others have a communicator that nobody names. */
static void add_split(void)
{
    struct room *room = &rooms[room_count++];
    int colours[MAX_RANKS], down = draw(2);
    for (int i = 0; i < world_size; i++)
        colours[i] = i == 0 ? 1 : draw(3) > 0;
    for (int i = 0; i < world_size; i++) {
        int rank = down ? world_size - 1 - i : i;
        if (colours[rank])
            room->members[0][room->sizes[0]++] = rank;
    }
    MPI_Comm_split(MPI_COMM_WORLD, colours[world_rank] ? 0 : MPI_UNDEFINED, down ? -world_rank : world_rank,
                   &room->comm);
    name_room(room);
}

static void add_created(void)
{
    struct room *room = &rooms[room_count++];
    MPI_Group world, group;
    int ranks[MAX_RANKS], count = 2 + draw(world_size - 1);
    for (int i = 0; i < world_size; i++)
        ranks[i] = i;
    for (int i = 0; i < count; i++) { /* the first of a shuffled row */
        int other = i + draw(world_size - i), rank = ranks[other];
        ranks[other] = ranks[i];
        ranks[i] = rank;
        room->members[0][i] = rank;
    }
    room->sizes[0] = count;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, room->members[0], &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &room->comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    name_room(room);
}

static void add_inter(void)
{
    struct room *room = &rooms[room_count++];
    MPI_Comm half;
    int lower = 1 + draw(world_size - 1), upper = world_rank >= lower;
    char key[32];
    room->inter = 1;
    for (int i = 0; i < world_size; i++)
        room->members[i >= lower][room->sizes[i >= lower]++] = i;
    MPI_Comm_split(MPI_COMM_WORLD, upper, world_rank, &half);
    snprintf(key, sizeof key, "half-%d-of-%d", upper, room_count - 1);
    truth_communicator(key, half);
    truth_set_name(half, key);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : lower, room_count, &room->comm);
    name_room(room);
}

static void make_rooms(void)
{
    static void (*const add[])(void) = {add_dup, add_split, add_created, add_inter};
    int count = 2 + draw(COMMUNICATORS - 1);
    add_world();
    for (int i = 0; i < count; i++)
        add[draw(4)]();
}

/* ------------------------------------------------------------------ the plan */

enum habit { RECEIVES_ONLY, MESSAGES_ONLY, MIXED, MEETING, HABITS };
enum kind { WAITING, PERSISTENT, IDLE, CANCELLED, MESSAGE, MATCHED };

struct event {
    enum kind kind;
    const struct room *room;
    int receiver, sender;         /* their ranks, each as the other side numbers it */
    int receiving, sending;       /* the same in MPI_COMM_WORLD */
    int any_source, any_tag, tag; /* of the receive */
    int probed;                   /* it takes its message from a matched probe */
    int buffered, freed;          /* of the send; whether the program frees its request */
    int late;                     /* it is posted when its message has arrived, else before that is sent */
    int synchronous, large, ready, persistent; /* of the send */
    int starts;                                /* the receive of a synchronous message is persistent */
    int type, count, spare;                    /* elements that are sent, and what there is room for besides */
};

static MPI_Datatype types[] = {MPI_BYTE, MPI_INT, MPI_DOUBLE, MPI_CHAR,
                               MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};

enum { TYPES = sizeof types / sizeof types[0], DERIVED = 4, SHIFTED = 5 };

/* An unnamed vector, one whose data start behind its address, and a struct with a name. MPICH 4.3 fails to receive a
 * large message of the last, whose elements it cuts. */
static void make_types(void)
{
    int lengths[] = {1, 1};
    MPI_Aint places[] = {0, 8};
    MPI_Datatype parts[] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Type_vector(2, 1, 2, MPI_INT, &types[DERIVED]);
    MPI_Type_create_hindexed(1, &lengths[1], &places[1], MPI_DOUBLE, &types[DERIVED + 1]);
    MPI_Type_create_struct(2, lengths, places, parts, &types[DERIVED + 2]);
    MPI_Type_set_name(types[DERIVED + 2], (char *)"cell");
    for (int i = DERIVED; i < TYPES; i++)
        MPI_Type_commit(&types[i]);
}

static enum habit habits[COMMUNICATORS + 1][MAX_RANKS];

/* MPICH 4.3 never ends a receive from any source whose message the network has already brought. */
static int is_lost(const struct event *e)
{
    return e->any_source && getenv("MPIR_CVAR_NOLOCAL") != NULL;
}

/* Open MPI's pml/cm fails in MPI_Imrecv, or never ends, over some of libfabric's providers; in 4.1 it sends the wrong
 * bytes of a shifted type. */
static int is_cm(void)
{
    const char *pml = getenv("OMPI_MCA_pml");
    return pml != NULL && strcmp(pml, "cm") == 0;
}

static struct event draw_event(int index)
{
    struct event e;
    memset(&e, 0, sizeof e);
    int number = draw(room_count);
    e.room = &rooms[number];
    int side = e.room->inter ? draw(2) : 0, other = e.room->inter ? !side : side;
    e.receiver = draw(e.room->sizes[side]);
    e.sender = draw(e.room->sizes[other]);
    e.receiving = e.room->members[side][e.receiver];
    e.sending = e.room->members[other][e.sender];
    enum habit habit = habits[number][e.receiving];
    if (habit == MEETING)
        e.kind = MATCHED;
    else if (habit == MESSAGES_ONLY || (habit == MIXED && draw(2)))
        e.kind = habit == MIXED && draw(2) ? MATCHED : MESSAGE;
    else
        e.kind = (enum kind)draw(MESSAGE);
    if (e.sending == e.receiving && e.kind >= MESSAGE) /* messages to oneself are made on MPI_COMM_SELF */
        e.kind = WAITING;
    e.any_source = one_in(3);
    e.any_tag = (habit == RECEIVES_ONLY || (habit == MEETING && e.kind == MATCHED)) && one_in(4);
    e.tag = FIRST_TAG + index;
    e.late = e.kind == MATCHED && draw(2) && !is_lost(&e);
    e.starts = e.kind == MATCHED && one_in(3);
    e.large = e.kind >= MESSAGE && one_in(3);
    e.ready = e.kind == MATCHED && !e.late && !e.starts && one_in(4);
    e.synchronous = !e.ready && (e.starts || draw(2));
    e.persistent = e.kind >= MESSAGE && !e.ready && !e.starts && one_in(4);
    e.probed = e.late && !e.starts && !is_cm() && one_in(3);
    e.buffered = e.kind >= MESSAGE && !e.ready && !e.persistent && !e.synchronous && one_in(4);
    e.freed = e.kind >= MESSAGE && !e.starts && !e.persistent && one_in(4);
    do
        e.type = draw(TYPES - e.large);
    while (e.type == SHIFTED && is_cm());
    e.count = e.large ? LARGE / 8 : 1 + draw(SMALL / 8);
    if (!e.large && !e.synchronous && one_in(8)) /* over sockets a synchronous one of no bytes never ends */
        e.count = 0;
    e.spare = e.large ? 0 : draw(2) * draw(SMALL / 8);
    return e;
}

/* ------------------------------------------------------------------ carrying it out */

static char incoming[EVENTS][2 * LARGE], outgoing[EVENTS][2 * LARGE];

static struct operation *receive(const struct event *e, int index)
{
    MPI_Comm comm = e->room->comm;
    MPI_Datatype type = types[e->type];
    int source = e->any_source ? MPI_ANY_SOURCE : e->sender, tag = e->any_tag ? MPI_ANY_TAG : e->tag;
    int count = e->count + e->spare;
    MPI_Request request;
    if (e->kind == IDLE) {
        MPI_Recv_init(incoming[index], count, type, source, tag, comm, &request);
        return NULL;
    }
    if (e->probed) {
        MPI_Message message;
        MPI_Mprobe(source, tag, comm, &message, MPI_STATUS_IGNORE);
        struct operation *o = truth_operation(RECEIVES, "MPI_Imrecv", incoming[index], count, type, e->sender, e->tag,
                                              comm);
        MPI_Imrecv(incoming[index], count, type, &message, &request);
        truth_request(o, request);
        return o;
    }
    if (e->kind != PERSISTENT && !e->starts)
        return post_irecv(incoming[index], count, type, source, tag, comm);
    struct operation *o = truth_operation(RECEIVES, "MPI_Recv_init", incoming[index], count, type, source, tag, comm);
    MPI_Recv_init(incoming[index], count, type, source, tag, comm, &request);
    MPI_Start(&request);
    truth_request(o, request);
    return o;
}

static struct operation *send(const struct event *e, int index)
{
    MPI_Comm comm = e->room->comm;
    MPI_Datatype type = types[e->type];
    void *buffer = outgoing[index];
    MPI_Request request;
    struct operation *o;
    if (e->ready) {
        o = truth_operation(SENDS, "MPI_Irsend", buffer, e->count, type, e->receiver, e->tag, comm);
        MPI_Irsend(buffer, e->count, type, e->receiver, e->tag, comm, &request);
        truth_request(o, request);
        return o;
    }
    if (e->buffered) {
        o = truth_operation(SENDS, "MPI_Ibsend", buffer, e->count, type, e->receiver, e->tag, comm);
        MPI_Ibsend(buffer, e->count, type, e->receiver, e->tag, comm, &request);
        truth_request(o, request);
        return o;
    }
    if (!e->persistent)
        return e->synchronous ? post_issend(buffer, e->count, type, e->receiver, e->tag, comm)
                              : post_isend(buffer, e->count, type, e->receiver, e->tag, comm);
    o = truth_operation(SENDS, e->synchronous ? "MPI_Ssend_init" : "MPI_Send_init", buffer, e->count, type, e->receiver,
                        e->tag, comm);
    (e->synchronous ? MPI_Ssend_init : MPI_Send_init)(buffer, e->count, type, e->receiver, e->tag, comm, &request);
    MPI_Start(&request);
    truth_request(o, request);
    return o;
}

static int size_of(const struct event *e)
{
    int size;
    MPI_Type_size(types[e->type], &size);
    return e->count * size;
}

static void fill_elements(const struct event *e, int index)
{
    static char message[2 * LARGE];
    int place = 0;
    fill(message, (size_t)size_of(e), index);
    MPI_Unpack(message, size_of(e), &place, outgoing[index], e->count, types[e->type], MPI_COMM_WORLD);
}

static void wait_until_done(const struct operation *o)
{
    for (int flag = 0; !flag;)
        MPI_Request_get_status(o->handle, &flag, MPI_STATUS_IGNORE);
}

static void send_in_turn(const struct event *e, int index, const char *posted, const char *matched, const char *arrived)
{
    if (e->kind == MATCHED && !e->late)
        progress_until(posted);
    fill_elements(e, index);
    struct operation *o = send(e, index);
    if (e->buffered)
        memset(outgoing[index], 'Z', sizeof outgoing[index]);
    if (e->kind == MATCHED) {
        o->status = "complete";
        o->optional = !e->synchronous;
    } else if (!e->synchronous && !e->large) {
        o->status = "complete";
        o->optional = 1;
    }
    if (e->buffered) {
        o->pattern = index;
        o->status = "";
        o->optional = 1;
    }
    if (e->freed) { /* it is gone when it is done */
        truth_free_request(o);
        o->optional = o->optional || e->kind == MATCHED;
    }
    /* by what this rank sends later */
    o->overwritten = (e->synchronous || e->large || e->buffered) && !e->persistent;
    if (e->starts) {
        wait_until_done(o);
        say(matched);
    }
    progress_until(arrived);
}

static void receive_in_turn(const struct event *e, int index, const char *posted, const char *matched, const char *arrived)
{
    MPI_Comm comm = e->room->comm;
    int flag = 0;
    if (e->kind == MESSAGE) {
        enum protocol protocol = e->large ? RENDEZVOUS : e->synchronous ? SYNCHRONOUS : EAGER;
        truth_unexpected(e->sender, e->tag, (size_t)size_of(e), protocol, comm)->pattern = index;
    }
    while ((e->kind == MESSAGE || e->late) && !flag)
        MPI_Iprobe(e->sender, e->tag, comm, &flag, MPI_STATUS_IGNORE);
    if (e->kind == MATCHED) {
        struct operation *o = receive(e, index);
        truth_matched(o, e->sender, e->tag, size_of(e));
        o->status = "complete";
        o->late = e->late;
        say(posted);
        if (o->handle == MPI_REQUEST_NULL) /* it can't be asked */
            progress_until(matched);
        else
            wait_until_done(o);
    }
    say(arrived);
}

static void carry_out(const struct event *e, int index)
{
    char posted[32], matched[32], arrived[32];
    snprintf(posted, sizeof posted, "posted.%d", index);
    snprintf(matched, sizeof matched, "matched.%d", index);
    snprintf(arrived, sizeof arrived, "arrived.%d", index);
    if (e->kind < MESSAGE) {
        int is_left_out = e->kind == CANCELLED && !truth_may_cancel();
        struct operation *o = world_rank == e->receiving && !is_left_out ? receive(e, index) : NULL;
        if (o != NULL && e->kind == CANCELLED) {
            MPI_Cancel(&o->handle);
            o->status = "complete";
        }
    } else if (world_rank == e->receiving) {
        receive_in_turn(e, index, posted, matched, arrived);
    } else if (world_rank == e->sending) {
        send_in_turn(e, index, posted, matched, arrived);
    } else {
        progress_until(arrived);
    }
}

static void talk_to_oneself(void)
{
    static int got[4], sent[4];
    int receives = draw(3), sends = draw(3);
    for (int i = 0; i < receives; i++)
        post_irecv(&got[i], 1, MPI_INT, i ? 0 : MPI_ANY_SOURCE, 10 + i, MPI_COMM_SELF);
    for (int i = 0; i < sends; i++) {
        post_issend(&sent[i], 1, MPI_INT, 0, 20 + i, MPI_COMM_SELF);
        truth_unexpected(0, 20 + i, sizeof sent[0], SYNCHRONOUS, MPI_COMM_SELF);
    }
}

static void end_all(MPI_Request *requests, int count)
{
    for (int i = 0; i < count; i++) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&requests[i]);
    }
}

static void use_by_collectives(MPI_Comm comm)
{
    MPI_Request requests[3];
    int one = 1, sum;
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
    MPI_Ibarrier(comm, &requests[1]);
    MPI_Ibcast(incoming[0], SMALL, MPI_CHAR, 0, comm, &requests[2]);
    end_all(requests, 3);
}

/* What an earlier use has left in a request is not to be taken for its own. */
static void use_requests(const struct room *room)
{
    static int (*const sends[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        MPI_Irsend, MPI_Issend, MPI_Send_init, MPI_Ssend_init, MPI_Isend};
    MPI_Comm comm = room->comm;
    MPI_Request past[2 * PAST];
    int rank, size;
    if (comm == MPI_COMM_NULL || room->inter)
        return;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int from = (rank + 1) % size, to = (rank + size - 1) % size;
    for (int i = 0; i < PAST; i++)
        MPI_Recv_init(incoming[i], 2 + i, MPI_DOUBLE, from, i, comm, &past[i]);
    MPI_Startall(PAST, past);
    for (int i = 0; i < PAST; i++)
        MPI_Irecv(incoming[PAST + i], 2 + i, MPI_INT, from, PAST + i, comm, &past[PAST + i]);
    MPI_Barrier(comm);
    for (int i = 0; i < PAST; i++)
        MPI_Send(outgoing[i], 1, MPI_INT, to, PAST + i, comm);
    end_all(&past[PAST], PAST);
    for (int i = 0; i < PAST; i++) {
        sends[i](outgoing[i], 1, MPI_DOUBLE, to, i, comm, &past[PAST + i]);
        if (sends[i] == MPI_Send_init || sends[i] == MPI_Ssend_init)
            MPI_Start(&past[PAST + i]);
    }
    use_by_collectives(comm);
    end_all(past, 2 * PAST);
}

/* Open MPI starts each search behind the source where the last one ended, which may have been a collective's. */
static void probe_for_any(const struct room *room)
{
    MPI_Status status;
    int flag = 0;
    if (room->comm != MPI_COMM_NULL)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, room->comm, &flag, &status);
    if (flag)
        truth_last_probed(room->comm, status.MPI_SOURCE);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "random", MPI_THREAD_SINGLE);
    state = argc > 2 ? strtoul(argv[2], NULL, 10) * 2654435761UL + 1 : 1;
    for (int i = 0; i < 8; i++)
        draw(2);
    truth_in_turn();
    make_rooms();
    make_types();
    MPI_Buffer_attach(malloc(ATTACHED), ATTACHED);
    for (int room = 0; room < room_count; room++)
        for (int rank = 0; rank < world_size; rank++)
            habits[room][rank] = (enum habit)draw(HABITS);
    for (int room = 0; room < room_count; room++)
        use_requests(&rooms[room]);
    MPI_Barrier(MPI_COMM_WORLD);
    int events = EVENTS / 2 + draw(EVENTS / 2);
    for (int i = 0; i < events; i++) {
        struct event e = draw_event(i);
        carry_out(&e, i);
    }
    talk_to_oneself();
    settle();
    leave_together("left", MPI_COMM_WORLD);
    for (int room = 0; room < room_count; room++)
        probe_for_any(&rooms[room]);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
