"""A live process: its symbols, types and memory, and that stopping it leaves no trace."""

from __future__ import annotations

import importlib.metadata
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mqs_dll.contract.errors import (
    AlreadyTracedError,
    NoSuchProcessError,
    OtherUserError,
    StopError,
    TargetReadError,
    WordSizeError,
)
from mqs_dll.debugger import live
from mqs_dll.debugger.inside import MappedFiles
from mqs_dll.debugger.live import LiveProcess, environment_variable
from mqs_dll.debugger.proc import file_at, mappings, read_stat, read_status, turns
from mqs_dll.debugger.stopping import holder
from mqs_dll.debugger.stopping.stop import stopped
from tests.support.targets import RUNNING, compile_target, ctrl_c_at, other_process, running, states, wait_until

# ---------------------------------------------------------------- programs


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the programs of tests/targets."""
    directory = tmp_path_factory.mktemp("targets")
    compile_target(directory / "sleeper", "sleeper.c", "-pthread")
    shared = ("-shared", "-fPIC")
    compile_target(directory / "liblamp.so", "lamp.c", *shared, "-DKIND=1", "-s")
    compile_target(directory / "libother.so", "lamp.c", *shared, "-DKIND=2", "-s")
    link = (str(directory / "liblamp.so"), f"-Wl,-rpath,{directory}")
    compile_target(directory / "room", "room.c", "-fPIC", "-pie", *link, "-s")
    compile_target(directory / "room_with_copy", "room.c", "-fno-pie", "-no-pie", *link, "-s")
    return directory


@pytest.fixture
def sleeper(bench: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process with four threads that sleep."""
    with running(bench / "sleeper", "threads") as process:
        wait_until(lambda: states(process.pid) == {"S"})
        yield process


@pytest.fixture(scope="module")
def bench_with_types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a program whose library has debug information in a file of its own."""
    return make_bench_with_types(tmp_path_factory.mktemp("types"))


def make_bench_with_types(directory: Path) -> Path:
    """Make such a program in a directory, and return that."""
    library = compile_target(directory / "liblamp.so", "lamp.c", "-shared", "-fPIC", "-DKIND=1", "-g", "-Wl,--build-id")
    debug = directory / "liblamp.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(library), str(debug)], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", str(library)], check=True)
    compile_target(directory / "room", "room.c", str(library), f"-Wl,-rpath,{directory}")
    return directory


# ---------------------------------------------------------------- symbols


def kind_of_lamp(process: LiveProcess) -> int:
    """Return the first byte of the variable ``lamp``, which identifies its library."""
    address = process.image.find_symbol("lamp")
    assert address is not None
    return process.fetch(address, 1)[0]


def test_symbols_of_a_stripped_library(bench: Path) -> None:
    """Variables and functions of stripped libraries are found, each only by its own call."""
    with running(bench / "room") as target, LiveProcess(target.pid) as process:
        assert kind_of_lamp(process) == 1
        assert process.image.find_function("lamp_watts") is not None
        assert process.image.find_symbol("lamp_watts") is None
        assert process.image.find_function("lamp") is None
        assert process.image.find_symbol("no_such_symbol") is None


def test_the_executable_comes_first(bench: Path) -> None:
    """A variable that the executable has copied is the executable's, not the library's dead one."""
    with running(bench / "room_with_copy") as target, LiveProcess(target.pid) as process:
        address = process.image.find_symbol("lamp")
        assert address is not None
        assert file_at(target.pid, address) == str(bench / "room_with_copy")


def test_a_preloaded_library_precedes(bench: Path) -> None:
    """A preloaded library's definition precedes that of a library which the program was linked with."""
    with (
        running(bench / "room", environment={"LD_PRELOAD": str(bench / "libother.so")}) as target,
        LiveProcess(target.pid) as process,
    ):
        assert kind_of_lamp(process) == 2


def test_another_file_at_a_path_is_another(tmp_path: Path) -> None:
    """What was asked of a process's files is known of the next one with the same: also without ids of their builds."""
    padding = tmp_path / "padding.h"
    padding.write_text("long before_it[512] = {1};")
    library = tmp_path / "liblamp.so"
    for kind, options in ((1, ()), (2, ("-include", str(padding)))):
        library.unlink(missing_ok=True)
        compile_target(library, "lamp.c", "-shared", "-fPIC", "-Wl,--build-id=none", f"-DKIND={kind}", *options)
        compile_target(tmp_path / "room", "room.c", "-fPIC", "-pie", str(library), f"-Wl,-rpath,{tmp_path}")
        for _ in range(2):
            with running(tmp_path / "room") as target, LiveProcess(target.pid) as process:
                assert kind_of_lamp(process) == kind


# ---------------------------------------------------------------- types


def test_types_from_a_debug_link(bench_with_types: Path) -> None:
    """Types come from the file of a debug link: offsets, those in anonymous members too, and sizes."""
    with running(bench_with_types / "room") as target, LiveProcess(target.pid) as process:
        image = process.image
        lamp = image.find_type("lamp_t")
        assert lamp is not None
        assert image.type_size(lamp) == 12
        assert [image.field_offset(lamp, name) for name in ("kind", "watts", "volts", "hertz")] == [0, 4, 4, 6]
        assert image.field_offset(lamp, "dim") is None, "a bit field has no offset in bytes"
        assert image.field_offset(lamp, "no_such_member") is None


def test_debug_files_have_symbols_too(bench_with_types: Path) -> None:
    """A variable that only they name is found once they were read for a type; also in the next process.

    drgn 0.0.31 doesn't: it keeps the symbols that it read first.
    """
    for _ in range(2):
        with running(bench_with_types / "room") as target, LiveProcess(target.pid) as process:
            assert process.image.find_symbol("switches") is None
            assert process.image.find_type("lamp_t") is not None
            found = process.image.find_symbol("switches") is not None
            assert found == (not importlib.metadata.version("drgn").startswith("0.0.31"))


def test_a_declared_type_is_no_type(bench_with_types: Path) -> None:
    """A type that was declared but never defined is not there, nor is one with a name that isn't C."""
    with running(bench_with_types / "room") as target, LiveProcess(target.pid) as process:
        assert process.image.find_type("never_defined_t") is None
        assert process.image.find_type("no_such_t") is None
        assert process.image.find_type("lamp_t *(") is None


@pytest.mark.parametrize("section", [".debug_abbrev", ".debug_info"])
def test_damaged_debug_information_has_no_types(section: str, bench_with_types: Path, tmp_path: Path) -> None:
    """It is as if there were none: symbols are found, and layouts of structs come from elsewhere."""
    damage = tmp_path / "damage"
    damage.write_bytes(b"\xff" * 4096)
    library, debug = (shutil.copy(bench_with_types / f"liblamp.{end}", tmp_path) for end in ("so", "debug"))
    subprocess.run(["objcopy", "--update-section", f"{section}={damage}", str(debug)], check=True)
    subprocess.run(["objcopy", "--remove-section=.gnu_debuglink", str(library)], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(library)], check=True)
    compile_target(tmp_path / "room", "room.c", str(library), f"-Wl,-rpath,{tmp_path}")
    with running(tmp_path / "room") as target, LiveProcess(target.pid) as process:
        assert process.image.find_type("lamp_t") is None
        with pytest.raises(Exception, match=r"liblamp\.debug|invalid DWARF"):
            process.program.type("lamp_t")
        assert kind_of_lamp(process) == 1


def test_no_types_without_debug_information(bench: Path) -> None:
    """A stripped library has no types."""
    with running(bench / "room") as target, LiveProcess(target.pid) as process:
        assert process.image.find_type("lamp_t") is None


def test_the_network_is_never_asked(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debug information is not looked for on a debuginfod server, though the environment names one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "1")
        with running(bench / "room") as target, LiveProcess(target.pid) as process:
            assert process.image.find_type("lamp_t") is None
        with pytest.raises(BlockingIOError):
            server.accept()


# ---------------------------------------------------------------- memory


def test_a_fetch_is_whole_or_fails(sleeper: subprocess.Popen[str]) -> None:
    """A fetch that leaves mapped memory by a byte fails whole and shows address and size."""
    top = max(mapping.end for mapping in mappings(sleeper.pid) if mapping.path == "[stack]")
    with LiveProcess(sleeper.pid) as process:
        assert len(process.fetch(top - mmap.PAGESIZE, mmap.PAGESIZE)) == mmap.PAGESIZE
        with pytest.raises(TargetReadError) as failure:
            process.fetch(top - 8, 9)
        assert (failure.value.address, failure.value.size) == (top - 8, 9)


def test_a_name_that_resembles_what_stands_behind_it_is_reported_whole(bench: Path, tmp_path: Path) -> None:
    """State, parent and the rest are those of the process, not of its name."""
    odd = compile_target(tmp_path / "odd.so", "odd.c", "-shared", "-fPIC")
    with running(bench / "sleeper", "threads", environment={"LD_PRELOAD": str(odd)}) as process:
        stat, status = read_stat(process.pid), read_status(process.pid)
    assert stat is not None
    assert (stat.name, stat.parent, stat.gone) == ("a) R 1 (\r\x0b\n\\xff", os.getpid(), False)
    assert (status.name, status.process) == ("a) R 1 (\r\x0b\\n\\xff", process.pid)


def test_a_path_with_blanks_is_reported_whole(tmp_path: Path) -> None:
    """The kernel escapes no blanks: all of the line's rest is the path."""
    path = tmp_path / "a lamp  of two"
    path.write_bytes(b"\1")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert str(path) in {mapping.path for mapping in mappings("self", b"lamp")}


def test_turns_are_counted_by_thread(sleeper: subprocess.Popen[str]) -> None:
    """Those of a thread that runs grow, those of one that sleeps stay as they are, and one that is gone has none."""
    before, sleeping = turns(os.getpid()), turns(sleeper.pid)
    if not before:
        pytest.skip("this kernel doesn't count: it has no schedstat")
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert turns(os.getpid())[0] - before[0] > 10_000_000
    assert turns(sleeper.pid) == sleeping != ()
    assert turns(0x7FFFFFFF) == ()


def test_a_process_is_let_go_of_at_the_end(sleeper: subprocess.Popen[str]) -> None:
    """Behind the with statement its memory is closed."""
    (stack,) = (mapping for mapping in mappings(sleeper.pid) if mapping.path == "[stack]")
    with LiveProcess(sleeper.pid) as process:
        assert len(process.fetch(stack.end - 8, 8)) == 8
    with pytest.raises(TargetReadError):
        process.fetch(stack.end - 8, 8)


@pytest.mark.parametrize("address", [0, -1, 1 << 63, (1 << 64) - 1])
def test_a_wild_address_is_a_read_error(sleeper: subprocess.Popen[str], address: int) -> None:
    """Any number is an address that may be asked for; those without memory are read errors."""
    with LiveProcess(sleeper.pid) as process, pytest.raises(TargetReadError):
        process.fetch(address, 8)


def test_memory_of_another_program_is_never_read(bench: Path) -> None:
    """After the process has ended its memory can't be read any more, whoever gets its PID."""
    with running(bench / "sleeper", "threads") as target, LiveProcess(target.pid) as process:
        address = process.image.find_function("main")
        assert address is not None
        assert process.fetch(address, 8)
        target.kill()
        target.wait()
        with pytest.raises(TargetReadError):
            process.fetch(address, 8)


# ---------------------------------------------------------------- processes that can't be read


def test_no_such_process() -> None:
    """A PID that nobody has is an error that names it."""
    with pytest.raises(NoSuchProcessError, match="no process 4194305"):
        LiveProcess(4194305)


def test_a_zombie_is_gone(bench: Path) -> None:
    """A process that has exited but wasn't waited for is said to have exited."""
    with running(bench / "sleeper", "threads") as target:
        target.kill()
        os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(NoSuchProcessError, match="has exited"):
            LiveProcess(target.pid)


def test_a_thread_is_no_process(sleeper: subprocess.Popen[str]) -> None:
    """The ID of a thread is refused with its process's."""
    thread = max(int(task.name) for task in Path(f"/proc/{sleeper.pid}/task").iterdir())
    with pytest.raises(NoSuchProcessError, match=f"thread of process {sleeper.pid}"):
        LiveProcess(thread)


def test_a_32_bit_program_is_refused(tmp_path: Path) -> None:
    """A program of another word size is refused by its name."""
    source = tmp_path / "small.s"
    source.write_text(
        ".globl _start\n_start: movl $4, %eax\nmovl $1, %ebx\nmovl $text, %ecx\nmovl $6, %edx\nint $0x80\n"
        'again: movl $29, %eax\nint $0x80\njmp again\n.data\ntext: .ascii "ready\\n"\n'
    )
    program = tmp_path / "small"
    made = subprocess.run(
        ["gcc", "-m32", "-nostdlib", "-static", "-no-pie", str(source), "-o", str(program)], check=False
    )
    if made.returncode != 0:
        pytest.skip("gcc on this machine makes no 32-bit x86 programs")
    with running(program) as target, pytest.raises(WordSizeError, match="32-bit x86"):
        LiveProcess(target.pid)


@pytest.mark.root
def test_another_users_process_is_closed(sleeper: subprocess.Popen[str]) -> None:
    """What the kernel forbids is explained by the process's user."""

    def open_as_nobody() -> Iterator[None]:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        LiveProcess(sleeper.pid)
        yield

    with other_process(open_as_nobody) as child:
        assert child.report.startswith(OtherUserError.__name__)
        assert "it belongs to user root" in child.report


# ---------------------------------------------------------------- stopping


def holding(pid: int, deadline: float = 5.0) -> Callable[[], Iterator[None]]:
    """Return a function that stops a process and holds it."""

    def hold() -> Iterator[None]:
        with stopped(pid, deadline=deadline):
            yield

    return hold


def test_all_threads_stand_and_go_on(sleeper: subprocess.Popen[str]) -> None:
    """Inside, every thread is stopped by its tracer; afterwards each is as it was, and the pause is known."""
    with stopped(sleeper.pid) as stop_:
        assert states(sleeper.pid) == {"t"}
    wait_until(lambda: states(sleeper.pid) == {"S"})
    assert stop_.stop_time > 0


def test_threads_that_come_and_go(bench: Path) -> None:
    """No thread escapes that was started while the others were stopped."""
    with running(bench / "sleeper", "churn") as target:
        for _ in range(20):
            with stopped(target.pid):
                assert states(target.pid) - {"Z", "X"} == {"t"}
        assert "t" not in states(target.pid)


def test_a_process_that_its_user_stopped_stays_so(sleeper: subprocess.Popen[str]) -> None:
    """A process in a SIGSTOP is read and remains stopped."""
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: states(sleeper.pid) == {"T"})
    with stopped(sleeper.pid):
        assert states(sleeper.pid) == {"t"}
    wait_until(lambda: states(sleeper.pid) == {"T"})
    sleeper.send_signal(signal.SIGCONT)
    wait_until(lambda: states(sleeper.pid) == {"S"})


def test_the_parent_sees_nothing(sleeper: subprocess.Popen[str]) -> None:
    """The parent, here this process, gets no report of a stop, as a launcher would that waits for them."""
    flags = os.WSTOPPED | os.WCONTINUED | os.WEXITED | os.WNOHANG | os.WNOWAIT
    with other_process(holding(sleeper.pid)) as child:
        assert child.report == "holding"
        assert states(sleeper.pid) == {"t"}
        assert os.waitid(os.P_PID, sleeper.pid, flags) is None
    wait_until(lambda: states(sleeper.pid) == {"S"})
    assert os.waitid(os.P_PID, sleeper.pid, flags) is None


def test_a_signal_on_its_way_is_delivered(sleeper: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that a thread was about to get when it was stopped reaches it afterwards."""
    first = f"""
import os, signal, time
from mqs_dll.debugger import proc
from mqs_dll.debugger.stopping import ptrace
true_ptrace = ptrace.call
def signal_first(request, thread, data=0):
    if request == ptrace.INTERRUPT and thread == {sleeper.pid}:
        os.kill({sleeper.pid}, signal.SIGUSR1)
        while not any(proc.read_stat(each).state == "t" for each in proc.thread_ids({sleeper.pid})):
            time.sleep(0.001)
    return true_ptrace(request, thread, data)
ptrace.call = signal_first"""
    monkeypatch.setattr(holder, "_BEGIN", holder._BEGIN + first)
    with stopped(sleeper.pid):
        assert states(sleeper.pid) == {"t"}
    assert sleeper.stdout is not None
    assert sleeper.stdout.readline() == "signal\n"


def test_an_error_inside_resumes(sleeper: subprocess.Popen[str]) -> None:
    """An exception inside leaves the process running."""
    with pytest.raises(ZeroDivisionError), stopped(sleeper.pid):
        raise ZeroDivisionError
    assert states(sleeper.pid) <= RUNNING


def test_a_ctrl_c_inside_resumes_first(sleeper: subprocess.Popen[str]) -> None:
    """Ctrl-C inside: when KeyboardInterrupt is raised the process runs already, and the old handler is back."""
    handler = signal.getsignal(signal.SIGINT)
    with stopped(sleeper.pid):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert states(sleeper.pid) <= RUNNING
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["Popen", "send", "receive", "close"])
def test_a_ctrl_c_at_any_step_resumes(
    sleeper: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    """Ctrl-C between the steps of stopping and of letting go waits until the process can run again."""
    where = {"Popen": subprocess, "close": holder.Holder}.get(step, holder)
    struck = ctrl_c_at(monkeypatch, where, "let_go" if step == "close" else step, moment)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stopped(sleeper.pid):
        assert step == "close"
    assert struck
    assert states(sleeper.pid) <= RUNNING
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_killed_debugger_lets_go(sleeper: subprocess.Popen[str]) -> None:
    """When the debugger is killed while it holds the process, the process runs on."""
    with other_process(holding(sleeper.pid)):
        assert states(sleeper.pid) == {"t"}
    wait_until(lambda: states(sleeper.pid) == {"S"})
    assert sleeper.poll() is None


def test_a_process_killed_while_it_stands(sleeper: subprocess.Popen[str]) -> None:
    """The end of a process that is killed meanwhile is no error, and its parent learns of it."""

    def hold_and_kill() -> Iterator[None]:
        with stopped(sleeper.pid):
            os.kill(sleeper.pid, signal.SIGKILL)
        yield

    with other_process(hold_and_kill) as child:
        assert child.report == "holding"
        assert sleeper.wait(20) == -signal.SIGKILL


def test_another_debugger_is_named(sleeper: subprocess.Popen[str]) -> None:
    """A process that another debugger holds is refused with that debugger's PID and name, and stays in its hands."""
    with other_process(holding(sleeper.pid)):
        with pytest.raises(AlreadyTracedError, match=r"process \d+ \(mqs\)"), stopped(sleeper.pid):
            pass
        assert states(sleeper.pid) == {"t"}


def test_a_process_that_does_not_stop(bench: Path) -> None:
    """A thread that sleeps in the kernel is given up after the deadline, and runs on later."""
    with running(bench / "sleeper", "vfork") as target:
        children = Path(f"/proc/{target.pid}/task/{target.pid}/children")
        wait_until(lambda: states(target.pid) == {"D"} and children.read_text().strip())
        with other_process(holding(target.pid, deadline=0.1)) as debugger:
            assert debugger.report.startswith(StopError.__name__)
            assert "its state is D" in debugger.report
        os.kill(int(children.read_text()), signal.SIGKILL)
        assert target.wait(20) == 0


REUSE = """
import subprocess, sys, time
from pathlib import Path
from unittest.mock import MagicMock
from mqs_dll.job.found import FoundJob, FoundRank, FoundWorld
from mqs_dll.debugger.job.ranks import Here
from mqs_dll.debugger.job.read import read_job
from mqs_dll.debugger import live
from mqs_dll.debugger.live import LiveProcess, environment_variable
from mqs_dll.debugger.proc import read_stat, start_time, thread_ids
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.contract.errors import NoSuchProcessError
from mqs_dll.library.session import Library

def begin():
    process = subprocess.Popen([sys.argv[1], "threads"], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process

first = begin()
pid, looked_at = first.pid, LiveProcess(first.pid)
ranks = Here([FoundRank(0, 0, pid, "program", "host")], lambda process: (MagicMock(), "made up"))
ranks.open()
first.kill()
first.wait()
while True:
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    second = begin()
    if second.pid == pid and start_time(pid) != looked_at.started:  # a start is known to 10 ms
        break
    second.kill()
    second.wait()

def sleeps():
    "Return how often each thread has gone to sleep, once all of them are asleep for good: a stop is a sleep, too."
    before = None
    while True:
        lines = [line for path in Path(f"/proc/{pid}/task").glob("*/status") for line in path.read_text().splitlines()]
        counts = [line for line in lines if line.startswith("voluntary_ctxt_switches")]
        if counts == before and {read_stat(thread).state for thread in thread_ids(pid)} == {"S"}:
            return counts
        before = counts
        time.sleep(0.1)

before = sleeps()
for act in (lambda: stopped(pid, looked_at.started).__enter__(), lambda: LiveProcess(pid, looked_at.started)):
    try:
        act()
    except NoSuchProcessError as error:
        print(error)
rank = FoundRank(0, 0, pid, "program", "host", started=looked_at.started)
job = FoundJob(None, "title", "user", 0.0, "host", (FoundWorld(1, True),), (rank,), frozenset({pid}))
print(read_job(job, lambda process: (Library(), None)).processes[0].state.value)
with ranks.stopped():
    pass
assert sleeps() == before, "it was stopped"
with stopped(pid, start_time(pid)):
    print("its own start time will do")
assert sleeps() != before
print(pid)
second.kill()
"""


def test_debug_information_that_is_nowhere_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same files and in the same places: a node has a hundred ranks. Elsewhere it is looked for again."""
    room = make_bench_with_types(tmp_path) / "room"
    debug = tmp_path / "liblamp.debug"
    debug.rename(tmp_path / "elsewhere")
    for place, is_found in ((1, False), (1, False), (2, True)):
        monkeypatch.setattr(MappedFiles, "surroundings", lambda self, place=place: (place,))
        with running(room) as target, LiveProcess(target.pid) as process:
            assert (process.image.find_type("lamp_t") is not None) is is_found
        if not debug.exists():
            (tmp_path / "elsewhere").rename(debug)


@pytest.mark.root
def test_another_process_that_got_the_number_is_left_alone(bench: Path) -> None:
    """Neither stopped nor read: what a PID stands for is known by its start time, too."""
    own_numbers = ("unshare", "--pid", "--fork", "--mount-proc")  # where the next number can be chosen
    if subprocess.run([*own_numbers, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no PID namespace can be made here: it takes root, and unshare of util-linux")
    command = [*own_numbers, sys.executable, "-c", REUSE, str(bench / "sleeper")]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    *said, pid = result.stdout.splitlines()
    refusal = f"process {pid} has exited, and another has its number now"
    assert said == [refusal, refusal, "exited", "its own start time will do"]


def test_a_process_that_has_gone() -> None:
    """Stopping a process that is gone says so."""
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(NoSuchProcessError), stopped(child.pid):
        pass


def with_environment(*variables: bytes | None) -> LiveProcess:
    """Return a process whose environ leads to an array of strings, beyond which nothing can be read; None is a NULL."""
    texts = b"".join((each or b"").ljust(64, b"\0") for each in variables)
    array = b"".join((0x2000 + 64 * index if each else 0).to_bytes(8, "little") for index, each in enumerate(variables))
    memory = {0x500: (0x1000).to_bytes(8, "little"), 0x1000: array, 0x2000: texts.ljust(4096, b"\0")}

    def fetch(address: int, size: int) -> bytes:
        for start, data in memory.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise TargetReadError(address, size)

    return cast(LiveProcess, SimpleNamespace(image=SimpleNamespace(find_symbol={"environ": 0x500}.get), fetch=fetch))


def test_the_environment_ends_where_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its NULL, where it can't be read any more, or after so many variables; any program may change it meanwhile."""
    assert environment_variable(with_environment(b"A=1", b"TEST=halo", None), "TEST") == b"halo"
    assert environment_variable(with_environment(b"A=1", None, b"TEST=halo"), "TEST") == b""
    assert environment_variable(with_environment(b"A=1", b"TESTED=1"), "TEST") == b""
    monkeypatch.setattr(live, "MAX_VARIABLES", 2)
    assert environment_variable(with_environment(b"A=1", b"B=2", b"TEST=halo"), "TEST") == b""
