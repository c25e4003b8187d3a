"""What is wrong with a job: the findings, the gravest first, a cycle as a chain that can be followed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import Job
from mqs_dll.report.names import name_one
from mqs_dll.report.terminal import indented
from mqs_dll.verdict.results import Cause, Certainty, Finding, Verdict

_STYLES = {Certainty.PROVED: "bold red", Certainty.SUSPECTED: "bold yellow", Certainty.NOTED: "bold"}

_MAX_FINDINGS = 8
_MAX_LINKS = 8
"""Of a cycle; of a longer one the middle is left out."""


def parts(job: Job, verdict: Verdict) -> Iterator[RenderableType]:
    """Yield what there is to say beyond the headline: the rest of its finding, then other findings, as fit a screen."""
    others = list(verdict.findings)
    if others and verdict.headline.casefold().endswith(others[0].sentence.casefold()):
        yield from _more(job, verdict, others.pop(0))
    if not others:
        return
    title = "What else was found" if len(others) < len(verdict.findings) else "What was found"
    yield Text(f"\n{title}", style="bold")
    for number, finding in enumerate(others[:_MAX_FINDINGS], start=1):
        certainty = Text(finding.certainty.value, style=_STYLES[finding.certainty])
        sentence = Text.assemble(certainty, f": {visible(finding.sentence)}")
        yield _numbered(f"{number}.", Group(sentence, *_more(job, verdict, finding)))
    rest = len(others) - _MAX_FINDINGS
    if rest > 0:
        yield indented(Text(f"and {rest} more (--json has them all)"))


def _numbered(number: str, body: RenderableType) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row(number, body)
    return indented(grid)


def _more(job: Job, verdict: Verdict, finding: Finding) -> Iterator[RenderableType]:
    if finding.cause is Cause.CYCLE and _is_closed(verdict, finding.processes):
        yield indented(Text(_chain(job, finding.processes)))
    if finding.advice:
        yield indented(Text(f"What to do: {visible(finding.advice)}", style="cyan"))


def _is_closed(verdict: Verdict, processes: tuple[int, ...]) -> bool:
    """Return whether each waits for the next, and the last for the first: a finding may sum up several cycles."""
    following = dict(zip(processes, (*processes[1:], *processes[:1]), strict=True))
    own = (wait for wait in verdict.waits if wait.process in following)
    return len(processes) > 1 and {*processes} == {
        each.process for each in own if following[each.process] in each.peers
    }


def _chain(job: Job, processes: tuple[int, ...]) -> str:
    """Return a cycle: "0 -> 2 -> 1 -> 0"."""
    names = [name_one(job, process) for process in processes[:_MAX_LINKS]]
    left_out = len(processes) - len(names)
    if left_out:
        names += [f"... {left_out} more ..."]
    return " -> ".join((*names, names[0]))
