"""What the helper process costs: sweeps of one rank by the debugger in C, with Python in its process and in another.

    python -m benchmarks.helper [--rounds 50] [--mpis openmpi-debian ...]

Times are by the clock, since two processes work, and the least of some: from dlopen until the image is known, the first
sweep after the process was set up, and the next with nothing changed since; by fetches of any size, and of 256 bytes.
What the rank has is the first of benchmarks.sweep's loads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.sweep import LOADS, MIN_FETCHES
from mqs_dll.debugger import library_path
from tests.support.embedding import program
from tests.support.jobs import Compiler, running
from tests.support.mpis import find_mpis

MPIS = ("openmpi-debian", "mpich-4.3.2-pypi")
SIDES = ("embedded", "helper")


def main(words: Sequence[str] | None = None) -> int:
    """Print a line for each MPI, place of Python and size of fetches."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=50, help="how often to sweep (default: %(default)s)")
    parser.add_argument("--mpis", nargs="+", default=MPIS, help="default: %(default)s")
    options = parser.parse_args(words)
    arguments = list(map(str, LOADS["dozens"].arguments))
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(Path(folder))
        for mpi in (each for each in find_mpis() if each.name in options.mpis and not each.missing):
            with running(compiler, mpi, mpi.transports[0], "load", 2, arguments=arguments) as job:
                pid = job.wait_until_ready()[0]["pid"]
                for chunk in ((), ("--chunk", str(MIN_FETCHES))):
                    for side in SIDES:
                        print(f"{mpi.name} {side} {' '.join(chunk)}: {_measured(pid, side, options.rounds, *chunk)}")
    return 0


def _measured(pid: int, side: str, rounds: int, *options: str) -> str:
    command = [str(program("mqs_host")), "--repeat", str(rounds), *options, str(library_path.library()), str(pid)]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "MQS_PYTHON": side})
    document: dict[str, Any] = json.loads(done.stdout)
    first, again = document["timing"]["first"], document["timing"]["again"]
    times = [document["start"], first["best"], again["best"]]
    start, sweep, next_sweep = (each["all_us"] / 1000 for each in times)
    return (
        f"{start:.0f} ms to start, {sweep:.2f} a sweep, {next_sweep:.2f} the next, {first['fetches']} fetches,"
        f" {document['resident_kib'] / 1024:.0f} MiB in the host"
    )


if __name__ == "__main__":
    sys.exit(main())
