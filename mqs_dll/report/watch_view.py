"""One frame of ``mqs watch``: a row for each rank, or for several where the screen is too low for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, Operation, Queue, Status
from mqs_dll.contract.escape import printable, visible
from mqs_dll.contract.names import called
from mqs_dll.job.node_names import nodes_of, several
from mqs_dll.job.records import Job, JobProcess
from mqs_dll.job.snapshot import CommunicatorSnapshot, QueueSnapshot, is_note
from mqs_dll.report.names import name_many
from mqs_dll.report.process_text import peer_words, tag_words
from mqs_dll.report.text import outcome_line
from mqs_dll.report.text.rows import Row, row_for_each, rows
from mqs_dll.verdict.results import Certainty, Verdict

_PLAIN_HEIGHT = 60
"""Lines of a frame that no screen limits."""

_WIDEST_RANKS = 20
_MAX_PENDING = 4

_AROUND_ROWS = 3
"""Lines besides the headline and the rows: the table's titles, how many more there are, and an empty last one."""

_MINUTES_FROM = 100
_HOURS_FROM = 100 * 60
"""Seconds from which on a time is shown in minutes, and in hours."""

_WORLD = b"MPI_COMM_WORLD"
_DIRECTIONS = {Queue.SENDS: "send to", Queue.RECEIVES: "receive from"}

_NOT_KNOWN = "?"
_STYLES = {Certainty.PROVED: "red", Certainty.SUSPECTED: "yellow"}


class Screen(NamedTuple):
    """What one sample of a job showed, as a renderable that fills the screen it is printed on, and no more."""

    job: Job
    verdict: Verdict
    unchanged: Sequence[float | None]
    """Of each process the seconds for which its row has been as it is; None where that isn't known yet."""
    heading: str
    """How this was seen: when, how often."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the headline, and as many rows as fit."""
        top = Group(outcome_line(self.verdict), Text(visible(self.heading), style="dim"))
        yield top
        used = len(console.render_lines(top, options.update(height=None))) + _AROUND_ROWS
        height = options.height or (console.size.height if console.is_terminal else _PLAIN_HEIGHT)
        yield from self._ranks(console, options, max(1, height - used))

    def _ranks(self, console: Console, options: ConsoleOptions, space: int) -> Iterator[RenderableType]:
        if len(self.job.processes) <= space:
            found = row_for_each(self.job, self.verdict)
        else:
            found = rows(self.job, self.verdict, space)
        whole = self._table(found[:space], Text)
        fits = len(console.render_lines(whole, options.update(height=None))) <= space + 1
        yield whole if fits else self._table(found[:space], Clipped)
        rest = [process for row in found[space:] for process in row.processes]
        if rest:
            yield Clipped(f"and {len(rest)} more ranks: {name_many(self.job, rest)}")

    def _table(self, shown: Iterable[Row], cell: Callable[[str, str], RenderableType]) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
        table.add_column("ranks", no_wrap=True, max_width=_WIDEST_RANKS)
        on_nodes = several(self.job)
        if on_nodes:
            table.add_column("node", no_wrap=True, max_width=_WIDEST_RANKS)
        for number in ("sends", "recvs", "unexp", "unchanged"):
            table.add_column(number, no_wrap=True, justify="right")
        table.add_column("does", overflow="fold")
        for row in shown:
            processes = [self.job.processes[process] for process in row.processes]
            table.add_row(
                Clipped(name_many(self.job, row.processes)),
                *([Clipped(visible(nodes_of(self.job, row.processes)))] if on_nodes else []),
                *(_counts(processes, queue) for queue in Queue),
                _span(self.unchanged[process] for process in row.processes),
                cell(_does(row, processes), "" if row.certainty is None else _STYLES.get(row.certainty, "")),
            )
        return table


class Clipped(NamedTuple):
    """Text that takes one line: what doesn't fit gives way to three dots, in ASCII."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield as much as fits."""
        text = Text(self.text, style=self.style, no_wrap=True, overflow="crop")
        if text.cell_len > options.max_width:
            text.truncate(max(options.max_width - len("..."), 0), overflow="crop")
            text.append("..."[: options.max_width])
        yield text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return that it can be as narrow as a word."""
        width = Text(self.text).cell_len
        return Measurement(min(width, 8), width).with_maximum(options.max_width)


# ---------------------------------------------------------------- cells


def _does(row: Row, processes: Iterable[JobProcess]) -> str:
    """Return what processes do and wait for; where it isn't known what they wait for, what is pending in them."""
    if row.lines:
        return f"{row.does} for {'; '.join(line.sentence() for line in row.lines)}"
    different = list({_pending(process): None for process in processes})
    if different == [()]:
        return row.does
    pending = list(different[0]) if len(different) == 1 else ["different things"]
    if len(pending) > _MAX_PENDING:
        pending[_MAX_PENDING - 1 :] = [f"and {len(pending) - _MAX_PENDING + 1} more"]
    return f"{row.does}; pending: {'; '.join(pending)}"


def _pending(process: JobProcess) -> tuple[str, ...]:
    """Return what a process has started and what isn't done yet, as it was seen last.

    Each is a phrase like "receive from rank 2 of 'halo', tag 7", or "MPI_Barrier on MPI_COMM_WORLD" for all parts of
    one collective operation.
    """
    shown = (each for sample in process.samples[-1:] for each in sample.snapshot.communicators)
    return tuple(dict.fromkeys(phrase for each in shown for phrase in _phrases(each)))


def _phrases(shown: CommunicatorSnapshot) -> Iterator[str]:
    for queue in shown.queues:
        for operation in queue.operations:
            if queue.queue in _DIRECTIONS and operation.status is not Status.COMPLETE:
                yield _phrase(queue.queue, operation, shown)


def _phrase(queue: Queue, operation: Operation, communicator: CommunicatorSnapshot) -> str:
    name = _name(communicator)
    collective = phrases.read(operation.extra_text).collective
    if collective is not None:
        return f"{collective} on {name}"
    known = operation.desired_local_rank != INVALID_RANK
    rank = f"rank {operation.desired_local_rank}" if known else f"{peer_words(queue, operation)} rank"
    return f"{_DIRECTIONS[queue]} {rank} of {name}, tag {tag_words(operation)}"


def _name(communicator: CommunicatorSnapshot) -> str:
    label = communicator.label
    if label.name:
        return printable(_WORLD) if label.name == _WORLD else f"'{printable(label.name)}'"
    return f"{printable(called(label)) or 'unnamed'} id {communicator.communicator.unique_id:#x}"


def _counts(processes: Iterable[JobProcess], queue: Queue) -> str:
    """Return how many operations are in a queue, over all communicators: one number, or the least and the largest."""
    counts = [_count(process, queue) for process in processes]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return _NOT_KNOWN
    least, most = min(known), max(known)
    return str(least) if least == most else f"{least}-{most}"


def _count(process: JobProcess, queue: Queue) -> int | None:
    """Return how many operations a queue holds, None where not all of them could be seen."""
    if not process.samples:
        return None
    total = 0
    for communicator in process.samples[-1].snapshot.communicators:
        for each in communicator.queues:
            if each.queue is queue:
                if not _is_whole(each):
                    return None
                total += len(each.operations)
    return total


def _is_whole(queue: QueueSnapshot) -> bool:
    has_notes = any(is_note(queue.queue, operation) for operation in queue.operations)
    return queue.hidden is None and queue.broken is None and not has_notes


def _span(seconds: Iterable[float | None]) -> str:
    """Return for how long nothing has changed, or the shortest and the longest of several times."""
    known = [each for each in seconds if each is not None]
    if not known:
        return "-"
    least, most = _time(min(known)), _time(max(known))
    return least if least == most else f"{least} to {most}"


def _time(seconds: float) -> str:
    if seconds < _MINUTES_FROM:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < _HOURS_FROM else f"{seconds / 3600:.0f} h"
