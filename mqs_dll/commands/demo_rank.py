"""One rank of the job of ``mqs demo``: a script for mpiexec that needs Open MPI's library and no compiler.

Usage: demo_rank.py LIBMPI DIRECTORY. On its way into the deadlock that demo.py describes, it writes its PID to
DIRECTORY/rank-N. It ends with its launcher.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Any

MAX_LIFE_LENGTH = 300
"""Seconds after which a rank ends by itself, whatever happened to those who should have ended it."""

PR_SET_PDEATHSIG = 1
"""prctl(2): which signal a process gets when its parent ends."""

PR_SET_PTRACER = 0x59616D61
ANYBODY = (1 << 64) - 1
"""PR_SET_PTRACER_ANY: where Yama lets only ancestors trace a process, what holds the ranks for mqs is none of them."""

ANY_SOURCE = -1
CELLS = 100_000
"""Too many for an eager message: the sender keeps them, and its send stays pending."""

WANTED_TAG, SENT_TAG, RESULT_TAG = 10, 11, 20


class MpiLibrary:
    """Open MPI by its C interface, whose predefined handles are the addresses of objects in the library."""

    def __init__(self, path: str) -> None:
        """Load the library; its components want its symbols to be global."""
        self._library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self._kept: list[Any] = []
        self.world = self._predefined("ompi_mpi_comm_world")
        self.double = self._predefined("ompi_mpi_double")
        self.call("MPI_Init", None, None)
        rank = ctypes.c_int()
        self.call("MPI_Comm_rank", self.world, ctypes.byref(rank))
        self.rank = rank.value

    def call(self, name: str, *arguments: Any) -> None:
        """Make one MPI call."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise SystemExit(f"{name} failed with code {code}")

    def duplicate(self, name: bytes) -> ctypes.c_void_p:
        """Return a duplicate of MPI_COMM_WORLD with a name."""
        communicator = ctypes.c_void_p()
        self.call("MPI_Comm_dup", self.world, ctypes.byref(communicator))
        self.call("MPI_Comm_set_name", communicator, name)
        return communicator

    def send(self, count: int, to: int, tag: int, communicator: ctypes.c_void_p) -> None:
        """Send doubles, until they are received."""
        self.call("MPI_Send", self._buffer(count), count, self.double, to, tag, communicator)

    def receive(self, count: int, source: int, tag: int, communicator: ctypes.c_void_p) -> None:
        """Wait until doubles have come."""
        self.call("MPI_Recv", self._buffer(count), count, self.double, source, tag, communicator, None)

    def _predefined(self, symbol: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._library, symbol)))

    def _buffer(self, count: int) -> Any:
        self._kept.append((ctypes.c_double * count)())
        return self._kept[-1]


def hang(mpi: MpiLibrary, halo: ctypes.c_void_p, results: ctypes.c_void_p) -> None:
    """Do this rank's part of the deadlock, which never ends."""
    if mpi.rank == 0:
        mpi.send(CELLS, 1, SENT_TAG, halo)
    elif mpi.rank == 1:
        mpi.receive(CELLS, 0, WANTED_TAG, halo)
    else:
        mpi.receive(CELLS, ANY_SOURCE, RESULT_TAG, results)


def main() -> None:
    """Start, report that, and hang."""
    signal.alarm(MAX_LIFE_LENGTH)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ANYBODY))
    directory = Path(sys.argv[2])
    mpi = MpiLibrary(sys.argv[1])
    halo, results = mpi.duplicate(b"halo exchange"), mpi.duplicate(b"results")
    draft = directory / f"draft-{mpi.rank}"
    draft.write_text(str(os.getpid()))
    draft.rename(directory / f"rank-{mpi.rank}")
    hang(mpi, halo, results)


if __name__ == "__main__":
    main()
