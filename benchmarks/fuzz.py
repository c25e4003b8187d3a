"""How much harm does the memory of a process take? Many more cases than tests/live/test_fuzz.py has time for.

    python -m benchmarks.fuzz [--cases 50000] [--first 0] [--places openmpi-debian-ob1 ...]
    python -m benchmarks.fuzz --text 1000000 [--first 0]

Each place, an MPI over a transport, gets as many cases; a case is a number, and the same harm each time, as far as
addresses are. Printed are the most fetches, bytes and seconds of processor time that a sweep took, and what was wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mqs_dll.debugger.live import LiveProcess
from tests.support import harm, hostile_text
from tests.support.jobs import Compiler, Job, running
from tests.support.scenes import DOZEN, title
from tests.support.tampered import Tampered


def main(words: Sequence[str] | None = None) -> int:
    """Print a line for each place; exit with 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=50_000, help="of each place (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first case (default: %(default)s)")
    parser.add_argument("--places", nargs="+", help="parts of their names; default: all")
    parser.add_argument("--text", type=int, help="instead: cases of saved jobs, answers, environments, command lines")
    options = parser.parse_args(words)
    if options.text is not None:
        return hostile_text.main(["--cases", str(options.text), "--first", str(options.first)])
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(Path(folder))
        for mpi, transport in harm.places():
            name = title((mpi, transport, DOZEN))
            if mpi.missing or not any(part in name for part in options.places or [""]):
                continue
            with running(compiler, mpi, transport, DOZEN.program, DOZEN.ranks) as job:
                wrong += _report(name, job, range(options.first, options.first + options.cases))
    return min(wrong, 1)


def _report(name: str, job: Job, seeds: range) -> int:
    """Print what becomes of rank 0; return how many cases went wrong."""
    refused: Counter[str] = Counter()
    fetches = size = wrong = 0
    seconds = longest = 0.0
    with LiveProcess(job.wait_until_ready()[0]["pid"]) as process:
        for case in harm.cases(Tampered(process), job.transport, seeds):
            refused.update([type(case.error).__name__] if case.error is not None else [])
            fetches, size = max(fetches, case.fetches), max(size, case.bytes)
            seconds, longest = seconds + case.seconds, max(longest, case.seconds)
            wrong += bool(case.wrong)
            if case.wrong:
                print(f"{name} {case.kind} {case.seed}: {case.wrong[0]}", file=sys.stderr)
    errors = ", ".join(f"{count} {error}" for error, count in refused.most_common()) or "none"
    print(
        f"{name}: {len(seeds):,} cases, {wrong} wrong; refused whole: {errors}; most of a sweep: {fetches:,} fetches, "
        f"{size / (1 << 20):.1f} MiB, {longest:.2f} s; mean {1000 * seconds / len(seeds):.1f} ms",
        flush=True,
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
