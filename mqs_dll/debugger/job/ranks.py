"""All ranks of a job that are read together, whatever machines they run on; and those of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from mqs_dll.contract.errors import AlreadyTracedError
from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.collect import SHARE, OpenQueues, ReadFurther
from mqs_dll.debugger.job import peek
from mqs_dll.debugger.job.footprint import Footprint
from mqs_dll.debugger.job.open_files import allow_open_files
from mqs_dll.debugger.job.rank import LiveRank
from mqs_dll.debugger.job.stacks import NOT_ASKED, NOT_CAPTURED, NOT_STOPPED
from mqs_dll.debugger.job.stacks.arguments import TIME_BUDGET
from mqs_dll.debugger.stopping.holder import Holder
from mqs_dll.debugger.stopping.limit import USUAL, Limit
from mqs_dll.debugger.stopping.stop import all_stopped, begin_holder
from mqs_dll.job.facts import world_rank
from mqs_dll.job.found import FoundRank
from mqs_dll.job.records import CallStack, JobProcess, RankState, Sample, Start
from mqs_dll.job.snapshot import Hidden

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_HELD = Hidden("another debugger has the process's registers", "let that debugger go, and sample again")

INSIDE_INIT = "the process is inside MPI_Init: its communicators are not made yet"
_FROZEN = Hidden("its cgroup is frozen: the kernel doesn't stop it for a debugger, and its registers can't be read")


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How ranks are read."""

    stop: bool = True
    """Whether they are stopped while they are read."""
    stacks: bool = True
    """Whether their call stacks are followed, which needs ``stop``."""
    count: bool = True
    """Whether the kernel counts, by hardware breakpoints, who leaves its MPI call between two samples."""
    limit: Limit = USUAL
    """For how long they may stand."""


USUALLY = ReadingOptions()

STOPS = 3
"""Of one sample: in the last one all are read that stand."""
_MAX_COPIED = 1 << 28
"""Bytes of all ranks of this machine."""
_MAX_COPIERS = 16
_FEW = 8
"""Ranks that are copied one after the other."""
_SHORTLY = 0.001

_SECONDS_TO_FOLLOW = 0.5
"""Of a processor, for what a sample may add to what is remembered of functions of the MPI."""


class Ranks(Protocol):
    """The ranks of a job, for samples in this order: open, stopped (or not) around read, processes; then watch.

    Each step is done with all ranks before the next one starts: all are open before one is stopped, all stand before
    one is read, all are read before one goes on. What is read of ranks that stand is mostly a copy of their memory:
    then read_copies comes before processes, and may ask for another stop, with all of it.
    """

    how: ReadingOptions
    stop_time: float
    """Seconds for which they stood in the last sample, each time from the first one's stop until the last went on."""
    stop_skew: float
    """Seconds from the order to stop until the last machine's ranks stood; 0 on one machine."""

    def open(self, *, windows: bool = False, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Let the library find its way in each, which runs; for its windows, too, if these will be listed."""

    def stopped(self) -> AbstractContextManager[None]:
        """Return a context manager inside of which those that are open stand still."""

    def read(self) -> None:
        """Read those that are open."""

    def read_copies(self) -> bool:
        """Read what was copied of those that stood; return False where one has to be read while all stand again."""

    def processes(self, at: float) -> list[JobProcess]:
        """Return what was read since they were opened, in any order; ``at`` is Sample.at."""

    def watch(self, seconds: float) -> None:
        """Let time pass, and watch whether the MPI calls end that ranks were in when they were read."""

    def footprints(self) -> list[Footprint]:
        """Return where the queues of those of this machine were read in the last sample."""

    def close(self) -> None:
        """Let go of them. Idempotent."""


class Here(Closes):
    """Ranks of this machine."""

    def __init__(
        self,
        ranks: Sequence[FoundRank],
        open_queues: OpenQueues,
        read_further: ReadFurther | None = None,
        how: ReadingOptions = USUALLY,
        sizes: Sequence[int] = (),
    ) -> None:
        """Initialize, and touch nothing of the ranks. The arguments are those of read.read_job, and FoundJob.sizes."""
        self.how = how
        self.stop_time = 0.0
        self.stop_skew = 0.0
        self._list_windows = read_further
        self._look_further: ReadFurther | None = None
        self._ranks = [LiveRank(rank, open_queues, sizes[rank.world] if sizes else 0) for rank in ranks]
        allow_open_files(len(self._ranks))
        self._moved: dict[int, bool | None] = {}
        self._watched_for = 0.0
        self._stop: all_stopped | None = None
        self._holder: Holder | None = None
        self.stops = 0
        """How often they were stopped for the last sample."""
        self._copiers: ThreadPoolExecutor | None = None
        self._copies: list[Future[None]] = []
        """Those that are being made in this stop."""

    def open(self, *, windows: bool = False, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Let the library find its way in each."""
        self._look_further = self._list_windows if windows else None
        self.stops, self.stop_time = 0, 0.0
        if self.how.stop:
            self._begin_holder()
            self._begin_copiers()
        for done, rank in enumerate(self._ranks):
            if on_progress:
                on_progress(done, len(self._ranks))
            rank.open()
            if self.how.stop:
                rank.prepare_copy(self._look_further)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Return a context manager inside of which those that are open stand still.

        Raises:
            LimitError: at its end, they had to be let go before.
        """
        opened = [rank for rank in self._ranks if rank.is_open]
        ready = [rank for rank in opened if (halt := rank.find_halt()) is None or not halt.out_of_reach]
        started = {rank.found.pid: rank.started for rank in ready if rank.started is not None}
        pids = [rank.found.pid for rank in ready]
        with all_stopped(pids, started, limit=self.how.limit, holder=self._holder) as stop:
            self._stop = stop
            try:
                yield
            finally:
                self._stop = None
        self.stop_time += stop.stop_time
        self.stops += 1

    def read(self) -> None:
        """Copy those that stand, or read them; what is very long of one takes half the time left to all at most."""
        end = time.monotonic() + self.how.limit.seconds * SHARE
        room = _MAX_COPIED if self.stops + 1 < STOPS else 0
        self._copies.clear()
        for rank in self._ranks:
            if rank.is_open and self._stop is None:
                rank.read_running()
            elif rank.is_open:
                assert self._stop is not None
                now = time.monotonic()
                room -= self._read_stopped(rank, self._stop, now + (end - now) / 2, room)
        for copy in self._copies:
            copy.result()

    def _read_stopped(self, rank: LiveRank, stop: all_stopped, until: float, room: int) -> int:
        """Copy a rank where there is room for so many bytes, else read it; return how many were copied."""
        size = 0
        failure = stop.failures.get(rank.found.pid)
        if rank.halt is not None and rank.halt.out_of_reach:
            rank.read_frozen(self._look_further)
        elif isinstance(failure, AlreadyTracedError):
            rank.read_held(failure, self._look_further)
        elif failure is not None:
            rank.refuse(failure)
        else:
            stop_signal = stop.stop_signal(rank.found.pid)
            if rank.size_of_copy is not None and rank.size_of_copy <= room:
                size = rank.size_of_copy
                copy = rank.copied_by(stop_signal)
                if self._copiers is None:
                    copy()
                else:
                    self._copies.append(self._copiers.submit(copy))
            else:
                rank.read_stopped(stop_signal, self._look_further, until)
            if self.how.stacks:
                rank.capture(stop)
        return size

    def read_copies(self) -> bool:
        """Read what was copied; return False where one has to be read while all stand again."""
        are_whole = [rank.read_copy(self._look_further, self.how.limit.seconds) for rank in self._ranks]
        return all(are_whole)

    def processes(self, at: float) -> list[JobProcess]:
        """Return what was read; the ranks run, and their stacks are followed now."""
        with TIME_BUDGET.within(_SECONDS_TO_FOLLOW):
            for rank in self._ranks:
                rank.unwind(self.how.limit, self._holder)
        found = [self._process(rank, at) for rank in self._ranks]
        self._moved.clear()
        return found

    def watch(self, seconds: float) -> None:
        """Let time pass, and watch whether the MPI calls end that ranks were in when they were read."""
        targets = {rank.found.pid: target for rank in self._ranks if (target := rank.watched()) is not None}
        holder = self._begin_holder() if targets and self.how.count else None
        self._watched_for = seconds
        moved = peek.changed(list(targets.values()), seconds, holder)
        self._moved = dict(zip(targets, moved, strict=True))

    def footprints(self) -> list[Footprint]:
        """Return where their queues were read in the last sample."""
        return [each for rank in self._ranks if (each := rank.footprint()) is not None]

    def close(self) -> None:
        """Let go of the ranks. Idempotent."""
        if self._copiers is not None:
            self._copiers.shutdown()  # before the files are closed that they may still read
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.let_go()
        for rank in self._ranks:
            rank.close()

    def _begin_holder(self) -> Holder | None:
        """Return the process that holds ranks, or watches them, and is started unless it is there."""
        if self._holder is None or self._holder.ended:
            self._holder = begin_holder(self.how.limit)
        return self._holder

    def _begin_copiers(self) -> None:
        """Start threads that copy ranks, where there are many, on cores that are idle while all ranks stand."""
        number = min(len(os.sched_getaffinity(0)), _MAX_COPIERS)
        if self._copiers is None and number > 1 and len(self._ranks) > _FEW:
            from concurrent.futures import ThreadPoolExecutor  # which takes as long to import as a rank to read

            self._copiers = ThreadPoolExecutor(number, "mqs-copies")
            for _ in range(number):  # they start now, not while ranks stand
                self._copiers.submit(time.sleep, _SHORTLY)

    def _process(self, rank: LiveRank, at: float) -> JobProcess:
        found, snapshot = rank.found, rank.snapshot
        base = unread(found, RankState.READ)
        if snapshot is None:
            obstacle = rank.obstacle()
            starts = (Start(at, self._stacks_of(rank)),) if obstacle.state is RankState.NOT_INITIALIZED else ()
            is_inside = any(each.inside for each in starts)
            return replace(
                base,
                state=obstacle.state,
                why=INSIDE_INIT if is_inside else obstacle.why,
                remedy=obstacle.remedy,
                starts=starts,
                transient=rank.transient and obstacle.state is not RankState.EXITED,
            )
        number = world_rank(snapshot)
        why = ""
        if number is not None and found.rank is not None and number != found.rank:
            why = f"its launcher gave it rank {found.rank}, but its MPI says that it is rank {number}"
        moved = self._moved.get(found.pid)
        sample = Sample(
            at,
            replace(snapshot, stop_time=self.stop_time + rank.stopped_again),
            self._stacks_of(rank),
            progressed=moved is True,
            watched=moved is not None,
            watched_for=0.0 if moved is None else self._watched_for,
            halt=rank.halt,
            slices=rank.slices,
        )
        known = found.rank if number is None else number
        return replace(base, rank=known, why=why, samples=(sample,), test=rank.test, transient=rank.transient)

    def _stacks_of(self, rank: LiveRank) -> tuple[CallStack, ...] | Hidden:
        if not self.how.stacks:
            return NOT_ASKED
        if not self.how.stop:
            return NOT_STOPPED
        if rank.halt is not None and rank.halt.tracer:
            return _HELD
        if rank.halt is not None and rank.halt.out_of_reach:
            return _FROZEN
        return rank.stacks or NOT_CAPTURED


def unread(found: FoundRank, state: RankState, why: str = "", remedy: str = "") -> JobProcess:
    """Return the record of a rank of which nothing was read."""
    return JobProcess(found.world, found.rank, found.host, found.pid, found.program, state, why, remedy, samples=())
