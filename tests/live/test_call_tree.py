"""The call tree of live jobs."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from mqs_dll.commands import cli
from mqs_dll.commands.api import read_job
from mqs_dll.debugger.job import rank
from mqs_dll.debugger.job.stacks.python import _pystack
from mqs_dll.debugger.stopping.stop import stopped
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

COMPUTING = """
class Number:
    def __abs__(self): return sum(range(2000))
    def __neg__(self): return sum(range(2000))
def one(): abs(Number())
def other(): -Number()
def compute():
    while True:
        one()
        other()
"""
ALONE = f"""{COMPUTING}
import sys
sys.path.append({str(PROGRAMS / "hangs")!r})
from hang import ready
ready()
compute()
"""
BESIDE = f"""{COMPUTING}
from threading import Thread
Thread(target=compute, daemon=True).start()
{IN_TURN}
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
    for stack, *_ in stacks_of(seen):
        if stack.call and stack.python:
            told += 1
            line = IN_TURN.splitlines()[(stack.python.line or 0) - 1]
            assert f"world.{stack.call.removeprefix('MPI_')}(" in line
    assert told


@pytest.mark.parametrize("source", [ALONE, BESIDE], ids=["main thread", "thread"])
def test_the_python_functions_of_what_computes_are_those_of_one_moment(
    source: str, compiler: Compiler, tmp_path: Path, mpi_with_python: Mpi
) -> None:
    """They stand in place of the interpreter's, though the rank goes on: it is stopped once more for that.

    Of a thread beside one that calls MPI they aren't told, if it runs.
    """
    program = tmp_path / "computing.py"
    program.write_text(source)
    with running(compiler, mpi_with_python, mpi_with_python.transports[0], str(program), 2) as job:
        seen = read_job(job.wait_until_ready()[0]["pid"], samples=5, interval=0.05, count=False)
    stacks = [each[-1] for each in stacks_of(seen)]
    known = [stack for stack in stacks if not any(frame.runs_python for frame in stack.frames)]
    # Where the interpreter goes from one function into the next, nothing is told.
    assert source == BESIDE or len(known) > len(stacks) / 2
    called = set()
    for stack in known:
        assert stack.complete
        python = [frame.function for frame in stack.frames if frame.language is Language.PYTHON]
        if python[0].startswith("__"):
            assert python[1] == {"__abs__": "one", "__neg__": "other"}[python[0]]
            (place,) = (place for place, frame in enumerate(stack.frames) if frame.function == python[1])
            called.add((python[0], stack.frames[place - 1].address))
    assert len(called) == len({function for function, _ in called})  # each is called from one place of the interpreter


def test_show_has_the_whole_path_of_a_rank_that_computes(
    compiler: Compiler, tmp_path: Path, mpi_with_python: Mpi, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its functions in Python stand between those of the interpreter, out to where it starts."""
    program = tmp_path / "computing.py"
    program.write_text(ALONE)
    with running(compiler, mpi_with_python, mpi_with_python.transports[0], str(program), 1) as job:
        pid = job.wait_until_ready()[0]["pid"]
        for _ in range(10):
            cli.main(["show", str(pid), "--stack"])
            stack, _, _ = capsys.readouterr().out.partition("\nProcess ")
            if "in computing.py" in stack:
                break
    last = [line.strip() for line in stack.splitlines() if not line.startswith("  a function without a name")]
    outer = last.index(f"<module> in computing.py at {program}:{len(ALONE.splitlines())}")
    assert last[outer - 1].startswith(f"compute in computing.py at {program}:")
    assert last[outer + 1] == "PyEval_EvalCode in python"
    assert last[-1].startswith("_start in python")


def test_a_rank_is_not_stopped_in_vain_again_and_again(
    compiler: Compiler, tmp_path: Path, mpi_with_python: Mpi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five times, if its Python functions can't be seen; how long it stood for that is told too."""
    program = tmp_path / "computing.py"
    program.write_text(ALONE)
    stops = []

    class Longer(stopped):
        def __enter__(self) -> Longer:
            super().__enter__()
            stops.append(self)
            time.sleep(0.3)
            return self

    monkeypatch.setattr(rank, "stopped", Longer)
    monkeypatch.setattr(_pystack, "ask", lambda *_: [])
    with running(compiler, mpi_with_python, mpi_with_python.transports[0], str(program), 1) as job:
        seen = read_job(job.wait_until_ready()[0]["pid"], samples=7, interval=0.05, count=False)
    assert len(stops) == 5
    (process,) = seen.processes
    told = [sample.snapshot.stop_time for sample in process.samples[:5]]
    assert [time > stop.stop_time > 0.3 for time, stop in zip(told, stops, strict=True)] == [True] * 5
    assert seen.stop_time == max(sample.snapshot.stop_time for sample in process.samples)


def stacks_of(job: Job) -> list[tuple[CallStack, ...]]:
    """Return the stacks of each process in each sample, the main thread's first."""
    found = [sample.stacks for process in job.processes for sample in process.samples]
    assert found
    return [each for each in found if not isinstance(each, Hidden)]
