/* The two directions between python_start.c and mqs_dll/library/_glue.py. build.py gives this file to cffi too. */
#ifndef MQS_GLUE_H
#define MQS_GLUE_H

#include "mqs_interface.h"

/* Written in C (python_start.c), called by Python. */

/* All mqspy_ functions are attached: C may call them. */
void mqsc_glue_is_ready(void);

/* The debugger's own text for one of its codes; NULL where it has none. */
const char *mqsc_words_of_debugger(int code);

/* 1 when MQS_LOG asks for a log and its file could be opened, which is tried once. */
int mqsc_log_is_open(void);
void mqsc_log_line(const char *text);

/* Written in Python (_glue.py), called by C: struct mqs_python_side describes them. */
#ifdef MQS_FOR_CFFI
extern "Python+C" {
#endif

int mqspy_error_string(int code, char **text);

int mqspy_setup_image(mqs_image *image, const mqs_image_callbacks *callbacks, mqs_taddr_t *token);
int mqspy_image_has_queues(mqs_taddr_t token, char **message);
int mqspy_destroy_image(mqs_taddr_t token);

int mqspy_setup_process(mqs_taddr_t image_token, mqs_process *process, const mqs_process_callbacks *callbacks,
                        mqs_taddr_t *token);
int mqspy_process_has_queues(mqs_taddr_t token, char **message);
int mqspy_destroy_process(mqs_taddr_t token);

int mqspy_update_communicator_list(mqs_taddr_t token);
int mqspy_setup_communicator_iterator(mqs_taddr_t token);
int mqspy_get_communicator(mqs_taddr_t token, mqs_communicator *communicator);
int mqspy_get_comm_group(mqs_taddr_t token, int *ranks);
int mqspy_get_comm_label(mqs_taddr_t token, libmqs_comm_label *label);
int mqspy_next_communicator(mqs_taddr_t token);
int mqspy_setup_operation_iterator(mqs_taddr_t token, int queue, mqs_pending_operation *operations, int *count, int *ends);
int mqspy_next_operations(mqs_taddr_t token, mqs_pending_operation *operations, int *count, int *ends);
int mqspy_get_global_rank(mqs_taddr_t token, int *rank);

#ifdef MQS_FOR_CFFI
}
#endif

#endif
