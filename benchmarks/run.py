"""What `mqs run` costs a command: its time with and without, alternating, as a ratio.

    python -m benchmarks.run -- true
    python -m benchmarks.run --rounds 10 -- mpiexec -n 2 lmp -in in.lj
    python -m benchmarks.run --options='--interval 2s' -- mpiexec -n 2 osu_latency

Both run by turns, so that whatever else the machine does meets both. Of each way the least and the median are printed,
and the ratio of these.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import track


def seconds(command: Sequence[str]) -> float:
    """Return how long a command takes.

    Raises:
        SystemExit: it failed.
    """
    begin = time.perf_counter()
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if ended.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {ended.returncode}")
    return time.perf_counter() - begin


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="of both (default: %(default)s)")
    parser.add_argument("--options", type=shlex.split, default=[], metavar="WORDS", help="of `mqs run`")
    parser.add_argument("command", nargs="+", help="behind --: what is run")
    options = parser.parse_args(words)
    behind = [sys.executable, "-m", "mqs_dll", "run", *options.options, "--", *options.command]
    taken: dict[str, list[float]] = {"alone": [], "behind mqs run": []}
    for number in track(range(options.rounds), "rounds", console=Console(stderr=True), transient=True):
        ways = [("alone", options.command), ("behind mqs run", behind)]
        for way, command in ways if number % 2 else reversed(ways):
            taken[way].append(seconds(command))
    least, middle = ({way: of(each) for way, each in taken.items()} for of in (min, statistics.median))
    for way in taken:
        print(f"{way}: least {least[way]:.3f} s, median {middle[way]:.3f} s")
    (alone, run), (usual, usually) = least.values(), middle.values()
    print(f"ratio: least {run / alone:.3f}, median {usually / usual:.3f}; {1000 * (run - alone):.0f} ms more at least")
    return 0


if __name__ == "__main__":
    sys.exit(main())
