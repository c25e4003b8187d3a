"""Count and time a sweep over all communicators and queues of one rank: libmqs against the MPI's own library.

The state is tests/programs/dozen.c: 8 communicators and 12 pending operations. The debugger is the C host of
tests/host, which times the sweep itself; with ``--latency`` each fetch waits, as in a debugger that works remotely.
The MPI's own library needs debug information, so that it takes part only where an MPI was built with it
(MQS_TEST_MPI_PREFIX), and is driven from Python: its reads are counted, its time is not comparable and not shown.
Where UCX matches the messages, reads, bytes and time are also told as ratios to those of the MPI's own transport.

    python -m benchmarks.sweep [--sweeps 200] [--latency 100] [--mpi NAME]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mqs_dll import library_path
from mqs_dll.commands.which_library import named_by_mpi
from mqs_dll.debugger.collect import take_snapshot
from mqs_dll.debugger.dll import DynamicLibrary
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.errors import MqsError
from tests.support.embedding import program
from tests.support.jobs import Compiler, running
from tests.support.mpis import NETMOD_UCX, OB1, ONLY_UCX, SHM, UCX, find_mpis

TRANSPORTS = (OB1, SHM, UCX, NETMOD_UCX, ONLY_UCX)
"""The MPIs' own ones come first."""


def sweep_with_libmqs(host: Path, pid: int, sweeps: int, latency: int) -> dict[str, Any]:
    """Return the C host's document for a process."""
    options = ["--repeat", str(sweeps), "--latency", str(latency)]
    command = [str(host), *options, str(library_path.library()), str(pid)]
    document: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return document


def reads_of_own_library(pid: int) -> str:
    """Return how many reads the library that the MPI ships needs for one sweep, or why it can't do one."""
    with LiveProcess(pid) as process:
        try:
            snapshot = take_snapshot(DynamicLibrary(named_by_mpi(process)), process)
        except MqsError as error:
            return f"refuses: {error}".partition("\n")[0][:60]
        operations = sum(len(queue.operations) for each in snapshot.communicators for queue in each.queues)
    return f"{snapshot.reads} reads, {operations} operations shown"


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each MPI at hand."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweeps", type=int, default=200, help="how often to sweep (default: %(default)s)")
    parser.add_argument("--latency", type=int, default=100, help="microseconds a fetch waits (default: %(default)s)")
    parser.add_argument("--mpi", default="", help="only those with this in their names")
    arguments = parser.parse_args(words)
    table = Table(
        "MPI",
        "transport",
        "operations",
        "reads",
        "KiB",
        "best ms",
        "reads, bytes, time: ratios",
        "median ms",
        f"ms at +{arguments.latency} us a read",
        "the MPI's own library",
    )
    with tempfile.TemporaryDirectory() as name:
        host, compiler = program("mqs_host"), Compiler(Path(name))
        first: dict[str, tuple[float, ...]] = {}
        for mpi, transport in ((mpi, each) for mpi in find_mpis() for each in TRANSPORTS if each in mpi.transports):
            if mpi.missing or arguments.mpi not in mpi.name:
                continue
            with running(compiler, mpi, transport, "dozen", 4) as job:
                pid = job.wait_until_ready()[0]["pid"]
                near = sweep_with_libmqs(host, pid, arguments.sweeps, 0)
                far = sweep_with_libmqs(host, pid, 5, arguments.latency)
                counts = near["sweep_counts"]
                figures = counts["fetches"], counts["bytes"], near["timing"]["min_us"]
                ratios = [own / other for own, other in zip(figures, first.setdefault(mpi.name, figures), strict=True)]
                table.add_row(
                    mpi.name,
                    transport.name,
                    str(
                        sum(
                            len(each[queue].get("operations", ()))  # sends are hidden where a stack may hold more
                            for each in near["communicators"]
                            for queue in ("sends", "receives", "unexpected")
                        )
                    ),
                    str(counts["fetches"]),
                    str(counts["bytes"] // 1024),
                    f"{near['timing']['min_us'] / 1000:.2f}",
                    ", ".join(f"{ratio:.1f}" for ratio in ratios) if figures is not first[mpi.name] else "",
                    f"{near['timing']['median_us'] / 1000:.2f}",
                    f"{far['timing']['median_us'] / 1000:.2f}",
                    reads_of_own_library(pid) if transport is OB1 else "",
                )
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
