"""The table of a job's processes: what they do, what they wait for, and where in the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from mqs_dll.contract.escape import visible
from mqs_dll.job.node_names import nodes_of, several
from mqs_dll.job.records import Job
from mqs_dll.report.names import name_many
from mqs_dll.report.terminal import columns, indented
from mqs_dll.report.text.rows import MAX_ROWS, Row, row_for_each, rows
from mqs_dll.verdict.results import Certainty, Verdict

_WIDE = 110
"""Columns of text from which on the place in the program has a column of its own."""

_WIDEST_CELL = 48

_STYLES = {Certainty.PROVED: "red", Certainty.SUSPECTED: "yellow"}


def parts(job: Job, verdict: Verdict, *, everything: bool = False) -> Iterator[RenderableType]:
    """Yield the table with its title; of all processes when ``everything`` is asked for, else in rows that fit."""
    if not job.processes:
        return
    found = row_for_each(job, verdict, None) if everything else rows(job, verdict)
    shown = found if everything else found[:MAX_ROWS]
    yield Text("\nRanks of MPI_COMM_WORLD", style="bold")
    yield _Fitting(job, shown)
    rest = [process for row in found[len(shown) :] for process in row.processes]
    if rest:
        more = f"and {len(rest)} more ranks, which differ in what they do: {name_many(job, rest)}"
        yield indented(Text(f"{more} (--all-ranks prints them)"))


class _Fitting:
    """The table as the width of the page allows."""

    def __init__(self, job: Job, shown: Iterable[Row]) -> None:
        self._job = job
        self._rows = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        make = _wide if options.max_width >= _WIDE else _narrow
        yield indented(make(self._job, self._rows))


def _wide(job: Job, shown: Iterable[Row]) -> Table:
    node = ["node"] if several(job) else []
    table = columns("ranks", *node, "does", "waits for", "communicator", "tag", "where", widest=_WIDEST_CELL)
    for row in shown:
        first, *others = row.lines or (None,)
        waits = ("", "", "") if first is None else first
        nodes = [Text(visible(nodes_of(job, row.processes))) for _ in node]
        table.add_row(_ranks(job, row), *nodes, _does(row), *map(Text, waits), Text(row.where))
        for line in others:
            table.add_row("", *("" for _ in node), "", *map(Text, line), "")
    return table


def _narrow(job: Job, shown: Iterable[Row]) -> Table:
    """Return a table of two columns, with a paragraph for each row."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(overflow="fold", max_width=24)
    table.add_column(overflow="fold")
    for row in shown:
        waits = (Text(f"waits for {line.sentence()}") for line in row.lines)
        where = [Text(f"at {row.where}")] if row.where else []
        node = [Text(f"on {visible(nodes_of(job, row.processes))}")] if several(job) else []
        table.add_row(_ranks(job, row), Group(_does(row), *node, *where, *waits))
    return table


def _ranks(job: Job, row: Row) -> Text:
    return Text(name_many(job, row.processes))


def _does(row: Row) -> Text:
    return Text(row.does, style="" if row.certainty is None else _STYLES.get(row.certainty, ""))
