"""The Python interface: what the command ``mqs`` shows, as frozen records. docs/python.md has an example.

Import its names from ``mqs_dll``. All failures are exceptions of mqs_dll.contract.errors, each with a sentence and, in
``help``, what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from mqs_dll.commands.which_library import opener, windows
from mqs_dll.contract.abi import Communicator, Operation, Queue, Status
from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger import collect
from mqs_dll.debugger.job import cores, find, read
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.limit import USUAL, Limit
from mqs_dll.job import saved
from mqs_dll.job.found import FoundJob
from mqs_dll.job.records import CallStack, Frame, Job, JobProcess, RankState, Sample
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden, QueueSnapshot, Snapshot
from mqs_dll.verdict import conclude as verdicts
from mqs_dll.verdict.results import Activity, Cause, Certainty, Finding, Outcome, Verdict, Wait

__all__ = [
    "Activity",
    "CallStack",
    "Cause",
    "Certainty",
    "Communicator",
    "CommunicatorSnapshot",
    "Finding",
    "FoundJob",
    "Frame",
    "Hidden",
    "Job",
    "JobProcess",
    "MqsError",
    "Operation",
    "Outcome",
    "Queue",
    "QueueSnapshot",
    "RankState",
    "Sample",
    "Snapshot",
    "Status",
    "Verdict",
    "Wait",
    "conclude",
    "find_jobs",
    "load_job",
    "read_cores",
    "read_job",
    "save_job",
    "take_snapshot",
]


def take_snapshot(pid: int, *, limit: float = USUAL.seconds, dll: str | None = None) -> Snapshot:
    """Return the communicators and queues of one process, which stands still for some milliseconds.

    Args:
        pid: the process: a rank of a job.
        limit: seconds for which it may stand: then it is let go, whatever hangs.
        dll: an MQS library to read it with, "auto" for the one that its MPI names; None for what the environment
            variable MQS_DLL says, and without that libmqs itself, in this process.

    Raises:
        MqsError: it is no process that can be read; LimitError when it stood for ``limit`` seconds.
    """
    with LiveProcess(pid) as process:
        library, path = opener(dll)(process)
        return collect.take_snapshot(library, process, library_path=path, limit=Limit(limit))


def find_jobs() -> list[FoundJob]:
    """Return the MPI jobs of this machine whose processes we may read."""
    return find.find_jobs()


def read_job(
    what: int | str,
    *,
    samples: int = 2,
    interval: float = 0.5,
    stop: bool = True,
    stacks: bool = True,
    count: bool = True,
    limit: float = USUAL.seconds,
    dll: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Job:
    """Return all that can be read of a whole job. Its ranks stand still together while they are read.

    Args:
        what: the PID of the launcher or of a rank, or the program's name.
        samples: how often to sample. One sample doesn't distinguish a hang from a message that is under way.
        interval: seconds between two samples.
        stop: whether to stop the ranks; what is read of running ones may not fit together.
        stacks: whether to read the call stacks too.
        count: whether the kernel counts, with hardware breakpoints, who leaves an MPI call between two samples;
            without, some deadlocks are suspected that could be proved.
        limit: seconds for which the ranks may stand in each sample: then they are let go, whatever hangs.
        dll: as take_snapshot has it.
        on_progress: called with the number of ranks that are done, and of all.

    Raises:
        MqsError: there is no such job; LimitError when the ranks stood for ``limit`` seconds. A rank that can't be read
            is no error: its record says why.
    """
    return read.read_job(
        find.find_job(what),
        opener(dll),
        read_further=windows(),
        samples=samples,
        interval=interval,
        stop=stop,
        stacks=stacks,
        count=count,
        limit=Limit(limit),
        on_progress=on_progress,
    )


def read_cores(paths: Iterable[str | Path], *, sysroot: str | Path | None = None, dll: str | None = None) -> Job:
    """Return all that can be read of the core files of a job's ranks.

    Args:
        paths: the core files.
        sysroot: the directory below which the program and its libraries lie; None for where they were.
        dll: as take_snapshot has it.

    Raises:
        MqsError: one of them is no core file. One that can't be read is no error: its record says why.
    """
    return cores.read_cores(
        [str(path) for path in paths],
        opener(dll),
        read_further=windows(),
        sysroot=None if sysroot is None else Path(sysroot),
    )


def save_job(job: Job, path: str | Path) -> None:
    """Write all of a job into a file, compressed where its name ends in ``.gz``.

    Raises:
        MqsError: it can't be written.
    """
    saved.save(job, str(path))


def load_job(path: str | Path) -> Job:
    """Return a job that save_job, or ``mqs job --save``, wrote.

    Raises:
        MqsError: there is no such file, or it holds no saved job.
    """
    return saved.load(str(path))


def conclude(job: Job) -> Verdict:
    """Return what is wrong with a job: who waits for whom, and why. No process is touched."""
    return verdicts.conclude(job)
