"""One rank of the job of ``mqs demo``: a script for mpiexec that needs Open MPI's library and no compiler.

Usage: demo_rank.py LIBMPI DIRECTORY. In the state that demo.py describes, it writes its PID to DIRECTORY/rank-N, then
sleeps outside MPI until DIRECTORY is removed or its launcher is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

LONGEST_LIFE = 300
"""Seconds after which a rank ends by itself, whatever happened to those who should have ended it."""

ANY_SOURCE = -1
CELLS = 100_000
"""Too many for an eager message: the sender keeps them, and its send stays pending."""

WANTED_TAG, SENT_TAG, ANSWER_TAG, RESULT_TAG = 10, 11, 12, 20


class Mpi:
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
        """Begin to send doubles."""
        self.call("MPI_Isend", self._buffer(count), count, self.double, to, tag, communicator, self._request())

    def receive(self, count: int, source: int, tag: int, communicator: ctypes.c_void_p) -> None:
        """Post a receive for doubles."""
        self.call("MPI_Irecv", self._buffer(count), count, self.double, source, tag, communicator, self._request())

    def wait_for_arrival(self, source: int, tag: int, communicator: ctypes.c_void_p) -> None:
        """Let MPI work until a message can be seen."""
        arrived = ctypes.c_int()
        while not arrived.value:
            self.call("MPI_Iprobe", source, tag, communicator, ctypes.byref(arrived), None)
            time.sleep(0.001)

    def _predefined(self, symbol: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._library, symbol)))

    def _buffer(self, count: int) -> Any:
        self._kept.append((ctypes.c_double * count)())
        return self._kept[-1]

    def _request(self) -> Any:
        self._kept.append(ctypes.c_void_p())
        return ctypes.byref(self._kept[-1])


def hang(mpi: Mpi) -> None:
    """Bring this rank into its part of the deadlock."""
    halo = mpi.duplicate(b"halo exchange")
    results = mpi.duplicate(b"results")
    if mpi.rank == 0:
        mpi.send(CELLS, 1, SENT_TAG, halo)
        mpi.receive(1, 1, ANSWER_TAG, halo)
    elif mpi.rank == 1:
        mpi.receive(CELLS, 0, WANTED_TAG, halo)
        mpi.wait_for_arrival(0, SENT_TAG, halo)
    else:
        mpi.receive(CELLS, ANY_SOURCE, RESULT_TAG, results)


def main() -> None:
    """Reach the state, tell so, and sleep."""
    signal.alarm(LONGEST_LIFE)
    directory, launcher = Path(sys.argv[2]), os.getppid()
    mpi = Mpi(sys.argv[1])
    hang(mpi)
    draft = directory / f"draft-{mpi.rank}"
    draft.write_text(str(os.getpid()))
    draft.rename(directory / f"rank-{mpi.rank}")
    while directory.exists() and os.getppid() == launcher:
        time.sleep(0.1)
    os._exit(0)  # not by way of MPI_Finalize, which would wait for the messages


if __name__ == "__main__":
    main()
