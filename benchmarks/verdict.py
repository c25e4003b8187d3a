"""Time what `mqs job` does with a saved job of 10,000 ranks that hang: load it, conclude, write the report.

The jobs are made up (tests/support/synthetic_job.py): two samples of each rank, two communicators of all ranks and one
of each. That time grows in line with the ranks is seen by the same job with a tenth of them.

    python -m benchmarks.verdict [--ranks 10000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from mqs_dll.job.records import Job
from mqs_dll.job.saved import load, save
from mqs_dll.job.shared import garbage_left_alone
from mqs_dll.report import text
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Outcome
from tests.support.synthetic_job import SCENARIOS

GOAL = 10.0
"""Seconds for all of it, with 10,000 ranks."""


class Figures(NamedTuple):
    """What one job took, in seconds of one core: other work on the machine does not count."""

    load: float
    conclude: float
    render: float
    lines: int
    """Of the report."""
    outcome: Outcome
    megabytes: float
    """Of the file."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.load + self.conclude + self.render


def measure(make: Callable[[int], Job], ranks: int, folder: Path) -> Figures:
    """Return what a job takes from its file to its report."""
    path = folder / "job.json"
    save(make(ranks), str(path))
    begin = time.process_time()
    job = load(str(path))
    loaded = time.process_time()
    verdict = conclude(job)
    concluded = time.process_time()
    console = Console(width=120, file=(folder / "report").open("w", encoding="utf-8"))
    with console.file, garbage_left_alone():  # as the command does
        console.print(text.render(job, verdict))
    end = time.process_time()
    lines = len((folder / "report").read_text(encoding="utf-8").splitlines())
    size = path.stat().st_size / 1e6
    return Figures(loaded - begin, concluded - loaded, end - concluded, lines, verdict.outcome, size)


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each kind of job."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=10_000, help="of each job (default: %(default)s)")
    ranks = parser.parse_args(words).ranks
    seconds = ("load s", "conclude s", "report s", "all s")
    table = Table("job", "MB", *seconds, "of the goal", "to a tenth of the ranks", "lines", "verdict")
    with tempfile.TemporaryDirectory() as name:
        for title, make in SCENARIOS.items():
            tenth = measure(make, max(ranks // 10, 2), Path(name))
            figures = measure(make, ranks, Path(name))
            table.add_row(
                title,
                f"{figures.megabytes:.0f}",
                *(f"{each:.2f}" for each in (figures.load, figures.conclude, figures.render, figures.total)),
                f"{figures.total / GOAL:.0%}",
                f"{figures.total / tenth.total:.1f} x",
                str(figures.lines),
                figures.outcome.name.lower().replace("_", " "),
            )
    Console().print(f"{ranks} ranks, two samples of each; the goal is {GOAL:.0f} s for 10,000 ranks, on one core")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
