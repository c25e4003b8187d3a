"""Nothing keeps a rank stopped for longer than the limit: whatever hangs, mqs, a vendor's library or the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqs_dll import read_job
from mqs_dll.contract.errors import LimitError
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import read_stat, read_status
from mqs_dll.debugger.stopping.limit import EXIT_LIMIT, Limit
from mqs_dll.debugger.stopping.stop import all_stopped
from tests.support.jobs import Compiler, Job, running
from tests.support.mpis import OB1, open_mpis
from tests.support.targets import RUNNING, Plan, compile_target, compile_vendor, states, wait_until
from tests.support.targets import running as running_program

MPI = open_mpis()[0]
RANKS = 2
SAID = "processes stood for 1 s, the limit, and had to be let go before all was read"
KILLED = -signal.SIGKILL

INJECTED = """
import ctypes, os, signal, sys, time
from mqs_dll.commands import cli
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import read_status
true_part_into = LiveProcess.part_into
def part_into(process, buffer, address):
    if read_status(process.pid).state == "t":
        {hang}
    return true_part_into(process, buffer, address)
LiveProcess.part_into = part_into
sys.exit(cli.main())
"""
IN_PYTHON = "while True: pass"
IN_C = "ctypes.PyDLL(None).pause()"
"""With Python's lock held, and signals handled when it is free again: never."""
IN_THE_KERNEL = (
    "os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, {pipe!r}, os.O_RDONLY, 0)])"
)
"""The parent, deaf to all signals, waits in state D until its child has opened a pipe that nobody writes to."""
STOPPED = "os.kill(os.getpid(), signal.SIGSTOP)"
UNTIL_ASKED = (
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); "
    "[time.sleep(0.01) for _ in iter(lambda: signal.SIGALRM in signal.sigpending(), True)]"
)
"""It comes round just when it is asked to end."""
UNTIL_LET_GO = "while read_status(process.pid).state == 't': time.sleep(0.01)"


@pytest.fixture(scope="module")
def job(compiler: Compiler) -> Iterator[Job]:
    """Return a job whose ranks sleep."""
    with running(compiler, MPI, OB1, "idle", RANKS) as found:
        yield found


@pytest.fixture
def ranks(job: Job) -> Iterator[list[int]]:
    """Return the PIDs of its ranks, which run at the end."""
    pids = [truth["pid"] for truth in job.wait_until_ready()]
    yield pids
    assert all(run_on(pids))


def run_on(pids: Sequence[int]) -> list[bool]:
    """Tell of each process whether it runs, held by nobody."""
    return [states(pid) <= RUNNING and not read_status(pid).tracer for pid in pids]


@contextmanager
def hanging_job(job: Job, hang: str) -> Iterator[subprocess.Popen[str]]:
    """Start ``mqs job`` with something injected that hangs when it copies ranks that stand; wait until they do."""
    command = [sys.executable, "-c", INJECTED.format(hang=hang), "job", str(job.launcher.pid), "--limit", "1s"]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as process:
        wait_until(lambda: all(states(truth["pid"]) == {"t"} for truth in job.wait_until_ready()))
        yield process


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Give a process, and kill it in the end."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("hang", [IN_PYTHON, IN_C])
def test_a_hang_of_mqs_ends_with_the_limit(job: Job, ranks: list[int], hang: str) -> None:
    """The ranks run on, and mqs ends with a sentence and an exit code of its own."""
    with hanging_job(job, hang) as process:
        wait_until(lambda: all(run_on(ranks)))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (EXIT_LIMIT, "")
    assert err.startswith(f"mqs: {RANKS} {SAID}.\n     ")
    assert "Traceback" not in err


def test_a_library_that_hangs(tmp_path: Path) -> None:
    """A vendor's library that goes round in a loop forever is left, and the process with it."""
    vendor = compile_vendor(tmp_path / "vendor.so")
    planner = compile_target(tmp_path / "planner", "planner.c", f'-DDLL_NAME="{vendor}"')
    with running_program(planner, str(int(Plan.HANG))) as target:
        command = [sys.executable, "-m", "mqs_dll", "show", str(target.pid), "--dll", str(vendor), "--limit", "1s"]
        with ended(subprocess.Popen(command, stderr=subprocess.PIPE, text=True)) as process:
            wait_until(lambda: states(target.pid) == {"t"})
            wait_until(lambda: all(run_on([target.pid])))
            _, err = process.communicate(timeout=60)
    assert process.returncode == EXIT_LIMIT
    assert err.startswith(f"mqs: process {target.pid} stood for 1 s, the limit")


def test_mqs_in_the_kernel_with_all_signals_blocked(job: Job, ranks: list[int], tmp_path: Path) -> None:
    """The ranks run on although mqs sleeps in state D; it is killed after the sentence."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with hanging_job(job, IN_THE_KERNEL.format(pipe=pipe)) as process:
        wait_until(lambda: all(run_on(ranks)))
        stat = read_stat(process.pid)
        assert stat is not None
        assert stat.state == "D"
        assert process.wait(60) == KILLED
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # lets the child go, which holds standard error too
        assert process.stderr is not None
        assert SAID in process.stderr.read()


def test_mqs_stopped_by_a_signal(job: Job, ranks: list[int]) -> None:
    """The ranks run on while mqs itself stays stopped; it ends as soon as somebody lets it go on."""
    with hanging_job(job, STOPPED) as process:
        wait_until(lambda: all(run_on(ranks)))
        assert process.stderr is not None
        assert SAID in process.stderr.readline()
        assert states(process.pid) == {"T"}
        process.send_signal(signal.SIGCONT)
        assert process.wait(60) == EXIT_LIMIT


def test_mqs_that_comes_round_when_it_is_asked_to_end(job: Job, ranks: list[int]) -> None:
    """It ends by itself, and isn't killed meanwhile."""
    with hanging_job(job, UNTIL_ASKED) as process:
        wait_until(lambda: all(run_on(ranks)))
        assert process.wait(60) == EXIT_LIMIT


def test_what_holds_the_ranks_stopped_by_a_signal(job: Job, ranks: list[int]) -> None:
    """Not even that keeps them: the kernel's timer ends it, and mqs says what happened."""
    with hanging_job(job, UNTIL_LET_GO) as process:
        os.kill(read_status(ranks[0]).tracer, signal.SIGSTOP)
        wait_until(lambda: all(run_on(ranks)))
        _, err = process.communicate(timeout=60)
    assert (process.returncode, SAID in err) == (EXIT_LIMIT, True)


def test_what_holds_processes_stopped_before_all_of_them_stand(tmp_path: Path) -> None:
    """Then, too, the limit is what was over; a process that stands already runs on."""
    sleeper = compile_target(tmp_path / "sleeper", "sleeper.c", "-pthread")
    with running_program(sleeper, "threads") as target, running_program(sleeper, "vfork") as deaf:
        children = Path(f"/proc/{deaf.pid}/task/{deaf.pid}/children")
        wait_until(lambda: states(deaf.pid) == {"D"} and children.read_text().strip())

        def stop_the_holder() -> None:
            wait_until(lambda: states(target.pid) == {"t"})
            os.kill(read_status(target.pid).tracer, signal.SIGSTOP)

        with ThreadPoolExecutor(1) as aside:
            aside.submit(stop_the_holder)
            with pytest.raises(LimitError), all_stopped([target.pid, deaf.pid], limit=Limit(1.0)):
                pass
        wait_until(lambda: all(run_on([target.pid])))
        os.kill(int(children.read_text()), signal.SIGKILL)


def test_killing_mqs_lets_go_at_once(job: Job, ranks: list[int]) -> None:
    """Whatever it hangs in; nothing of it is left behind."""
    with hanging_job(job, IN_C) as process:
        holder = read_status(ranks[0]).tracer
        process.kill()
        wait_until(lambda: all(run_on(ranks)))
        wait_until(lambda: read_stat(holder) is None)


def test_a_program_that_imports_mqs_is_not_ended(job: Job, ranks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """read_job raises an error when the limit was over, and touches neither the program nor its signals."""
    true_part_into = LiveProcess.part_into

    def part_into(process: LiveProcess, buffer: memoryview, address: int) -> int:
        if states(process.pid) == {"t"}:
            wait_until(lambda: states(process.pid) <= RUNNING)
        return true_part_into(process, buffer, address)

    monkeypatch.setattr(LiveProcess, "part_into", part_into)
    handler = signal.getsignal(signal.SIGALRM)
    with pytest.raises(LimitError, match=r"stood for 0\.2 s"):
        read_job(job.launcher.pid, limit=0.2)
    assert signal.getsignal(signal.SIGALRM) is handler
