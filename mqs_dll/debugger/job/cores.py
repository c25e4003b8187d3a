"""The core files of a job as one Job: which ranks they are of, and which ranks have none.

A core tells its rank in the MPI's memory. It doesn't tell its job there: every job has an MPI_COMM_WORLD, and they look
alike. What the launcher gave each process, its environment, lies in the core too and tells them apart, with most
launchers. Where cores contradict each other, they are refused together: a verdict on two jobs at once would be wrong.
"""

from __future__ import annotations

import datetime
import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from mqs_dll.debugger.collect import Look, LookFurther, OpenQueues
from mqs_dll.debugger.core.core_file import CoreFile
from mqs_dll.debugger.core.process import CoreProcess
from mqs_dll.debugger.job.facts import MOST_RANKS, explain, mpi_name, world_rank, world_size
from mqs_dll.debugger.job.find.markers import Marker, job_of_world, marker_of
from mqs_dll.debugger.job.find.processes import script_of
from mqs_dll.debugger.job.records import Job, JobProcess, RankState, Sample
from mqs_dll.debugger.job.stacks import NOT_ASKED, unwind_core
from mqs_dll.errors import CoreError, MixedCoresError, MqsError, NotCoreError

SOURCE = "core files"

_NO_CORE = "no core file of it was given"
_PYTHON = "python"


class _How(NamedTuple):
    """How core files are read, as read_cores has it."""

    open_queues: OpenQueues
    look_further: LookFurther | None
    sysroot: Path | None
    stacks: bool


@dataclass(frozen=True)
class _Core:
    """What one core file tells."""

    path: Path
    process: JobProcess
    command: str = ""
    marker: Marker | None = None
    size: int | None = None
    """Of its MPI_COMM_WORLD."""
    mpi: str = ""


def read_cores(
    paths: Sequence[str],
    open_queues: OpenQueues,
    *,
    look_further: LookFurther | None = None,
    sysroot: Path | None = None,
    stacks: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Job:
    """Read the core files of a job's ranks, one after the other.

    Args:
        paths: the core files, or patterns for them, such as "core.*".
        open_queues: returns the library to read a process with, and the library's file if it has one.
        look_further: asks for more than the library tells, such as windows (collect.Look.read).
        sysroot: where their programs and libraries lie, if not where they were (CoreProcess).
        stacks: whether to follow the call stacks.
        on_progress: called before each core file with the number of those that are done, and of all.

    Returns:
        The job, with a process for each core file, read or not, and for each rank that has none.

    Raises:
        CoreError: there is no such file.
        NotCoreError: a file is another one, or compressed. A damaged core file is no error: its process says why.
        MixedCoresError: the core files are of several jobs, or two are of the same rank.
    """
    how = _How(open_queues, look_further, sysroot, stacks)
    files = list(_expand(paths))
    cores = []
    for done, path in enumerate(files):
        if on_progress:
            on_progress(done, len(files))
        cores.append(_read(path, how))
    worlds = _worlds(cores)
    sizes = tuple(_size(world) for world in worlds)
    return Job(
        title=next((core.command for core in cores if core.command), " ".join(paths)),
        source=SOURCE,
        host="",
        taken=_newest(files),
        mpi=next((core.mpi for core in cores if core.mpi), ""),
        launcher=None,
        stopped=False,  # while one core file is written, the other ranks go on
        pause=0.0,
        interval=0.0,
        sizes=sizes,
        processes=tuple(_processes(worlds, sizes)),
    )


def _expand(paths: Sequence[str]) -> Iterator[Path]:
    for path in dict.fromkeys(paths):
        found = [path] if Path(path).exists() else sorted(glob.glob(path))  # noqa: PTH207  # patterns may be absolute
        if not found:
            raise CoreError(f"there is no file {path}")
        yield from map(Path, found)


def _newest(files: Iterable[Path]) -> str:
    """Return when the last of some files was written, as ISO 8601 in UTC."""
    last = max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
    return datetime.datetime.fromtimestamp(last, datetime.timezone.utc).isoformat(timespec="seconds")


# ---------------------------------------------------------------- one core file


def _read(path: Path, how: _How) -> _Core:
    process = JobProcess(0, None, "", 0, str(path), RankState.UNREADABLE, "", "", ())
    try:
        with CoreProcess(path, how.sysroot) as core:
            marker = marker_of(core.file.environment, {})
            rank = marker.rank if marker and marker.rank < MOST_RANKS else None
            process = replace(process, rank=rank, pid=core.pid, program=_program(core.file))
            read = _Core(path, process, " ".join(core.file.arguments), marker)
            return _look(read, core, how)
    except NotCoreError:
        raise
    except MqsError as error:
        return _Core(path, _unread(process, error))


def _program(file: CoreFile) -> str:
    """Return the file that the process ran, for a Python program the script."""
    if Path(file.program).name.startswith(_PYTHON):
        return script_of(file.arguments) or file.program
    return file.program


def _look(core: _Core, target: CoreProcess, how: _How) -> _Core:
    try:
        library, library_path = how.open_queues(target)
        with Look(library, target, pid=target.pid, program=target.file.name, library_path=library_path) as look:
            snapshot = look.read(how.look_further)
    except MqsError as error:
        return replace(core, process=_unread(core.process, target.explained(error)))
    sample = Sample(0.0, snapshot, unwind_core(target) if how.stacks else NOT_ASKED)
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
    return replace(process, state=obstacle.state, why=obstacle.why, way_out=obstacle.way_out)


# ---------------------------------------------------------------- all of them together


def _worlds(cores: Sequence[_Core]) -> list[list[_Core]]:
    """Return the cores by their MPI_COMM_WORLD, the one that the launcher started first.

    Raises:
        MixedCoresError: they are of several jobs.
    """
    marked = sorted({_key(core.marker) for core in cores if core.marker}, key=lambda key: (key[0], len(key[1]), key[1]))
    first = {job_of_world(world): core for core in cores if core.marker for world in [core.marker.world]}
    if len(first) > 1:
        one, another = list(first.values())[:2]
        raise MixedCoresError(f"{one.path} and {another.path} are of different jobs")
    keys = marked or [(False, "")]
    worlds: list[list[_Core]] = [[] for _ in keys]
    for core in cores:
        worlds[keys.index(_key(core.marker)) if core.marker else 0].append(core)
    return worlds


def _key(marker: Marker) -> tuple[bool, str]:
    return marker.spawned, marker.world


def _size(world: Sequence[_Core]) -> int | None:
    """Return the size of an MPI_COMM_WORLD, None where no rank of it could be read.

    Raises:
        MixedCoresError: its ranks say different sizes.
    """
    known = [core for core in world if core.size is not None]
    for core in known[1:]:
        if core.size != known[0].size:
            raise MixedCoresError(
                f"{known[0].path} is of a job of {known[0].size} ranks and {core.path} of one of {core.size}"
            )
    return known[0].size if known else None


def _processes(worlds: Sequence[Sequence[_Core]], sizes: Sequence[int | None]) -> Iterator[JobProcess]:
    for number, (world, size) in enumerate(zip(worlds, sizes, strict=True)):
        by_rank = _by_rank(world)
        for rank in sorted({*by_rank, *range(size or 0)}):
            if rank in by_rank:
                yield replace(by_rank[rank].process, world=number)
            else:
                yield JobProcess(number, rank, "", 0, "", RankState.UNREADABLE, _NO_CORE, "", ())
        yield from (replace(core.process, world=number) for core in world if core.process.rank is None)


def _by_rank(world: Sequence[_Core]) -> dict[int, _Core]:
    found: dict[int, _Core] = {}
    for core in world:
        rank = core.process.rank
        if rank is None:
            continue
        if rank in found:
            raise MixedCoresError(f"{found[rank].path} and {core.path} are both of rank {rank}")
        found[rank] = core
    return found
