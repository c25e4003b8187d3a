/* mqs_interface.h - the message queue interface (MQS) between a debugger and a library that knows an MPI.
 *
 * Written for libmqs from the MPI Forum's document "MQS 1.0" and from what the debuggers in use expect.
 * A debugger compiles against this file, opens the library with dlopen and looks the mqs_ functions up with
 * dlsym. All addresses and words are 64 bits wide: the interface as it is on x86_64 and aarch64 Linux.
 *
 * Copyright (c) the libmqs authors. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef MQS_INTERFACE_H
#define MQS_INTERFACE_H

#ifdef __cplusplus
extern "C" {
#endif

/* What mqs_version_compatibility() must answer. */
#define MQS_INTERFACE_COMPATIBILITY 2

/* The types. mqs_dll/debugger/library_path.py hands the lines from here to the last #ifdef to cffi, so they hold no macros. */

typedef unsigned long mqs_taddr_t; /* An address in the target process. */
typedef long mqs_tword_t;          /* A word of the target process. */

/* Things of the debugger. The library only hands them back. */
typedef struct mqs_image_ mqs_image;     /* An executable. */
typedef struct mqs_process_ mqs_process; /* A process that runs it. */
typedef struct mqs_type_ mqs_type;       /* A type of its debug information. */

/* Things of the library. The debugger keeps one for each image and process, and only hands them back. */
typedef struct mqs_image_info_ mqs_image_info;
typedef struct mqs_process_info_ mqs_process_info;

/* The answer of every call that can fail. Other codes: ask mqs_dll_error_string. */
enum {
    mqs_ok = 0,
    mqs_no_information = 1,
    mqs_end_of_list = 2,
    mqs_first_user_code = 100 /* The library's own codes start here. */
};

/* What the MQS document calls the answers of the two next calls: there is another one, or the end was reached. */
enum { mqs_true = 0, mqs_false = 2 };

/* Values that are no valid rank. */
enum { MQS_INVALID_PROCESS = -1 };

/* The language whose naming rules mqs_find_function_ft and mqs_find_type_ft apply. */
typedef enum { mqs_lang_c = 'c', mqs_lang_cplus = 'C', mqs_lang_f77 = 'f', mqs_lang_f90 = 'F' } mqs_lang_code;

/* The queues that mqs_setup_operation_iterator lists. */
typedef enum { mqs_pending_sends = 0, mqs_pending_receives = 1, mqs_unexpected_messages = 2 } mqs_op_class;

/* How far an operation is. */
enum mqs_status { mqs_st_pending = 0, mqs_st_matched = 1, mqs_st_complete = 2 };

/* Sizes in bytes of the C types of the target process. Other headers with the same revision have more behind these
 * (Open MPI's: int bool_size, size_t_size): a debugger may fill those, too. */
typedef struct {
    int short_size;
    int int_size;
    int long_size;
    int long_long_size;
    int pointer_size;
} mqs_target_type_sizes;

/* One communicator, as one process sees it. */
typedef struct {
    /* The same number in every process of the communicator, on both sides of an inter-communicator, and another one for
     * each communicator of the job. In libmqs the lower 40 bits are the MPI's own number, which disjoint communicators
     * may share (the parts of a split, each process's MPI_COMM_SELF), and the upper ones the lowest MPI_COMM_WORLD rank
     * of all its processes, those of a remote group too, which two of the same number never share.
     * - Open MPI: the lower 25 bits are its number (the context id, or c_index), the next 15 distinguish the MPI_COMM_WORLDs
     *   of spawned jobs: 0 for the first job. With processes of several, the rank is of the first of these jobs. With
     *   bit 63 it is a hash of an extended id (communicators made from a group, since 5.0) and the lowest rank.
     * - MPICH: the lower 20 bits are its context id, or the lower one of an inter-communicator, whose higher one is in the
     *   next 20. Processes of several MPI_COMM_WORLDs have no ranks that all agree on: the upper bits are 0x7fffff then.
     *   MPI_COMM_WORLDs, and communicators made within them, can't be distinguished from those of another spawned job. */
    mqs_taddr_t unique_id;
    mqs_tword_t local_rank; /* This process's rank in its local group. */
    mqs_tword_t size;       /* Processes in its local group, which mqs_get_comm_group lists. */
    /* Ends in NUL. The first 63 bytes of what MPI_Comm_get_name gives in the process (of a UTF-8 name whole
     * characters), without trailing blanks. What libmqs has to add follows in brackets where all of it fits behind the
     * whole name, and never cuts it: "halo [inter, 2 remote]", "halo [freed]". One without a name is empty or described
     * in brackets: "[dup of halo]", "[dup of halo] [freed]", "[inter, 2 remote]". */
    char name[64];
} mqs_communicator;

/* One operation. Ranks are -1 where they are open or not known; lengths are bytes.
 * Local ranks are ranks of the communicator under the cursor: of an inter-communicator those of its remote group, where
 * the messages come from and go to, while size and mqs_get_comm_group are of the local group. Global ranks are ranks of
 * the process's own MPI_COMM_WORLD. */
typedef struct {
    int status; /* An enum mqs_status. */
    mqs_tword_t desired_local_rank;
    mqs_tword_t desired_global_rank;
    int tag_wild; /* 1: any tag matches, and desired_tag means nothing. */
    mqs_tword_t desired_tag;
    mqs_tword_t desired_length;
    int system_buffer; /* 1: buffer is the MPI's own memory. */
    mqs_taddr_t buffer; /* Start of the message's bytes; 0 if unknown, and a line of the text may say more. */
    /* Of a receive: filled when the status is matched or complete. Of a send and an unexpected message: what is desired. */
    mqs_tword_t actual_local_rank;
    mqs_tword_t actual_global_rank;
    mqs_tword_t actual_tag;
    mqs_tword_t actual_length;
    char extra_text[5][64]; /* Lines for the user; an unused one is empty. */
} mqs_pending_operation;

/* libmqs's own: the parts of mqs_communicator.name, each whole even where that field is too short. */
typedef struct {
    char name[64];           /* Of the program or of the standard; empty when there is none. */
    char description[64];    /* Of one without a name, in libmqs's words; empty if nothing is known. */
    mqs_tword_t remote_size; /* Processes in its remote group; -1: it is no inter-communicator. */
    int is_freed;            /* 1: the program has freed it, and operations hold it. */
    int is_internal;         /* 1: the MPI keeps it for itself. */
    mqs_taddr_t handle;      /* Its MPI_Comm, as the program has it; 0 where it isn't known. */
} libmqs_comm_label;

/* What the debugger offers without regard to an image. */
typedef void *(*mqs_malloc_ft)(unsigned long size);
typedef void (*mqs_free_ft)(void *memory);
typedef void (*mqs_dprints_ft)(const char *text);
typedef char *(*mqs_errorstring_ft)(int code);
typedef void (*mqs_put_image_info_ft)(mqs_image *image, mqs_image_info *info);
typedef mqs_image_info *(*mqs_get_image_info_ft)(mqs_image *image);
typedef void (*mqs_put_process_info_ft)(mqs_process *process, mqs_process_info *info);
typedef mqs_process_info *(*mqs_get_process_info_ft)(mqs_process *process);

typedef struct mqs_basic_callbacks {
    mqs_malloc_ft mqs_malloc_fp;
    mqs_free_ft mqs_free_fp;
    mqs_dprints_ft mqs_dprints_fp;         /* May be NULL. */
    mqs_errorstring_ft mqs_errorstring_fp; /* May be NULL. */
    mqs_put_image_info_ft mqs_put_image_info_fp;
    mqs_get_image_info_ft mqs_get_image_info_fp;
    mqs_put_process_info_ft mqs_put_process_info_fp;
    mqs_get_process_info_ft mqs_get_process_info_fp;
} mqs_basic_callbacks;

/* What the debugger knows of an image. find_function and find_symbol answer mqs_ok when the name is there;
 * find_type answers NULL, and field_offset -1, when it is not.
 * An address is that in the process which the library's call at hand is about: the processes of one image have their
 * libraries at different addresses. In a call about an image, libmqs asks only whether a name is there. */
typedef void (*mqs_get_type_sizes_ft)(mqs_process *process, mqs_target_type_sizes *sizes);
typedef int (*mqs_find_function_ft)(mqs_image *image, char *name, mqs_lang_code language, mqs_taddr_t *address);
typedef int (*mqs_find_symbol_ft)(mqs_image *image, char *name, mqs_taddr_t *address);
typedef mqs_type *(*mqs_find_type_ft)(mqs_image *image, char *name, mqs_lang_code language);
typedef int (*mqs_field_offset_ft)(mqs_type *type, char *name);
typedef int (*mqs_sizeof_ft)(mqs_type *type);

typedef struct mqs_image_callbacks {
    mqs_get_type_sizes_ft mqs_get_type_sizes_fp;
    mqs_find_function_ft mqs_find_function_fp;
    mqs_find_symbol_ft mqs_find_symbol_fp;
    mqs_find_type_ft mqs_find_type_fp;
    mqs_field_offset_ft mqs_field_offset_fp;
    mqs_sizeof_ft mqs_sizeof_fp; /* May be NULL. */
} mqs_image_callbacks;

/* What the debugger knows of a process. fetch_data answers mqs_ok when it read all of the bytes. */
typedef int (*mqs_get_global_rank_ft)(mqs_process *process);
typedef mqs_image *(*mqs_get_image_ft)(mqs_process *process);
typedef int (*mqs_fetch_data_ft)(mqs_process *process, mqs_taddr_t address, int size, void *data);
typedef void (*mqs_target_to_host_ft)(mqs_process *process, const void *in, void *out, int size);

typedef struct mqs_process_callbacks {
    mqs_get_global_rank_ft mqs_get_global_rank_fp;
    mqs_get_image_ft mqs_get_image_fp;
    mqs_fetch_data_ft mqs_fetch_data_fp;
    mqs_target_to_host_ft mqs_target_to_host_fp;
} mqs_process_callbacks;

/* End of the types. */

/* The library's functions. Those that return int answer a result code unless said otherwise. */

/* Gives the library the debugger's callbacks; the first call of all. */
extern void mqs_setup_basic_callbacks(const mqs_basic_callbacks *callbacks);

extern char *mqs_version_string(void);
extern int mqs_version_compatibility(void); /* MQS_INTERFACE_COMPATIBILITY, or the library can't be used. */
extern int mqs_dll_taddr_width(void);       /* sizeof(mqs_taddr_t) as the library was built. */

/* A sentence for a result code; for the last failure of this thread, with its details. Valid until many more were asked for. */
extern char *mqs_dll_error_string(int code);

extern int mqs_setup_image(mqs_image *image, const mqs_image_callbacks *callbacks);
/* mqs_ok: the image has an MPI that libmqs knows, with the symbols that every build of it exports. Sets *message to a
 * text for the user, or to NULL. It stays valid until the call is made again or the image is destroyed. */
extern int mqs_image_has_queues(mqs_image *image, char **message);
extern int mqs_destroy_image_info(mqs_image_info *info);

extern int mqs_setup_process(mqs_process *process, const mqs_process_callbacks *callbacks);
extern int mqs_process_has_queues(mqs_process *process, char **message);
extern int mqs_destroy_process_info(mqs_process_info *info);

/* Reads the communicators anew: the process may have run. */
extern int mqs_update_communicator_list(mqs_process *process);

/* A cursor over the communicators. next answers mqs_end_of_list past the last one. The set-up reads the communicators
 * where mqs_update_communicator_list has not. */
extern int mqs_setup_communicator_iterator(mqs_process *process);
extern int mqs_get_communicator(mqs_process *process, mqs_communicator *communicator);
extern int mqs_next_communicator(mqs_process *process);

/* Fills ranks, an array of `size`, with the ranks in MPI_COMM_WORLD of the communicator under the cursor. */
extern int mqs_get_comm_group(mqs_process *process, int *ranks);

/* Lists one queue (mqs_op_class) of the communicator under the cursor; mqs_no_information: it can't be seen. */
extern int mqs_setup_operation_iterator(mqs_process *process, int queue);
extern int mqs_next_operation(mqs_process *process, mqs_pending_operation *operation);

/* libmqs's own, to be looked for with dlsym: the label of the communicator under the cursor. */
extern int libmqs_get_comm_label(mqs_process *process, libmqs_comm_label *label);

/* The process's rank in MPI_COMM_WORLD itself, not a result code; MQS_INVALID_PROCESS: not known. */
extern int mqs_get_global_rank(mqs_process *process);

/* padb and patched debuggers also look for mqs_get_comm_coll_state(process, class, &count, &active): how often a process
 * has called each collective operation on the communicator under the cursor. libmqs does not export it, and dlsym
 * answers NULL: Open MPI and MPICH keep no such counts, and none is made up. */

#ifdef __cplusplus
}
#endif

#endif
