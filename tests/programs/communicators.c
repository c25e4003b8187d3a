/* Communicators of every kind, a window and a file; in the second phase names change, and one is freed; in each of the next
 * ones but little changes. 4 ranks or more. Nothing is pending but a receive on the communicator that is freed.
 * With an argument: no file. */
#include <stdio.h>

#include "truth.h"

#define LETTER "\xc3\xa9" /* of two bytes */
#define SEVEN LETTER LETTER LETTER LETTER LETTER LETTER LETTER

/* One duplicate for each rule about names. */
static const struct {
    const char *key, *name;
} named[] = {
    {"name-plain", "solver"},
    {"name-empty", ""},
    {"name-leading-blanks", "  indented"},
    {"name-trailing-blanks", "trailing   "},
    {"name-63-bytes", "012345678901234567890123456789012345678901234567890123456789abc"},
    {"name-64-bytes", "012345678901234567890123456789012345678901234567890123456789abcd"},
    /* as long as MPICH's may be; Open MPI cuts them itself */
    {"name-127-bytes", "012345678901234567890123456789012345678901234567890123456789abc-"
                       "012345678901234567890123456789012345678901234567890123456789abc"},
    {"name-127-bytes-utf8", SEVEN SEVEN SEVEN SEVEN SEVEN SEVEN SEVEN SEVEN SEVEN "x"}, /* byte 63 is half a letter */
    {"name-too-long", "a name that is longer than sixty-three bytes is cut so that it and its NUL fit into the field"},
    {"name-utf8", "\xce\xb5\xce\xbe\xce\xaf\xcf\x83\xcf\x89\xcf\x83\xce\xb7"},
    /* 62 bytes, then a letter of two bytes: the 63rd byte is half of it */
    {"name-utf8-cut", "01234567890123456789012345678901234567890123456789012345678901\xce\xb1\xce\xb2"},
    /* 61 bytes, then a sign of three bytes */
    {"name-utf8-cut-3", "0123456789012345678901234567890123456789012345678901234567890\xe2\x82\xac"},
    {"name-latin1", "Str\xf6mung"},
    {"name-latin1-end", "caf\xe9"},
    /* 62 bytes of ASCII, then a letter of Latin-1, which could be the start of one of UTF-8 */
    {"name-latin1-63", "01234567890123456789012345678901234567890123456789012345678901\xe9"},
    {"name-like-a-mark", "halo [freed]"},
    {"name-like-words", "[dup of halo]"},
    {"name-control", "bell\a tab\t escape\x1b[31m"},
};

enum { NAMED = sizeof named / sizeof named[0] };

static MPI_Comm duplicates[NAMED];

static void make_names(void)
{
    for (int i = 0; i < NAMED; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &duplicates[i]);
        truth_communicator(named[i].key, duplicates[i]);
        truth_set_name(duplicates[i], named[i].name);
    }
}

static void make_unnamed(void)
{
    MPI_Comm dup, of_named, cart, graph;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    truth_communicator("unnamed-dup", dup);
    MPI_Comm_dup(duplicates[0], &of_named); /* does not inherit the name */
    truth_communicator("unnamed-dup-of-named", of_named);

    int dims[] = {world_size}, periods[] = {1};
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cart);
    truth_communicator("cartesian", cart);

    int before[] = {(world_rank + world_size - 1) % world_size}, behind[] = {(world_rank + 1) % world_size};
    int weight[] = {1};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, before, weight, 1, behind, weight, MPI_INFO_NULL, 0, &graph);
    truth_communicator("graph", graph);
}

/* One whose parent was freed; the parent's number may be that of the next communicator. */
static void make_orphan(void)
{
    MPI_Comm parent, orphan;
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    MPI_Comm_dup(parent, &orphan);
    truth_communicator("orphan", orphan);
    MPI_Comm_free(&parent);
}

static void make_splits(void)
{
    MPI_Comm odd_even, without_last, node;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &odd_even); /* ranks in reverse */
    truth_communicator(world_rank % 2 ? "split-odd" : "split-even", odd_even);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank == world_size - 1 ? MPI_UNDEFINED : 0, world_rank, &without_last);
    truth_communicator("split-without-last", without_last);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    truth_communicator("split-node", node);
}

static void make_from_ranks(const char *key, const int *ranks, int count)
{
    MPI_Group world, group;
    MPI_Comm comm;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, ranks, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    truth_communicator(key, comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

/* An MPI built with sparse groups stores each of these in another way. */
static void make_groups(void)
{
    make_from_ranks("group-strided", (const int[]){0, 2}, 2);
    make_from_ranks("group-backwards", (const int[]){3, 2, 1, 0}, 4);
    make_from_ranks("group-ranges", (const int[]){2, 3, 0}, 3);
    make_from_ranks("group-holes", (const int[]){0, 1, 3}, 3);
    make_from_ranks("group-one", (const int[]){1}, 1);
    make_from_ranks("group-mixed", (const int[]){1, 3, 0, 2}, 4);
}

static void make_inter(void)
{
    MPI_Comm half, inter, merged;
    int upper = world_rank >= (world_size + 1) / 2;
    MPI_Comm_split(MPI_COMM_WORLD, upper, world_rank, &half);
    truth_communicator(upper ? "half-upper" : "half-lower", half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : (world_size + 1) / 2, 1, &inter);
    truth_communicator("inter", inter);
    MPI_Intercomm_merge(inter, upper, &merged);
    truth_communicator("merged", merged);

    MPI_Comm named_inter;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : (world_size + 1) / 2, 2, &named_inter);
    truth_communicator("inter-named", named_inter);
    truth_set_name(named_inter, "ocean and atmosphere, coupled by a name that needs to be shortened");
}

static void make_freed(void)
{
    static int value;
    MPI_Comm doomed;
    MPI_Comm_dup(MPI_COMM_WORLD, &doomed);
    truth_communicator("freed", doomed);
    truth_set_name(doomed, "doomed");
    post_irecv(&value, 1, MPI_INT, (world_rank + 1) % world_size, 5, doomed);
    truth_free_communicator(&doomed);
}

static void make_window(void)
{
    static double exposed[16];
    MPI_Win window;
    MPI_Win_create(exposed, sizeof exposed, sizeof exposed[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_name(window, "halo window");
    truth_window("window", window);
}

static void open_file(void)
{
    char path[1024];
    MPI_File file;
    snprintf(path, sizeof path, "%s/opened-by-all", job_directory);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
}

/* New names replace the old ones, also of the predefined communicators; one communicator goes. */
static void change_some(void)
{
    truth_set_name(MPI_COMM_WORLD, "everyone");
    truth_set_name(MPI_COMM_SELF, "only me");
    truth_set_name(duplicates[0], "renamed solver");
    truth_set_name(duplicates[1], "no longer empty");
    truth_set_name(duplicates[2], "");
    truth_end_communicator(&duplicates[3]);
}

/* Two names that lie far apart, in the second of these phases also a communicator less and a new one. */
static void change_little(int phase)
{
    static const char *const names[][2] = {{"", "solver again"}, {"one of them", "the last one"}, {"", ""}};
    truth_set_name(duplicates[0], names[phase][0]);
    truth_set_name(duplicates[NAMED - 1], names[phase][1]);
    if (phase == 1) {
        MPI_Comm late;
        truth_end_communicator(&duplicates[NAMED / 2]);
        MPI_Comm_dup(duplicates[4], &late);
        truth_communicator("late", late);
        truth_set_name(late, "late");
    }
}

/* What frees a communicator may leave traces of those that the MPI made for it, which are first in line to be used again. */
static void leave_traces(void)
{
    MPI_Comm gone, alone;
    MPI_Comm_dup(MPI_COMM_WORLD, &gone);
    MPI_Comm_free(&gone);
    MPI_Comm_dup(MPI_COMM_SELF, &alone);
    truth_communicator("alone", alone);
    truth_set_name(alone, "alone");
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "communicators", MPI_THREAD_SINGLE);
    make_names();
    make_unnamed();
    make_orphan();
    make_splits();
    make_groups();
    make_inter();
    make_freed();
    make_window();
    if (argc == 1) {
        open_file();
    }
    leave_traces();
    MPI_Barrier(MPI_COMM_WORLD);
    settle();
    truth_write(1);
    sleep_until_phase(2);
    change_some();
    truth_write(2);
    for (int phase = 3; phase <= 5; phase++) {
        sleep_until_phase(phase);
        change_little(phase - 3);
        truth_write(phase);
    }
    sleep_until_phase(6);
    return 0;
}
