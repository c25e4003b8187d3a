/* Rank 1 waits for 4 numbers of rank 0, which has none for it, and has made the same MPI_Alltoallw: each computes its
 * counts from a table of its own. With "skipped", rank 0 has left out the call. With "graph", all wait for what rank 0
 * has for its neighbours, which thinks that it has none. With "agree" rank 1 expects none, and all is well:
 * rank 2 comes late again and again.
 */
#include "hang.h"

static MPI_Comm all_are_neighbors(void)
{
    int all[3] = {0, 1, 2}, destinations = rank == 0 ? 1 : 3;
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, all, all, destinations, all, all, MPI_INFO_NULL, 0, &graph);
    MPI_Comm_set_name(graph, "graph");
    return graph;
}

static void go_on(void)
{
    int values[64] = {0}, found[64], places[3] = {0, 16, 32}, sent[3] = {4, 4, 4}, received[3] = {4, 4, 4};
    MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    if (rank != 1)
        sent[rank == 0 ? 1 : 0] = 0;
    if (rank != 2)
        received[rank == 0 ? 2 : 0] = 0;
    for (;;) {
        if (rank == 2)
            come_late();
        MPI_Alltoallw(values, sent, places, types, found, received, places, types, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int values[64] = {0}, found[64], places[3] = {0, 16, 32}, sent[3] = {4, 4, 4}, received[3] = {4, 4, 4};
    MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Comm graph = MPI_COMM_NULL;
    begin(argc, argv);
    if (rank == 0)
        sent[1] = 0;
    if (is("graph"))
        graph = all_are_neighbors();
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (is("agree"))
        go_on();
    if (is("graph"))
        MPI_Neighbor_alltoall(values, 4, MPI_INT, found, 4, MPI_INT, graph);
    else if (!is("skipped") || rank != 0)
        MPI_Alltoallw(values, sent, places, types, found, received, places, types, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
