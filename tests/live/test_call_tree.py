"""The call tree of live jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqs_dll.commands import cli
from mqs_dll.commands.api import read_job
from mqs_dll.job.records import CallStack, Job, Language
from mqs_dll.job.snapshot import Hidden
from tests.support.jobs import PROGRAMS, Compiler, running
from tests.support.mpis import Mpi, find_mpis

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


IN_TURN = f"""
import sys
sys.path.append({str(PROGRAMS / "hangs")!r})
from array import array
from hang import ready, world
mine, theirs = array("d", [0.0]), array("d", [0.0])
ready()
while True:
    world.Barrier()
    world.Allreduce(mine, theirs)
    world.Bcast(mine, 0)
"""

COMPUTING = f"""
import sys
sys.path.append({str(PROGRAMS / "hangs")!r})
from hang import ready, world
def one(): return sorted(range(40), key=of_one)
def of_one(value): return -value
def other(): return list(map(of_other, range(40)))
def of_other(value): return value * 2
ready()
while True:
    one()
    other()
"""


@pytest.fixture
def mpi_with_python() -> Mpi:
    """Return an MPI that has mpi4py."""
    mpi = MPIS["mpich-4.3.2-pypi"]
    if mpi.missing or mpi.python is None:
        pytest.skip(mpi.missing or "mpi4py is not on this machine: python tests/install_mpis.py")
    pytest.importorskip("pystack", reason="pystack is not installed: pip install 'libmqs[python]'")
    return mpi


def test_the_python_line_is_that_of_the_call(compiler: Compiler, tmp_path: Path, mpi_with_python: Mpi) -> None:
    """Of ranks that go on while their Python is read: it is the call's, or isn't told."""
    program = tmp_path / "in_turn.py"
    program.write_text(IN_TURN)
    told = 0
    with running(compiler, mpi_with_python, mpi_with_python.transports[0], str(program), 2) as job:
        seen = read_job(job.wait_until_ready()[0]["pid"], samples=10, interval=0.05, count=False)
    for stack in stacks_of(seen):
        if stack.call and stack.python:
            told += 1
            line = IN_TURN.splitlines()[(stack.python.line or 0) - 1]
            assert f"world.{stack.call.removeprefix('MPI_')}(" in line
    assert told


def test_the_python_functions_of_a_rank_that_computes_are_those_of_one_moment(
    compiler: Compiler, tmp_path: Path, mpi_with_python: Mpi
) -> None:
    """They stand in place of the interpreter's, though the rank goes on: it is stopped once more for that."""
    program = tmp_path / "computing.py"
    program.write_text(COMPUTING)
    with running(compiler, mpi_with_python, mpi_with_python.transports[0], str(program), 2) as job:
        seen = read_job(job.wait_until_ready()[0]["pid"], samples=5, interval=0.05, count=False)
    stacks = stacks_of(seen)
    known = [stack for stack in stacks if not any(frame.runs_python for frame in stack.frames)]
    assert len(known) > len(stacks) / 2  # where the interpreter goes from one function into the next, nothing is told
    for stack in known:
        python = [frame.function for frame in stack.frames if frame.language is Language.PYTHON][::-1]
        assert python in (
            ["<module>"],
            *(["<module>", *each] for each in (["one"], ["other"])),
            ["<module>", "one", "of_one"],
            ["<module>", "other", "of_other"],
        )
        assert stack.complete


def stacks_of(job: Job) -> list[CallStack]:
    """Return the main threads' stacks in all samples."""
    found = [sample.stacks for process in job.processes for sample in process.samples]
    assert found
    return [each[0] for each in found if not isinstance(each, Hidden)]
