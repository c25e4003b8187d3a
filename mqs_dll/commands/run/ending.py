"""Ending a job for good: the command, its launcher, all ranks, and the shared memory that they leave.

Killing a launcher is not enough: PRRTE starts each rank in a process group of its own, and one that spins in an MPI
call lives on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mqs_dll.debugger.proc import DELETED, mappings, numbers_in, read_stat

GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL."""
_LAUNCHER = 3.0
"""Of these, for the launcher to end its ranks."""
_SHARED_MEMORY = b" /dev/shm/"
_STEP = 0.05

Process = tuple[int, int]
"""A PID, and when the process was started (proc.Stat): another may get the PID."""


def below(pid: int, others: Iterable[Process] = ()) -> list[Process]:
    """Return the processes that a process has started, directly or not, itself first, and others that still run."""
    children: dict[int, list[Process]] = {}
    for each in numbers_in("/proc"):
        stat = read_stat(each)
        if stat is not None and not stat.gone:
            children.setdefault(stat.parent, []).append((stat.pid, stat.started))
    stat = read_stat(pid)
    found = [] if stat is None or stat.gone else [(pid, stat.started)]
    above = [pid]
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
    job = below(pid, others)
    shared = shared_memory(job)
    began = time.monotonic()
    _send(job[:1], signal.SIGTERM)
    _wait(job, began + _LAUNCHER)
    job = list(dict.fromkeys((*job, *below(pid, job))))
    _send(job, signal.SIGTERM)
    _wait(job, began + GRACE)
    _send(job, signal.SIGKILL)
    ended = _wait(job, began + 2 * GRACE)
    _remove(shared)
    return ended


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


def _wait(processes: Iterable[Process], until: float) -> bool:
    """Wait until all have ended; return whether they have."""
    left = list(processes)
    while left := [each for each in left if runs(each)]:
        if time.monotonic() > until:
            return False
        time.sleep(_STEP)
    return True


def _remove(shared: set[Path]) -> None:
    """Remove files that are ours, and that nobody has mapped."""
    everyone = [(pid, 0) for pid in numbers_in("/proc")]
    for path in shared - shared_memory(everyone):
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid():
                path.unlink()
