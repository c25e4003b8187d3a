/* Windows in every kind of epoch, over a communicator that has the ranks in reverse; four ranks.
 *
 * "locks": each rank has locked its neighbour's part and, but for the last one, rank 0's; "all": rank 3 has locked all;
 * "posted": rank 0 has posted for the ranks 2 and 1, of which 2 has started; "idle" has no epoch. Numbers are those of
 * MPI_COMM_WORLD.
 */
#include "truth.h"

enum { RANKS = 4 };

static MPI_Win window(MPI_Comm comm, const char *name)
{
    int *cells;
    MPI_Win win;
    MPI_Win_allocate(sizeof *cells, sizeof *cells, MPI_INFO_NULL, comm, &cells, &win);
    MPI_Win_set_name(win, name);
    return win;
}

int main(int argc, char **argv)
{
    MPI_Comm reverse;
    MPI_Group world, group;
    truth_begin(&argc, &argv, "windows", MPI_THREAD_SINGLE);
    int rank = world_rank;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reverse);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Win locks = window(reverse, "locks"), all = window(reverse, "all"), posted = window(reverse, "posted");
    window(reverse, "idle");
    MPI_Win_lock(MPI_LOCK_SHARED, RANKS - 1 - (rank + 1) % RANKS, 0, locks);
    if (rank != RANKS - 1)
        MPI_Win_lock(MPI_LOCK_SHARED, RANKS - 1, 0, locks);
    if (rank == RANKS - 1)
        MPI_Win_lock_all(0, all);
    if (rank == 0) {
        MPI_Group_incl(world, 2, (int[]){2, 1}, &group);
        MPI_Win_post(group, 0, posted);
    }
    if (rank == 2) {
        MPI_Group_incl(world, 1, (int[]){0}, &group);
        MPI_Win_start(group, 0, posted);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
