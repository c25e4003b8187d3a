/* Rank 0 has posted a receive with each predefined datatype, some of which have other names by now. 2 ranks. */
#include "truth.h"

static const MPI_Datatype predefined[] = {
    MPI_CHAR, MPI_UNSIGNED_CHAR, MPI_SIGNED_CHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT, MPI_UNSIGNED, MPI_LONG,
    MPI_UNSIGNED_LONG, MPI_LONG_LONG_INT, MPI_UNSIGNED_LONG_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_BYTE,
    MPI_WCHAR, MPI_PACKED, MPI_2INT, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T,
    MPI_UINT32_T, MPI_UINT64_T, MPI_C_BOOL, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX,
    MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_CXX_BOOL, MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX,
    MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_CHARACTER, MPI_INTEGER, MPI_REAL, MPI_LOGICAL, MPI_COMPLEX, MPI_DOUBLE_PRECISION,
    MPI_2INTEGER, MPI_2REAL, MPI_DOUBLE_COMPLEX, MPI_2DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8, MPI_REAL16, MPI_COMPLEX8,
    MPI_COMPLEX16, MPI_COMPLEX32, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_FLOAT_INT,
    MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
};
enum { KINDS = sizeof predefined / sizeof predefined[0] };

static double in[KINDS + 3][64];

static void receive(MPI_Datatype type, int index)
{
    int size = 0;
    if (type == MPI_DATATYPE_NULL || MPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0)
        return;
    post_irecv(in[index], 3, type, 1, index, MPI_COMM_WORLD);
    post_irecv(in[index], 3, type, 0, index, MPI_COMM_SELF); /* which can be seen where a network keeps the others */
}

/* They are predefined, too, and have no names. */
static void receive_fortran_kinds(void)
{
    MPI_Datatype type;
    if (MPI_Type_create_f90_real(6, MPI_UNDEFINED, &type) == MPI_SUCCESS)
        receive(type, KINDS);
    if (MPI_Type_create_f90_complex(12, MPI_UNDEFINED, &type) == MPI_SUCCESS)
        receive(type, KINDS + 1);
    if (MPI_Type_create_f90_integer(9, &type) == MPI_SUCCESS)
        receive(type, KINDS + 2);
}

int main(int argc, char **argv)
{
    truth_begin(&argc, &argv, "datatypes", MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (world_rank == 0) {
        MPI_Type_set_name(MPI_UNSIGNED, "count of atoms");
        MPI_Type_set_name(MPI_DOUBLE_INT, "energy and place");
        for (int i = 0; i < KINDS; i++)
            receive(predefined[i], i);
        receive_fortran_kinds();
    }
    leave_together("posted", MPI_COMM_WORLD);
    truth_write(1);
    sleep_until_phase(2);
    return 0;
}
