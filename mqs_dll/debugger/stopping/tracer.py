"""Stopping the threads of processes with ptrace, never with SIGSTOP, and letting them go.

A SIGSTOP is seen by the process's parent, and some launchers act on it. PTRACE_SEIZE and PTRACE_INTERRUPT stop the
threads behind everybody's back. The facts used here are those of ptrace(2), in its sections on PTRACE_SEIZE,
group-stop and detaching.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping

from mqs_dll.contract.errors import MqsError, NoSuchProcessError, StopError
from mqs_dll.debugger.access import already_traced, not_permitted
from mqs_dll.debugger.proc import Owner, is_wholly_of, read_stat, read_status, thread_ids
from mqs_dll.debugger.stopping import ptrace


class Tracer:
    """Holds processes. One that can't be stopped runs on, while the others stand."""

    def __init__(
        self,
        started: Mapping[int, int],
        sleep: Callable[[float], None] = time.sleep,
        owner: Owner | None = None,
    ) -> None:
        """Initialize with none.

        Args:
            started: by PID, when the process meant was started (proc.Stat): the number may be another's by now.
            sleep: waits for seconds, at most.
            owner: whose processes these have to be; None where the kernel alone decides.
        """
        self._started = started
        self._sleep = sleep
        self._owner = owner
        self._processes: dict[int, _Threads] = {}

    def stop(self, pids: Iterable[int], deadline: float) -> dict[int, MqsError]:
        """Stop processes: first ask all of them, then wait for each, so that they stop at nearly the same time.

        Args:
            pids: which ones.
            deadline: until when they have to stand; time.monotonic().

        Returns:
            What kept a process from being stopped: NoSuchProcessError, NotPermittedError, AlreadyTracedError when
            another debugger holds it, StopError when a thread didn't stop in time.
        """
        self._processes = {pid: _Threads(pid, self._started.get(pid), self._sleep, self._owner) for pid in pids}
        failures: dict[int, MqsError] = {}
        for act in (_Threads.ask, lambda threads: threads.stop(deadline)):
            for pid, threads in self._processes.items():
                if pid not in failures:
                    try:
                        act(threads)
                    except MqsError as error:
                        failures[pid] = error
                        threads.resume()
        return failures

    @property
    def stop_signals(self) -> dict[int, int]:
        """The signals that had stopped processes before we came, which they will go on obeying."""
        return {pid: threads.stop_signal for pid, threads in self._processes.items() if threads.stop_signal}

    @property
    def registers(self) -> dict[int, dict[int, bytes]]:
        """By process, the general registers of each of its threads that stands, but of one that has just been killed.

        They are as the kernel gives them: struct user_regs_struct on x86_64, struct user_pt_regs on aarch64.
        """
        return {
            pid: {thread: registers for thread in threads.held if (registers := ptrace.registers(thread))}
            for pid, threads in self._processes.items()
        }

    def resume(self) -> None:
        """Let all of them go on as they were: one that its user had stopped with a signal stays stopped."""
        for threads in self._processes.values():
            threads.resume()

    @property
    def keeps(self) -> bool:
        """Whether a thread could not be let go, which stops as soon as it leaves the kernel: only our end helps it."""
        return any(threads.keeps for threads in self._processes.values())


class _Threads:
    """The threads of one process that we hold, each with the signal to deliver when it is let go."""

    def __init__(self, pid: int, started: int | None, sleep: Callable[[float], None], owner: Owner | None) -> None:
        self._pid = pid
        self._started = started
        self._sleep = sleep
        self._owner = owner
        self._asked: list[int] = []
        self.held: dict[int, int] = {}
        self.keeps = False
        self.stop_signal = 0

    def ask(self) -> None:
        """Take hold of the threads that there are, and ask them to stop.

        To take hold of a thread doesn't stop it, but its number isn't given away as long as we do: what is a thread of
        the right process then, is.
        """
        self._check_identity()
        new = [thread for thread in thread_ids(self._pid) if thread not in self.held]
        seized = [thread for thread in new if self._seize(thread)]
        self._asked = []
        if seized:
            self._check_identity()
            members = set(thread_ids(self._pid))
            for thread in seized:
                if thread in members:
                    ptrace.call(ptrace.INTERRUPT, thread)
                    self._asked.append(thread)
                else:
                    self._let_go(thread, self.held.pop(thread))

    def stop(self, deadline: float) -> None:
        """Wait for what was asked, and stop what has appeared meanwhile: once all of them stand, no more can appear."""
        while self._asked:
            for thread in self._asked:
                self._wait(thread, deadline)
            self.ask()
        if not self.held:
            raise NoSuchProcessError(f"process {self._pid} has exited")

    def resume(self) -> None:
        """Let all threads go."""
        while self.held:
            self._let_go(*self.held.popitem())

    def _check_identity(self) -> None:
        if self._owner is not None and not is_wholly_of(self._pid, self._owner):
            raise not_permitted(self._pid, "stop", self._owner)
        if self._started is None:
            return
        stat = read_stat(self._pid)
        if stat is not None and stat.started != self._started:
            raise NoSuchProcessError(f"process {self._pid} has exited, and another has its number now")

    def _seize(self, thread: int) -> bool:
        """Take hold of a thread; False when it has ended."""
        self.held[thread] = 0
        if ptrace.call(ptrace.SEIZE, thread):
            return True
        refusal = ptrace.error()
        del self.held[thread]
        return False if refusal == errno.ESRCH else self._explain_refusal(thread)

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
        raise not_permitted(self._pid, "stop")

    def _wait(self, thread: int, deadline: float) -> None:
        """Wait until a thread stands, and note the signal that it was about to get."""
        try:
            status = ptrace.news(thread, deadline, self._sleep)
        except TimeoutError:
            raise StopError(self._describe_stuck(thread)) from None
        if status is None:
            del self.held[thread]
        elif status >> 16 != ptrace.EVENT_STOP:
            self.held[thread] = os.WSTOPSIG(status)
        elif os.WSTOPSIG(status) != signal.SIGTRAP:  # a group-stop; our own request reports SIGTRAP
            self.stop_signal = os.WSTOPSIG(status)

    def _describe_stuck(self, thread: int) -> str:
        stat = read_stat(thread)
        return (
            f"thread {thread} of process {self._pid} did not stop in time (its state is {stat.state if stat else 'X'})"
        )

    def _let_go(self, thread: int, pending: int) -> None:
        """Detach from a thread; from one that still runs or is dying, as soon as it stands or has ended.

        One that was taken hold of but not asked to stop, because something failed in between, is asked now. A thread
        killed meanwhile is waited for, because its parent learns of its end only after we have.
        """
        if ptrace.call(ptrace.DETACH, thread, pending):
            return

        def to_deliver(status: int) -> int:
            nonlocal pending
            if status >> 16 != ptrace.EVENT_STOP:
                pending = os.WSTOPSIG(status)
            return pending

        self.keeps |= not ptrace.let_go(thread, to_deliver)
