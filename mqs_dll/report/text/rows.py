"""The processes of a job in rows: equal ones share a row, and rows are merged further until they fit a screen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from mqs_dll.job.records import Job, RankState
from mqs_dll.job.shared import grouped
from mqs_dll.report.names import CommunicatorNames, name_many
from mqs_dll.report.text.cases import Peers, RankSummary, WaitSummary, cases
from mqs_dll.report.words import FROM_CALL
from mqs_dll.verdict.results import Certainty, Verdict, WaitKind

MAX_ROWS = 24
"""That leaves space on a screen for what is wrong."""

MAX_LINES = 4
"""Of one row: a process may wait for thousands of messages."""

_MAX_VALUES = 3
"""Tags or names that are listed where the processes of a row differ in them."""

_GRAVITY = {Certainty.PROVED: 0, Certainty.SUSPECTED: 1, Certainty.NOTED: 3, None: 3}
_UNSEEN = frozenset({RankState.UNREADABLE, RankState.EXITED})


class WaitLine(NamedTuple):
    """One thing that the processes of a row wait for, in words."""

    peers: str
    communicator: str
    tag: str

    def sentence(self) -> str:
        """Return it in one: a message from 3, tag 7, on "halo"."""
        on = f" on {self.communicator}" if self.communicator else ""
        return f"{self.peers}{f', tag {self.tag},' if self.tag else ''}{on}"


class Row(NamedTuple):
    """Processes that do the same."""

    processes: tuple[int, ...]
    does: str
    certainty: Certainty | None
    lines: tuple[WaitLine, ...]
    where: str
    """The program's file and line; empty where not known."""


def rows(job: Job, verdict: Verdict, most: int = MAX_ROWS) -> tuple[Row, ...]:
    """Return the processes in rows, the stuck ones first; more than ``most`` only where merging can't help."""
    names = CommunicatorNames(job, verdict)
    everyone = list(cases(job, verdict, names))
    for alike in _LEVELS:
        groups = grouped((alike(case), case) for case in everyone)
        if len(groups) <= most:
            break
    return _in_order(job, (_row(job, names, group) for group in groups.values()))


def row_for_each(job: Job, verdict: Verdict, most_lines: int | None = MAX_LINES) -> tuple[Row, ...]:
    """Return one row for each process, in the order of the job; with at most so many things that it waits for."""
    names = CommunicatorNames(job, verdict)
    return tuple(_row(job, names, [case], most_lines) for case in cases(job, verdict, names))


def _in_order(job: Job, found: Iterable[Row]) -> tuple[Row, ...]:
    def gravity(row: Row) -> tuple[int, int]:
        unseen = job.processes[row.processes[0]].state in _UNSEEN
        return (2 if unseen else _GRAVITY[row.certainty]), row.processes[0]

    return tuple(sorted(found, key=gravity))


# ---------------------------------------------------------------- what makes processes share a row


def _same(case: RankSummary) -> Hashable:
    return case[1:]


def _same_distance(case: RankSummary) -> Hashable:
    """Take "waits for the rank above it" for the same in all processes."""
    return (case[1:5], *((need[:6], _distance(case.process, need.peers)) for need in case.needs))


def _other_peers(case: RankSummary) -> Hashable:
    return (case[1:5], *(need[:6] for need in case.needs))


def _other_messages(case: RankSummary) -> Hashable:
    return case[1:5], _kinds(case)


def _other_lines(case: RankSummary) -> Hashable:
    return case.does, case.mode, case.certainty, _kinds(case)


def _same_call(case: RankSummary) -> Hashable:
    return case.does, case.certainty


_LEVELS: tuple[Callable[[RankSummary], Hashable], ...] = (
    _same,
    _same_distance,
    _other_peers,
    _other_messages,
    _other_lines,
    _same_call,
)
"""From exact to coarse: the first that gives few enough rows is taken."""


# ---------------------------------------------------------------- a row in words


def _row(job: Job, names: CommunicatorNames, group: Sequence[RankSummary], most_lines: int | None = MAX_LINES) -> Row:
    """Return the row of processes, which may have no more in common than the call."""
    first = group[0]
    processes = tuple(case.process for case in group)
    if len({_kinds(case) for case in group}) > 1:
        return Row(
            processes, first.does, first.certainty, (WaitLine("different things", "", ""),), _places_in_code(group)
        )
    words = [_line(job, names, processes, [case.needs[number] for case in group]) for number in range(len(first.needs))]
    if most_lines is not None and len(words) > most_lines:
        words[most_lines - 1 :] = [WaitLine(f"and {len(words) - most_lines + 1} more", "", "")]
    has_mode = first.mode and all(case.mode == first.mode for case in group)
    does = f"{first.does} ({first.mode})" if has_mode else first.does
    return Row(processes, does, first.certainty, tuple(words), _places_in_code(group))


def _kinds(case: RankSummary) -> tuple[Hashable, ...]:
    return tuple((need.kind, need.inside) for need in case.needs)


def _places_in_code(group: Iterable[RankSummary]) -> str:
    return _listed(case.where for case in group)


def _line(job: Job, names: CommunicatorNames, processes: Sequence[int], needs: Sequence[WaitSummary]) -> WaitLine:
    peers = _peers(job, processes, needs)
    communicator = _listed(need.communicator for need in needs)
    if len({need.communicator_id for need in needs}) == 1:
        pairs = {(need.peers.processes if need.peer_ranks else (), need.peer_ranks) for need in needs}
        communicator += names.ranks_there(needs[0].communicator_id, processes, pairs)
    words = "its message from {}".format if needs[0].inside else _WORDS[needs[0].kind]
    if all(need.from_call for need in needs):
        peers += f" ({FROM_CALL})"
    return WaitLine(words(peers), communicator, _listed(need.tag for need in needs))


_WORDS: dict[WaitKind, Callable[[str], str]] = {
    WaitKind.RECEIVE: "a message from {}".format,
    WaitKind.SEND: "{} to receive".format,
    WaitKind.COLLECTIVE: "{} to enter".format,
    WaitKind.CALL: "{}".format,
}
_NO_PEER = {
    WaitKind.RECEIVE: "a rank that isn't known",
    WaitKind.SEND: "a rank that isn't known",
    WaitKind.COLLECTIVE: "others",
    WaitKind.CALL: "something that can't be seen",
}


def _peers(job: Job, processes: Sequence[int], needs: Sequence[WaitSummary]) -> str:
    """Return whom the processes wait for: all the same ones, each its neighbour, or each another."""
    different = {need.peers for need in needs}
    among = "any of " if all(need.any_source for need in needs) else ""
    if len(different) == 1:
        peers = needs[0].peers.processes
        if not peers:
            return "any rank" if among else _NO_PEER[needs[0].kind]
        return (among if len(peers) > 1 else "") + name_many(job, peers)
    distances = {_distance(process, need.peers) for process, need in zip(processes, needs, strict=True)}
    if len(distances) == 1 and isinstance(distance := distances.pop(), int):
        return f"its own rank {'+' if distance > 0 else '-'} {abs(distance)}"
    everyone = set().union(*(peers.processes for peers in different))
    return f"{among or 'different ones of '}{name_many(job, everyone)}"


def _distance(process: int, peers: Peers) -> int | Peers:
    """Return how far the only peer is from a process; where there are several, or none, themselves."""
    return peers.processes[0] - process if len(peers.processes) == 1 else peers


def _listed(values: Iterable[str]) -> str:
    """Return the different values, or how many there are."""
    different = list(dict.fromkeys(values))
    if len(different) > _MAX_VALUES:
        return f"{len(different)} different ones"
    return ", ".join(value or "not known" for value in different) if len(different) > 1 else different[0]
