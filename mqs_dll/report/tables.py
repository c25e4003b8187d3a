"""The tables of the page: rows of text, equal ones merged, each with what a filter has to know of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from mqs_dll.contract.escape import visible
from mqs_dll.job.node_names import nodes_of
from mqs_dll.job.ranges import Interval, intervals, ranges
from mqs_dll.job.records import Job
from mqs_dll.job.shared import grouped
from mqs_dll.report.names import CommunicatorNames, name_many
from mqs_dll.report.words import FROM_CALL, SURE, RankView, Tag, ranks_of, tag_of, tag_words
from mqs_dll.verdict.results import CommunicatorFacts, Verdict, Wait

MAX_ROWS = 30_000
"""Of one table: some megabytes of the page, and more than anybody reads."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a filter has to know of equal waits, of a process, or of a communicator."""

    communicator: int | None
    """Its index in Verdict.communicators."""
    tag: Tag
    processes: int
    """ProcessSets in Job.processes, as a number that ProcessSets gave out."""
    peers: int


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows of text."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    facts: list[Facts]
    """Of each row."""
    remarks: tuple[str, ...]
    """Sentences on what isn't in it."""


class ProcessSets:
    """Sets of processes as intervals of their indices in Job.processes; equal ones get the same number."""

    def __init__(self) -> None:
        """Initialize without any."""
        self.intervals: list[tuple[Interval, ...]] = []
        self._numbers: dict[tuple[Interval, ...], int] = {}
        self._known: dict[tuple[int, ...], int] = {}

    def number(self, processes: Iterable[int]) -> int:
        """Return the number of a set of processes."""
        found = tuple(intervals(processes))
        if found not in self._numbers:
            self._numbers[found] = len(self.intervals)
            self.intervals.append(found)
        return self._numbers[found]

    def number_of(self, processes: tuple[int, ...]) -> int:
        """Return the same of a tuple that thousands of waits may share, and go through it once."""
        if processes not in self._known:
            self._known[processes] = self.number(processes)
        return self._known[processes]


def _weights(verdict: Verdict) -> list[int]:
    """Return for each process the first finding that names it: its rows come first."""
    weights = [len(verdict.findings)] * len(verdict.activities)
    for number, finding in reversed([*enumerate(verdict.findings)]):
        for process in finding.processes:
            weights[process] = number
    return weights


# ---------------------------------------------------------------- who waits for whom


def waits(job: Job, verdict: Verdict, sets: ProcessSets) -> PageTable:
    """Return the waits; those of several processes for the same share a row."""
    names = CommunicatorNames(job, verdict)
    merged = grouped((_alike(wait, sets), wait) for wait in verdict.waits)
    weight = _weights(verdict)
    kept = sorted(merged.values(), key=lambda alike: weight[alike[0].process])[:MAX_ROWS]
    return PageTable(
        name="waits",
        title="Who waits for whom",
        columns=("ranks", "in", "for", "tag", "communicator", "bytes", "how sure"),
        rows=[_wait_row(job, names, alike) for alike in kept],
        facts=[
            Facts(
                alike[0].communicator_id,
                tag_of(alike[0]),
                sets.number(wait.process for wait in alike),
                sets.number_of(alike[0].peers),
            )
            for alike in kept
        ],
        remarks=_too_many(len(merged) - len(kept)),
    )


def _alike(wait: Wait, sets: ProcessSets) -> Hashable:
    kind = (wait.kind, wait.what, wait.communicator, wait.communicator_id, wait.window, wait.any_source, wait.certainty)
    return (*kind, wait.from_call, tag_of(wait), _length(wait), sets.number_of(wait.peers))


def _wait_row(job: Job, names: CommunicatorNames, alike: Sequence[Wait]) -> tuple[str, ...]:
    wait = alike[0]
    return (
        _several(job, (each.process for each in alike)),
        visible(wait.what),
        _peers(job, wait) + (f" ({FROM_CALL})" if wait.from_call else ""),
        tag_words(wait),
        names.label(wait),
        _length(wait),
        SURE[wait.certainty].wait,
    )


def _length(wait: Wait) -> str:
    """Return the bytes of a message: those of a collective's own messages are nobody's business."""
    if tag_of(wait) is None:
        return ""
    return "?" if wait.length is None else str(wait.length)


def _peers(job: Job, wait: Wait) -> str:
    if not wait.peers:
        return "any rank" if wait.any_source else "not known"
    return ("any of " if wait.any_source and len(wait.peers) > 1 else "") + name_many(job, wait.peers)


def _several(job: Job, processes: Iterable[int]) -> str:
    """Return names of processes: a process may have several equal waits."""
    return name_many(job, sorted({*processes}))


# ---------------------------------------------------------------- what each rank does


def activities(job: Job, verdict: Verdict, sets: ProcessSets) -> PageTable:
    """Return what the processes do; those that do the same share a row."""
    merged = grouped((_activity_row(rank), rank.process_index) for rank in ranks_of(job, verdict))
    weight = _weights(verdict)
    kept = sorted(merged.items(), key=lambda row: weight[row[1][0]])[:MAX_ROWS]
    return PageTable(
        name="activities",
        title="What each rank does",
        columns=("ranks", "does", "state", "where in the program", "program", "host", "PID"),
        rows=[
            (name_many(job, members), *map(visible, row), visible(nodes_of(job, members)), _pids(job, members))
            for row, members in kept
        ],
        facts=[Facts(None, None, sets.number(members), sets.number(())) for _, members in kept],
        remarks=_too_many(len(merged) - len(kept)),
    )


def _activity_row(rank: RankView) -> tuple[str, ...]:
    return _does(rank), SURE[rank.activity.certainty].state, rank.activity.where, rank.program


def _does(rank: RankView) -> str:
    if rank.unseen:
        return rank.unseen
    activity = rank.activity
    does = f"{activity.halt} in {activity.call}".lstrip() if activity.call else activity.phrase
    return f"{does}, {rank.needs} of its waits" if rank.needs else does


def _pids(job: Job, processes: Sequence[int]) -> str:
    """Return the PIDs of processes; nothing where they are of several nodes."""
    if len({job.processes[process].host for process in processes}) > 1:
        return ""
    pids = [job.processes[process].pid for process in processes if job.processes[process].pid]
    return ranges(pids) if len(pids) > 1 else "".join(map(str, pids))


# ---------------------------------------------------------------- communicators


def _called(facts: CommunicatorFacts) -> str:
    return visible(facts.name or (facts.description and f"[{facts.description}]"))


def communicators(job: Job, verdict: Verdict, sets: ProcessSets) -> PageTable:
    """Return the communicators, each with the ranks of MPI_COMM_WORLD that are in it."""
    used = {wait.communicator_id for wait in verdict.waits}
    listed = [(number, facts) for number, facts in enumerate(verdict.communicators) if facts.size > 1 or number in used]
    lonely = len(verdict.communicators) - len(listed)
    kept = listed[:MAX_ROWS]
    members = [[process for process in facts.members if process is not None] for _, facts in kept]
    remark = f"{lonely} communicators of one process each, on which nobody waits, are not listed."
    return PageTable(
        name="communicators",
        title="Communicators",
        columns=("name", "id", "size", "ranks of MPI_COMM_WORLD", "members not known"),
        rows=[
            (_called(facts), f"{facts.unique_id:#x}", str(facts.size), name_many(job, known), str(unknown or ""))
            for (_, facts), known in zip(kept, members, strict=True)
            for unknown in (max(facts.size, len(facts.members)) - len(known),)
        ],
        facts=[
            Facts(number, None, sets.number(known), sets.number(()))
            for (number, _), known in zip(kept, members, strict=True)
        ],
        remarks=(*((remark,) if lonely else ()), *_too_many(len(listed) - len(kept))),
    )


def _too_many(left_out: int) -> tuple[str, ...]:
    return (f"{left_out} more rows are left out of this page; --csv and --json have them all.",) if left_out else ()
