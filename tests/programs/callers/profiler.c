/* A profiler between a program and its MPI: it counts MPI_Recv, and passes MPI_Bcast on by a jump. */
#include <mpi.h>
#include <stdio.h>

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    static int calls;
    int result = PMPI_Recv(buf, count, datatype, source, tag, comm, status);
    fprintf(stderr, "%d calls of MPI_Recv\n", ++calls);
    return result;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    return PMPI_Bcast(buffer, count, datatype, root, comm);
}
