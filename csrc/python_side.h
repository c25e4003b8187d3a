/* The Python side of libmqs, wherever it runs: in this process (libmqs_python.so), or in a helper process (helper.c).
 *
 * Every function answers a result code plus 1, negative where Ctrl-C arrived in a Python that is the host's, so that 0,
 * which cffi returns when a Python function raised or was never attached, can't be taken for mqs_ok. A token names an
 * image or a process that was set up.
 */
#ifndef MQS_PYTHON_SIDE_H
#define MQS_PYTHON_SIDE_H

#include "mqs_interface.h"

/* libmqs's own result codes, as in mqs_dll/contract/errors.py. */
enum { mqs_start_error = 101, mqs_foreign_python = 102, mqs_bad_call = 104, mqs_missing_callback = 105 };

struct mqs_python_side {
    /* Starts Python on the first call of all. Answers mqs_ok, or another code with *reason set to a sentence that stays
     * valid in this thread. Never prints, exits or aborts. Any thread may call it, with or without holding the GIL of a Python. */
    int (*start)(const char **reason);
    /* The version of that Python, as in "3.11.7". */
    const char *(*version)(void);
    /* Ctrl-C arrived while Python worked: the host gets it when it is back. NULL where it can't. */
    void (*interrupt)(void);
    /* The call that this thread was in will never come back: one of the debugger's callbacks jumped out of it. NULL where
     * the Python can't go on after that. */
    void (*leave)(void);
    /* Whether the Python still works in a child of a fork of the host. */
    int (*outlives_fork)(void);

    int (*error_string)(int code, char **text);

    int (*setup_image)(mqs_image *image, const mqs_image_callbacks *callbacks, mqs_taddr_t *token);
    int (*image_has_queues)(mqs_taddr_t token, char **message);
    int (*destroy_image)(mqs_taddr_t token);

    int (*setup_process)(mqs_taddr_t image_token, mqs_process *process, const mqs_process_callbacks *callbacks,
                         mqs_taddr_t *token);
    int (*process_has_queues)(mqs_taddr_t token, char **message);
    int (*destroy_process)(mqs_taddr_t token);

    int (*update_communicator_list)(mqs_taddr_t token);
    int (*setup_communicator_iterator)(mqs_taddr_t token);
    int (*get_communicator)(mqs_taddr_t token, mqs_communicator *communicator);
    int (*get_comm_group)(mqs_taddr_t token, int *ranks);
    int (*get_comm_label)(mqs_taddr_t token, libmqs_comm_label *label);
    int (*next_communicator)(mqs_taddr_t token);
    /* Both give operations: *count is for how many there is room, and then how many they are. The lowest bit of *ends says
     * whether the queue has no more; the next ones, which queues of the communicator are known to be empty, by their
     * numbers. What fails behind some of them, or behind the set-up, is the failure of the next call. */
    int (*setup_operation_iterator)(mqs_taddr_t token, int queue, mqs_pending_operation *operations, int *count,
                                    int *ends);
    int (*next_operations)(mqs_taddr_t token, mqs_pending_operation *operations, int *count, int *ends);
    int (*get_global_rank)(mqs_taddr_t token, int *rank);
};

/* What libmqs.so offers to the Python side. */
struct mqs_library {
    const char *path; /* Of libmqs.so itself, without symbolic links. */
    const char *(*words_of_debugger)(int code);
    int (*log_is_open)(void);
    void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* The one function that libmqs_python.so exports. NULL where it serves another copy of libmqs.so in this process. */
const struct mqs_python_side *mqs_python_in_process(const struct mqs_library *library);

/* exports.c: the debugger's own text for one of its codes; NULL where it has none. */
const char *mqs_words_of_debugger(int code);

/* helper.c */
const struct mqs_python_side *mqs_python_in_helper(const struct mqs_library *library);

/* A helper that could not be started is not tried again with each call, but with the next image. */
void mqs_python_try_again(void);

/* Finds the Python side that works in this host, on the first call of all, and starts it.
 *
 * Answers mqs_ok with *side set, or another code with *reason set to a sentence that stays valid in this thread; *side is then the one
 * that was tried last, NULL where there is none. */
int mqs_python_choose(const struct mqs_python_side **side, const char **reason);

/* The call that this thread was in will never come back. Where Python can't go on, the helper is chosen from then on. */
void mqs_python_was_left(void);

#endif
