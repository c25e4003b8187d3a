"""Ending a job for good: the command, its launcher, all ranks, and the shared memory that they leave.

Killing a launcher is not enough: PRRTE starts each rank in a process group of its own, and one that spins in an MPI
call lives on. On other nodes agents end what it leaves there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.proc import DELETED, mappings, numbers_in, owner_of, read_stat

GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL."""
_LAUNCHER = 3.0
"""Of these, for the launcher to end its ranks."""
_SHARED_MEMORY = b" /dev/shm/"
_STEP = 0.05

Process = tuple[int, int]
"""A PID, and when the process was started (proc.Stat): another may get the PID."""


def below(pids: Iterable[int], others: Iterable[Process] = ()) -> list[Process]:
    """Return processes and all that they have started, directly or not, themselves first, and others that still run."""
    children: dict[int, list[Process]] = {}
    for each in numbers_in("/proc"):
        stat = read_stat(each)
        if stat is not None and not stat.gone:
            children.setdefault(stat.parent, []).append((stat.pid, stat.started))
    above = list(pids)
    found = [(stat.pid, stat.started) for pid in above if (stat := read_stat(pid)) is not None and not stat.gone]
    while above:
        started = children.pop(above.pop(), [])
        found += started
        above += [child for child, _ in started]
    return list(dict.fromkeys((*found, *filter(runs, others))))


def runs(process: Process) -> bool:
    """Return whether a process has not ended."""
    stat = read_stat(process[0])
    return stat is not None and not stat.gone and stat.started == process[1]


def shared_memory(processes: Iterable[Process]) -> set[Path]:
    """Return the files in /dev/shm that processes have mapped."""
    found: set[Path] = set()
    for pid, _ in processes:
        with suppress(OSError):
            found |= {Path(each.path) for each in mappings(pid, _SHARED_MEMORY) if not each.path.endswith(DELETED)}
    return found


def end(pid: int, others: Iterable[Process]) -> bool:
    """End what a process has started and itself, and wait for it, as long as that takes.

    Args:
        pid: a child of ours, which we don't reap.
        others: processes of the job that may not be below it: a daemon has started them.

    Returns:
        Whether all have ended.
    """
    job = below([pid], others)
    shared = shared_memory(job)
    _send(job[:1], signal.SIGTERM)
    return not _end_what_is_left(job, shared, [pid])


class Left:
    """What a launcher may leave on this machine, which is not its own: ranks, and what they have started."""

    def __init__(self, ranks: Iterable[Process]) -> None:
        """Note it, before the launcher is ended; what isn't our user's is left alone, whatever it is."""
        own = [each for each in ranks if runs(each) and _is_ours(each)]
        self._job = [each for each in below((pid for pid, _ in own), own) if _is_ours(each)] if own else []
        self._shared = shared_memory(self._job)

    def end(self) -> int:
        """End it, once the launcher had time to; return how many processes are left."""
        return _end_what_is_left(self._job, self._shared, [])


def _end_what_is_left(job: list[Process], shared: set[Path], above: Sequence[int]) -> int:
    """End processes, and what was started below some of them meanwhile; return how many are left."""
    began = time.monotonic()
    _wait(job, began + _LAUNCHER)
    job = list(dict.fromkeys((*job, *below(above, job))))
    _send(job, signal.SIGTERM)
    _wait(job, began + GRACE)
    _send(job, signal.SIGKILL)
    left = _wait(job, began + 2 * GRACE)
    _remove(shared)
    return left


def _is_ours(process: Process) -> bool:
    with suppress(MqsError):
        return owner_of(process[0]).user == os.geteuid()
    return False


def write_cores(processes: Iterable[Process], folder: Path) -> bool:
    """Write a core file of each process, core.PID, as gdb's gcore does; return whether all were written."""
    tool = shutil.which("gcore")
    folder.mkdir(parents=True, exist_ok=True)
    codes = [
        subprocess.run([tool, "-o", str(folder / "core"), str(pid)], stdin=subprocess.DEVNULL, check=False).returncode
        for pid, _ in filter(runs, processes)
        if tool is not None
    ]
    return tool is not None and not any(codes)


def _send(processes: Iterable[Process], number: int) -> None:
    for process in filter(runs, processes):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process[0], number)
            os.kill(process[0], signal.SIGCONT)  # who is stopped gets nothing else


def _wait(processes: Iterable[Process], until: float) -> int:
    """Wait until all have ended; return how many have not."""
    left = list(processes)
    while (left := [each for each in left if runs(each)]) and time.monotonic() <= until:
        time.sleep(_STEP)
    return len(left)


def _remove(shared: set[Path]) -> None:
    """Remove files that are ours, and that nobody has mapped."""
    everyone = [(pid, 0) for pid in numbers_in("/proc")]
    for path in shared - shared_memory(everyone):
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid():
                path.unlink()
