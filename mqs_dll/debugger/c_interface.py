"""The MQS interface in C's terms, for cffi in ABI mode: the debugger's half of include/mqs_interface.h.

Only layouts and signatures are here; dll.py makes the calls, callbacks.py answers them.
"""

from __future__ import annotations

from typing import Any

import cffi

ffi: Any = cffi.FFI()
ffi.cdef(
    """
    typedef unsigned long mqs_taddr_t;
    typedef long mqs_tword_t;
    typedef struct mqs_image_ mqs_image;
    typedef struct mqs_process_ mqs_process;
    typedef struct mqs_type_ mqs_type;
    typedef struct mqs_image_info_ mqs_image_info;
    typedef struct mqs_process_info_ mqs_process_info;

    typedef struct { int short_size, int_size, long_size, long_long_size, pointer_size; } mqs_target_type_sizes;
    typedef struct { mqs_taddr_t unique_id; mqs_tword_t local_rank, size; char name[64]; } mqs_communicator;
    typedef struct {
        char name[64], description[64];
        mqs_tword_t remote_size;
        int is_freed, is_internal;
    } libmqs_comm_label;
    typedef struct {
        int status;
        mqs_tword_t desired_local_rank, desired_global_rank;
        int tag_wild;
        mqs_tword_t desired_tag, desired_length;
        int system_buffer;
        mqs_taddr_t buffer;
        mqs_tword_t actual_local_rank, actual_global_rank, actual_tag, actual_length;
        char extra_text[5][64];
    } mqs_pending_operation;

    typedef struct {
        void *(*malloc)(size_t);
        void (*free)(void *);
        void (*dprints)(const char *);
        char *(*errorstring)(int);
        void (*put_image_info)(mqs_image *, mqs_image_info *);
        mqs_image_info *(*get_image_info)(mqs_image *);
        void (*put_process_info)(mqs_process *, mqs_process_info *);
        mqs_process_info *(*get_process_info)(mqs_process *);
    } mqs_basic_callbacks;
    typedef struct {
        int (*get_type_sizes)(mqs_process *, mqs_target_type_sizes *);
        int (*find_function)(mqs_image *, char *, int, mqs_taddr_t *);
        int (*find_symbol)(mqs_image *, char *, mqs_taddr_t *);
        mqs_type *(*find_type)(mqs_image *, char *, int);
        int (*field_offset)(mqs_type *, char *);
        int (*sizeof_type)(mqs_type *);
    } mqs_image_callbacks;
    typedef struct {
        int (*get_global_rank)(mqs_process *);
        mqs_image *(*get_image)(mqs_process *);
        int (*fetch_data)(mqs_process *, mqs_taddr_t, int, void *);
        void (*target_to_host)(mqs_process *, const void *, void *, int);
    } mqs_process_callbacks;

    void mqs_setup_basic_callbacks(const mqs_basic_callbacks *);
    char *mqs_version_string(void);
    int mqs_version_compatibility(void);
    int mqs_dll_taddr_width(void);
    char *mqs_dll_error_string(int);
    int mqs_setup_image(mqs_image *, const mqs_image_callbacks *);
    int mqs_image_has_queues(mqs_image *, char **);
    int mqs_destroy_image_info(mqs_image_info *);
    int mqs_setup_process(mqs_process *, const mqs_process_callbacks *);
    int mqs_process_has_queues(mqs_process *, char **);
    int mqs_destroy_process_info(mqs_process_info *);
    int mqs_update_communicator_list(mqs_process *);
    int mqs_setup_communicator_iterator(mqs_process *);
    int mqs_get_communicator(mqs_process *, mqs_communicator *);
    int mqs_next_communicator(mqs_process *);
    int mqs_get_comm_group(mqs_process *, int *);
    int mqs_setup_operation_iterator(mqs_process *, int);
    int mqs_next_operation(mqs_process *, mqs_pending_operation *);
    int mqs_get_global_rank(mqs_process *);
    int libmqs_get_comm_label(mqs_process *, libmqs_comm_label *);

    void *malloc(size_t);
    void free(void *);
    """
)

REQUIRED_CALLS = (
    "mqs_setup_basic_callbacks",
    "mqs_version_string",
    "mqs_version_compatibility",
    "mqs_dll_taddr_width",
    "mqs_dll_error_string",
    "mqs_setup_image",
    "mqs_image_has_queues",
    "mqs_destroy_image_info",
    "mqs_setup_process",
    "mqs_process_has_queues",
    "mqs_destroy_process_info",
    "mqs_update_communicator_list",
    "mqs_setup_communicator_iterator",
    "mqs_get_communicator",
    "mqs_next_communicator",
    "mqs_get_comm_group",
    "mqs_setup_operation_iterator",
    "mqs_next_operation",
)
"""What a library must export; mqs_get_global_rank is optional, libmqs_get_comm_label is libmqs's own."""

TADDR_WIDTH: int = ffi.sizeof("mqs_taddr_t")
"""Bytes of an address in the interface as this debugger speaks it."""
