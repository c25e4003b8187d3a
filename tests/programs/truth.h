/* What every test program shares: it reaches a known state, writes down what is true, and sleeps.
 *
 * Each rank writes one JSON file, "truth.RANK.PHASE.json" ("truth.child-RANK.PHASE.json" for a spawned process),
 * into the directory that is the program's first argument. A file appears whole, by rename, and its appearing means
 * "ready: this rank makes no MPI call any more" (but the one that the file names, in which it blocks).
 * All facts come from MPI itself or from the arguments of the calls made: nothing here knows any MPI's insides.
 *
 * The harness may create "go.PHASE" in the directory to ask for the next state, and ends a program by killing it.
 */
#ifndef MQS_TESTS_TRUTH_H
#define MQS_TESTS_TRUTH_H

#include <mpi.h>
#include <stddef.h>

enum queue { SENDS, RECEIVES, UNEXPECTED };

/* A pending operation as the program knows it. The posting functions below fill it; a program changes what
 * becomes of it (status, actual_*) before it writes the truth. */
struct operation {
    char communicator[32];
    enum queue queue;
    const char *call;      /* the MPI function that made it */
    const char *status;    /* "pending", "matched" or "complete"; "" where MPI leaves it open */
    int optional;          /* an MPI may keep no trace of it */
    int peer;              /* rank in the communicator (its remote group), -1 for MPI_ANY_SOURCE */
    int world_peer;        /* the same in MPI_COMM_WORLD, -1 for MPI_ANY_SOURCE or a process of another job */
    int tag;               /* -1 for MPI_ANY_TAG */
    size_t bytes;          /* of the buffer, or of the message */
    const void *buffer;    /* the user's; NULL for an unexpected message */
    MPI_Aint gap;          /* bytes from there to the first of the data */
    char datatype[MPI_MAX_OBJECT_NAME];
    int datatype_size;
    int count;             /* of elements of the datatype; -1 where only the message is known */
    unsigned long request; /* the handle's value, 0 where the program has none */
    int pattern;           /* the bytes of the message are pattern, pattern + 1, ... modulo 256; -1: not known */
    MPI_Comm comm;
    MPI_Request handle;    /* to ask MPI whether it is complete; MPI_REQUEST_NULL where the program can't ask */
    int freed;             /* by MPI_Request_free: the handle's value may serve another request once this one is done */
    int late;              /* of a receive: its message was there before it was posted */
    int overwritten;       /* what the transport keeps of it may have made room for later messages */
    int followed;          /* by another message of the same sender, which can't arrive before this one */
    int done;              /* what MPI answered, -1 when it was not asked */
    int actual_peer;       /* what a receive matched; -1 before */
    int actual_world_peer;
    int actual_tag;
    long actual_bytes;
};

/* Start MPI with the thread level that the program needs, and a time limit after which the process ends itself. */
void truth_begin(int *argc, char ***argv, const char *program, int thread_level);

/* Rank and size in MPI_COMM_WORLD; the job's directory. */
extern int world_rank, world_size;
extern const char *job_directory;

/* Write down a live communicator. Ranks that share one give it the same key. MPI_COMM_NULL is skipped. */
void truth_communicator(const char *key, MPI_Comm comm);

/* MPI_Comm_set_name on a communicator that was written down; an empty name is one that was set, too. */
void truth_set_name(MPI_Comm comm, const char *name);

/* MPI_Comm_free: the communicator stays in the truth, as freed but still referenced. */
void truth_free_communicator(MPI_Comm *comm);

/* MPI_Comm_free of one that nothing refers to: it leaves the truth. */
void truth_end_communicator(MPI_Comm *comm);

/* Write down a window. */
void truth_window(const char *key, MPI_Win window);

/* Post one operation on a communicator that truth_communicator knows, and write it down. */
struct operation *post_irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm);
struct operation *post_isend(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm);
struct operation *post_issend(const void *buffer, int count, MPI_Datatype type, int destination, int tag,
                              MPI_Comm comm);

/* Write down an operation that the program posts itself, and the handle that it got; with MPI_Request_free, MPI
 * can't be asked about it any more, nor about a persistent one where an answer ends it. */
struct operation *truth_operation(enum queue queue, const char *call, const void *buffer, int count, MPI_Datatype type,
                                  int peer, int tag, MPI_Comm comm);
void truth_request(struct operation *operation, MPI_Request request);
void truth_free_request(struct operation *operation);

/* Say that a receive was matched by this message; the status becomes "matched". */
void truth_matched(struct operation *operation, int source, int tag, long bytes);

/* How a message travels: a small standard one arrives whole; of a large one only the envelope does, perhaps with the
 * first bytes; whether a small synchronous one carries its data along is the MPI's affair. */
enum protocol { EAGER, RENDEZVOUS, SYNCHRONOUS };

/* Write down a message that lies unexpected in this rank. */
struct operation *truth_unexpected(int source, int tag, size_t bytes, enum protocol protocol, MPI_Comm comm);

/* Say that a collective operation is pending on a communicator: "entered" by this rank, or only by others. */
void truth_collective(const char *call, MPI_Comm comm, int entered, int blocking);

/* Say that in this rank a collective's traffic runs on a communicator that the MPI keeps for itself. */
void truth_internal_traffic(const char *call);

/* Say that this rank has made so large a transfer that its transport need not keep anything of earlier sends. */
void truth_overwritten(void);

/* Say that this rank's unexpected messages arrived in the order in which they are written down, whoever sent them. */
void truth_in_turn(void);

/* Whether MPI_Cancel may be called: where it crashes, the job's environment says so. */
int truth_may_cancel(void);

/* Say which source the last successful wildcard probe of a communicator found. */
void truth_last_probed(MPI_Comm comm, int source);

/* Make MPI calls until every unexpected message of the truth is found by a probe and every request that should be
 * complete is, then a little longer, so that all that can arrive has arrived. Then ask MPI which requests are done. */
void settle(void);

/* MPI_Barrier, after which no rank stops to make MPI calls before the others have left it, too: what it sent them last
 * may still be on its way. The word distinguishes one such barrier of a program from another. */
void leave_together(const char *word, MPI_Comm comm);

/* Write the truth file of a phase: this rank is ready, or goes on to the call in which it blocks. */
void truth_write(int phase);

/* Sleep outside MPI until the harness asks for a phase; forever when it never does. */
void sleep_until_phase(int phase);

/* Signals between ranks that need no MPI call: one rank says a word, others wait for it. */
void say(const char *word);
void wait_for(const char *word);

/* The same for a rank that goes on making MPI calls while it waits. */
void progress_until(const char *word);

/* Fill a buffer with the bytes pattern, pattern + 1, ... */
void fill(void *buffer, size_t bytes, int pattern);

#endif
