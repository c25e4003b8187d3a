/* Large messages half-way: of one a part has come, of another nothing but its envelope. 2 ranks.
 * The argument says how much the receives have room for: "exact", "roomy" or "short". */
#include <string.h>

#include "truth.h"

enum { ROWS = 3 << 19, EARLIER = ROWS / 3, MOST = 2 * ROWS };

static MPI_Comm field;
static int out[2][2 * ROWS], in[2][2 * MOST];

static MPI_Datatype column(int rows)
{
    MPI_Datatype type;
    MPI_Type_vector(rows, 1, 2, MPI_INT, &type);
    MPI_Type_set_name(type, "column");
    MPI_Type_commit(&type);
    return type;
}

static int room(const char *how)
{
    if (strcmp(how, "short") == 0)
        return 2 * ROWS / 3;
    return strcmp(how, "roomy") == 0 ? MOST : ROWS;
}

static void send(void)
{
    struct operation *flowing;
    MPI_Send(out[0], 1, column(EARLIER), 1, 10, field); /* what it leaves behind is not to be taken for the others' */
    MPI_Send(out[0], 1, column(EARLIER), 1, 11, field);
    MPI_Barrier(field); /* after which there is room for what follows */
    flowing = post_isend(out[0], 1, column(ROWS), 1, 20, field);
    post_isend(out[1], 1, column(ROWS), 1, 21, field);
    wait_for("asked for data");
    settle(); /* sends what there is room for */
    say("deaf");
    flowing->status = "matched";
    truth_overwritten();
    truth_write(1);
}

static void receive(const char *how)
{
    struct operation *flowing, *announced;
    MPI_Request earlier[2];
    MPI_Status statuses[2];
    MPI_Irecv(in[0], 1, column(EARLIER), 0, 10, field, &earlier[0]);
    MPI_Irecv(in[1], 1, column(EARLIER), 0, 11, field, &earlier[1]);
    MPI_Waitall(2, earlier, statuses);
    MPI_Barrier(field);
    flowing = post_irecv(in[0], 1, column(room(how)), 0, 20, field);
    MPI_Probe(0, 21, field, &statuses[0]); /* the other one has come before it */
    say("asked for data");
    wait_for("deaf");
    announced = post_irecv(in[1], 1, column(room(how)), 0, 21, field);
    settle(); /* takes what there is */
    truth_matched(flowing, 0, 20, sizeof(int) * (long)ROWS);
    truth_matched(announced, 0, 21, sizeof(int) * (long)ROWS);
    truth_write(1);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "flow", MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &field);
    truth_communicator("field", field);
    truth_set_name(field, "field");
    if (world_rank == 0)
        send();
    else
        receive(argv[2]);
    sleep_until_phase(2);
    return 0;
}
