"""The one-sided windows of a job, joined from what each process says of its own, and the one-sided calls on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mqs_dll.contract.abi import Window
from mqs_dll.job.records import CallStack, Job
from mqs_dll.job.snapshot import Hidden
from mqs_dll.verdict.called import window_of
from mqs_dll.verdict.communicators import MemberBudget
from mqs_dll.verdict.evidence import Evidence, unknown_if
from mqs_dll.verdict.needs import EVERYBODY, Need, OneSided
from mqs_dll.verdict.results import WaitKind

LOCK, LOCK_ALL = "MPI_Win_lock", "MPI_Win_lock_all"
START, WAIT = "MPI_Win_start", "MPI_Win_wait"
MOVING_LOCKED = (
    "MPI_Win_unlock",
    "MPI_Win_unlock_all",
    "MPI_Win_flush",
    "MPI_Win_flush_all",
    "MPI_Win_flush_local",
    "MPI_Win_flush_local_all",
)
"""Calls that end when data has moved to or from processes that are locked."""

ACCESS = (
    "MPI_Put",
    "MPI_Get",
    "MPI_Accumulate",
    "MPI_Get_accumulate",
    "MPI_Fetch_and_op",
    "MPI_Compare_and_swap",
    "MPI_Rput",
    "MPI_Rget",
    "MPI_Raccumulate",
    "MPI_Rget_accumulate",
)
"""Calls that only ask for data to be moved; some wait for their target all the same, or for its lock."""

EXPOSED = ("MPI_Win_post", "MPI_Win_wait", "MPI_Win_test")
"""A process in one of these has said, or is about to say, that others may start."""


@dataclass
class JobWindow:
    """One window of the job."""

    index: int
    name: bytes
    size: int
    members: list[int | None]
    """Processes by rank in the window; None where it isn't known which one that is."""
    by_process: dict[int, Window] = field(default_factory=dict)
    """What each process says of it."""


class JobWindows:
    """All windows of a job, and which process has which of them."""

    def __init__(
        self,
        job: Job,
        by_rank: dict[tuple[int, int], int],
        stacks_of: Sequence[tuple[CallStack, ...]],
        budget: MemberBudget,
    ) -> None:
        """Join them.

        Args:
            job: the job.
            by_rank: the processes, by MPI_COMM_WORLD and rank.
            stacks_of: the stacks of each process; empty where they aren't known.
            budget: of members.
        """
        self._budget = budget
        self._job = job
        self._by_rank = by_rank
        self._calls = [{stack.call for stack in stacks if stack.call is not None} for stacks in stacks_of]
        self._by_key: dict[Hashable, int] = {}
        self.all: list[JobWindow] = []
        self.of_process: list[list[int] | None] = [self._of(process) for process in range(len(job.processes))]
        """By process, the indices of its windows in ``all``; None where they weren't asked for, or aren't known."""

    def _of(self, index: int) -> list[int] | None:
        process = self._job.processes[index]
        windows = process.samples[-1].snapshot.core.windows if process.samples else None
        if windows is None or isinstance(windows, Hidden):
            return None
        seen: Counter[Hashable] = Counter()
        found = []
        for window in windows:
            alike = (process.world, window.communicator, window.size, window.ranks)
            seen[alike] += 1
            number = self._by_key.setdefault((*alike, seen[alike]), len(self.all))
            if number == len(self.all):
                members: list[int | None] = [None] * min(max(window.size, 0), 2)  # of several nobody knows
                if window.ranks and self._budget.charge(len(window.ranks)):
                    members = [self._by_rank.get((process.world, rank)) for rank in window.ranks]
                self.all.append(JobWindow(number, window.name, window.size, members))
            self.all[number].by_process[index] = window
            found.append(number)
        return found

    # ------------------------------------------------------------ what a call waits for

    def need(self, process: int, stack: CallStack) -> Need:
        """Return what has to happen for a one-sided call to end; of several windows that it may be on, for any."""
        call, numbers = stack.call or "", self.of_process[process]
        if numbers is None:
            return Need(WaitKind.CALL, call, None, None, EVERYBODY, satisfied=Evidence.UNKNOWN)
        known = window_of(stack, [self.all[number].by_process[process].handle for number in numbers])
        windows = [self.all[number] for number in (numbers if known is None else [numbers[known]])]
        argument = stack.argument("rank") or stack.argument("target_rank")
        make = self._maker(call.removesuffix("_c"), None if argument is None else argument.value)
        needs = [need for window in windows if len(window.members) > 1 and (need := make(process, call, window))]
        return needs[0] if len(needs) == 1 else self._any_of(needs, call, windows)

    def _maker(self, call: str, rank: int | None) -> Callable[[int, str, JobWindow], Need | None]:
        """Return what makes the need of a call, for the rank in the window that it names."""
        if call in (LOCK, LOCK_ALL):
            return partial(self._lock, rank=rank)
        if call == START:
            return self._start
        if call == WAIT:
            return self._wait
        if call in MOVING_LOCKED:
            return partial(self._data, epochs=("locked",), rank=rank)
        if call in ACCESS:
            return partial(self._data, epochs=("locked", "started"), rank=rank)
        return partial(self._data, epochs=("started",), rank=None)

    @staticmethod
    def _any_of(needs: Sequence[Need], call: str, windows: Sequence[JobWindow]) -> Need:
        """Return the need of a call that may be on any of several windows, or on none with a need of its own."""
        peers = tuple(dict.fromkeys(peer for need in needs for peer in need.peers))
        known = {need.satisfied if need.peers else need.satisfied | Evidence.UNKNOWN for need in needs}
        satisfied = known.pop() if len(known) == 1 else Evidence.UNKNOWN
        about = OneSided(windows[0].index) if len(windows) == 1 else None
        return Need(WaitKind.CALL, call, None, None, peers, satisfied=satisfied, one_sided=about)

    def _lock(self, process: int, call: str, window: JobWindow, rank: int | None) -> Need | None:
        """Return the need for a lock, or None where nobody is known to be in its way.

        Other processes of the window may be in its way:

            holders     those that have locked a wanted part of the window
            unread      those of which it isn't known what they have locked
            granting    targets outside MPI, whose MPI may have to grant the lock

        Args:
            process: the process that wants it.
            call: the call.
            window: the window.
            rank: the rank whose part of the window is to be locked, as the call has it.
        """
        target = self._member(window, rank)
        targets = self._asked_for_lock(process, window) if target is None else {target}
        if not targets and any(self._is_queued(process, each) for each in self.all):
            return None
        others = self._others(process, window)
        locked = {peer: self._locked(peer, window) for peer in others}
        holders = [peer for peer, parts in locked.items() if parts and (not targets or targets.intersection(parts))]
        unread = [peer for peer, parts in locked.items() if parts is None]
        granting = () if holders and targets else self._idle(process, targets or others)
        peers = tuple(sorted({*holders, *unread, *granting}))
        if not peers:
            return None
        is_sure = bool(holders) and not unread and not granting
        wanted = targets or {part for peer in holders for part in locked[peer] or ()}
        if target is None and is_sure and len(wanted) == 1 and call != LOCK_ALL:
            target = next(iter(wanted))
        return self._made(call, OneSided(window.index, target, "MPI_Win_unlock" if is_sure else ""), peers, window)

    def _asked_for_lock(self, process: int, window: JobWindow) -> set[int]:
        """Return the processes of a window at which a process is queued for a lock."""
        own = self._job.processes[process].rank
        return {peer for peer in self._others(process, window) if own in (self._epoch(peer, window, "queued") or ())}

    def _start(self, process: int, call: str, window: JobWindow) -> Need | None:
        """Wait for those of the group of MPI_Win_start who have not posted for this process."""
        own = self._epoch(process, window, "started")
        if not own and self._elsewhere(process, window, "started"):
            return None
        group = self._processes_of(process, own) if own else self._others(process, window)
        me = self._job.processes[process].rank
        posted = {peer: None if peer is None else self._epoch(peer, window, "posted") for peer in group}
        missing = [peer for peer, ranks in posted.items() if ranks is None or me not in ranks]
        unknown = [peer for peer in missing if peer is None or posted[peer] is None]
        known = tuple(peer for peer in missing if peer is not None)
        if unknown:
            likely = tuple(peer for peer in known if not self._calls[peer].intersection(EXPOSED)) or known
            about = OneSided(window.index, missing="MPI_Win_post" if len(likely) == 1 else "")
            need = self._made(call, about, likely, window)
            need.satisfied |= unknown_if(likely != known)
            return need
        is_sure = bool(own) or len(known) == 1
        need = self._made(call, OneSided(window.index, missing="MPI_Win_post" if is_sure else ""), known, window)
        need.all_of = bool(own) and len(known) > 1
        need.satisfied |= unknown_if(not known)
        return need

    def _wait(self, process: int, call: str, window: JobWindow) -> Need | None:
        """Wait for those of the group of MPI_Win_post who are still between MPI_Win_start and MPI_Win_complete.

        Of those who are not, some may have called both, with data that is still under way: that proves nothing.
        """
        own = self._epoch(process, window, "posted")
        if not own and self._elsewhere(process, window, "posted"):
            return None
        group = self._processes_of(process, own) if own else self._others(process, window)
        me = self._job.processes[process].rank
        inside = tuple(
            peer for peer in group if peer is not None and me in (self._epoch(peer, window, "started") or ())
        )
        if own and inside:
            need = self._made(call, OneSided(window.index, missing="MPI_Win_complete"), inside, window)
            need.all_of = len(inside) > 1
            return need
        known = tuple(peer for peer in group if peer is not None)
        missing = "MPI_Win_complete" if len(known) == 1 else ""
        need = self._made(call, OneSided(window.index, missing=missing), known, window)
        need.satisfied |= Evidence.UNKNOWN
        return need

    def _data(
        self, process: int, call: str, window: JobWindow, *, epochs: Sequence[str], rank: int | None
    ) -> Need | None:
        """Wait for data to move: whoever is in MPI helps, so that only who is outside can be waited for.

        Or for the lock of the target, where the MPI doesn't say who has locked what: one that a process asks for may be
        granted when its data is to move (osc_pt2pt_passive_target.c of Open MPI 4.1.4).

        Args:
            process: who waits.
            call: the call.
            window: the window that it is on.
            epochs: in which of a process's epochs it may be.
            rank: of the target in the window, where the call names one.
        """
        known = [self._epoch(process, window, epoch) for epoch in epochs]
        own = next(filter(None, known), None)
        if not own and any(self._elsewhere(process, window, epoch) for epoch in epochs):
            return None
        target = self._member(window, rank)
        others = self._processes_of(process, own) if own else self._others(process, window)
        idle = self._idle(process, others if target is None else [target])
        need = self._made(call, OneSided(window.index, target), idle, window)
        need.moves = call.removesuffix("_c") in ACCESS
        need.satisfied = Evidence.UNKNOWN if idle and not need.moves else Evidence.YES
        if not need.moves and not idle and target is not None and None in known:
            need.peers = tuple(self._others(process, window))
            need.moves = True
        return need

    def requested(self, process: int, call: str) -> Need | None:
        """Return what a request that no queue has waits for if MPI_Rget or its like made it; None where it didn't.

        These need a lock (MPI 4.1, section 12.3.5), and their target's MPI may have to move the data.
        """
        windows = [self.all[number] for number in self.of_process[process] or ()]
        for window in windows:
            locked = self._epoch(process, window, "locked")
            targets = self._others(process, window) if locked is None else self._processes_of(process, locked)
            if idle := self._idle(process, targets):
                need = self._made(call, OneSided(window.index), idle, window)
                need.satisfied |= Evidence.UNKNOWN
                need.perhaps = True
                return need
        return None

    @staticmethod
    def _made(call: str, about: OneSided, peers: tuple[int, ...], window: JobWindow) -> Need:
        satisfied = unknown_if(None in window.members or not peers)
        return Need(WaitKind.CALL, call, None, None, peers, satisfied=satisfied, one_sided=about)

    # ------------------------------------------------------------ what processes say

    @staticmethod
    def _member(window: JobWindow, rank: int | None) -> int | None:
        """Return the process that has a rank in a window; None where it isn't known."""
        return window.members[rank] if rank is not None and 0 <= rank < len(window.members) else None

    def _idle(self, process: int, peers: Iterable[int | None]) -> tuple[int, ...]:
        """Return those of a process's peers that are outside MPI."""
        return tuple(sorted(peer for peer in peers if peer is not None and peer != process and not self._calls[peer]))

    def _others(self, process: int, window: JobWindow) -> list[int]:
        return [peer for peer in window.members if peer is not None and peer != process]

    def _epoch(self, process: int, window: JobWindow, kind: str) -> tuple[int, ...] | None:
        """Return the ranks in a process's ``started``, ``posted``, ``locked`` or ``queued``; None if not known."""
        own = window.by_process.get(process)
        ranks: tuple[int, ...] | None = None if own is None else getattr(own, kind)
        return ranks

    def _locked(self, process: int, window: JobWindow) -> Collection[int] | None:
        """Return the processes whose parts of a window a process has locked; one in MPI_Win_lock_all has none yet."""
        if self._calls[process].intersection((LOCK_ALL,)):
            return ()
        ranks = self._epoch(process, window, "locked")
        return None if ranks is None else [peer for peer in self._processes_of(process, ranks) if peer is not None]

    def _elsewhere(self, process: int, window: JobWindow, epoch: str) -> bool:
        """Return whether a process surely has an epoch of some kind on another window, and so not on one without."""
        numbers = self.of_process[process] or ()
        return any(self._epoch(process, self.all[number], epoch) for number in numbers if number != window.index)

    def _is_queued(self, process: int, window: JobWindow) -> bool:
        own = self._job.processes[process].rank
        return any(own in (each.queued or ()) for each in window.by_process.values())

    def _processes_of(self, process: int, ranks: Sequence[int]) -> list[int | None]:
        """Return the processes that a process knows by their MPI_COMM_WORLD ranks."""
        world = self._job.processes[process].world
        return [self._by_rank.get((world, rank)) for rank in ranks]
