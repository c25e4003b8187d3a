"""What the ranks of all calibration programs have in common: one process, its MPI, and the truth that it writes down.

The ranks wait for each other by files, since a barrier of MPI would leave traces. They end without MPI_Finalize: what
is pending stays so.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mqs_dll.calibrate.bindings import MpiBindings
from mqs_dll.calibrate.copier import CopiedPart, copy_memory
from mqs_dll.calibrate.dump import Entry as Entry

POLL_SECONDS = 0.002
PATIENCE = 30.0
"""Seconds that the ranks wait for each other."""


class CalibrationRank:
    """One process: its MPI, what it has made, and the truth of that."""

    quiet_tag = 1
    """Of no message."""

    def __init__(self, mpi: MpiBindings, directory: Path, mode: str) -> None:
        self.mpi = mpi
        self.directory = directory
        self.rank: int = mpi.create("int", "Comm_rank", mpi.COMM_WORLD)
        self.ranks: int = mpi.create("int", "Comm_size", mpi.COMM_WORLD)
        self.next, self.previous = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        self.truth: Entry = {
            "rank": self.rank,
            "ranks": self.ranks,
            "mode": mode,
            "machine": platform.machine(),
            "version": mpi.text("Get_library_version"),
        }
        self.handles: list[Any] = []
        """Of the truth's requests."""
        self._buffers: list[Any] = []

    def allocate(self, size: int) -> Any:
        """Return memory that stays until the end."""
        self._buffers.append(self.mpi.ffi.new("char[]", max(size, 1)))
        return self._buffers[-1]

    # ------------------------------------------------------------ waiting

    def poll(self) -> None:
        """Let MPI take in and send what it can: probe for a message that doesn't exist."""
        mpi = self.mpi
        status, flag = mpi.ffi.new("MPI_Status *"), mpi.ffi.new("int *")
        mpi.do("Iprobe", mpi.ANY_SOURCE, self.quiet_tag, mpi.COMM_WORLD, flag, status)
        time.sleep(POLL_SECONDS)

    def poll_for(self, seconds: float) -> None:
        """Let messages come in for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.poll()

    def meet(self, what: str, meanwhile: Callable[[], None] = lambda: time.sleep(POLL_SECONDS)) -> None:
        """Wait until all ranks have come here, without an MPI call unless ``meanwhile`` makes some.

        Raises:
            TimeoutError: one didn't.
        """
        (self.directory / f"{what}.{self.rank}").touch()
        deadline = time.monotonic() + PATIENCE
        for rank in range(self.ranks):
            while not (self.directory / f"{what}.{rank}").exists():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"rank {rank} has not {what} after {PATIENCE:.0f} seconds")
                meanwhile()

    # ------------------------------------------------------------ writing

    def status_of(self, request: Any) -> Entry | None:
        """Return the status of a request that is complete, None of another; it stays as it is."""
        mpi = self.mpi
        flag, status, number = mpi.ffi.new("int *"), mpi.ffi.new("MPI_Status *"), mpi.ffi.new("int *")
        mpi.do("Request_get_status", request, flag, status)
        if not flag[0]:
            return None
        mpi.do("Test_cancelled", status, number)
        cancelled = bool(number[0])
        mpi.do("Get_count", status, mpi.BYTE, number)
        return {"source": status.MPI_SOURCE, "tag": status.MPI_TAG, "bytes": number[0], "cancelled": cancelled}

    def write(self, parts: Iterable[CopiedPart]) -> None:
        """Copy memory, and write down what is true, the latter as a whole: others wait for it."""
        self.truth["regions"] = copy_memory(self.directory / f"memory.{self.rank}", parts)
        unfinished = self.directory / f"unfinished.{self.rank}"
        unfinished.write_text(json.dumps(self.truth))
        unfinished.rename(self.directory / f"truth.{self.rank}")

    def end(self) -> None:
        """Wait for all ranks to have written, and end without MPI_Finalize."""
        self.meet("written")
        os._exit(0)
