"""Count and time sweeps over all communicators and queues of one rank: libmqs beside Open MPI's own library.

The jobs are tests/programs/load.c. The debugger is the C host of tests/host for both libraries; Debian's Open MPI ships
its own, which gets its types from a table (own_library.py). Times are the least of some, of processor time where
nothing else is said: "first" after the process was set up, "again" with nothing changed since. "Far" are those of a
debugger each of whose reads takes a round trip, "by 256" those of one that moreover fetches at most 256 bytes at once,
as padb does; both by the clock. "Copied" is what no sweep can fall below: the least time in which what it reads can be
copied once, by one call of the kernel's, and how many times as long the first sweep takes. At the end of each line: how
many times as long as the own library needs; over UCX, how many times the reads, the bytes and the time of libmqs over
the MPI's own transport.

    python -m benchmarks.sweep [--rounds 50] [--latency 100] [--loads dozens receives ...] [--mpis openmpi-debian ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import own_library
from mqs_dll.debugger import library_path
from mqs_dll.debugger.collect import ProcessReader
from mqs_dll.debugger.job.copied import Copied
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.library.session import Library
from tests.support.embedding import program
from tests.support.jobs import Compiler, running
from tests.support.mpis import NETMOD_UCX, UCX, Mpi, Transport, find_mpis


class Load(NamedTuple):
    """What the rank has, and for how many rounds it is swept."""

    title: str
    arguments: tuple[int, int, int, int]
    """Communicators, receives, sends, messages (tests/programs/load.c)."""
    rounds: int


LOADS = {
    "dozens": Load("8 communicators, 12 receives, 12 sends", (8, 12, 12, 0), 50),
    "thousand": Load("1,000 receives", (8, 1000, 0, 0), 10),
    "receives": Load("10,000 receives", (8, 10000, 0, 0), 3),
    "communicators": Load("400 communicators", (400, 0, 0, 0), 10),
    "messages": Load("100,000 unexpected messages", (8, 0, 0, 100000), 2),
}
MPIS = ("openmpi-debian", "mpich-4.3.2-pypi", "mpich-5.0.2-pypi")
OVER_UCX = (UCX, NETMOD_UCX)
MIN_FETCHES = 256
"""Bytes that padb's client fetches at a time."""

MAX_WAITS = 10_000
"""More fetches are not waited for."""

QUEUES = ("sends", "receives", "unexpected")


class Measured(NamedTuple):
    """What one library needs for one rank."""

    operations: int
    reads: int
    kib: float
    first: float
    """Milliseconds."""
    again: float
    far: float | None
    pieces: int
    """Fetches of at most 256 bytes."""
    by_pieces: float | None
    start: float
    """From dlopen until the image is known."""
    resident: float
    """MiB that the host has grown by."""


def measure(host: Path, library: Path, pid: int, rounds: int, latency: int, *options: str) -> Measured:
    """Return what a library needs for a process."""

    def sweep(rounds: int, *more: str) -> dict[str, Any]:
        command = [str(host), "--repeat", str(rounds), *options, *more, str(library), str(pid)]
        document: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return document

    def slowly(document: dict[str, Any], *more: str) -> float | None:
        """Return the milliseconds of the same with latency, None where nobody would wait for that."""
        if document["timing"]["first"]["fetches"] > MAX_WAITS:
            return None
        waited = sweep(1, "--latency", str(latency), *more)["timing"]["first"]
        return float(waited["best"]["all_us"]) / 1000

    chunk = ("--chunk", str(MIN_FETCHES))
    near, padb = sweep(rounds), sweep(1, *chunk)
    starts = [near, padb, *(sweep(0) for _ in range(rounds // 5))]
    first, again = near["timing"]["first"], near["timing"]["again"]
    return Measured(
        sum(len(each[queue].get("operations", ())) for each in near["communicators"] for queue in QUEUES),
        first["fetches"],
        first["bytes"] / 1024,
        first["best"]["busy_us"] / 1000,
        again["best"]["busy_us"] / 1000,
        slowly(near),
        padb["timing"]["first"]["fetches"],
        slowly(padb, *chunk),
        min(each["start"]["busy_us"] for each in starts) / 1000,
        near["resident_kib"] / 1024,
    )


def copy_time(pid: int, rounds: int) -> float | None:
    """Return the milliseconds in which all that a sweep reads is copied once; None where that is very much."""
    with LiveProcess(pid) as process:
        memory = Copied(process)
        with ProcessReader(Library(), memory, pid=pid, program="") as look:
            memory.begin_read()
            look.read()
        if memory.prepare() is None:
            return None
        return min(_seconds(memory.copy) for _ in range(rounds)) * 1000


def _seconds(act: Callable[[], object]) -> float:
    """Return the processor time that something takes."""
    begin = time.process_time()
    act()
    return time.process_time() - begin


def measure_all(
    loads: Sequence[str], mpis: Sequence[str], rounds: int, latency: int
) -> Iterator[tuple[Load, Mpi, Transport, Measured, Measured | None, float | None]]:
    """Yield what libmqs needs for each load on each MPI that is here, what the MPI's own library does, and a copy.

    The MPI's own transport comes first, then UCX.
    """
    host, chosen = program("mqs_host"), [mpi for mpi in find_mpis() if mpi.name in mpis and not mpi.missing]
    with tempfile.TemporaryDirectory() as name:
        compiler, types = Compiler(Path(name)), Path(name) / "types"
        own_library.write_types(types)
        for load in (LOADS[each] for each in loads):
            for mpi, transport in ((each, way) for each in chosen for way in _transports(each)):
                arguments = list(map(str, load.arguments))
                with running(compiler, mpi, transport, "load", 2, arguments=arguments) as job:
                    pid, times = job.wait_until_ready()[0]["pid"], min(load.rounds, rounds)
                    ours = measure(host, library_path.library(), pid, times, latency)
                    own = None
                    if mpi.name == "openmpi-debian" and transport not in OVER_UCX and own_library.LIBRARY.exists():
                        own = measure(host, own_library.LIBRARY, pid, times, latency, "--types", str(types))
                    copied = copy_time(pid, rounds)
                yield load, mpi, transport, ours, own, copied


def _transports(mpi: Mpi) -> list[Transport]:
    return [mpi.transports[0], *(each for each in mpi.transports[1:] if each in OVER_UCX)]


def _times(found: Measured, base: Measured) -> str:
    """Return how many times the reads, bytes and time of another sweep one takes."""
    ratios = found.reads / base.reads, found.kib / base.kib, found.first / base.first
    return ", ".join(f"{ratio:.1f}" for ratio in ratios)


def _or_dash(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:,.1f}"


def main(words: Sequence[str] | None = None) -> int:
    """Print a row for each library, load and MPI."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=50, help="how often to sweep at most (default: %(default)s)")
    parser.add_argument(
        "--latency", type=int, default=100, help="microseconds a far fetch waits (default: %(default)s)"
    )
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS), help="default: all")
    parser.add_argument("--mpis", nargs="+", default=MPIS, help="default: %(default)s")
    arguments = parser.parse_args(words)
    table = Table(
        "rank",
        "library",
        "shown",
        "reads",
        "KiB",
        "first ms",
        "again",
        "copied",
        "far",
        "fetches by 256",
        "ms",
        "x own",
    )
    table.columns[0].overflow = "fold"
    starts = []
    base = None
    for load, mpi, transport, ours, own, copied in measure_all(
        arguments.loads, arguments.mpis, arguments.rounds, arguments.latency
    ):
        over_ucx = transport in OVER_UCX
        base = base if over_ucx else ours
        for library, found in (("libmqs", ours), ("its own", own)):
            if found is None:
                continue
            ratio = "" if own is None or found is own else f"{found.first / own.first:.2f}"
            if over_ucx and base is not None:
                library, ratio = "libmqs over UCX", _times(found, base)
            table.add_row(
                load.title,
                f"{mpi.name}: {library}",
                f"{found.operations:,}",
                f"{found.reads:,}",
                f"{found.kib:,.0f}",
                f"{found.first:,.2f}",
                f"{found.again:,.2f}",
                "" if copied is None or found is own else f"{copied:.2f}, {found.first / copied:.0f}",
                _or_dash(found.far),
                f"{found.pieces:,}",
                _or_dash(found.by_pieces),
                ratio,
            )
            starts.append((f"{mpi.name}: {library}", found))
    Console().print(table)
    for library in dict.fromkeys(name for name, _ in starts):
        mine = [found for name, found in starts if name == library]
        first, largest = min(each.start for each in mine), max(each.resident for each in mine)
        print(
            f"{library}: {first:.1f} ms from dlopen until the image is known, {mine[0].resident:.1f} MiB"
            f" in the host, {largest:.1f} with the largest of these ranks"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
