/* A debugger in miniature: shows what an MQS library knows of processes, each as a JSON document on a line of its own.
 *
 * It stands in for the debuggers that libmqs is made for, and so knows nothing of Python or of any MPI: only
 * mqs_interface.h, ELF and ptrace. It has no debug information to offer but what a file says.
 */
#define _GNU_SOURCE
#include "json.h"
#include "library.h"
#include "process.h"
#include "symbols.h"
#include "types.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ITEMS = 1000000, MAX_NAME = 4096 };

static const char usage[] =
    "usage: mqs_host [options] DLL PID...\n"
    "  DLL            the MQS library; - is the one that MPIR_dll_name in the first process names\n"
    "  --no-optional  give no mqs_dprints, mqs_errorstring and mqs_sizeof\n"
    "  --no-update    set the communicator iterator up without mqs_update_communicator_list\n"
    "  --loop-get     loop while mqs_get_communicator succeeds, whatever mqs_next_communicator answers\n"
    "  --chunk N      fetch in pieces of N bytes at most\n"
    "  --latency USEC wait before each fetch, as if the process were far away\n"
    "  --types FILE   have the debug information of a file: lines \"STRUCT SIZE\" and \"STRUCT.MEMBER OFFSET\"\n"
    "  --repeat N     before, set the process up N times and sweep twice each time, and print how long that took\n"
    "  --no-stop      don't stop the process\n"
    "  --one-image    set all processes up as ones of the first one's image, and ask about them in turn\n";

static struct {
    const char *dll;
    int no_optional;
    int loop_get;
    int no_update;
    int no_stop;
    int one_image;
    size_t chunk;
    long latency;
    int repeat;
} options;

static struct {
    unsigned long fetches, failed_fetches, bytes, symbols, types;
} counts;

static struct library library;

enum { MAX_PROCESSES = 64, MAX_GROUP = 4096 };

/* What a debugger calls mqs_image and mqs_process. */
struct mqs_image_ {
    mqs_image_info *info;
};
struct mqs_process_ {
    pid_t pid;
    const struct symbols *symbols;
    mqs_process_info *info;
    int step; /* What comes next when its iterators are moved while another process is shown. */
};
static mqs_image the_image;
static mqs_process processes[MAX_PROCESSES];
static size_t process_count;

/* The one that the debugger is at: a question that names but the image is about it. */
static mqs_process *at = processes;

/* ---------------------------------------------------------------- callbacks */

static void *host_malloc(unsigned long size)
{
    return malloc(size);
}

static void host_dprints(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

static char *host_errorstring(int code)
{
    static char text[32];

    snprintf(text, sizeof text, "the host's code %d", code);
    return text;
}

static void put_image_info(mqs_image *image, mqs_image_info *info)
{
    image->info = info;
}

static mqs_image_info *get_image_info(mqs_image *image)
{
    return image->info;
}

static void put_process_info(mqs_process *process, mqs_process_info *info)
{
    process->info = info;
}

static mqs_process_info *get_process_info(mqs_process *process)
{
    return process->info;
}

static void get_type_sizes(mqs_process *process, mqs_target_type_sizes *sizes)
{
    (void)process;
    *sizes = (mqs_target_type_sizes){sizeof(short), sizeof(int), sizeof(long), sizeof(long long), sizeof(void *)};
}

static int find(enum symbol_kind kind, const char *name, mqs_taddr_t *address)
{
    uint64_t found;

    counts.symbols++;
    if (!symbols_find(at->symbols, kind, name, &found, NULL)) {
        return mqs_no_information;
    }
    if (address != NULL) {
        *address = found;
    }
    return mqs_ok;
}

static int find_function(mqs_image *image, char *name, mqs_lang_code language, mqs_taddr_t *address)
{
    (void)image;
    (void)language;
    return find(FUNCTION, name, address);
}

static int find_symbol(mqs_image *image, char *name, mqs_taddr_t *address)
{
    (void)image;
    return find(VARIABLE, name, address);
}

static mqs_type *find_type(mqs_image *image, char *name, mqs_lang_code language)
{
    (void)image;
    (void)language;
    counts.types++;
    return types_find(name);
}

static int field_offset(mqs_type *type, char *name)
{
    return types_offset(type, name);
}

static int size_of(mqs_type *type)
{
    return types_size(type);
}

/* This host does not know ranks, as a debugger that attached to one process by hand. */
static int get_global_rank(mqs_process *process)
{
    (void)process;
    return MQS_INVALID_PROCESS;
}

static mqs_image *get_image(mqs_process *process)
{
    (void)process;
    return &the_image;
}

static int fetch_piece(const mqs_process *process, mqs_taddr_t address, size_t size, void *data)
{
    counts.fetches++;
    counts.bytes += size;
    if (options.latency > 0) {
        struct timespec pause = {options.latency / 1000000, options.latency % 1000000 * 1000};

        nanosleep(&pause, NULL);
    }
    if (process_read(process->pid, address, data, size)) {
        return mqs_ok;
    }
    counts.failed_fetches++;
    return mqs_no_information;
}

static int fetch_data(mqs_process *process, mqs_taddr_t address, int size, void *data)
{
    size_t left = (size_t)size;
    char *place = data;

    while (left > 0) {
        size_t piece = options.chunk > 0 && options.chunk < left ? options.chunk : left;
        int code = fetch_piece(process, address, piece, place);

        if (code != mqs_ok) {
            return code;
        }
        address += piece;
        place += piece;
        left -= piece;
    }
    return mqs_ok;
}

static void target_to_host(mqs_process *process, const void *in, void *out, int size)
{
    (void)process;
    memcpy(out, in, (size_t)size);
}

static mqs_basic_callbacks basic_callbacks = {host_malloc,    free,           host_dprints,     host_errorstring,
                                              put_image_info, get_image_info, put_process_info, get_process_info};
static mqs_image_callbacks image_callbacks = {get_type_sizes, find_function, find_symbol,
                                              find_type,      field_offset,  size_of};
static const mqs_process_callbacks process_callbacks = {get_global_rank, get_image, fetch_data, target_to_host};

/* ---------------------------------------------------------------- several processes at once */

/* Moves the iterators of a process by one call, whatever comes of it. */
static void take_step(mqs_process *process)
{
    static int ranks[MAX_GROUP];
    mqs_pending_operation operation;
    mqs_communicator communicator;
    int queue;

    switch (process->step) {
    case 0:
        (void)library.update_communicator_list(process);
        process->step++;
        return;
    case 1:
        (void)library.setup_communicator_iterator(process);
        process->step++;
        return;
    case 2:
        if (library.get_communicator(process, &communicator) != mqs_ok) {
            process->step = 0;
        } else {
            process->step += communicator.size > MAX_GROUP ? 2 : 1;
        }
        return;
    case 3:
        (void)library.get_comm_group(process, ranks);
        process->step++;
        return;
    case 10:
        (void)library.next_communicator(process);
        process->step = 2;
        return;
    default:
        queue = (process->step - 4) / 2;
        if (process->step % 2 == 0) {
            process->step += library.setup_operation_iterator(process, queue) == mqs_ok ? 1 : 2;
        } else if (library.next_operation(process, &operation) != mqs_ok) {
            process->step++;
        }
    }
}

/* The process that is shown; before each question about it, the others are asked about. */
static mqs_process *shown(void)
{
    mqs_process *process = at;

    if (options.one_image) {
        for (at = processes; at < processes + process_count; at++) {
            if (at != process) {
                take_step(at);
            }
        }
        at = process;
    }
    return process;
}

/* ---------------------------------------------------------------- a sweep over all that the library shows */

/* With `print`, a call's result goes into the document; without it, the sweep is only timed. */
static int report(int print, const char *key, int code)
{
    if (print) {
        json_begin(key, '{');
        json_integer("code", code);
        json_string("error", code == mqs_ok || code == mqs_end_of_list ? NULL : library.dll_error_string(code));
        json_end('}');
    }
    return code;
}

static void print_operation(const mqs_pending_operation *operation)
{
    json_begin(NULL, '{');
    json_integer("status", operation->status);
    json_integer("desired_local_rank", operation->desired_local_rank);
    json_integer("desired_global_rank", operation->desired_global_rank);
    json_integer("tag_wild", operation->tag_wild);
    json_integer("desired_tag", operation->desired_tag);
    json_integer("desired_length", operation->desired_length);
    json_integer("system_buffer", operation->system_buffer);
    json_unsigned("buffer", operation->buffer);
    json_integer("actual_local_rank", operation->actual_local_rank);
    json_integer("actual_global_rank", operation->actual_global_rank);
    json_integer("actual_tag", operation->actual_tag);
    json_integer("actual_length", operation->actual_length);
    json_begin("extra_text", '[');
    for (int i = 0; i < 5 && operation->extra_text[i][0] != '\0'; i++) {
        json_field(NULL, operation->extra_text[i], sizeof operation->extra_text[i]);
    }
    json_end(']');
    json_end('}');
}

static void sweep_queue(int print, int queue)
{
    static const char *const names[] = {"sends", "receives", "unexpected"};
    mqs_pending_operation operation;
    int code = mqs_end_of_list;

    if (print) {
        json_begin(names[queue], '{');
    }
    if (report(print, "setup", library.setup_operation_iterator(shown(), queue)) == mqs_ok) {
        if (print) {
            json_begin("operations", '[');
        }
        for (int i = 0; i < MAX_ITEMS; i++) {
            code = library.next_operation(shown(), &operation);
            if (code != mqs_ok) {
                break;
            }
            if (print) {
                print_operation(&operation);
            }
        }
        if (print) {
            json_end(']');
        }
        report(print, "end", code);
    }
    if (print) {
        json_end('}');
    }
}

static void sweep_group(int print, long size)
{
    int *ranks = calloc((size_t)size + 1, sizeof *ranks);
    const int guard = 0x5a5a5a5a;

    if (ranks == NULL || size < 0 || size > MAX_ITEMS) {
        free(ranks);
        return;
    }
    ranks[size] = guard;
    if (report(print, "group", library.get_comm_group(shown(), ranks)) == mqs_ok && print) {
        json_begin("ranks", '[');
        for (long i = 0; i < size; i++) {
            json_integer(NULL, ranks[i]);
        }
        json_end(']');
    }
    if (ranks[size] != guard) {
        fprintf(stderr, "mqs_get_comm_group wrote past the end of the group\n");
        abort();
    }
    free(ranks);
}

static void sweep_label(int print)
{
    libmqs_comm_label label;

    if (library.get_comm_label == NULL || report(print, "label", library.get_comm_label(shown(), &label)) != mqs_ok
        || !print) {
        return;
    }
    json_field("label_name", label.name, sizeof label.name);
    json_field("label_description", label.description, sizeof label.description);
    json_integer("label_remote", label.remote_size);
    json_integer("label_freed", label.is_freed);
    json_integer("label_internal", label.is_internal);
    json_unsigned("label_handle", label.handle);
}

static void sweep_communicator(int print, const mqs_communicator *communicator)
{
    if (print) {
        json_begin(NULL, '{');
        json_unsigned("unique_id", communicator->unique_id);
        json_integer("local_rank", communicator->local_rank);
        json_integer("size", communicator->size);
        json_field("name", communicator->name, sizeof communicator->name);
    }
    sweep_label(print);
    sweep_group(print, communicator->size);
    for (int queue = mqs_pending_sends; queue <= mqs_unexpected_messages; queue++) {
        sweep_queue(print, queue);
    }
    if (print) {
        json_end('}');
    }
}

static void sweep(int print)
{
    mqs_communicator communicator;
    int code;

    if ((!options.no_update && report(print, "update", library.update_communicator_list(shown())) != mqs_ok)
        || report(print, "iterator", library.setup_communicator_iterator(shown())) != mqs_ok) {
        return;
    }
    if (print) {
        json_begin("communicators", '[');
    }
    code = library.get_communicator(shown(), &communicator);
    for (int i = 0; i < MAX_ITEMS && code == mqs_ok; i++) {
        sweep_communicator(print, &communicator);
        code = library.next_communicator(shown());
        if (code == mqs_ok || options.loop_get) {
            code = library.get_communicator(shown(), &communicator);
        }
    }
    if (print) {
        json_end(']');
    }
    report(print, "end", code);
}

static double microseconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* What something took: this process's processor time, and by the clock. */
struct duration {
    double busy, all;
};

static struct duration now(void)
{
    return (struct duration){microseconds(CLOCK_PROCESS_CPUTIME_ID), microseconds(CLOCK_MONOTONIC)};
}

static struct duration since(struct duration started)
{
    struct duration end = now();

    return (struct duration){end.busy - started.busy, end.all - started.all};
}

static void print_duration(const char *key, struct duration duration)
{
    json_begin(key, '{');
    json_double("busy_us", duration.busy);
    json_double("all_us", duration.all);
    json_end('}');
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file != NULL) {
        if (fscanf(file, "%*s %ld", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A sweep's shortest duration so far, and what it read. */
struct measured {
    struct duration best;
    unsigned long fetches, bytes;
};

static void measure_sweep(struct measured *measured)
{
    struct duration started = now(), took;

    memset(&counts, 0, sizeof counts);
    sweep(0);
    took = since(started);
    if (measured->best.all == 0 || took.busy < measured->best.busy) {
        measured->best.busy = took.busy;
    }
    if (measured->best.all == 0 || took.all < measured->best.all) {
        measured->best.all = took.all;
    }
    measured->fetches = counts.fetches;
    measured->bytes = counts.bytes;
}

static void print_measured(const char *key, const struct measured *measured)
{
    json_begin(key, '{');
    print_duration("best", measured->best);
    json_unsigned("fetches", measured->fetches);
    json_unsigned("bytes", measured->bytes);
    json_end('}');
}

static void time_sweeps(void)
{
    struct measured first = {{0, 0}, 0, 0}, again = {{0, 0}, 0, 0};
    char *message;

    for (int i = 0; i < options.repeat; i++) {
        library.destroy_process_info(at->info);
        library.setup_process(at, &process_callbacks);
        library.process_has_queues(at, &message);
        measure_sweep(&first);
        measure_sweep(&again);
    }
    json_begin("timing", '{');
    print_measured("first", &first);
    print_measured("again", &again);
    json_end('}');
    memset(&counts, 0, sizeof counts);
}

/* ---------------------------------------------------------------- the life of a session */

static void print_counts(const char *key)
{
    json_begin(key, '{');
    json_unsigned("fetches", counts.fetches);
    json_unsigned("failed_fetches", counts.failed_fetches);
    json_unsigned("bytes", counts.bytes);
    json_unsigned("symbols", counts.symbols);
    json_unsigned("types", counts.types);
    json_end('}');
    memset(&counts, 0, sizeof counts);
}

static struct {
    struct duration started;
    long resident_kib;
} before_library;

static int show_image(void)
{
    char *message = NULL;
    int code;

    if (report(1, "setup_image", library.setup_image(&the_image, &image_callbacks)) != mqs_ok) {
        return 0;
    }
    code = report(1, "image_has_queues", library.image_has_queues(&the_image, &message));
    print_duration("start", since(before_library.started));
    json_string("image_message", message);
    return code == mqs_ok;
}

static int set_process_up(void)
{
    return report(1, "setup_process", library.setup_process(at, &process_callbacks)) == mqs_ok;
}

static int show_process(void)
{
    char *message = NULL;
    int code = report(1, "process_has_queues", library.process_has_queues(at, &message));

    json_string("process_message", message);
    if (library.get_global_rank != NULL) {
        json_integer("global_rank", library.get_global_rank(at));
    }
    return code == mqs_ok;
}

static void show_library(void)
{
    json_string("library", options.dll);
    library.setup_basic_callbacks(&basic_callbacks);
    json_string("version", library.version_string());
    json_integer("compatibility", library.version_compatibility());
    json_integer("taddr_width", library.dll_taddr_width());
}

static void show_queues(void)
{
    print_counts("setup_counts");
    if (options.repeat > 0) {
        time_sweeps();
    }
    sweep(1);
    print_counts("sweep_counts");
    json_integer("resident_kib", resident_kib() - before_library.resident_kib);
}

static void destroy_process(void)
{
    if (at->info != NULL) {
        report(1, "destroy_process", library.destroy_process_info(at->info));
        at->info = NULL;
    }
}

static void destroy_image(void)
{
    if (the_image.info != NULL) {
        report(1, "destroy_image", library.destroy_image_info(the_image.info));
        the_image.info = NULL;
    }
}

static int stop(const mqs_process *process)
{
    return options.no_stop || process_stop(process->pid);
}

/* The image is the process's own. Answers 1, or 0 after a line on stderr. */
static int show_alone(void)
{
    json_begin(NULL, '{');
    show_library();
    if (!stop(at)) {
        return 0;
    }
    if (show_image() && set_process_up() && show_process()) {
        show_queues();
    }
    destroy_process();
    destroy_image();
    process_resume();
    json_document_end();
    return 1;
}

/* The image is that of all processes, and is looked at when the debugger is at the first one. All are set up before
 * anything is asked of one, and all are asked before the queues of any are shown. A document for each of them. */
static int show_together(void)
{
    const mqs_process *end = processes + process_count;
    int code = mqs_ok;
    char *message;

    library.setup_basic_callbacks(&basic_callbacks);
    for (at = processes; at < end; at++) {
        if (!stop(at)) {
            return 0;
        }
    }
    at = processes;
    if (library.setup_image(&the_image, &image_callbacks) != mqs_ok
        || (code = library.image_has_queues(&the_image, &message)) != mqs_ok) {
        fprintf(stderr, "image: %s\n", library.dll_error_string(code));
        return 0;
    }
    for (at = processes; at < end; at++) {
        code = library.setup_process(at, &process_callbacks);
        if (code != mqs_ok) {
            fprintf(stderr, "process %d: %s\n", (int)at->pid, library.dll_error_string(code));
            return 0;
        }
    }
    for (at = processes; at < end; at++) {
        code = library.process_has_queues(at, &message);
        if (code != mqs_ok) {
            fprintf(stderr, "process %d: %s\n", (int)at->pid, message);
            return 0;
        }
    }
    for (at = processes; at < end; at++) {
        json_begin(NULL, '{');
        if (show_process()) {
            sweep(1);
        }
        json_document_end();
    }
    for (at = processes; at < end; at++) {
        library.destroy_process_info(at->info);
    }
    library.destroy_image_info(the_image.info);
    process_resume();
    return 1;
}

/* ---------------------------------------------------------------- start */

/* Reads MPIR_dll_name: the characters themselves, as in every MPI, or a pointer to them, as in the MPI Forum's text.
 * Answers 1, or 0 after a line on stderr. */
static int read_dll_name(char *name, size_t room)
{
    uint64_t address, size;
    size_t length = 0;

    if (!symbols_find(at->symbols, VARIABLE, "MPIR_dll_name", &address, &size)) {
        fprintf(stderr, "process %d has no MPIR_dll_name\n", (int)at->pid);
        return 0;
    }
    if (size == sizeof(void *) && !process_read(at->pid, address, &address, sizeof address)) {
        address = 0;
    }
    while (length + 1 < room && process_read(at->pid, address + length, &name[length], 1) && name[length] != '\0') {
        length++;
    }
    name[length] = '\0';
    if (length == 0) {
        fprintf(stderr, "MPIR_dll_name of process %d is empty\n", (int)at->pid);
    }
    return length > 0;
}

static int parse_options(int argc, char **argv)
{
    enum { CHUNK = 256, LATENCY, REPEAT, TYPES };
    static const struct option names[] = {
        {"no-optional", no_argument, &options.no_optional, 1},
        {"loop-get", no_argument, &options.loop_get, 1},
        {"no-update", no_argument, &options.no_update, 1},
        {"no-stop", no_argument, &options.no_stop, 1},
        {"one-image", no_argument, &options.one_image, 1},
        {"chunk", required_argument, NULL, CHUNK},
        {"latency", required_argument, NULL, LATENCY},
        {"repeat", required_argument, NULL, REPEAT},
        {"types", required_argument, NULL, TYPES},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 0:
            break;
        case CHUNK:
            options.chunk = (size_t)strtoul(optarg, NULL, 10);
            break;
        case LATENCY:
            options.latency = strtol(optarg, NULL, 10);
            break;
        case REPEAT:
            options.repeat = atoi(optarg);
            break;
        case TYPES:
            if (!types_load(optarg)) {
                return 0;
            }
            break;
        default:
            return 0;
        }
    }
    if (argc - optind < 2) {
        return 0;
    }
    options.dll = argv[optind];
    if (options.no_optional) {
        basic_callbacks.mqs_dprints_fp = NULL;
        basic_callbacks.mqs_errorstring_fp = NULL;
        image_callbacks.mqs_sizeof_fp = NULL;
    }
    return 1;
}

/* Prepares a process: all that takes time comes before it is stopped. Answers 1, or 0 after a line on stderr. */
static int prepare(const char *pid)
{
    static char dll_name[MAX_NAME];

    at->pid = (pid_t)atoi(pid);
    at->symbols = symbols_load(at->pid);
    if (at->symbols == NULL) {
        return 0;
    }
    if (strcmp(options.dll, "-") == 0) {
        if (!read_dll_name(dll_name, sizeof dll_name)) {
            return 0;
        }
        options.dll = dll_name;
    }
    return 1;
}

static int open_library(void)
{
    before_library.resident_kib = resident_kib();
    before_library.started = now();
    return library.setup_basic_callbacks != NULL || library_open(&library, options.dll);
}

int main(int argc, char **argv)
{
    if (!parse_options(argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    while (++optind < argc) {
        if (options.one_image) {
            if (process_count == MAX_PROCESSES) {
                return 2;
            }
            at = &processes[process_count++];
        }
        if (!prepare(argv[optind]) || (!options.one_image && !(open_library() && show_alone()))) {
            return 1;
        }
    }
    at = processes;
    return options.one_image && !(open_library() && show_together());
}
