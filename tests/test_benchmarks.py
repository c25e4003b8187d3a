"""The benchmark whose figures the README quotes."""

from __future__ import annotations

import pytest

from benchmarks import sweep
from tests.support.mpis import open_mpis


def test_the_benchmark_counts_and_times_a_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints a row for each MPI at hand: twelve operations, shown by libmqs.so to a debugger in C."""
    here = [mpi.name for mpi in open_mpis() if not mpi.missing]
    if not here:
        pytest.skip(f"no MPI on this machine: {open_mpis()[0].cure}")
    monkeypatch.setenv("COLUMNS", "200")
    assert sweep.main(["--sweeps", "2", "--latency", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert [row[1] for row in rows] == here
    assert {row[2] for row in rows} == {"12"}
