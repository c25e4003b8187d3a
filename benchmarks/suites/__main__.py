"""Run MPI programs with known errors, ask `mqs job` about each, and count the hangs that it proved, suspected, missed.

    python -m benchmarks.suites FOLDER --mpicc mpicc.openmpi --mpiexec 'mpiexec.openmpi --oversubscribe'

A program is looked at while it runs; whether it hangs is seen afterwards, not believed. Public suites serve: the MPI
Bugs Initiative (github.com/mquinson/MBI; in an empty folder, run each of its scripts/generators/*Generator.py), the
tests of MUST, MPI-CorrBench. A program that ends before it is looked at says nothing: `--slow` has healthy ones last.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.suites import results, table
from benchmarks.suites.looks import MQS
from benchmarks.suites.programs import Program, find_programs, some
from benchmarks.suites.trial import Trial, Way, attempt
from mqs_dll.commands.times import seconds

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
WIDTH = 140
"""Columns that the table needs."""


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suites", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of programs in C and C++, at any depth")
    parser.add_argument("--mpicc", type=shlex.split, default="mpicc", help="the compiler, with options")
    parser.add_argument("--mpiexec", type=shlex.split, default="mpiexec", help="the launcher, with options")
    parser.add_argument("--mqs", type=shlex.split, default=MQS, help="the mqs that is asked (default: this Python's)")
    parser.add_argument("--ranks", type=int, default=2, help="where a program doesn't say how many (default: 2)")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose path or error contains this")
    parser.add_argument("--each", type=int, metavar="N", help="at most N programs of each kind of error, by chance")
    parser.add_argument("--seed", type=int, default=0, help="of that chance (default: %(default)s)")
    parser.add_argument("--time", type=seconds, default=3.0, help="from start to look: 500ms, 3s (default: 3s)")
    parser.add_argument(
        "--patience", type=seconds, default=5.0, help="what is there so long after, hangs (default: 5s)"
    )
    parser.add_argument("--looks", type=int, default=1, help="at each program, `--time` apart (default: %(default)s)")
    parser.add_argument(
        "--slow", type=seconds, default=0.0, metavar="TIME", help="ranks sleep so long before each call"
    )
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time (default: %(default)s)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append to it, and skip what it has")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="say what differs from these results")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="save each job there, for mqs job --load")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the programs that are not done yet, and print the table of all."""
    options = parse(words)
    chosen = [
        each for each in find_programs(options.folder, options.ranks) if options.only in f"{each.path} {each.error}"
    ]
    if options.each is not None:
        chosen = some(chosen, options.each, options.seed)
    way = Way(
        options.folder.resolve(),
        tuple(options.mpicc),
        tuple(options.mpiexec),
        tuple(options.mqs),
        options.time,
        options.patience,
        options.looks,
        options.slow,
        options.keep,
    )
    if refusal := refused(way.mpiexec):
        print(refusal, file=sys.stderr)
        return EXIT_FAILED
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    done = {trial.program: trial for trial in (results.read(options.results) if options.results else [])}
    interrupted = False
    try:
        with closing(attempts(way, [each for each in chosen if each not in done], options.jobs)) as trials:
            for trial in trials:
                done[trial.program] = trial
                if options.results:
                    results.append(options.results, trial)
    except KeyboardInterrupt:
        interrupted = True
    report([done[each] for each in chosen if each in done], results.read(options.compare) if options.compare else [])
    return EXIT_INTERRUPTED if interrupted else 0


def refused(mpiexec: Sequence[str]) -> str:
    """Return why a launcher starts nothing: with such a one all programs would end at once; empty where it does."""
    command = [*mpiexec, "-n", "1", "true"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return "" if result.returncode == 0 else f"{shlex.join(command)} failed:\n{result.stdout}{result.stderr}"


def attempts(way: Way, programs: Sequence[Program], jobs: int) -> Generator[Trial, None, None]:
    """Run programs, some at a time, and yield what was found of each; none of them runs on when this is left."""
    stop = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    with bar, ThreadPoolExecutor(jobs) as pool:
        task = bar.add_task("programs (Ctrl-C ends it, and them)", total=len(programs))
        futures = [pool.submit(attempt, way, each, stop) for each in programs]
        try:
            for future in as_completed(futures):
                bar.advance(task)
                if trial := future.result():
                    yield trial
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def report(trials: Sequence[Trial], before: Sequence[Trial]) -> None:
    """Print the table, what is worth a look by hand, and what differs from an earlier run."""
    console = Console(highlight=False, width=max(Console().width, WIDTH))
    console.print(table.render(trials))
    for line in table.remarkable(trials):
        console.print(line, markup=False, soft_wrap=True)
    if differing := results.differences(before, trials):
        console.print("Otherwise than before:", *differing, sep="\n", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
