/* Buffered sends, whose buffers the program writes anew while the messages wait. 2 ranks.
 * A large one goes in pieces, a small one at once; one is of every other element. */
#include <stdlib.h>
#include <string.h>

#include "truth.h"

enum { LARGE = 1 << 20, SMALL = 1000, ELEMENTS = 1 << 16, OTHER = 'Z' };

static unsigned char large[LARGE], kept[LARGE], small[SMALL], strided[2 * ELEMENTS];

static void write_down(struct operation *o, const char *call, int pattern)
{
    o->pattern = pattern;
    o->call = call;
    o->status = "";
    o->optional = 1;
}

static void post(const char *call, unsigned char *buffer, int count, MPI_Datatype type, int tag, int pattern)
{
    MPI_Request request;
    struct operation *o = truth_operation(SENDS, call, buffer, count, type, 1, tag, MPI_COMM_WORLD);
    if (strcmp(call, "MPI_Bsend") == 0) {
        MPI_Bsend(buffer, count, type, 1, tag, MPI_COMM_WORLD);
    } else {
        MPI_Ibsend(buffer, count, type, 1, tag, MPI_COMM_WORLD, &request);
        truth_request(o, request);
    }
    write_down(o, call, pattern);
}

static void send_all(void)
{
    MPI_Datatype alternate;
    int room = 4 * (LARGE + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(malloc((size_t)room), room);
    fill(large, LARGE, 1);
    fill(kept, LARGE, 2);
    fill(small, SMALL, 3);
    for (int i = 0; i < ELEMENTS; i++) {
        strided[2 * i] = (unsigned char)(4 + i);
        strided[2 * i + 1] = OTHER;
    }
    MPI_Type_vector(ELEMENTS, 1, 2, MPI_BYTE, &alternate);
    MPI_Type_commit(&alternate);
    post("MPI_Bsend", large, LARGE, MPI_BYTE, 1, 1);
    post("MPI_Ibsend", kept, LARGE, MPI_BYTE, 2, 2);
    post("MPI_Ibsend", small, SMALL, MPI_BYTE, 3, 3);
    post("MPI_Bsend", strided, 1, alternate, 4, 4);
    memset(large, OTHER, LARGE);
    memset(kept, OTHER, LARGE);
    memset(small, OTHER, SMALL);
    memset(strided, OTHER, sizeof strided);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "buffered", MPI_THREAD_SINGLE);
    if (world_rank == 0)
        send_all();
    settle();
    leave_together("sent", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
