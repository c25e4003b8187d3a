"""The benchmark whose figures the README quotes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jobs import find_mpis

ROOT = Path(__file__).parents[1]


def test_the_benchmark_counts_and_times_a_sweep() -> None:
    """It prints a row for each MPI at hand: twelve operations, shown by libmqs.so to a debugger in C."""
    here = [mpi.name for mpi in find_mpis() if not mpi.missing]
    if not here:
        pytest.skip(f"no MPI on this machine: {find_mpis()[0].cure}")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sweep", "--sweeps", "2", "--latency", "0"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines() if "│" in line]
    assert [row[1] for row in rows] == here
    assert {row[2] for row in rows} == {"12"}
