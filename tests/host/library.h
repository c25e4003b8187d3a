/* The entry points of an MQS library, looked up by name as debuggers do. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "mqs_interface.h"

struct library {
    void *handle;
    __typeof__(&mqs_setup_basic_callbacks) setup_basic_callbacks;
    __typeof__(&mqs_version_string) version_string;
    __typeof__(&mqs_version_compatibility) version_compatibility;
    __typeof__(&mqs_dll_taddr_width) dll_taddr_width;
    __typeof__(&mqs_dll_error_string) dll_error_string;
    __typeof__(&mqs_setup_image) setup_image;
    __typeof__(&mqs_image_has_queues) image_has_queues;
    __typeof__(&mqs_destroy_image_info) destroy_image_info;
    __typeof__(&mqs_setup_process) setup_process;
    __typeof__(&mqs_process_has_queues) process_has_queues;
    __typeof__(&mqs_destroy_process_info) destroy_process_info;
    __typeof__(&mqs_update_communicator_list) update_communicator_list;
    __typeof__(&mqs_setup_communicator_iterator) setup_communicator_iterator;
    __typeof__(&mqs_get_communicator) get_communicator;
    __typeof__(&mqs_next_communicator) next_communicator;
    __typeof__(&mqs_get_comm_group) get_comm_group;
    __typeof__(&mqs_setup_operation_iterator) setup_operation_iterator;
    __typeof__(&mqs_next_operation) next_operation;
    __typeof__(&mqs_get_global_rank) get_global_rank; /* NULL in a library without it. */
    __typeof__(&libmqs_get_comm_label) get_comm_label; /* NULL in any other than libmqs. */
};

/* Opens a library with RTLD_NOW | RTLD_LOCAL. Answers 1, or 0 after a line on stderr. */
int library_open(struct library *library, const char *path);

#endif
