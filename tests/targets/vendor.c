/* An MQS library as a vendor might write it: it asks the debugger everything, and answers with every kind of code.
 *
 * The process's variable "plan" selects what to do: see the enum. Compile with
 * -DREVISION=N for another revision of the interface, -DWIDTH=N for another width, -DBARE for too few entry points.
 */
#include "mqs_interface.h"

#include <stdio.h>
#include <string.h>

#ifndef REVISION
#define REVISION MQS_INTERFACE_COMPATIBILITY
#endif
#ifndef WIDTH
#define WIDTH sizeof(mqs_taddr_t)
#endif

enum { FAILURE = 117 };
enum plan { SHOW, HIDE_QUEUES, FAIL_QUEUES, BREAK_QUEUES, ODD_STATUS, READ_WILDLY, GO_ON_FOREVER, HANG };

int mqs_version_compatibility(void)
{
    return REVISION;
}

int mqs_dll_taddr_width(void)
{
    return WIDTH;
}

#ifndef BARE

struct mqs_image_info_ {
    const mqs_image_callbacks *calls;
    char message[64];
};
struct mqs_process_info_ {
    const mqs_process_callbacks *calls;
    int left; /* operations to list */
};

static const mqs_basic_callbacks *basic;
static int communicators_left;

static int ask_plan(mqs_process *process)
{
    mqs_process_info *info = basic->mqs_get_process_info_fp(process);
    mqs_image *image = info->calls->mqs_get_image_fp(process);
    const mqs_image_callbacks *calls = basic->mqs_get_image_info_fp(image)->calls;
    mqs_taddr_t address;
    unsigned char raw[4], word[4];
    int plan;
    if (calls->mqs_find_symbol_fp(image, "plan", &address) != mqs_ok)
        return SHOW;
    if (info->calls->mqs_fetch_data_fp(process, address, 4, raw) != mqs_ok)
        return READ_WILDLY;
    info->calls->mqs_target_to_host_fp(process, raw, word, 4);
    memcpy(&plan, word, sizeof plan);
    return plan;
}

char *mqs_version_string(void)
{
    return "a vendor's library";
}

char *mqs_dll_error_string(int code)
{
    static char text[64];
    snprintf(text, sizeof text, "the vendor's text for %d", code);
    return text;
}

void mqs_setup_basic_callbacks(const mqs_basic_callbacks *callbacks)
{
    basic = callbacks;
}

int mqs_setup_image(mqs_image *image, const mqs_image_callbacks *callbacks)
{
    mqs_image_info *info = basic->mqs_malloc_fp(sizeof *info);
    info->calls = callbacks;
    basic->mqs_put_image_info_fp(image, info);
    basic->mqs_dprints_fp("an image\n");
    return mqs_ok;
}

int mqs_image_has_queues(mqs_image *image, char **message)
{
    mqs_image_info *info = basic->mqs_get_image_info_fp(image);
    const mqs_image_callbacks *calls = info->calls;
    mqs_taddr_t function = 0;
    mqs_type *type = calls->mqs_find_type_fp(image, "lamp_t", mqs_lang_c);
    if (calls->mqs_find_symbol_fp(image, "decline", NULL) == mqs_ok) {
        *message = "lamp_t";
        return FAILURE;
    }
    calls->mqs_find_function_fp(image, "lamp_watts", mqs_lang_c, &function);
    snprintf(info->message, sizeof info->message, "%lx %d %d %d %d", function,
             type ? calls->mqs_field_offset_fp(type, "watts") : 0, type ? calls->mqs_field_offset_fp(type, "none") : 0,
             type ? calls->mqs_sizeof_fp(type) : 0, calls->mqs_find_type_fp(image, "none", mqs_lang_c) != NULL);
    *message = info->message;
    return mqs_ok;
}

int mqs_destroy_image_info(mqs_image_info *info)
{
    basic->mqs_free_fp(info);
    return mqs_ok;
}

int mqs_setup_process(mqs_process *process, const mqs_process_callbacks *callbacks)
{
    mqs_process_info *info = basic->mqs_malloc_fp(sizeof *info);
    info->calls = callbacks;
    basic->mqs_put_process_info_fp(process, info);
    return mqs_ok;
}

int mqs_process_has_queues(mqs_process *process, char **message)
{
    mqs_process_info *info = basic->mqs_get_process_info_fp(process);
    static char text[64];
    mqs_target_type_sizes sizes = {0, 0, 0, 0, 0};
    mqs_image *image = info->calls->mqs_get_image_fp(process);
    basic->mqs_get_image_info_fp(image)->calls->mqs_get_type_sizes_fp(process, &sizes);
    snprintf(text, sizeof text, "%d %d %d %d %d %d", info->calls->mqs_get_global_rank_fp(process), sizes.short_size,
             sizes.int_size, sizes.long_size, sizes.long_long_size, sizes.pointer_size);
    *message = text;
    return mqs_ok;
}

int mqs_destroy_process_info(mqs_process_info *info)
{
    basic->mqs_free_fp(info);
    return mqs_ok;
}

int mqs_update_communicator_list(mqs_process *process)
{
    int plan = ask_plan(process);
    while (plan == HANG)
        ;
    return plan == READ_WILDLY ? FAILURE : mqs_ok;
}

int mqs_setup_communicator_iterator(mqs_process *process)
{
    (void)process;
    communicators_left = 2;
    return mqs_ok;
}

int mqs_get_communicator(mqs_process *process, mqs_communicator *communicator)
{
    (void)process;
    if (!communicators_left)
        return mqs_no_information;
    memset(communicator, 0, sizeof *communicator);
    communicator->unique_id = 0xffffffffffffff00UL + (unsigned)communicators_left;
    communicator->local_rank = 1;
    communicator->size = 3;
    memset(communicator->name, 'n', sizeof communicator->name); /* without a NUL */
    memcpy(communicator->name, "caf\xc3\xa9", 5);
    return mqs_ok;
}

int mqs_next_communicator(mqs_process *process)
{
    (void)process;
    return --communicators_left ? mqs_ok : mqs_end_of_list;
}

int mqs_get_comm_group(mqs_process *process, int *ranks)
{
    if (ask_plan(process) == HIDE_QUEUES)
        return mqs_no_information;
    for (int i = 0; i < 3; i++)
        ranks[i] = i ? 4 * i : -1;
    return mqs_ok;
}

int mqs_setup_operation_iterator(mqs_process *process, int queue)
{
    int plan = ask_plan(process);
    basic->mqs_get_process_info_fp(process)->left = queue == mqs_pending_sends ? 0 : 2;
    if (plan == HIDE_QUEUES)
        return mqs_no_information;
    return plan == FAIL_QUEUES ? FAILURE : mqs_ok;
}

int mqs_next_operation(mqs_process *process, mqs_pending_operation *operation)
{
    mqs_process_info *info = basic->mqs_get_process_info_fp(process);
    int plan = ask_plan(process);
    if (!info->left)
        return mqs_end_of_list;
    if (plan != GO_ON_FOREVER && --info->left == 0 && plan == BREAK_QUEUES)
        return FAILURE;
    memset(operation, 0, sizeof *operation);
    operation->status = plan == ODD_STATUS ? 7 : mqs_st_matched;
    operation->desired_local_rank = MQS_INVALID_PROCESS;
    operation->desired_global_rank = 1L << 40;
    operation->tag_wild = 1;
    operation->desired_tag = -2;
    operation->desired_length = 3;
    operation->system_buffer = 1;
    operation->buffer = 0xfffffffffffff000UL;
    operation->actual_local_rank = 5;
    operation->actual_global_rank = 6;
    operation->actual_tag = 7;
    operation->actual_length = 8;
    memset(operation->extra_text[0], 'x', sizeof operation->extra_text[0]); /* without a NUL */
    strcpy(operation->extra_text[1], "caf\xe9");
    return mqs_ok;
}

#endif
