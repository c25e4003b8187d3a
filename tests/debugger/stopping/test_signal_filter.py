"""Threads that are watched for returns, while they run and get signals: real ones, of programs of our own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqs_dll.contract.errors import StopError
from mqs_dll.debugger.proc import read_status
from mqs_dll.debugger.stopping import holder, messages
from mqs_dll.debugger.stopping.holder import Returns
from mqs_dll.debugger.stopping.messages import WatchedReturn
from mqs_dll.debugger.stopping.returns import ReturnCounter
from mqs_dll.debugger.stopping.stop import all_stopped, stopped
from tests.support.returning import LOOPS, OBEYS, Returning, can_count, holding, returning
from tests.support.targets import compile_target, other_process, running, states, wait_until

SECONDS = 1000.0
NO_THREAD = 0x7FFFFFFF

pytestmark = pytest.mark.alone


@pytest.fixture
def sleeper() -> Iterator[Returning]:
    """Give a program whose thread never gets to its address; skip where the kernel doesn't notice it if it did."""
    with returning(OBEYS) as program:
        can_count(program.call)
        yield program


@contextmanager
def noticing() -> Iterator[Returns]:
    """Yield what notices returns."""
    with holding() as holder, Returns(holder) as returns:
        yield returns


def tracer_of(program: Returning) -> int:
    """Return who holds a program's thread, 0 for nobody."""
    return read_status(program.call.thread).tracer


LOST = "send_as_kernel(signal.SIGTRAP, 1, address)"
"""Sends a thread what a kernel sends it when it has lost a breakpoint's cause."""


@pytest.mark.parametrize(("action", "count"), [(LOOPS, 1), (OBEYS, 0)])
def test_a_return_is_noticed_once(action: str, count: int) -> None:
    """However often a thread gets to the address: each time costs it, and is a danger to it on some machines."""
    with returning(action) as program, noticing() as returns:
        can_count(program.call)
        assert returns.start([program.call], SECONDS) == {program.call}
        time.sleep(0.1)
        assert returns.end() == {program.call: count}
        assert tracer_of(program) == 0


def test_threads_that_cant_be_watched_are_not() -> None:
    """One that is gone, and one that another debugger has; the others are watched."""
    with returning(LOOPS) as program, returning(LOOPS) as other, noticing() as first, noticing() as second:
        can_count(program.call)
        first.start([program.call], SECONDS)
        calls = [WatchedReturn(NO_THREAD, other.call.returns_to), program.call, other.call]
        assert second.start(calls, SECONDS) == {other.call}
        time.sleep(0.1)
        assert second.end() == {other.call: 1}


def test_a_breakpoint_without_its_cause_ends_no_thread(sleeper: Returning) -> None:
    """The SIGTRAP that a kernel sends where a hypervisor lost what the breakpoint was doesn't reach the thread."""
    with noticing() as returns:
        returns.start([sleeper.call], SECONDS)
        assert sleeper.do(LOST) == []
        assert returns.end() == {sleeper.call: 0}
    assert sleeper.do("print(1)") == ["1"]


@pytest.mark.parametrize(("lost", "said"), [(True, []), (False, ["handled"])])
def test_a_signal_on_its_way_at_the_end(
    sleeper: Returning, monkeypatch: pytest.MonkeyPatch, lost: bool, said: list[str]
) -> None:
    """What comes in the moment in which a thread is let go is delivered, except for a breakpoint without its cause."""
    late = f"""
import ctypes, signal, time
from mqs_dll.debugger import proc
from mqs_dll.debugger.stopping import ptrace
true_call = ptrace.call
def call(request, thread, data=0):
    answer = true_call(request, thread, data)
    if request == ptrace.INTERRUPT:
        while proc.read_stat(thread).state != "t":
            time.sleep(0.001)
        TGKILL = 234
        assert ctypes.CDLL(None).syscall(TGKILL, thread, thread, signal.SIGTRAP) == 0
    return answer
ptrace.call = call
if {lost}:
    ptrace.signal_of = lambda thread: (1, {sleeper.call.returns_to})"""
    monkeypatch.setattr(holder, "_BEGIN", holder._BEGIN + late)
    sleeper.do("_ = signal.signal(signal.SIGTRAP, handle)")
    with noticing() as returns:
        returns.start([sleeper.call], SECONDS)
        assert returns.end() == {sleeper.call: 0}
    assert sleeper.do("pass") == said
    assert not read_status(sleeper.call.thread).pending


@pytest.mark.parametrize(
    "sent",
    [
        "os.kill(os.getpid(), signal.SIGUSR1)",
        "signal.raise_signal(signal.SIGTRAP)",
        "send_as_kernel(signal.SIGTRAP, 1, address + 1)",
        "send_as_kernel(signal.SIGTRAP, 0x80, address)",
    ],
)
def test_all_other_signals_reach_the_thread(sleeper: Returning, sent: str) -> None:
    """A handler is called for each, also for a SIGTRAP that no breakpoint of ours has caused."""
    sleeper.do("_ = [signal.signal(each, handle) for each in (signal.SIGUSR1, signal.SIGTRAP)]")
    with noticing() as returns:
        returns.start([sleeper.call], SECONDS)
        assert sleeper.do(sent) == ["handled"]
        returns.end()


def test_a_signal_that_ends_the_program_does(sleeper: Returning) -> None:
    """And its parent learns of it."""
    with noticing() as returns:
        returns.start([sleeper.call], SECONDS)
        os.kill(sleeper.pid, signal.SIGTERM)
        assert sleeper.process.wait(60) == -signal.SIGTERM
        assert returns.end() == {sleeper.call: 0}


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_program_can_be_stopped_and_go_on(sleeper: Returning, goes_on: bool) -> None:
    """SIGSTOP stops it, SIGCONT has it go on; one that its user has stopped is so afterwards too."""
    with noticing() as returns:
        returns.start([sleeper.call], SECONDS)
        os.kill(sleeper.pid, signal.SIGSTOP)
        wait_until(lambda: read_status(sleeper.call.thread).state == "t")
        if goes_on:
            os.kill(sleeper.pid, signal.SIGCONT)
            wait_until(lambda: read_status(sleeper.call.thread).state == "S")
            assert sleeper.do("print(1)") == ["1"]
        returns.end()
    wait_until(lambda: read_status(sleeper.call.thread).state == ("S" if goes_on else "T"))


def test_whoever_watches_may_be_killed() -> None:
    """Then what it watched runs on, held by nobody, and how often it returned isn't known."""
    with returning(LOOPS) as program, noticing() as returns:
        can_count(program.call)
        returns.start([program.call], SECONDS)
        os.kill(tracer_of(program), signal.SIGKILL)
        assert returns.end() is None
        wait_until(lambda: tracer_of(program) == 0)
        assert program.process.poll() is None


def test_who_had_it_watched_may_be_killed(sleeper: Returning) -> None:
    """Then nobody watches any more."""

    def watch() -> Iterator[None]:
        with noticing() as returns:
            returns.start([sleeper.call], SECONDS)
            yield

    with other_process(watch):
        assert tracer_of(sleeper)
    wait_until(lambda: tracer_of(sleeper) == 0)
    assert sleeper.do("print(1)") == ["1"]


def test_nothing_is_watched_for_longer_than_it_may(sleeper: Returning) -> None:
    """Whoever wanted to know may have forgotten it."""
    with noticing() as returns:
        returns.start([sleeper.call], 0.1)
        wait_until(lambda: tracer_of(sleeper) == 0)
        assert returns.end() is None


def test_one_process_watches_and_holds(sleeper: Returning) -> None:
    """One after the other, as often as it is told to, with nothing left of it; when it is killed another one does."""
    open_files = set()
    with holding() as holder:
        for _ in range(2):
            with Returns(holder) as returns:
                assert returns.start([sleeper.call], SECONDS) == {sleeper.call}
                assert sleeper.do(LOST) == []
                assert returns.end() == {sleeper.call: 0}
            assert tracer_of(sleeper) == 0
            with stopped(sleeper.pid, holder=holder):
                same = tracer_of(sleeper)
                open_files.add(len([*Path(f"/proc/{same}/fd").iterdir()]))
            assert tracer_of(sleeper) == 0
        assert not holder.ended
        assert len(open_files) == 1
        os.kill(same, signal.SIGKILL)
        wait_until(lambda: holder.ended)
        with stopped(sleeper.pid, holder=holder):
            assert tracer_of(sleeper) not in (0, same)


def test_after_a_ctrl_c_another_process_holds(sleeper: Returning) -> None:
    """Whoever was asked when it struck may still owe an answer: it ends, and the thread runs on."""
    with holding() as holder:
        with stopped(sleeper.pid, holder=holder):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert tracer_of(sleeper) == 0
        assert holder.ended
        with stopped(sleeper.pid, holder=holder):
            assert tracer_of(sleeper)


def test_after_an_error_another_process_holds(sleeper: Returning) -> None:
    """An answer that nobody has waited for is not taken for the next one's."""

    def ask_and_fail(held: holder.Holder) -> None:
        with stopped(sleeper.pid, holder=held):
            messages.send(held._to.fileno(), messages.order_of(sleeper.pid))
            raise ZeroDivisionError

    with holding() as held:
        with pytest.raises(ZeroDivisionError):
            ask_and_fail(held)
        assert tracer_of(sleeper) == 0
        assert held.ended


def test_a_thread_that_is_gone_cant_be_counted() -> None:
    """A counter that the kernel refuses is an error, not a count of 0."""
    with pytest.raises(OSError, match=r"."):
        ReturnCounter(NO_THREAD, 0x1000)


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[int]:
    """Give the PID of a process that sleeps in the kernel, where ptrace can't stop it."""
    with running(compile_target(tmp_path / "sleeper", "sleeper.c", "-pthread"), "vfork") as target:
        children = Path(f"/proc/{target.pid}/task/{target.pid}/children")
        wait_until(lambda: states(target.pid) == {"D"} and children.read_text().strip())
        yield target.pid
        os.kill(int(children.read_text()), signal.SIGKILL)


def test_what_could_not_be_stopped_is_not_kept(deaf: int) -> None:
    """What held it ends, for whoever is its tracer no other debugger can be; the next stop has another one."""
    with holding() as held:
        with all_stopped([deaf], deadline=0.1, holder=held) as stop:
            assert isinstance(stop.failures[deaf], StopError)
        wait_until(lambda: read_status(deaf).tracer == 0)
        assert held.ended


def test_what_could_not_be_let_go_in_time_is_not_kept(deaf: int) -> None:
    """What watched a thread that went into the kernel ends; of its calls nothing is known."""
    with noticing() as returns:
        call = WatchedReturn(deaf, 0x401000)
        can_count(call)
        assert returns.start([call], SECONDS) == {call}
        assert read_status(deaf).tracer
        assert returns.end() is None
        wait_until(lambda: read_status(deaf).tracer == 0)
