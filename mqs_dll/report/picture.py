"""The wait-for graph of a job as people can see it: what to draw, but not how. Shared by DOT, SVG and HTML."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import Job, RankState
from mqs_dll.job.shared import grouped
from mqs_dll.report.groups import groups
from mqs_dll.report.names import CommunicatorNames, name_many, titled
from mqs_dll.report.words import GRAVITY, RankView, ranks_of, tag_words
from mqs_dll.verdict.results import Certainty, Verdict, Wait, WaitKind

MAX_ARROWS = 150
"""More than that hide each other."""

_MAX_LABELS = 2
"""Calls and communicators that one arrow names; if there are more, their number is shown."""

_MAX_TAGS = 3

_MAX_TARGETS = 3
"""Arrows that one wait may have; for more it points at a node that stands for all of them."""


class Shape(Enum):
    """What a node stands for; the value says so in a legend."""

    RANK = "ranks"
    GONE = "ranks that exited or called MPI_Finalize"
    UNREAD = "ranks that could not be read"
    ANY = "any of several ranks"
    ALL = "all of several ranks"
    UNKNOWN = "a rank that isn't known"


@dataclass(frozen=True, slots=True)
class Node:
    """Processes that do the same, or what some wait for instead of one process."""

    shape: Shape
    title: str
    """ "rank 3", "ranks [4-9999]", "any of [0-7]"."""
    lines: tuple[str, ...]
    """What they do, where, and in which program if there are several; of any and all: the communicator."""
    certainty: Certainty | None
    """PROVED when they can never go on, SUSPECTED when it seems so; None when they aren't blocked."""
    processes: tuple[int, ...]
    """Their indices in Job.processes; empty where they aren't known."""


@dataclass(frozen=True, slots=True)
class ArrowLabel:
    """Equal waits, in words."""

    what: str
    """ "MPI_Recv"."""
    tag: str
    """ "7", "any", "?" where it isn't known; empty where there can't be one."""
    communicator: str
    """ 'on "halo"'; empty where an MPI call is all that is known."""
    waits: tuple[int, ...]
    """Their indices in Verdict.waits."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """All waits of one certainty between two nodes."""

    source: int
    """The index in Picture.nodes of those that wait."""
    target: int
    """The index in Picture.nodes of those that they wait for."""
    certainty: Certainty
    labels: tuple[ArrowLabel, ...]

    def lines(self) -> list[str]:
        """Return the labels in few lines: those that differ in their tags alone are put together."""
        tags = grouped(((label.what, label.communicator), label.tag) for label in self.labels)
        blocks = [[what + _tags(known), name] for (what, name), known in tags.items()]
        lines = [line for block in blocks[:_MAX_LABELS] for line in block if line]
        return lines if len(blocks) <= _MAX_LABELS else [*lines, f"and {len(blocks) - _MAX_LABELS} more"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph to be drawn. All its text is printable, none of it is escaped for any format."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    remarks: tuple[str, ...]
    """Sentences: what is merged, and what is left out."""


def picture(job: Job, verdict: Verdict) -> Picture:
    """Return what to draw of a job: at most some 50 nodes for ranks, in which every process is."""
    return _Painter(job, verdict).paint()


def folded(text: str, width: int = 40) -> list[str]:
    """Return text in lines of about ``width`` characters, broken behind commas, blanks, or where it must be."""
    lines = [""]
    for word in re.findall(r"[^, ]*[, ]?", text):
        for part in (word[start : start + width] for start in range(0, len(word), width)):
            if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
                lines.append("")
            lines[-1] += part
    return [line.rstrip() for line in lines]


class _Painter:
    def __init__(self, job: Job, verdict: Verdict) -> None:
        self._job = job
        self._verdict = verdict
        self._names = CommunicatorNames(job, verdict)
        self._ranks = ranks_of(job, verdict)
        self._groups = groups(self._ranks, verdict)
        self._group_of = {index: number for number, processes in enumerate(self._groups) for index in processes}
        self._several_programs = len({process.program for process in job.processes} - {""}) > 1
        self._nodes = [self._node(processes) for processes in self._groups]
        self._stand_ins: dict[tuple[Shape, str, frozenset[int]], int] = {}
        self._among: dict[tuple[int, ...], frozenset[int]] = {}

    def paint(self) -> Picture:
        """Return the nodes, the arrows, and what there is to say about them."""
        arrows = self._arrows()
        remarks = []
        if len(self._groups) < len(self._job.processes):
            remarks.append("Ranks that do the same share a node.")
        if len(arrows) > MAX_ARROWS:
            remarks.append(f"{len(arrows) - MAX_ARROWS} of {len(arrows)} arrows are left out, the least grave ones.")
        return Picture(tuple(self._nodes), tuple(arrows[:MAX_ARROWS]), tuple(remarks))

    # ------------------------------------------------------------ nodes

    def _node(self, processes: tuple[int, ...]) -> Node:
        ranks = [self._ranks[process] for process in processes]
        return Node(
            shape=_SHAPES.get(ranks[0].process.state, Shape.RANK),
            title=titled(self._job, processes),
            lines=tuple(self._node_lines(ranks)),
            certainty=ranks[0].activity.certainty,
            processes=processes,
        )

    def _node_lines(self, ranks: Sequence[RankView]) -> Iterable[str]:
        if self._several_programs:
            yield from _one_or_count((rank.program for rank in ranks), "programs")
        yield from _one_or_count(map(_does, ranks), "different calls")
        yield from _one_or_count((rank.activity.where for rank in ranks), "places in the program")

    def _stand_in(self, shape: Shape, words: str, communicator: str, peers: frozenset[int]) -> int:
        """Return the node that stands for several processes, or for unknown ones; equal ones are shared."""
        key = (shape, communicator, peers)
        if key not in self._stand_ins:
            self._stand_ins[key] = len(self._nodes)
            lines = (communicator,) if communicator else ()
            title = f"{words} {name_many(self._job, sorted(peers))}" if peers else words
            self._nodes.append(Node(shape, title, lines, None, tuple(sorted(peers))))
        return self._stand_ins[key]

    # ------------------------------------------------------------ arrows

    def _arrows(self) -> list[Arrow]:
        """Return all arrows, the gravest first."""
        found: dict[tuple[int, int, Certainty], dict[tuple[str, str, str], list[int]]] = {}
        for number, wait in enumerate(self._verdict.waits):
            words = (visible(wait.what), tag_words(wait), self._communicator(wait))
            for target in self._targets(wait):
                labels = found.setdefault((self._group_of[wait.process], target, wait.certainty), {})
                labels.setdefault(words, []).append(number)
        arrows = [
            Arrow(source, target, certainty, tuple(ArrowLabel(*words, tuple(waits)) for words, waits in labels.items()))
            for (source, target, certainty), labels in found.items()
        ]
        return sorted(arrows, key=lambda arrow: GRAVITY.index(arrow.certainty))

    def _targets(self, wait: Wait) -> Collection[int]:
        peers = self._peers(wait)
        name = self._communicator(wait)
        if not peers:
            words = "any rank" if wait.any_source else "a rank that isn't known"
            return [self._stand_in(Shape.UNKNOWN, words, name, peers)]
        if wait.any_source and len(peers) > 1:
            among = peers if wait.process in peers else peers | {wait.process}  # shared by all on a communicator
            return [self._stand_in(Shape.ANY, "any of", name, among)]
        nodes = {self._group_of[peer] for peer in peers}
        if len(nodes) > _MAX_TARGETS:
            return [self._stand_in(Shape.ALL, "all of", name, peers)]
        return sorted(nodes)

    def _peers(self, wait: Wait) -> frozenset[int]:
        """Return the peers as a set, made once: thousands of waits may share one tuple of thousands."""
        if wait.peers not in self._among:
            self._among[wait.peers] = frozenset(wait.peers)
        return self._among[wait.peers]

    def _communicator(self, wait: Wait) -> str:
        if wait.window is not None:
            return f"on {visible(wait.window)}"
        if wait.communicator is None:
            return "" if wait.kind is WaitKind.CALL else "on an unknown communicator"
        return f"on {self._names.label(wait)}"


_SHAPES = {
    RankState.EXITED: Shape.GONE,
    RankState.FINALIZED: Shape.GONE,
    RankState.UNREADABLE: Shape.UNREAD,
}


def _does(rank: RankView) -> str:
    """Return what a process does, without what it waits for: arrows show that."""
    if rank.unseen or rank.activity.halt:
        return rank.unseen or rank.activity.halt
    does = " and ".join(rank.calls) or rank.activity.phrase
    return f"{does}, {rank.needs}" if rank.needs else does


def _tags(tags: Sequence[str]) -> str:
    """Return the tags of equal waits in words, to stand behind the call."""
    if tags in ([""], ["any"]):
        return ", any tag" if tags[0] else ""
    shown = sorted(tags, key=lambda tag: (len(tag), tag))[:_MAX_TAGS]
    more = f" and {len(tags) - _MAX_TAGS} more" if len(tags) > _MAX_TAGS else ""
    return f", tag{'s' if len(tags) > 1 else ''} {', '.join(shown)}{more}"


def _one_or_count(values: Iterable[str], what: str) -> Iterable[str]:
    """Yield the value that all have, or how many different ones there are; nothing where none is known."""
    different = {*values} - {""}
    if different:
        yield visible(different.pop()) if len(different) == 1 else f"{len(different)} {what}"
