"""What each process of a job does and waits for, ready to be compared with what others do."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import Job
from mqs_dll.job.shared import grouped
from mqs_dll.report.names import CommunicatorNames
from mqs_dll.report.words import MESSAGES, SURE, RankView, ranks_of, tag_words
from mqs_dll.verdict.results import Certainty, Mode, Verdict, Wait, WaitKind

_MODES = {Mode.ALL: "needs all", Mode.ANY: "needs one", Mode.UNKNOWN: "needs one, or all"}


class Peers:
    """Processes that something waits for: each set of them once, since thousands may wait for the same thousands."""

    def __init__(self, processes: tuple[int, ...]) -> None:
        self.processes = processes

    @cached_property
    def members(self) -> frozenset[int]:
        """The same, to search for one of them."""
        return frozenset(self.processes)


class _PeersOnce:
    """Gives the same object for the same processes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], Peers] = {}

    def get(self, processes: tuple[int, ...]) -> Peers:
        """Return the object for processes; what was asked for before isn't computed again."""
        if processes not in self._known:
            self._known[processes] = Peers(processes)
        return self._known[processes]

    def union(self, several: Iterable[tuple[int, ...]]) -> Peers:
        """Return the object for the processes of all of these together, which most often are those of one of them."""
        parts = {self.get(processes) for processes in several}
        largest = max(parts, key=lambda part: len(part.processes))
        if all(part is largest or part.members <= largest.members for part in parts):
            return largest
        return self.get(tuple(sorted(frozenset().union(*(part.members for part in parts)))))


class WaitSummary(NamedTuple):
    """Waits of one process that differ in their peers alone."""

    kind: WaitKind
    communicator_id: int | None
    communicator: str
    tag: str
    any_source: bool
    inside: bool
    """Of a collective: the peers are those of its algorithm, who may well have entered it."""
    peers: Peers
    peer_ranks: frozenset[int]
    """In the communicator; without those that aren't known."""
    from_call: bool = False


class RankSummary(NamedTuple):
    """One process, before it is merged with others."""

    process: int
    does: str
    mode: str
    certainty: Certainty | None
    where: str
    needs: tuple[WaitSummary, ...]


def cases(job: Job, verdict: Verdict, names: CommunicatorNames) -> Iterator[RankSummary]:
    """Yield what each process does, in the order of the job."""
    once = _PeersOnce()
    for rank in ranks_of(job, verdict):
        activity = rank.activity
        needs = tuple(_needs(rank.waits, names, once))
        mode = _MODES[activity.mode] if sum(wait.kind in MESSAGES for wait in rank.waits) > 1 else ""
        yield RankSummary(
            rank.process_index, visible(_does(rank)), mode, activity.certainty, visible(activity.where), needs
        )


def _does(rank: RankView) -> str:
    """Return what a process does without what it waits for, which has columns of its own."""
    activity, stuck = rank.activity, SURE[rank.activity.certainty].stuck
    if rank.unseen:
        return rank.unseen
    if activity.call is None and (activity.halt or not rank.waits):
        return f"{stuck} {activity.phrase}".lstrip()
    how = activity.halt or stuck or ("" if activity.call else "seems to be")
    return f"{how} in {' or '.join(rank.calls)}".lstrip()


def _likeness(wait: Wait) -> Hashable:
    messages = wait.tag, wait.any_tag, wait.any_source, wait.from_call, _is_inside(wait)
    return (wait.kind, wait.communicator_id, wait.communicator, *messages)


def _needs(waits: Iterable[Wait], names: CommunicatorNames, once: _PeersOnce) -> Iterator[WaitSummary]:
    for group in grouped((_likeness(wait), wait) for wait in _telling(waits)).values():
        first = group[0]
        peers = once.union(wait.peers for wait in group)
        ranks = frozenset(wait.peer_rank for wait in group if wait.peer_rank is not None)
        label = first.communicator_id, names.label(first)
        yield WaitSummary(
            first.kind, *label, tag_words(first), first.any_source, _is_inside(first), peers, ranks, first.from_call
        )


def _telling(waits: Iterable[Wait]) -> list[Wait]:
    """Return the waits without those for a peer in a collective that others have not entered: that is the cause."""
    everything = list(waits)
    missed = {wait.communicator_id for wait in everything if wait.kind is WaitKind.COLLECTIVE and not _is_inside(wait)}
    return [wait for wait in everything if not _is_inside(wait) or wait.communicator_id not in missed]


def _is_inside(wait: Wait) -> bool:
    """Return whether a wait is for one message of a collective, not for processes that haven't entered it."""
    return wait.kind is WaitKind.COLLECTIVE and wait.peer_rank is not None
