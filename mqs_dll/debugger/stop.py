"""Stopping processes for a look, without a trace left in it: ptrace, never SIGSTOP.

A SIGSTOP is seen by the process's parent, and some launchers act on it. PTRACE_SEIZE and PTRACE_INTERRUPT stop the
threads behind everybody's back. The facts used here are those of ptrace(2), in its sections on PTRACE_SEIZE,
group-stop and detaching.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

import cffi

from mqs_dll.debugger.proc import already_traced, not_permitted, read_status, thread_ids
from mqs_dll.errors import MqsError, NoSuchProcessError, StopError

_PTRACE_DETACH = 17
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_PTRACE_EVENT_STOP = 128
_WALL = 0x40000000
"""__WALL of waitpid: threads too, not only processes."""

_DEADLINE = 5.0
"""Seconds that a process has to stop; a thread in the kernel's uninterruptible sleep doesn't."""

_LETTING_GO = 1.0
"""Seconds to wait for a thread that can't be detached from at once; when we exit the kernel does it."""

_ffi = cffi.FFI()
_ffi.cdef("long ptrace(long request, long thread, void *address, void *data);")
_libc: Any = _ffi.dlopen(None)


class all_stopped:
    """Context manager: all threads of several processes stand still inside, and go on as they were when it ends.

    However it ends: on an error, and on Ctrl-C wherever it strikes, all of them run again before the exception is
    seen. Should we be killed, the kernel lets them go. A process that its user had stopped with a signal stays
    stopped, and a signal that arrives meanwhile is delivered afterwards. The thread that enters must be the one that
    leaves. One process that can't be stopped is noted in ``failures`` and runs on; the others stand.
    """

    pause: float = 0.0
    """Seconds from the first process's stop until the last went on, known at the end."""

    def __init__(self, pids: Iterable[int], deadline: float = _DEADLINE) -> None:
        """Prepare to stop processes within ``deadline`` seconds; nothing happens yet."""
        self._deadline = deadline
        self._threads = {pid: _Threads(pid) for pid in pids}
        self._began = 0.0
        self._interrupts = _Interrupts(self._resume)
        self.failures: dict[int, MqsError] = {}
        """What kept a process from being stopped: NoSuchProcessError, NotPermittedError, AlreadyTracedError when
        another debugger holds it, StopError when a thread didn't stop in time."""

    def __enter__(self) -> all_stopped:
        """Stop the processes: first ask all of them, then wait for each, so that they stop at nearly the same time."""
        self._interrupts.hold()
        try:
            self._began = time.monotonic()
            self._try_each(_Threads.ask)
            self._try_each(lambda threads: threads.stop(self._began + self._deadline))
        except BaseException:
            self._resume()
            self._interrupts.release()
            raise
        self._interrupts.pass_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the processes go on."""
        self._interrupts.hold()
        self._resume()
        self._interrupts.release()

    def _try_each(self, act: Callable[[_Threads], None]) -> None:
        for pid, threads in self._threads.items():
            if pid not in self.failures:
                try:
                    act(threads)
                except MqsError as error:
                    self.failures[pid] = error
                    threads.resume()

    def _resume(self) -> None:
        went_on = [threads.resume() for threads in self._threads.values()]
        if any(went_on):
            self.pause = time.monotonic() - self._began


class stopped:
    """Context manager: all threads of one process stand still inside, with all that all_stopped promises.

    Raises:
        NoSuchProcessError: the process is gone.
        NotPermittedError: the kernel doesn't let us stop it.
        AlreadyTracedError: another debugger holds it.
        StopError: a thread didn't stop in time.
    """

    def __init__(self, pid: int, deadline: float = _DEADLINE) -> None:
        """Prepare to stop process ``pid`` within ``deadline`` seconds; nothing happens yet."""
        self._stop = all_stopped([pid], deadline)

    @property
    def pause(self) -> float:
        """Seconds for which the process stood still, known at the end."""
        return self._stop.pause

    def __enter__(self) -> stopped:
        """Stop the process."""
        self._stop.__enter__()
        for error in self._stop.failures.values():
            self._stop.__exit__(None, None, None)
            raise error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the process go on."""
        self._stop.__exit__(kind, error, trace)


class _Interrupts:
    """Makes a Ctrl-C wait while threads are stopped or let go, and in between resumes the process before it is raised.

    Without it KeyboardInterrupt could strike between a thread's stop and the note of it, or in a caller's frame
    from which no ``finally`` leads back here.
    """

    def __init__(self, resume: Callable[[], None]) -> None:
        self._resume = resume
        self._previous: Callable[[int, FrameType | None], Any] | None = None
        self._held = False
        self._pending = False

    def hold(self) -> None:
        """Let a Ctrl-C wait from now on."""
        self._held = True
        if self._previous or threading.current_thread() is not threading.main_thread():
            return  # Python raises KeyboardInterrupt in the main thread only
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # where it is ignored or deadly, Python doesn't raise either
            self._previous = handler
            signal.signal(signal.SIGINT, self._on_interrupt)

    def pass_on(self) -> None:
        """Let a Ctrl-C through from now on, one that waited first."""
        self._held = False
        if self._pending:
            self._resume()
            self.release()

    def release(self) -> None:
        """Put the former handler back, and let a Ctrl-C that waited through to it."""
        previous, self._previous = self._previous, None
        if previous:
            signal.signal(signal.SIGINT, previous)
        if previous and self._pending:
            self._pending = False
            previous(signal.SIGINT, None)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._pending = True
        if not self._held:
            self._held = True
            self._resume()
            self.release()


class _Threads:
    """The threads of one process that we hold, each with the signal to deliver when it is let go."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._held: dict[int, int] = {}
        self._asked: list[int] = []

    def ask(self) -> None:
        """Take hold of the threads that there are, and ask them to stop."""
        new = [thread for thread in thread_ids(self._pid) if thread not in self._held]
        self._asked = [thread for thread in new if self._seize(thread)]

    def stop(self, deadline: float) -> None:
        """Wait for what was asked, and stop what has appeared meanwhile: once all of them stand, no more can appear."""
        while self._asked:
            for thread in self._asked:
                self._wait(thread, deadline)
            self.ask()
        if not self._held:
            raise NoSuchProcessError(f"process {self._pid} has exited")

    def resume(self) -> bool:
        """Let all threads go; return False when there was nothing left to do."""
        if not self._held:
            return False
        while self._held:
            self._let_go(*self._held.popitem())
        return True

    def _seize(self, thread: int) -> bool:
        """Take hold of a thread and ask it to stop; False when it has ended."""
        self._held[thread] = 0
        if not _ptrace(_PTRACE_SEIZE, thread):
            del self._held[thread]
            if _ffi.errno == errno.ESRCH:
                return False
            return self._explain_refusal(thread)
        _ptrace(_PTRACE_INTERRUPT, thread)
        return True

    def _explain_refusal(self, thread: int) -> bool:
        """Return False for a thread that has ended and raise what keeps us from any other."""
        try:
            status = read_status(thread)
        except NoSuchProcessError:
            return False
        if status.state in "ZX":
            return False
        if status.tracer:
            raise already_traced(self._pid, status.tracer)
        raise not_permitted(self._pid)

    def _wait(self, thread: int, deadline: float) -> None:
        """Wait until a thread stands, and note the signal that it was about to get."""
        nap = 0.00005
        while True:
            try:
                seen, status = os.waitpid(thread, _WALL | os.WNOHANG)
            except ChildProcessError:
                del self._held[thread]  # gone with an exec of another thread
                return
            if seen == thread:
                break
            if time.monotonic() > deadline:
                raise StopError(self._describe_stuck(thread))
            time.sleep(nap)
            nap = min(nap * 2, 0.01)
        if not os.WIFSTOPPED(status):
            del self._held[thread]
        elif status >> 16 != _PTRACE_EVENT_STOP:
            self._held[thread] = os.WSTOPSIG(status)

    def _describe_stuck(self, thread: int) -> str:
        try:
            state = read_status(thread).state
        except NoSuchProcessError:
            state = "X"
        return f"thread {thread} of process {self._pid} did not stop in time (its state is {state})"

    def _let_go(self, thread: int, pending: int) -> None:
        """Detach from a thread; from one that still runs or is dying, as soon as it stands or has ended.

        One that was taken hold of but not asked to stop, because something failed in between, is asked now. A thread
        killed meanwhile is waited for, because its parent learns of its end only after we have.
        """
        if _ptrace(_PTRACE_DETACH, thread, pending):
            return
        _ptrace(_PTRACE_INTERRUPT, thread)
        deadline = time.monotonic() + _LETTING_GO
        while not _ptrace(_PTRACE_DETACH, thread, pending) and time.monotonic() < deadline:
            try:
                seen, status = os.waitpid(thread, _WALL | os.WNOHANG)
            except ChildProcessError:
                return
            if seen == thread and not os.WIFSTOPPED(status):
                return
            if seen == thread and status >> 16 != _PTRACE_EVENT_STOP:
                pending = os.WSTOPSIG(status)
            time.sleep(0.001)


def _ptrace(request: int, thread: int, data: int = 0) -> bool:
    return bool(_libc.ptrace(request, thread, _ffi.NULL, _ffi.cast("void *", data)) == 0)
