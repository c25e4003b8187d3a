/* Every function that libmqs.so exports; libmqs.map lists them, too.
 *
 * Each clears its output arguments, checks its arguments, makes sure that Python runs, and asks the Python side.
 * None can return mqs_ok unless the Python side did.
 */
#include "python_side.h"

#include "log.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MQS_VERSION
#error "MQS_VERSION: the version of libmqs"
#endif

/* The sizes that debuggers have compiled in: LP64. */
_Static_assert(sizeof(mqs_taddr_t) == 8 && sizeof(mqs_tword_t) == 8, "addresses and words have 64 bits");
_Static_assert(sizeof(mqs_target_type_sizes) == 20, "mqs_target_type_sizes");
_Static_assert(sizeof(mqs_communicator) == 88, "mqs_communicator");
_Static_assert(offsetof(mqs_communicator, name) == 24, "mqs_communicator.name");
_Static_assert(sizeof(libmqs_comm_label) == 152, "libmqs_comm_label");
_Static_assert(sizeof(mqs_pending_operation) == 416, "mqs_pending_operation");
_Static_assert(offsetof(mqs_pending_operation, tag_wild) == 24, "mqs_pending_operation.tag_wild");
_Static_assert(offsetof(mqs_pending_operation, desired_tag) == 32, "mqs_pending_operation.desired_tag");
_Static_assert(offsetof(mqs_pending_operation, system_buffer) == 48, "mqs_pending_operation.system_buffer");
_Static_assert(offsetof(mqs_pending_operation, buffer) == 56, "mqs_pending_operation.buffer");
_Static_assert(offsetof(mqs_pending_operation, extra_text) == 96, "mqs_pending_operation.extra_text");
_Static_assert(sizeof(mqs_basic_callbacks) == 64, "mqs_basic_callbacks");
_Static_assert(sizeof(mqs_image_callbacks) == 48, "mqs_image_callbacks");
_Static_assert(sizeof(mqs_process_callbacks) == 32, "mqs_process_callbacks");

/* A copy: the debugger's table may lie on its stack. */
static mqs_basic_callbacks debugger;
static int has_callbacks;

/* Set by require_python, which runs before every use: the same for all threads. */
static _Thread_local const struct mqs_python_side *python;

/* The last failure of this thread that C found itself; the text of Python's own failures is kept there. */
static _Thread_local struct {
    int code;
    const char *reason; /* Stays valid for ever. */
} refusal;

/* The mark of the call that this thread is in; NULL outside of calls.
 *
 * A call from one of the debugger's callbacks would find that call half done: it is refused. But a callback may also
 * leave its call for good, by longjmp, and then the next call is a new one. The mark in the frame of each call
 * distinguishes the two:
 *
 *     exported function     mark, intact: nobody has left
 *     debugger's callback   MIN_DEPTH bytes of stack at least
 *     exported function     frame (the stack grows down)
 *
 * A mark that was left in place, in a frame of the host's that hasn't touched it, looks intact: the call is refused. */
enum { MARK_WORDS = 8, MIN_DEPTH = 256 };
struct mark {
    const void *frame; /* Of the exported function. */
    uintptr_t words[MARK_WORDS];
};
static _Thread_local const volatile struct mark *mark_of_call;

/* pthread_cancel of a thread takes effect when its call has ended: otherwise the library's locks and Python's frames would
 * be left behind. This is the state from before the call. */
static _Thread_local int cancel_state;

/* The name of an exported function, and its frame. */
#define THIS_CALL __func__, __builtin_frame_address(0)

static uintptr_t word_of_mark(const volatile struct mark *mark, size_t number)
{
    return ~(uintptr_t)mark ^ number;
}

static void start_call(volatile struct mark *mark, const void *frame)
{
    mark->frame = frame;
    for (size_t i = 0; i < MARK_WORDS; i++) {
        mark->words[i] = word_of_mark(mark, i);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    mark_of_call = mark;
}

/* The call has returned, or was left. */
static void end_call(void)
{
    mark_of_call = NULL;
    pthread_setcancelstate(cancel_state, NULL);
}

/* Returns whether a mark is of a call that encloses the one with this frame. It reads stack that may be nobody's. */
__attribute__((no_sanitize_address)) static int is_intact(const volatile struct mark *mark, const void *frame)
{
    if ((uintptr_t)mark < (uintptr_t)frame || (uintptr_t)mark->frame - (uintptr_t)frame < MIN_DEPTH) {
        return 0;
    }
    for (size_t i = 0; i < MARK_WORDS; i++) {
        if (mark->words[i] != word_of_mark(mark, i)) {
            return 0;
        }
    }
    return 1;
}

/* Returns 1 in a call from a callback. Notifies Python of a call that was left. */
static int is_within_a_call(const char *call, const void *frame)
{
    if (mark_of_call == NULL) {
        return 0;
    }
    if (is_intact(mark_of_call, frame)) {
        return 1;
    }
    mqs_log("%s: a callback of the debugger has left an earlier call", call);
    mqs_python_was_left();
    end_call();
    return 0;
}

static int refuse(const char *call, int code, const char *reason)
{
    refusal.code = code;
    refusal.reason = reason;
    mqs_log("%s = %d: %s", call, code, reason);
    return code;
}

/* Asks the Python side, and turns its answer into the result code of the enclosing function. */
#define ASK(question)                                   \
    __extension__({                                     \
        volatile struct mark mark;                      \
                                                        \
        start_call(&mark, __builtin_frame_address(0));  \
        finish(__func__, (question));                   \
    })

static int log_code(const char *call, int code)
{
    if (mqs_log_is_open()) {
        mqs_log("%s = %d", call, code);
    }
    return code;
}

static int finish(const char *call, int answer)
{
    int code;

    end_call();
    if (answer < 0) {
        /* Ctrl-C arrived in a Python that is the host's: the host gets it when it is back. */
        python->interrupt();
        answer = -answer;
    }
    if (answer == 0) {
        return refuse(call, mqs_start_error, "the Python side of libmqs gave no answer");
    }
    code = answer - 1;
    if (code == refusal.code) {
        refusal.code = mqs_ok;
    }
    return log_code(call, code);
}

static int require_python(const char *call)
{
    const char *reason;
    int code = mqs_python_choose(&python, &reason);

    return code == mqs_ok ? mqs_ok : refuse(call, code, reason);
}

static const char from_a_callback[] = "the library was called from within one of the debugger's own callbacks";

/* What every call needs that speaks of an image or a process. */
static int require_library(const char *call, const void *frame)
{
    if (is_within_a_call(call, frame)) {
        return refuse(call, mqs_bad_call, from_a_callback);
    }
    if (!has_callbacks) {
        return refuse(call, mqs_bad_call, "mqs_setup_basic_callbacks was not called");
    }
    if (debugger.mqs_put_image_info_fp == NULL || debugger.mqs_get_image_info_fp == NULL
        || debugger.mqs_put_process_info_fp == NULL || debugger.mqs_get_process_info_fp == NULL) {
        return refuse(call, mqs_missing_callback, "the debugger gave no callbacks to store data of images and processes");
    }
    return require_python(call);
}

static int find_image(const char *call, const void *frame, mqs_image *image, mqs_taddr_t *token)
{
    int code = require_library(call, frame);

    if (code != mqs_ok) {
        return code;
    }
    if (image == NULL) {
        return refuse(call, mqs_bad_call, "the image is NULL");
    }
    *token = (mqs_taddr_t)debugger.mqs_get_image_info_fp(image);
    return *token != 0 ? mqs_ok : refuse(call, mqs_bad_call, "mqs_setup_image was not called for this image");
}

static int find_process(const char *call, const void *frame, mqs_process *process, mqs_taddr_t *token)
{
    int code = require_library(call, frame);

    if (code != mqs_ok) {
        return code;
    }
    if (process == NULL) {
        return refuse(call, mqs_bad_call, "the process is NULL");
    }
    *token = (mqs_taddr_t)debugger.mqs_get_process_info_fp(process);
    return *token != 0 ? mqs_ok : refuse(call, mqs_bad_call, "mqs_setup_process was not called for this process");
}

/* ---------------------------------------------------------------- operations that were listed ahead */

/* Python lists some operations at once: each call of it takes longer than the operation itself. With a queue that is empty it
 * tells which others of the communicator are. What the debugger has not asked for yet waits here, until any other call on
 * the process than those that only look. */
enum { AHEAD = 32, UNLISTED = -1 };
struct listed {
    struct listed *next;
    mqs_taddr_t token;
    int place, count;
    int is_end; /* The queue has no more. */
    int empty;  /* The queues that are empty, a bit for each. */
    int moving; /* Calls that move something, and that have not returned. */
    unsigned long moves; /* How many have begun. */
    mqs_pending_operation operations[AHEAD];
};

/* A call that moves something. What it tells of the communicator under the cursor is believed only where no other such call
 * overlaps with it: another thread may have moved the cursor since. One that the debugger left for good overlaps with all. */
struct move {
    mqs_taddr_t token;
    unsigned long number;
    int is_alone;
};
static pthread_mutex_t listed_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listed *all_listed;

/* In a child: another thread may have had the lock, and been amid a change. */
static void drop_listed_of_parent(void)
{
    pthread_mutex_init(&listed_lock, NULL);
    all_listed = NULL;
}

__attribute__((constructor)) static void watch_for_forks(void)
{
    pthread_atfork(NULL, NULL, drop_listed_of_parent);
}

static struct listed **find_listed(mqs_taddr_t token)
{
    struct listed **place = &all_listed;

    while (*place != NULL && (*place)->token != token) {
        place = &(*place)->next;
    }
    return place;
}

/* Returns mqs_ok with the next one, mqs_end_of_list behind the last, or UNLISTED where Python has to be asked. */
static int take_listed(mqs_taddr_t token, mqs_pending_operation *operation)
{
    struct listed *listed;
    int code = UNLISTED;

    pthread_mutex_lock(&listed_lock);
    listed = *find_listed(token);
    if (listed != NULL && listed->place < listed->count) {
        *operation = listed->operations[listed->place++];
        code = mqs_ok;
    } else if (listed != NULL && listed->is_end) {
        code = mqs_end_of_list;
    }
    pthread_mutex_unlock(&listed_lock);
    return code;
}

/* Returns whether a queue was told to be empty; it is set up then. That holds once: who sets it up again wants to know anew. */
static int take_empty(mqs_taddr_t token, int queue)
{
    struct listed *listed;
    int is_empty;

    pthread_mutex_lock(&listed_lock);
    listed = *find_listed(token);
    is_empty = listed != NULL && listed->moving == 0 && listed->empty & 1 << queue;
    if (is_empty) {
        listed->empty &= ~(1 << queue);
        listed->place = listed->count = 0;
        listed->is_end = 1;
    }
    pthread_mutex_unlock(&listed_lock);
    return is_empty;
}

/* Drops what was listed. Returns how many operations there is room for: none where there is no memory. */
static int make_room(mqs_taddr_t token, struct move *move)
{
    struct listed **place;
    int room;

    pthread_mutex_lock(&listed_lock);
    place = find_listed(token);
    if (*place == NULL) {
        *place = calloc(1, sizeof **place);
    }
    if (*place != NULL) {
        (*place)->token = token;
        (*place)->place = (*place)->count = (*place)->is_end = 0;
    }
    if (move != NULL) {
        *move = (struct move){.token = token};
    }
    if (*place != NULL && move != NULL) {
        (*place)->empty = 0;
        move->is_alone = (*place)->moving++ == 0;
        move->number = ++(*place)->moves;
    }
    room = *place != NULL ? AHEAD : 0;
    pthread_mutex_unlock(&listed_lock);
    return room;
}

/* The call that moved something has returned: with this code, which is returned. */
static int end_move(const struct move *move, int code)
{
    struct listed *listed;

    pthread_mutex_lock(&listed_lock);
    listed = *find_listed(move->token);
    if (listed != NULL && move->number != 0) {
        listed->moving--;
    }
    pthread_mutex_unlock(&listed_lock);
    return code;
}

/* Keeps what Python gave: its bits are whether the queue has no more, and then those of the queues that are empty. */
static void keep_listed(mqs_taddr_t token, const mqs_pending_operation *operations, int count, int ends,
                        const struct move *move)
{
    struct listed *listed;

    pthread_mutex_lock(&listed_lock);
    listed = *find_listed(token);
    if (listed != NULL) { /* Else another thread has destroyed the process. */
        memcpy(listed->operations, operations, (size_t)count * sizeof *operations);
        listed->place = 0;
        listed->count = count;
        listed->is_end = ends & 1;
        if (move != NULL && move->is_alone && move->number == listed->moves) {
            listed->empty = ends >> 1;
        }
    }
    pthread_mutex_unlock(&listed_lock);
}

static void forget_listed(mqs_taddr_t token)
{
    struct listed **place, *listed;

    pthread_mutex_lock(&listed_lock);
    place = find_listed(token);
    listed = *place;
    if (listed != NULL) {
        *place = listed->next;
        free(listed);
    }
    pthread_mutex_unlock(&listed_lock);
}

/* For the calls that move something, which end_move ends. */
static int find_process_to_move(const char *call, const void *frame, mqs_process *process, struct move *move)
{
    mqs_taddr_t token;
    int code = find_process(call, frame, process, &token);

    if (code == mqs_ok) {
        make_room(token, move);
    }
    return code;
}

/* ---------------------------------------------------------------- the library itself */

const char *mqs_words_of_debugger(int code)
{
    return debugger.mqs_errorstring_fp != NULL ? debugger.mqs_errorstring_fp(code) : NULL;
}

void mqs_setup_basic_callbacks(const mqs_basic_callbacks *callbacks)
{
    has_callbacks = callbacks != NULL;
    if (callbacks != NULL) {
        debugger = *callbacks;
    }
    mqs_log("%s(%s)", __func__, callbacks != NULL ? "callbacks" : "NULL");
}

char *mqs_version_string(void)
{
    static _Thread_local char text[128];
    int code = is_within_a_call(THIS_CALL) ? mqs_ok : require_python(__func__);

    snprintf(text, sizeof text, "libmqs %s (Python%s%s%s)", MQS_VERSION, python != NULL ? " " : "",
             python != NULL ? python->version() : "", code == mqs_ok ? "" : ", which libmqs can't use");
    return text;
}

int mqs_version_compatibility(void)
{
    return MQS_INTERFACE_COMPATIBILITY;
}

int mqs_dll_taddr_width(void)
{
    return (int)sizeof(mqs_taddr_t);
}

char *mqs_dll_error_string(int code)
{
    char *text = NULL;
    const char *reason;

    if (code != mqs_ok && code == refusal.code) {
        return (char *)(uintptr_t)refusal.reason;
    }
    if (is_within_a_call(THIS_CALL)) {
        return (char *)(uintptr_t)from_a_callback;
    }
    if (mqs_python_choose(&python, &reason) != mqs_ok) {
        return (char *)(uintptr_t)reason;
    }
    if (python->error_string(code, &text) != mqs_ok + 1 || text == NULL) {
        return (char *)(uintptr_t) "the Python side of libmqs has no text for this code";
    }
    return text;
}

/* ---------------------------------------------------------------- images */

/* Gives a failure that never reached the Python side its message. */
static int with_message(int code, char **message)
{
    if (code != mqs_ok && *message == NULL) {
        *message = mqs_dll_error_string(code);
    }
    return code;
}

int mqs_setup_image(mqs_image *image, const mqs_image_callbacks *callbacks)
{
    mqs_taddr_t token = 0;
    int code;

    mqs_python_try_again();
    code = require_library(THIS_CALL);
    if (code != mqs_ok) {
        return code;
    }
    if (image == NULL || callbacks == NULL) {
        return refuse(__func__, mqs_bad_call, "the image or its callbacks are NULL");
    }
    if (callbacks->mqs_get_type_sizes_fp == NULL || callbacks->mqs_find_function_fp == NULL
        || callbacks->mqs_find_symbol_fp == NULL || callbacks->mqs_find_type_fp == NULL
        || callbacks->mqs_field_offset_fp == NULL) {
        return refuse(__func__, mqs_missing_callback, "one of the image callbacks is NULL; only mqs_sizeof_fp may be");
    }
    code = ASK(python->setup_image(image, callbacks, &token));
    if (code == mqs_ok) {
        debugger.mqs_put_image_info_fp(image, (mqs_image_info *)token);
    }
    return code;
}

int mqs_image_has_queues(mqs_image *image, char **message)
{
    mqs_taddr_t token;
    int code;

    if (message == NULL) {
        return refuse(__func__, mqs_bad_call, "the place for the message is NULL");
    }
    *message = NULL;
    code = find_image(THIS_CALL, image, &token);
    if (code == mqs_ok) {
        code = ASK(python->image_has_queues(token, message));
    }
    return with_message(code, message);
}

int mqs_destroy_image_info(mqs_image_info *info)
{
    int code = require_library(THIS_CALL);

    return code == mqs_ok ? ASK(python->destroy_image((mqs_taddr_t)info)) : code;
}

/* ---------------------------------------------------------------- processes */

int mqs_setup_process(mqs_process *process, const mqs_process_callbacks *callbacks)
{
    mqs_taddr_t image_token;
    mqs_taddr_t token = 0;
    int code = require_library(THIS_CALL);

    if (code != mqs_ok) {
        return code;
    }
    if (process == NULL || callbacks == NULL) {
        return refuse(__func__, mqs_bad_call, "the process or its callbacks are NULL");
    }
    if (callbacks->mqs_get_global_rank_fp == NULL || callbacks->mqs_get_image_fp == NULL
        || callbacks->mqs_fetch_data_fp == NULL || callbacks->mqs_target_to_host_fp == NULL) {
        return refuse(__func__, mqs_missing_callback, "one of the process callbacks is NULL");
    }
    code = find_image(THIS_CALL, callbacks->mqs_get_image_fp(process), &image_token);
    if (code != mqs_ok) {
        return code;
    }
    code = ASK(python->setup_process(image_token, process, callbacks, &token));
    if (code == mqs_ok) {
        debugger.mqs_put_process_info_fp(process, (mqs_process_info *)token);
    }
    return code;
}

int mqs_process_has_queues(mqs_process *process, char **message)
{
    struct move move;
    int code;

    if (message == NULL) {
        return refuse(__func__, mqs_bad_call, "the place for the message is NULL");
    }
    *message = NULL;
    code = find_process_to_move(THIS_CALL, process, &move);
    if (code == mqs_ok) {
        code = end_move(&move, ASK(python->process_has_queues(move.token, message)));
    }
    return with_message(code, message);
}

int mqs_destroy_process_info(mqs_process_info *info)
{
    int code = require_library(THIS_CALL);

    if (code != mqs_ok) {
        return code;
    }
    forget_listed((mqs_taddr_t)info);
    return ASK(python->destroy_process((mqs_taddr_t)info));
}

int mqs_get_global_rank(mqs_process *process)
{
    int rank = MQS_INVALID_PROCESS;
    mqs_taddr_t token;
    int code = find_process(THIS_CALL, process, &token);

    if (code == mqs_ok) {
        code = ASK(python->get_global_rank(token, &rank));
    }
    return code == mqs_ok ? rank : MQS_INVALID_PROCESS;
}

/* ---------------------------------------------------------------- communicators */

int mqs_update_communicator_list(mqs_process *process)
{
    struct move move;
    int code = find_process_to_move(THIS_CALL, process, &move);

    return code == mqs_ok ? end_move(&move, ASK(python->update_communicator_list(move.token))) : code;
}

int mqs_setup_communicator_iterator(mqs_process *process)
{
    struct move move;
    int code = find_process_to_move(THIS_CALL, process, &move);

    return code == mqs_ok ? end_move(&move, ASK(python->setup_communicator_iterator(move.token))) : code;
}

int mqs_get_communicator(mqs_process *process, mqs_communicator *communicator)
{
    mqs_taddr_t token;
    int code;

    if (communicator == NULL) {
        return refuse(__func__, mqs_bad_call, "the place for the communicator is NULL");
    }
    memset(communicator, 0, sizeof *communicator);
    code = find_process(THIS_CALL, process, &token);
    return code == mqs_ok ? ASK(python->get_communicator(token, communicator)) : code;
}

/* Only Python knows how many ranks fit into the array: nothing is cleared here. */
int mqs_get_comm_group(mqs_process *process, int *ranks)
{
    mqs_taddr_t token;
    int code;

    if (ranks == NULL) {
        return refuse(__func__, mqs_bad_call, "the place for the ranks is NULL");
    }
    code = find_process(THIS_CALL, process, &token);
    return code == mqs_ok ? ASK(python->get_comm_group(token, ranks)) : code;
}

int libmqs_get_comm_label(mqs_process *process, libmqs_comm_label *label)
{
    mqs_taddr_t token;
    int code;

    if (label == NULL) {
        return refuse(__func__, mqs_bad_call, "the place for the label is NULL");
    }
    memset(label, 0, sizeof *label);
    code = find_process(THIS_CALL, process, &token);
    return code == mqs_ok ? ASK(python->get_comm_label(token, label)) : code;
}

int mqs_next_communicator(mqs_process *process)
{
    struct move move;
    int code = find_process_to_move(THIS_CALL, process, &move);

    return code == mqs_ok ? end_move(&move, ASK(python->next_communicator(move.token))) : code;
}

/* ---------------------------------------------------------------- operations */

int mqs_setup_operation_iterator(mqs_process *process, int queue)
{
    mqs_pending_operation operations[AHEAD];
    struct move move;
    mqs_taddr_t token;
    int count, ends = 0;
    int code = find_process(THIS_CALL, process, &token);

    if (code != mqs_ok) {
        return code;
    }
    if (queue < mqs_pending_sends || queue > mqs_unexpected_messages) {
        return refuse(__func__, mqs_bad_call, "there are three queues: 0 sends, 1 receives, 2 unexpected messages");
    }
    if (take_empty(token, queue)) {
        return log_code(__func__, mqs_ok);
    }
    count = make_room(token, &move);
    code = ASK(python->setup_operation_iterator(token, queue, operations, &count, &ends));
    if (code == mqs_ok) {
        keep_listed(token, operations, count, ends, &move);
    }
    return end_move(&move, code);
}

/* The count is set by what gives the answer. */
static int end_if_none(int answer, const int *count)
{
    return answer == mqs_ok + 1 && *count == 0 ? mqs_end_of_list + 1 : answer;
}

int mqs_next_operation(mqs_process *process, mqs_pending_operation *operation)
{
    mqs_pending_operation operations[AHEAD];
    mqs_taddr_t token;
    int code, count, ends = 0;

    if (operation == NULL) {
        return refuse(__func__, mqs_bad_call, "the place for the operation is NULL");
    }
    memset(operation, 0, sizeof *operation);
    code = find_process(THIS_CALL, process, &token);
    if (code != mqs_ok) {
        return code;
    }
    code = take_listed(token, operation);
    if (code != UNLISTED) {
        return log_code(__func__, code);
    }
    count = make_room(token, NULL);
    count = count > 0 ? count : 1;
    code = ASK(end_if_none(python->next_operations(token, operations, &count, &ends), &count));
    if (code == mqs_ok) {
        *operation = operations[0];
        keep_listed(token, operations + 1, count - 1, ends, NULL);
    }
    return code;
}
