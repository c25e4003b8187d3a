"""Look at a healthy program again and again, and count what `mqs job` says against it: false alarms.

    python -m benchmarks.healthy -- mpiexec -n 4 lmp -in in.lj
    python -m benchmarks.healthy --looks 200 --copy hpccinf.txt -- mpiexec -n 4 hpcc

The command is run in a folder of its own, and anew whenever it ends. It is sampled as `mqs job` does, but its ranks
stay open, and the last sample of one verdict is the first one of the next. What is seen before the ranks have started
MPI, or after they are done with it, is counted apart.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.progress import track

from mqs_dll.commands import which_library
from mqs_dll.commands.job import SAMPLES, doubt_about
from mqs_dll.commands.times import seconds
from mqs_dll.contract.errors import MqsError
from mqs_dll.debugger.job.find import find_job
from mqs_dll.debugger.job.ranks import Here
from mqs_dll.debugger.job.read import JobReader, sample_on
from mqs_dll.job import saved
from mqs_dll.job.records import Job
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Outcome, Verdict
from tests.support.jobs import Launched, launch

MAX_IN_VAIN = 10
"""Looks that see nothing for each that is asked for; with more, something is wrong."""
_RETRY = 0.2
"""Seconds until a command that has just started is looked for again."""


def jobs(command: Sequence[str], files: Sequence[Path], interval: float) -> Generator[Job | None, None, None]:
    """Yield what is read of a command that runs, sample after sample; None where there was nothing to read.

    Args:
        command: what starts the job.
        files: that it finds in its folder.
        interval: seconds between two samples.
    """
    with tempfile.TemporaryDirectory(prefix="mqs-healthy-", ignore_cleanup_errors=True) as name:
        for each in files:
            shutil.copy(each, name)
        while True:
            job = Launched(Path(name), launch(command, Path(name), {}))
            try:
                while job.launcher.poll() is None:
                    yield from _looks(job.launcher.pid, interval)
                    yield None
                    time.sleep(_RETRY)
            finally:
                job.end()


def _looks(launcher: int, interval: float) -> Iterator[Job]:
    """Yield what is read of a job until some of it can't be read: it is beginning, or at its end."""
    try:
        found = find_job(launcher)
        with JobReader(found, Here(found.ranks, which_library.opener())) as reader:
            looks = [reader.sample()]
            while all(process.samples for process in looks[-1].processes):
                yield sample_on(reader, looks, SAMPLES, interval, doubt_about)
                looks = looks[-1:]
    except MqsError:
        return


def measure(seen: Iterator[Job | None], looks: int, keep: Path | None) -> tuple[list[Verdict], int]:
    """Return the verdicts of so many samples that saw something, and how many saw nothing."""
    verdicts: list[Verdict] = []
    in_vain = 0
    for number in track(range(looks), "looks", console=Console(stderr=True), transient=True):
        for job in seen:
            verdict = None if job is None else conclude(job)
            if job is not None and verdict is not None and verdict.outcome is not Outcome.NOT_READ:
                verdicts.append(verdict)
                if keep:
                    saved.save(job, str(keep / f"{number}.json.gz"))
                break
            in_vain += 1
            if in_vain >= MAX_IN_VAIN * looks:
                return verdicts, in_vain
    return verdicts, in_vain


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print what was said."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.healthy", description=__doc__.partition("\n")[0])
    parser.add_argument("--looks", type=int, default=200, help="at the program (default: %(default)s)")
    parser.add_argument("--interval", type=seconds, default=0.5, help="between two samples: 500ms, 2s (default: 500ms)")
    parser.add_argument("--copy", type=Path, nargs="+", default=[], metavar="FILE", help="into the folder it runs in")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="save each job there, for mqs job --load")
    parser.add_argument("command", nargs="+", help="behind --: mpiexec and a healthy program")
    options = parser.parse_args(words)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with closing(jobs(options.command, options.copy, options.interval)) as seen:
        verdicts, in_vain = measure(seen, options.looks, options.keep)
    console = Console(highlight=False, soft_wrap=True)
    for number, each in enumerate(verdicts):
        if each.outcome is not Outcome.NOTHING_STUCK:
            console.print(f"look {number}: {each.headline}", markup=False)
    outcomes = Counter(each.outcome for each in verdicts)
    said = ", ".join(f"{count} {outcome.name.lower().replace('_', ' ')}" for outcome, count in outcomes.most_common())
    console.print(f"{len(verdicts)} looks: {said or 'none saw it'}; {in_vain} more saw nothing of it", markup=False)
    return 0 if outcomes[Outcome.NOTHING_STUCK] == options.looks else 1


if __name__ == "__main__":
    sys.exit(main())
