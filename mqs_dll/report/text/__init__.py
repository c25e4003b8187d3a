"""A job and its verdict for people, as a renderable of rich.

- ``explained``: what is wrong, a cycle as a chain
- ``cases``: what each process does; ``rows``: these, merged where they are equal until they fit a screen;
  ``table``: rows in columns
- ``unread``: what could not be read; ``facts``: what was read, and when
- ``tree``: where all ranks are, as one tree of calls
- ``stacks``: where the threads of one process are, and their MPI calls with arguments
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import CallStack, Job
from mqs_dll.job.snapshot import Hidden, Snapshot
from mqs_dll.report import process_text as process_report
from mqs_dll.report.names import name_one
from mqs_dll.report.text import explained, facts, stacks, table, tree, unread
from mqs_dll.verdict.results import Outcome, Verdict

_STYLES = {
    Outcome.NOTHING_STUCK: "bold green",
    Outcome.PROVED: "bold red",
    Outcome.SUSPECTED: "bold yellow",
    Outcome.NOT_READ: "bold magenta",
}


def render(job: Job, verdict: Verdict, *, everything: bool = False) -> RenderableType:
    """Return what is wrong with a job, and the proof, ready for Console.print: the answer first.

    Args:
        job: what was read.
        verdict: what it means.
        everything: whether each process has a row of its own, its call stacks and its queues, however many there are.
    """
    return Group(*_parts(job, verdict, everything))


def render_tree(job: Job, verdict: Verdict, *, all_frames: bool = False) -> RenderableType:
    """Return the headline of a verdict and where all ranks are, as one tree of calls.

    Args:
        job: what was read.
        verdict: what it means.
        all_frames: whether functions inside of MPI calls and of the interpreter stand in it, too.
    """
    return Group(outcome_line(verdict), *tree.parts(job, all_frames=all_frames), *facts.parts(job))


def outcome_line(verdict: Verdict) -> Text:
    """Return the headline, which starts with the outcome in a few words: these in capitals."""
    outcome, colon, what = visible(verdict.headline).partition(": ")
    return Text.assemble((outcome.upper(), _STYLES[verdict.outcome]), colon, what)


def stacks_of(found: tuple[CallStack, ...] | Hidden, snapshot: Snapshot) -> RenderableType:
    """Return where the threads of one process are, with the arguments of their MPI calls."""
    return Group(*stacks.parts(found, snapshot.communicators))


def _parts(job: Job, verdict: Verdict, everything: bool) -> Iterator[RenderableType]:
    yield outcome_line(verdict)
    yield from explained.parts(job, verdict)
    yield from table.parts(job, verdict, everything=everything)
    if verdict.outcome is not Outcome.PROVED:
        yield from tree.short_parts(job)
    yield from unread.parts(job)
    yield from facts.parts(job)
    if everything:
        yield from _processes(job)


def _processes(job: Job) -> Iterator[RenderableType]:
    for index, process in enumerate(job.processes):
        if process.samples:
            last = process.samples[-1]
            yield Text(f"\nRank {name_one(job, index)} on {visible(process.host)}", style="bold")
            yield from stacks.parts(last.stacks, last.snapshot.communicators)
            yield process_report.render(last.snapshot)
