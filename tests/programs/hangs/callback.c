/* Rank 0 waits for a word that rank 1 sends at last from inside of MPI_Finalize, where MPI frees what the program has
 * kept in MPI_COMM_SELF; with the argument "reduces", for rank 1's part of a reduction, whose own operation takes long.
 * With "adds" it takes its time and ends, again and again, and all is well.
 */
#include "hang.h"

static int tidy(MPI_Comm comm, int key, void *value, void *state)
{
    int word = 0;
    (void)comm;
    (void)key;
    (void)value;
    (void)state;
    compute();
    return MPI_Send(&word, 1, MPI_INT, 0, 14, MPI_COMM_WORLD);
}

static void slowly(void *in, void *inout, int *length, MPI_Datatype *datatype)
{
    (void)in;
    (void)inout;
    (void)length;
    (void)datatype;
    if (rank == 1 && is("adds"))
        come_late();
    else if (rank == 1)
        compute();
}

int main(int argc, char **argv)
{
    int word = 0, sum = 0, key;
    MPI_Op operation;
    begin(argc, argv);
    MPI_Op_create(slowly, 1, &operation);
    if (rank == 1 && variant[0] == '\0') {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, tidy, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    }
    ready();
    if (is("reduces"))
        MPI_Reduce(&word, &sum, 1, MPI_INT, operation, 1, MPI_COMM_WORLD);
    while (is("adds"))
        MPI_Allreduce(&word, &sum, 1, MPI_INT, operation, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 1, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
