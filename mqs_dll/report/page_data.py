"""What the page's script filters and sorts: JSON that no text of the target can end, or get out of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from mqs_dll.job.ranges import ranges
from mqs_dll.job.records import Job
from mqs_dll.job.shared import grouped
from mqs_dll.report.names import CommunicatorNames, name_many
from mqs_dll.report.picture import Arrow, Node, Picture, Shape
from mqs_dll.report.tables import Facts, PageTable, ProcessSets
from mqs_dll.report.words import Tag, tag_of
from mqs_dll.verdict.results import Verdict

ROWS_SHOWN = 50
"""Of a table, until all are asked for."""

_NOT_KNOWN = -1
"""Stands for an unknown communicator."""

_OF_RANKS = frozenset({Shape.RANK, Shape.GONE, Shape.UNREAD})


def embedded(job: Job, verdict: Verdict, drawn: Picture, tables: Iterable[PageTable], sets: ProcessSets) -> str:
    """Return the data as JSON in ASCII without <, > and &.

    Texts of tables are numbers of ``strings``, and sets of processes numbers of ``sets``: most occur often.
    """
    strings: dict[str, int] = {}
    data = {
        "rows_shown": ROWS_SHOWN,
        "ranks": _ranks(job),
        "communicators": [*_communicators(job, verdict)],
        "nodes": [sets.number(node.processes) for node in drawn.nodes],
        "node_ranks": [_filter_by(job, node) for node in drawn.nodes],
        "arrows": [[arrow.source, arrow.target, _arrow_facts(verdict, arrow, sets)] for arrow in drawn.arrows],
        "tables": {
            table.name: {
                "rows": [[strings.setdefault(cell, len(strings)) for cell in row] for row in table.rows],
                "facts": [_facts(facts) for facts in table.facts],
            }
            for table in tables
        },
        "strings": [*strings],
        "sets": sets.intervals,
    }
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _facts(facts: Facts) -> list[Tag]:
    return [facts.communicator, facts.tag, facts.processes, facts.peers]


def _ranks(job: Job) -> list[int | None] | None:
    """Return the rank of each process; None where they are equal, as in a job without spawned or missing ranks."""
    ranks = [process.rank for process in job.processes]
    return None if ranks == [*range(len(ranks))] else ranks


def _communicators(job: Job, verdict: Verdict) -> Iterator[tuple[int, str]]:
    """Yield the communicators to choose from: those that somebody waits on, with their ranks where names are equal."""
    names = CommunicatorNames(job, verdict)
    found = {wait.communicator_id: names.label(wait) for wait in verdict.waits}
    unknown = found.pop(None, None)
    counts = Counter(found.values())
    for number, label in sorted((number, label) for number, label in found.items() if number is not None):
        members = [process for process in verdict.communicators[number].members if process is not None]
        yield number, label if counts[label] == 1 else f"{label} of {name_many(job, members)}"
    if unknown is not None:
        yield _NOT_KNOWN, "not known"


def _filter_by(job: Job, node: Node) -> str | None:
    """Return what finds the ranks of a node when it is put into the filter."""
    ranks = [job.processes[process].rank for process in node.processes]
    if node.shape not in _OF_RANKS or None in ranks:
        return None
    return ranges([rank for rank in ranks if rank is not None], most=None).strip("[]")


def _arrow_facts(verdict: Verdict, arrow: Arrow, sets: ProcessSets) -> list[list[Tag]]:
    """Return the facts of the waits of an arrow, those of one communicator and tag put together."""
    numbers = [number for label in arrow.labels for number in label.waits]
    alike = grouped(((verdict.waits[each].communicator_id, tag_of(verdict.waits[each])), each) for each in numbers)
    return [
        [
            communicator,
            tag,
            sets.number(verdict.waits[number].process for number in waits),
            _peers(verdict, waits, sets),
        ]
        for (communicator, tag), waits in alike.items()
    ]


def _peers(verdict: Verdict, waits: Sequence[int], sets: ProcessSets) -> int:
    """Return the number of all peers of some waits, among which thousands may share one tuple."""
    shared = {verdict.waits[number].peers for number in waits}
    return sets.number(peer for peers in shared for peer in peers)
