/* Arguments as C++ comes by them: members of what lies on the heap, choices, and a class that passes them on. Rank 0
 * waits for a message, rank 1 for a broadcast; what they ask for nobody can know beforehand: from argc, which is 2. */
#include <memory>
#include <vector>

#undef _DEFAULT_SOURCE /* which g++ defines, too */
#include "../hangs/hang.h"

struct Neighbours {
    int ranks[2];
    int tags[2];
};

class Channel {
public:
    Channel(MPI_Comm comm, const Neighbours *neighbours) : comm_(comm), neighbours_(neighbours) {}

    __attribute__((noinline)) void receive(std::vector<int> &cells, int side) const
    {
        receive(cells.data(), static_cast<int>(cells.size()), neighbours_->ranks[side],
                side ? neighbours_->tags[1] : neighbours_->tags[0]);
    }

    __attribute__((noinline)) void broadcast(std::vector<int> &cells, int root) const
    {
        MPI_Bcast(cells.data(), static_cast<int>(cells.size()), MPI_INT, root, comm_);
    }

private:
    __attribute__((noinline)) void receive(int *cells, int count, int source, int tag) const
    {
        MPI_Recv(cells, count, MPI_INT, source, tag, comm_, MPI_STATUS_IGNORE);
    }

    MPI_Comm comm_;
    const Neighbours *neighbours_;
};

int main(int argc, char **argv)
{
    begin(argc, argv);
    auto neighbours = std::unique_ptr<Neighbours>(new Neighbours{{7, argc - 1}, {8, 21 * argc}});
    Channel channel(MPI_COMM_WORLD, neighbours.get());
    std::vector<int> cells(6 * argc);
    ready();
    if (rank == 0)
        channel.receive(cells, argc - 1);
    else
        channel.broadcast(cells, argc - 2);
    MPI_Finalize();
}
