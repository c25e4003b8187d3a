"""The call tree of live jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqs_dll.commands import cli
from tests.support.jobs import Compiler, running
from tests.support.mpis import find_mpis

pytestmark = pytest.mark.mpi

MPIS = {mpi.name: mpi for mpi in find_mpis()}


@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-4.3.2-pypi"])
def test_thousands_of_calls_lead_back_to_main(
    name: str, compiler: Compiler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From all ranks, whatever their depth; a file has the paths for flame graphs, a saved job the same tree."""
    mpi = MPIS[name]
    folded, saved = tmp_path / "folded", tmp_path / "saved"
    with running(compiler, mpi, mpi.transports[0], "deep", 3) as job:
        pid = job.wait_until_ready()[0]["pid"]
        options = ["--samples", "2", "--tree", "--no-count", "--folded", str(folded), "--save", str(saved)]
        assert cli.main(["job", str(pid), *options]) == 2
    tree = capsys.readouterr().out
    rows = [re.split(r"  +", row.strip(" │├└─")) for row in tree.splitlines()]
    assert ["main", "3: [0-2], always"] in rows
    assert [row for row in rows if row[0].startswith("descend")] == [["descend x 3001-10001"]]
    assert ["MPI_Recv", "2: [0-1], always"] in rows
    assert {line.rpartition(" ")[0] for line in folded.read_text().splitlines()} >= {"main;descend;MPI_Recv"}
    assert "cut" not in tree
    cli.main(["job", "--load", str(saved), "--tree"])
    assert capsys.readouterr().out == tree
