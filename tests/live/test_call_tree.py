"""The call tree of live jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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


StartPython = Callable[[str, int], AbstractContextManager[int]]


@pytest.fixture
def start_python(compiler: Compiler, tmp_path: Path) -> StartPython:
    """Return what runs so many ranks of a program's text, on an MPI that has mpi4py, and yields rank 0's PID."""
    mpi = MPIS["mpich-4.3.2-pypi"]
    if mpi.missing or mpi.python is None:
        pytest.skip(mpi.missing or "mpi4py is not on this machine: python tests/install_mpis.py")
    pytest.importorskip("pystack", reason="pystack is not installed: pip install 'libmqs[python]'")

    @contextmanager
    def start(text: str, ranks: int) -> Iterator[int]:
        program = tmp_path / "program.py"
        program.write_text(text)
        with running(compiler, mpi, mpi.transports[0], str(program), ranks) as job:
            yield job.wait_until_ready()[0]["pid"]

    return start


def test_the_python_line_is_that_of_the_call(start_python: StartPython) -> None:
    """Of ranks that go on while their Python is read: it is the call's, or isn't told."""
    told = 0
    with start_python(IN_TURN, 2) as pid:
        seen = read_job(pid, samples=10, interval=0.05, count=False)
    for stack, *_ in stacks_of(seen):
        if stack.call and stack.python:
            told += 1
            line = IN_TURN.splitlines()[(stack.python.line or 0) - 1]
            assert f"world.{stack.call.removeprefix('MPI_')}(" in line
    assert told


@pytest.mark.parametrize("source", [ALONE, BESIDE], ids=["main thread", "thread"])
def test_the_python_functions_of_what_computes_are_those_of_one_moment(source: str, start_python: StartPython) -> None:
    """They stand in place of the interpreter's, though the rank goes on: it is stopped once more for that.

    Of a thread beside one that calls MPI they aren't told, if it runs.
    """
    with start_python(source, 2) as pid:
        seen = read_job(pid, samples=5, interval=0.05, count=False)
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
    start_python: StartPython, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its functions in Python stand between those of the interpreter, out to where it starts."""
    with start_python(ALONE, 1) as pid:
        for _ in range(10):
            cli.main(["show", str(pid), "--stack"])
            stack, _, _ = capsys.readouterr().out.partition("\nProcess ")
            if "in program.py" in stack:
                break
    named = [line.strip() for line in stack.splitlines() if not line.startswith("  a function without a name")]
    outer = named.index(f"<module> in program.py at {tmp_path}/program.py:{len(ALONE.splitlines())}")
    assert named[outer - 1].startswith(f"compute in program.py at {tmp_path}/program.py:")
    assert named[outer + 1] == "PyEval_EvalCode in python"
    assert named[-1].startswith("_start in python")


def test_a_rank_is_not_stopped_in_vain_again_and_again(
    start_python: StartPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five times, if its Python functions can't be seen; how long it stood for that is told too."""
    stops = []

    class Longer(stopped):
        def __enter__(self) -> Longer:
            super().__enter__()
            stops.append(self)
            time.sleep(0.3)
            return self

    monkeypatch.setattr(rank, "stopped", Longer)
    monkeypatch.setattr(_pystack, "ask", lambda *_: [])
    with start_python(ALONE, 1) as pid:
        seen = read_job(pid, samples=7, interval=0.05, count=False)
    assert len(stops) == 5
    (process,) = seen.processes
    pairs = zip(process.samples[:5], stops, strict=True)
    assert [sample.snapshot.stop_time > stop.stop_time > 0.3 for sample, stop in pairs] == [True] * 5
    assert seen.stop_time == max(sample.snapshot.stop_time for sample in process.samples)


def stacks_of(job: Job) -> list[tuple[CallStack, ...]]:
    """Return the stacks of each process in each sample, the main thread's first."""
    found = [sample.stacks for process in job.processes for sample in process.samples]
    assert found
    return [each for each in found if not isinstance(each, Hidden)]
