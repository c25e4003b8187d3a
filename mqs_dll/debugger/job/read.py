"""Reading all ranks of a live job: open each, stop all, read all, let all go, and only then follow their stacks."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import IntEnum

from mqs_dll.contract import phrases
from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.collect import OpenQueues, ReadFurther
from mqs_dll.debugger.job.find.outlived import waits_for_writers
from mqs_dll.debugger.job.find.processes import Processes
from mqs_dll.debugger.job.ranks import STOPS, Here, Ranks, ReadingOptions
from mqs_dll.debugger.stopping.limit import USUAL, Limit
from mqs_dll.job.calls import LONG_CALL, Blocks, polled, takes_requests, what_ends
from mqs_dll.job.facts import IS_ALONE, missing_ranks, mpi_name, world_size
from mqs_dll.job.found import FoundJob, FoundWorld
from mqs_dll.job.records import LIVE, Identity, Job, JobProcess, RankState, Sample, Start
from mqs_dll.job.shared import garbage_left_alone, grouped
from mqs_dll.job.snapshot import Hidden

MAX_MORE = 6
"""Looks that may follow those that were asked for, while there is doubt."""

_MORE_BEFORE_LONG = 2
"""Of them before a long one."""


class Doubt(IntEnum):
    """Whether something about a job may be otherwise the next time that one looks."""

    NONE = 0
    PASSES = 1
    LASTS = 2
    """It is seen to pass by nothing but a look that comes late, after LONG_CALL."""


TO_SETTLE = 3.2
"""Seconds until the first of these, where ranks are on several machines, or before MPI_Init: what was under way between
them has come, and a job that starts has started."""


def read_job(
    found: FoundJob,
    open_queues: OpenQueues,
    *,
    read_further: ReadFurther | None = None,
    samples: int = 1,
    interval: float = 1.0,
    stop: bool = True,
    stacks: bool = True,
    count: bool = True,
    limit: Limit = USUAL,
    doubtful: Callable[[Job], Doubt] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Job:
    """Read all ranks of a job that runs on this machine, once or several times.

    Args:
        found: the job.
        open_queues: returns the library to read a process with, and the library's file if it has one.
        read_further: lists the windows of a process, when a rank was in a one-sided call in the sample before.
        samples: how often to sample.
        interval: seconds between two samples.
        stop: whether the ranks are stopped while they are read.
        stacks: whether to follow the call stacks, which needs ``stop``.
        count: whether the kernel counts, by hardware breakpoints, who leaves its MPI call between two samples.
        limit: for how long the ranks may stand.
        doubtful: decides by what was read whether to sample again, and how late: what a healthy job does passes.
        on_progress: called before each rank with the number of those that are ready to be read, and of all.

    Returns:
        The job. A rank that couldn't be read in the last sample has no samples, but the sentence that says why.

    Raises:
        LimitError: the ranks stood for too long, and had to be let go before all was read.
    """
    here = Here(found.ranks, open_queues, read_further, ReadingOptions(stop, stacks, count, limit), found.sizes)
    with JobReader(found, here, on_progress=on_progress) as reader:
        return sample_on(reader, [reader.sample()], samples, interval, doubtful)


def sample_on(
    reader: JobReader, taken: list[Job], samples: int, interval: float, doubtful: Callable[[Job], Doubt] | None
) -> Job:
    """Sample a job as often as was asked for, then on while there is doubt, or what may pass.

    Args:
        reader: of the job.
        taken: those there are, at least one; more are added.
        samples: how many samples.
        interval: seconds between two samples.
        doubtful: as read_job has it.

    Returns:
        One job with all samples.
    """
    decide = doubtful or (lambda _: Doubt.NONE)
    had_long = False
    while len(taken) < samples or (doubtful is not None and len(taken) < samples + MAX_MORE):
        more = len(taken) - samples
        doubt = Doubt.PASSES
        if more >= 0 and not _changes(taken):
            doubt = Doubt.NONE if had_long else decide(_merge(taken, interval))
        if doubt is Doubt.NONE:
            break
        settles = taken[-1].by_network or any(process.starts for process in taken[-1].processes)
        gap = max(interval, TO_SETTLE) if settles and more == 0 else interval
        is_long = doubt is Doubt.LASTS and more >= _MORE_BEFORE_LONG
        reader.wait(max(gap, LONG_CALL) if is_long else gap)
        had_long |= is_long
        taken.append(reader.sample())
    return _merge(taken, interval)


def _changes(taken: Sequence[Job]) -> bool:
    """Return whether a job wasn't as one would find it a moment later when it was sampled last."""
    return any(process.transient for process in taken[-1].processes) or _has_just_ended(taken)


def _has_just_ended(taken: Sequence[Job]) -> bool:
    """Return whether a rank ended since the sample before: what it sent last may be under way to one that stood."""
    ended = [
        sum(process.state in (RankState.EXITED, RankState.FINALIZED) for process in each.processes)
        for each in taken[-2:]
    ]
    return len(ended) > 1 and ended[0] != ended[1] < len(taken[-1].processes)


class JobReader(Closes):
    """The ranks of a job, kept open from sample to sample; a context manager that lets go of them at the end."""

    def __init__(self, found: FoundJob, ranks: Ranks, *, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Initialize; nothing of the ranks is touched yet.

        Args:
            found: the job.
            ranks: its ranks, on this machine or on several.
            on_progress: as read_job has it.
        """
        self._found = found
        self._ranks = ranks
        self._on_progress = on_progress
        self._windows = False
        self._began: float | None = None

    def sample(self) -> Job:
        """Read each rank once; one that can't be read has a sentence instead, and is tried again in the next sample."""
        ranks, how = self._ranks, self._ranks.how
        ranks.open(windows=self._windows, on_progress=self._on_progress)
        for _ in range(STOPS):
            taken = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
            at = self._seconds_since_first()
            with ranks.stopped() if how.stop else nullcontext():
                ranks.read()
            if ranks.read_copies():
                break
        with garbage_left_alone():
            return self._job(taken, ranks.processes(at))

    def _job(self, taken: str, processes: Sequence[JobProcess]) -> Job:
        ranks, how = self._ranks, self._ranks.how
        self._windows = any(map(_is_one_sided, processes))
        sizes = tuple(_size(processes, number) for number in range(len(self._found.worlds)))
        launcher, complete = self._found.launcher, tuple(_complete(_without_duplicates(processes), self._found, sizes))
        is_over = launcher is not None and all(each.state is RankState.EXITED for each in complete)
        return Job(
            title=self._found.title,
            source=LIVE,
            host=self._found.host,
            taken=taken,
            mpi=next((mpi_name(each.samples[0].snapshot) for each in processes if each.samples), ""),
            launcher=self._found.launcher,
            stopped=how.stop,
            stop_time=max(
                [ranks.stop_time, *(each.samples[-1].snapshot.stop_time for each in complete if each.samples)]
            ),
            interval=0.0,
            counted=how.count,
            stop_skew=ranks.stop_skew,
            sizes=sizes,
            processes=complete,
            launcher_waits=waits_for_writers(Processes(), launcher) if is_over and launcher is not None else "",
        )

    def wait(self, seconds: float) -> None:
        """Let time pass until the next sample, and watch whether the MPI calls end that ranks were in at the last.

        Needs the call stacks; ranks without them aren't watched.
        """
        self._ranks.watch(seconds)

    def close(self) -> None:
        """Let go of the ranks. Idempotent."""
        self._ranks.close()

    def _seconds_since_first(self) -> float:
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        return now - self._began


def _is_one_sided(process: JobProcess) -> bool:
    """Return whether a thread was in a call on a window in the last sample, or in one for perhaps MPI_Rget."""
    stacks = process.samples[-1].stacks if process.samples else ()
    if isinstance(stacks, Hidden):
        return False
    inside = [(stack, stack.call) for stack in stacks if stack.call is not None]
    return any(call.startswith("MPI_Win_") or what_ends(call) is Blocks.WINDOW for _, call in inside) or any(
        takes_requests(polled(call)) and not stack.requests <= _requests(process.samples[-1]) for stack, call in inside
    )


def _requests(sample: Sample) -> set[int | None]:
    """Return the requests that are in queues."""
    return {
        phrases.read(operation.extra_text).request
        for each in sample.snapshot.communicators
        for queue in each.queues
        for operation in queue.operations
    }


# ---------------------------------------------------------------- all ranks together


def _size(processes: Iterable[JobProcess], world: int) -> int | None:
    """Return the size of an MPI_COMM_WORLD as most machines have it, each by the first of its ranks."""
    first: dict[str, JobProcess] = {}
    for process in processes:
        if process.world == world and process.samples:
            first.setdefault(process.host, process)
    sizes = (world_size(process.samples[0].snapshot) for process in first.values())
    return next((size for size, _ in Counter(size for size in sizes if size is not None).most_common(1)), None)


def _without_duplicates(processes: Iterable[JobProcess]) -> Iterator[JobProcess]:
    """Yield the processes; one that claims the rank of another can't be distinguished from it, and is no rank.

    Of two on different machines neither is a rank: which of them lies isn't known.
    """
    everyone = list(processes)
    claimed = grouped(((process.world, process.rank), process) for process in everyone)
    for process in everyone:
        alike = claimed[process.world, process.rank]
        elsewhere = any(each.host != process.host for each in alike)
        if process.rank is None or len(alike) == 1 or (process is alike[0] and not elsewhere):
            yield process
            continue
        other = alike[1] if process is alike[0] else alike[0]
        where, there = (f" on {each.host}" if elsewhere else "" for each in (process, other))
        alone = all(each.samples and world_size(each.samples[0].snapshot) == 1 for each in (process, other))
        claims = IS_ALONE if alone else f"says that it is rank {process.rank}, and so does"
        why = f"process {process.pid}{where} {claims} process {other.pid}{there}"
        yield replace(process, rank=None, state=RankState.UNREADABLE, why=why, remedy="", samples=())


def _complete(processes: Iterable[JobProcess], found: FoundJob, sizes: Sequence[int | None]) -> Iterator[JobProcess]:
    """Yield the processes and the ranks that MPI_COMM_WORLD has but nobody found, by world and rank."""
    everyone = list(processes)
    known: list[set[int | None]] = [set() for _ in found.worlds]
    for each in everyone:
        known[each.world].add(each.rank)
    missing = missing_ranks(zip(sizes, known, strict=True))
    for number, (world, ranks) in enumerate(zip(found.worlds, missing, strict=True)):
        everyone.extend(_missing(number, world, ranks, None in known[number], found))
    yield from sorted(everyone, key=lambda each: (each.world, each.rank is None, each.rank or 0, each.pid))


def _missing(
    number: int, world: FoundWorld, ranks: Iterable[int], nameless: bool, found: FoundJob
) -> Iterator[JobProcess]:
    nodes = len(found.nodes)
    here, host = (f"on one of the {nodes} nodes", "") if nodes > 1 else ("on this machine", found.host)
    for rank in ranks:
        if nameless:
            state, why = RankState.UNREADABLE, f"no process says that it is rank {rank}"
        elif world.here:
            state, why = RankState.EXITED, f"rank {rank} was started {here} and has exited"
        else:
            state, why = RankState.UNREADABLE, f"rank {rank} is not {here}: it runs on another, or has exited"
        why, remedy = ("; ".join((why, *found.lost)), found.remedy) if not world.here else (why, "")
        yield JobProcess(number, rank, host if world.here else "", 0, "", state, why, remedy, ())


# ---------------------------------------------------------------- several samples


@garbage_left_alone()
def _merge(jobs: Sequence[Job], interval: float) -> Job:
    """Return one job with the samples of several."""
    last = jobs[-1]
    samples: dict[Identity, tuple[Sample, ...]] = {}
    starts: dict[Identity, tuple[Start, ...]] = {}
    for job in jobs:
        for process in job.processes:
            starts[process.identity] = starts.get(process.identity, ()) + process.starts
            samples[process.identity] = samples.get(process.identity, ()) + process.samples
    return replace(
        last,
        taken=jobs[0].taken,
        stop_time=max(job.stop_time for job in jobs),
        stop_skew=max(job.stop_skew for job in jobs),
        interval=interval if len(jobs) > 1 else 0.0,
        processes=tuple(
            replace(each, samples=samples[each.identity])
            if each.state is RankState.READ
            else replace(each, starts=starts[each.identity])
            if each.state is RankState.NOT_INITIALIZED
            else each
            for each in last.processes
        ),
    )
