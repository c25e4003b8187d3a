"""What a run found, as a table: a row for each kind of error, and the sum."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from rich.box import SIMPLE
from rich.table import Table

from benchmarks.suites.trial import Fate, Trial

COLUMNS = (
    "programs",
    "refused",
    "ended",
    "hang",
    "proved",
    "suspected",
    "missed",
    "not read",
    "healthy",
    "proved",
    "suspected",
)
"""Refused by the compiler; ended before a sample; still there at the end, and what was said of those, where "missed" is
that nothing is stuck; ended by themselves after a sample, and who of those was accused."""


def counts(trials: Iterable[Trial]) -> list[int]:
    """Return the cells of a row, in the order of COLUMNS."""
    trials = list(trials)
    fates = Counter(trial.fate for trial in trials)
    outcomes = Counter((trial.fate, trial.verdict.outcome) for trial in trials if trial.verdict)
    return [
        len(trials),
        fates[Fate.REFUSED],
        fates[Fate.ENDED],
        fates[Fate.HANGS],
        *(outcomes[Fate.HANGS, each] for each in ("proved", "suspected", "nothing stuck", "not read")),
        fates[Fate.WENT_ON],
        *(outcomes[Fate.WENT_ON, each] for each in ("proved", "suspected")),
    ]


def render(trials: Iterable[Trial]) -> Table:
    """Return the table."""
    by_error = defaultdict(list)
    for trial in trials:
        by_error[trial.program.error].append(trial)
    table = Table("error", *COLUMNS, box=SIMPLE)
    for error in sorted(by_error):
        table.add_row(error, *map(str, counts(by_error[error])))
    table.add_section()
    table.add_row("all", *map(str, counts(trial for group in by_error.values() for trial in group)))
    return table


def remarkable(trials: Iterable[Trial]) -> list[str]:
    """Return a line for each program to be looked at by hand: hangs not proved, healthy ones accused, surprises."""
    lines = []
    for trial in trials:
        verdict = trial.verdict
        if verdict is None:
            continue
        if trial.fate is Fate.HANGS and (trial.program.correct or verdict.outcome != "proved"):
            but = ", though its suite calls it correct" if trial.program.correct else ""
            lines.append(f"{trial.program.title}: hangs{but}; {verdict.outcome}: {verdict.headline}")
        elif trial.fate is Fate.WENT_ON and verdict.outcome in ("proved", "suspected"):
            lines.append(f"{trial.program.title}: ended by itself; {verdict.outcome}: {verdict.headline}")
    return lines
