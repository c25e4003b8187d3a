"""Reading all ranks of a live job: open each, stop all, read all, let all go, and only then follow their stacks."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.collect import LookFurther, OpenQueues
from mqs_dll.debugger.job import peek
from mqs_dll.debugger.job.facts import mpi_name, world_rank, world_size
from mqs_dll.debugger.job.find.found import FoundJob, FoundWorld
from mqs_dll.debugger.job.open_files import allow_open_files
from mqs_dll.debugger.job.rank import LiveRank
from mqs_dll.debugger.job.records import CallStack, Job, JobProcess, RankState, Sample
from mqs_dll.debugger.job.stacks import NOT_ASKED, NOT_CAPTURED, NOT_STOPPED
from mqs_dll.debugger.limit import USUAL, Limit
from mqs_dll.debugger.snapshot import Hidden
from mqs_dll.debugger.stop import all_stopped
from mqs_dll.errors import AlreadyTracedError

SOURCE = "live"

MOST_MORE = 6
"""Looks that may follow those that were asked for, while there is doubt."""

_MOST_MISSING = 1 << 20
"""Ranks that are listed as missing at most: a size that was read may be nonsense."""

_ON_WINDOWS = "MPI_Win_"

_HELD = Hidden("another debugger has the process's registers", "let that debugger go, and look again")


def read_job(
    found: FoundJob,
    open_queues: OpenQueues,
    *,
    look_further: LookFurther | None = None,
    samples: int = 1,
    interval: float = 1.0,
    stop: bool = True,
    stacks: bool = True,
    count: bool = True,
    limit: Limit = USUAL,
    doubtful: Callable[[Job], bool] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Job:
    """Read all ranks of a job, once or several times.

    Args:
        found: the job.
        open_queues: returns the library to read a process with, and the library's file if it has one.
        look_further: lists the windows of a process, when a rank was in a one-sided call in the look before.
        samples: how often to look.
        interval: seconds between two looks.
        stop: whether the ranks are stopped while they are read.
        stacks: whether to follow the call stacks, which needs ``stop``.
        count: whether the kernel counts, by hardware breakpoints, who leaves its MPI call between two looks.
        limit: for how long the ranks may stand.
        doubtful: tells of what was read whether to look again: what a healthy job does for a moment passes.
        on_progress: called before each rank with the number of those that are ready to be read, and of all.

    Returns:
        The job. A rank that couldn't be read in the last look has no samples, but the sentence that says why.

    Raises:
        LimitError: the ranks stood for too long, and had to be let go before all was read.
    """
    options = {"stop": stop, "stacks": stacks, "count": count}
    with JobReader(
        found, open_queues, look_further=look_further, **options, limit=limit, on_progress=on_progress
    ) as reader:
        return look_on(reader, [reader.look()], samples, interval, doubtful)


def look_on(
    reader: JobReader, looks: list[Job], samples: int, interval: float, doubtful: Callable[[Job], bool] | None
) -> Job:
    """Look at a job until there are as many looks as were asked for, then on while there is doubt.

    Args:
        reader: of the job.
        looks: those there are, at least one; more are added.
        samples: how many looks.
        interval: seconds between two looks.
        doubtful: as read_job has it.

    Returns:
        One job with the samples of all looks.
    """
    while len(looks) < samples or (
        doubtful is not None and len(looks) < samples + MOST_MORE and doubtful(_merge(looks, interval))
    ):
        reader.wait(interval)
        looks.append(reader.look())
    return _merge(looks, interval)


class JobReader(Closes):
    """The ranks of a job, kept open from look to look; a context manager that lets go of them at the end."""

    def __init__(
        self,
        found: FoundJob,
        open_queues: OpenQueues,
        *,
        look_further: LookFurther | None = None,
        stop: bool = True,
        stacks: bool = True,
        count: bool = True,
        limit: Limit = USUAL,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Begin; nothing of the ranks is touched yet. The arguments are those of read_job."""
        self._found = found
        self._stop = stop
        self._stacks = stacks
        self._count = count
        self._limit = limit
        self._on_progress = on_progress
        self._list_windows = look_further
        self._look_further: LookFurther | None = None
        started = Counter(rank.world for rank in found.ranks)
        self._ranks = [
            LiveRank(rank, open_queues, found.worlds[rank.world].size or started[rank.world]) for rank in found.ranks
        ]
        allow_open_files(len(self._ranks))
        self._moved: dict[int, bool | None] = {}
        self._began: float | None = None

    def look(self) -> Job:
        """Read each rank once; one that can't be read has a sentence instead, and is tried again in the next look."""
        for done, rank in enumerate(self._ranks):
            if self._on_progress:
                self._on_progress(done, len(self._ranks))
            rank.open()
            if self._look_further:
                rank.find_way(self._look_further)
        taken = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        at = self._seconds_since_first()
        pause = self._read_stopped() if self._stop else self._read_running()
        for rank in self._ranks:
            rank.unwind()
        self._look_further = self._list_windows if any(map(_is_one_sided, self._ranks)) else None
        processes = [self._process(rank, at, pause) for rank in self._ranks]
        self._moved.clear()
        sizes = tuple(_size(processes, number) for number in range(len(self._found.worlds)))
        return Job(
            title=self._found.title,
            source=SOURCE,
            host=self._found.host,
            taken=taken,
            mpi=next((mpi_name(each.samples[0].snapshot) for each in processes if each.samples), ""),
            launcher=self._found.launcher,
            stopped=self._stop,
            pause=pause,
            interval=0.0,
            counted=self._count,
            sizes=sizes,
            processes=tuple(_complete(_without_duplicates(processes), self._found, sizes)),
        )

    def wait(self, seconds: float) -> None:
        """Let time pass until the next look, and watch whether the MPI calls end that ranks were in at the last.

        Needs the call stacks; ranks without them aren't watched.
        """
        targets = {rank.found.pid: target for rank in self._ranks if (target := rank.watched()) is not None}
        moved = peek.changed(list(targets.values()), seconds, count=self._count)
        self._moved = dict(zip(targets, moved, strict=True))

    def close(self) -> None:
        """Let go of the ranks. Idempotent."""
        for rank in self._ranks:
            rank.close()

    def _seconds_since_first(self) -> float:
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        return now - self._began

    def _read_stopped(self) -> float:
        """Read all ranks in one stop; return how long that was."""
        ready = [rank for rank in self._ranks if rank.is_open]
        started = {rank.found.pid: rank.started for rank in ready if rank.started is not None}
        with all_stopped([rank.found.pid for rank in ready], started, limit=self._limit) as stop:
            for rank in ready:
                failure = stop.failures.get(rank.found.pid)
                if isinstance(failure, AlreadyTracedError):
                    rank.read_held(failure, self._look_further)
                    continue
                if failure is not None:
                    rank.refuse(failure)
                    continue
                rank.read_stopped(stop.stop_signal(rank.found.pid), self._look_further)
                if self._stacks:
                    rank.capture(stop)
        return stop.pause

    def _read_running(self) -> float:
        for rank in self._ranks:
            if rank.is_open:
                rank.read_running()
        return 0.0

    def _process(self, rank: LiveRank, at: float, pause: float) -> JobProcess:
        found, snapshot = rank.found, rank.snapshot
        base = JobProcess(
            found.world, found.rank, found.host, found.pid, found.program, RankState.READ, "", "", samples=()
        )
        if snapshot is None:
            obstacle = rank.obstacle()
            return replace(base, state=obstacle.state, why=obstacle.why, way_out=obstacle.way_out)
        number = world_rank(snapshot)
        why = ""
        if number is not None and found.rank is not None and number != found.rank:
            why = f"its launcher gave it rank {found.rank}, but its MPI says that it is rank {number}"
        moved = self._moved.get(found.pid)
        sample = Sample(
            at,
            replace(snapshot, pause=pause),
            self._stacks_of(rank),
            went_on=moved is True,
            watched=moved is not None,
            halt=rank.halt,
        )
        return replace(base, rank=found.rank if number is None else number, why=why, samples=(sample,))

    def _stacks_of(self, rank: LiveRank) -> tuple[CallStack, ...] | Hidden:
        if not self._stacks:
            return NOT_ASKED
        if not self._stop:
            return NOT_STOPPED
        if rank.halt is not None and rank.halt.tracer:
            return _HELD
        return rank.stacks or NOT_CAPTURED


def _is_one_sided(rank: LiveRank) -> bool:
    """Tell whether a thread of a rank is in a call on a window."""
    return not isinstance(rank.stacks, Hidden) and any(
        (stack.call or "").startswith(_ON_WINDOWS) for stack in rank.stacks
    )


# ---------------------------------------------------------------- all ranks together


def _size(processes: Iterable[JobProcess], world: int) -> int | None:
    """Return the size of an MPI_COMM_WORLD as its ranks have it."""
    read = (each.samples[0].snapshot for each in processes if each.world == world and each.samples)
    return next((size for snapshot in read if (size := world_size(snapshot)) is not None), None)


def _without_duplicates(processes: Iterable[JobProcess]) -> Iterator[JobProcess]:
    """Yield the processes; one that claims the rank of another can't be told from it, and isn't taken for a rank."""
    seen: dict[tuple[int, int | None], int] = {}
    for process in processes:
        key = (process.world, process.rank)
        if process.rank is not None and key in seen:
            why = f"process {process.pid} says that it is rank {process.rank}, and so does process {seen[key]}"
            yield replace(process, rank=None, state=RankState.UNREADABLE, why=why, way_out="", samples=())
        else:
            seen[key] = process.pid
            yield process


def _complete(processes: Iterable[JobProcess], found: FoundJob, sizes: Sequence[int | None]) -> Iterator[JobProcess]:
    """Yield the processes and the ranks that MPI_COMM_WORLD has but nobody found, by world and rank."""
    everyone = list(processes)
    for number, (world, size) in enumerate(zip(found.worlds, sizes, strict=True)):
        members = [each for each in everyone if each.world == number]
        everyone.extend(_missing(number, world, size or 0, members, found.host))
    yield from sorted(everyone, key=lambda each: (each.world, each.rank is None, each.rank or 0, each.pid))


def _missing(
    number: int, world: FoundWorld, size: int, members: Sequence[JobProcess], host: str
) -> Iterator[JobProcess]:
    known = {each.rank for each in members}
    nameless = None in known
    for rank in [rank for rank in range(min(size, len(known) + _MOST_MISSING)) if rank not in known]:
        if nameless:
            state, why = RankState.UNREADABLE, f"no process says that it is rank {rank}"
        elif world.here:
            state, why = RankState.EXITED, f"rank {rank} was started on this machine and has exited"
        else:
            state, why = RankState.UNREADABLE, f"rank {rank} is not on this machine: it runs on another, or has exited"
        yield JobProcess(number, rank, host if world.here else "", 0, "", state, why, "", ())


# ---------------------------------------------------------------- several looks


def _merge(jobs: Sequence[Job], interval: float) -> Job:
    """Return one job with the samples of several looks at it."""
    last = jobs[-1]
    samples: dict[tuple[int, int, int | None], tuple[Sample, ...]] = {}
    for job in jobs:
        for process in job.processes:
            samples[process.identity] = samples.get(process.identity, ()) + process.samples
    return replace(
        last,
        taken=jobs[0].taken,
        pause=max(job.pause for job in jobs),
        interval=interval if len(jobs) > 1 else 0.0,
        processes=tuple(
            replace(each, samples=samples[each.identity]) if each.state is RankState.READ else each
            for each in last.processes
        ),
    )
