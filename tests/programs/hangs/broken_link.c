/* The network between two ranks breaks: nothing comes to rank 1 any more, and neither MPI says so. Rank 1 lets its
 * sockets throw all away that arrives. With "works" it doesn't, and rank 0 sends large messages all the time.
 */
#include "hang.h"
#include <linux/filter.h>
#include <sys/socket.h>

static void unplug(void)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &nothing};
    for (int file = 3; file < 1024; file++)
        setsockopt(file, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static void pass_on(int *field, int count)
{
    if (rank == 0)
        MPI_Ssend(field, count, MPI_INT, 1, 5, MPI_COMM_WORLD);
    else
        MPI_Recv(field, count, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static int field[LARGE];
    begin(argc, argv);
    pass_on(field, 1); /* connects them */
    if (rank == 0)
        await(1);
    else if (!is("works"))
        unplug();
    ready();
    do
        pass_on(field, is("works") ? LARGE : 1);
    while (is("works"));
    MPI_Finalize();
}
