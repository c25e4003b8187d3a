"""Arguments as Python's extensions pass them: rank 0 waits for a message by mpi4py, rank 1 by ctypes."""

import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "hangs"))

from hang import MPI, rank, ready, world

COUNT, TAG = 12, 42

cells, status = (ctypes.c_int * COUNT)(), (ctypes.c_int * 16)()
library = next(word for word in Path("/proc/self/maps").read_text().split() if "/libmpi." in word)
c_int, c_handle = ctypes.c_int, ctypes.c_int if MPI._sizeof(MPI.Comm) == 4 else ctypes.c_void_p
receive = ctypes.CDLL(library).MPI_Recv
receive.argtypes = (ctypes.c_void_p, c_int, c_handle, c_int, c_int, c_handle, ctypes.c_void_p)
ready()
if rank == 0:
    world.Recv([cells, COUNT, MPI.INT], source=1, tag=TAG)
else:
    receive(cells, COUNT, MPI._handleof(MPI.INT), 0, TAG, MPI._handleof(world), status)
