"""The core files of a job as one Job: which ranks they are of, and which ranks have none.

A core has its rank in the MPI's memory, and its job in what the launcher gave each process, its environment, which
lies in the core too.
"""

from __future__ import annotations

import datetime
import glob
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mqs_dll.contract.errors import CoreError, MqsError, NotCoreError
from mqs_dll.debugger.collect import OpenQueues, ProcessReader, ReadFurther
from mqs_dll.debugger.core.core_file import CoreFile
from mqs_dll.debugger.core.process import CoreProcess
from mqs_dll.debugger.job.find.markers import marker_of
from mqs_dll.debugger.job.find.processes import script_of
from mqs_dll.debugger.job.stacks import NOT_ASKED, unwind_core
from mqs_dll.debugger.job.worlds import RankRead, put_together
from mqs_dll.job.facts import MAX_RANKS, explain, mpi_name, sizes_by_handle, world_rank, world_size
from mqs_dll.job.records import CORE_FILES, Job, JobProcess, RankState, Sample

_NO_CORE = "no core file of it was given"
_PYTHON = "python"


class HowCores(NamedTuple):
    """How core files are read, as read_cores has it."""

    open_queues: OpenQueues
    read_further: ReadFurther | None
    sysroot: Path | None
    stacks: bool


def read_cores(
    paths: Sequence[str],
    open_queues: OpenQueues,
    *,
    read_further: ReadFurther | None = None,
    sysroot: Path | None = None,
    stacks: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Job:
    """Read the core files of a job's ranks, one after the other.

    Args:
        paths: the core files, or patterns for them, such as "core.*".
        open_queues: returns the library to read a process with, and the library's file if it has one.
        read_further: asks for more than the library reports, such as windows.
        sysroot: where their programs and libraries lie, if not where they were (CoreProcess).
        stacks: whether to follow the call stacks.
        on_progress: called before each core file with the number of those that are done, and of all.

    Returns:
        The job, with a process for each core file, read or not, and for each rank that has none.

    Raises:
        CoreError: there is no such file.
        NotCoreError: a file is another one, or compressed. A damaged core file is no error: its process says why.
        MixedRanksError: the core files are of several jobs, or two are of the same rank.
    """
    how = HowCores(open_queues, read_further, sysroot, stacks)
    return job_of(read_all(paths, how, on_progress), " ".join(paths))


def read_all(
    paths: Sequence[str], how: HowCores, on_progress: Callable[[int, int], None] | None = None
) -> list[RankRead]:
    """Return what each of some core files contains; arguments and errors are those of read_cores."""
    files = files_of(paths)
    cores = []
    for done, path in enumerate(files):
        if on_progress:
            on_progress(done, len(files))
        cores.append(read_core(path, how))
    return cores


def files_of(paths: Sequence[str]) -> list[Path]:
    """Return the files that paths and patterns name.

    Raises:
        CoreError: there is no such file.
    """
    return list(_expand(paths))


def job_of(cores: Sequence[RankRead], title: str, lost: Sequence[str] = ()) -> Job:
    """Return the job that core files are of.

    Args:
        cores: what was read of each.
        title: the job's, where no core file has its command.
        lost: sentences: which core files may be missing, and why.

    Raises:
        MixedRanksError: they are of several jobs, or two are of the same rank.
    """
    newest = datetime.datetime.fromtimestamp(max((each.written for each in cores), default=0.0), datetime.timezone.utc)
    return put_together(
        cores,
        title=title,
        source=CORE_FILES,
        taken=newest.isoformat(timespec="seconds"),
        stopped=False,  # while one core file is written, the other ranks go on
        absent="; ".join((_NO_CORE, *lost)),
    )


def _expand(paths: Sequence[str]) -> Iterator[Path]:
    for path in dict.fromkeys(paths):
        found = [path] if Path(path).exists() else sorted(glob.glob(path))  # noqa: PTH207  # patterns may be absolute
        if not found:
            raise CoreError(f"there is no file {path}")
        yield from map(Path, found)


# ---------------------------------------------------------------- one core file


def read_core(path: Path, how: HowCores) -> RankRead:
    """Return what one core file contains, or why it can't be read.

    Raises:
        NotCoreError: it is another file, or compressed.
    """
    written = path.stat().st_mtime if path.exists() else 0.0
    process = JobProcess(0, None, "", 0, str(path), RankState.UNREADABLE, "", "", ())
    try:
        with CoreProcess(path, how.sysroot) as core:
            marker = marker_of(core.file.environment, {})
            rank = marker.rank if marker and marker.rank < MAX_RANKS else None
            process = replace(process, rank=rank, pid=core.pid, program=_program(core.file))
            read = RankRead(str(path), process, " ".join(core.file.arguments), marker, written=written)
            return _look(read, core, how)
    except NotCoreError:
        raise
    except MqsError as error:
        return RankRead(str(path), _unread(process, error), written=written)


def _program(file: CoreFile) -> str:
    """Return the file that the process ran, for a Python program the script."""
    if Path(file.program).name.startswith(_PYTHON):
        return script_of(file.arguments) or file.program
    return file.program


def _look(core: RankRead, target: CoreProcess, how: HowCores) -> RankRead:
    try:
        library, library_path = how.open_queues(target)
        with ProcessReader(
            library, target, pid=target.pid, program=target.file.name, library_path=library_path
        ) as reader:
            snapshot = reader.read(how.read_further)
    except MqsError as error:
        return replace(core, process=_unread(core.process, target.explained(error)))
    sample = Sample(0.0, snapshot, unwind_core(target, sizes_by_handle(snapshot)) if how.stacks else NOT_ASKED)
    rank = world_rank(snapshot)
    process = replace(
        core.process,
        rank=core.process.rank if rank is None else rank,
        state=RankState.READ,
        why="; ".join(target.caveats()),
        samples=(sample,),
    )
    return replace(core, process=process, size=world_size(snapshot), mpi=mpi_name(snapshot))


def _unread(process: JobProcess, error: MqsError) -> JobProcess:
    obstacle = explain(error)
    return replace(process, state=obstacle.state, why=obstacle.why, remedy=obstacle.remedy)
