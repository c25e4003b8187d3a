"""Noticing that threads return from their calls while they run, and keeping what could end them by that away from them.

The kernel notices, with the processor's breakpoints (returns.py). On a virtual machine of a KVM before Linux 6.14 such
a breakpoint loses its cause now and then (the guest's DR6, where the timer strikes in the same moment): 2 times in
91,000 the guest's kernel took it for an instruction of the thread's own, and sent SIGTRAP, which ends a process. So
whoever has breakpoints there is the threads' tracer as well (ptrace(2), PTRACE_SEIZE). They run; but the kernel asks
their tracer about each signal first. That one is kept back, then the thread gets to the breakpoint again; all others
are passed on.

The tracer is a process of its own (holder.py says why): when it ends, the kernel takes the breakpoints away,
and then lets the threads go.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from mqs_dll.contract.errors import NoSuchProcessError
from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.proc import Owner, is_wholly_of, read_status
from mqs_dll.debugger.stopping import ptrace
from mqs_dll.debugger.stopping.messages import WatchedReturn
from mqs_dll.debugger.stopping.returns import ReturnCounter

_BREAKPOINT = 1
"""TRAP_BRKPT, as si_code: what x86's exc_debug_user() says where no cause is left (Linux 6.18,
arch/x86/kernel/traps.c). A breakpoint that a program has in its code, int3, says SI_KERNEL."""


class SignalFilter(Closes):
    """Has breakpoints in threads that run, and stands between them and their signals."""

    def __init__(self, calls: Sequence[WatchedReturn], owner: Owner | None = None) -> None:
        """Take in which threads may reach which addresses, and whose they have to be (tracer.Tracer)."""
        self._calls = calls
        self._owner = owner
        self._counters: dict[WatchedReturn, ReturnCounter] = {}
        self._threads: set[int] = set()
        """Those that we trace."""
        self.keeps = False
        """Whether a thread could not be let go, as Tracer has it."""

    def start(self) -> set[WatchedReturn]:
        """Start; return of which of the calls a return will be noticed."""
        for call in self._calls:
            with suppress(OSError):
                self._counters[call] = counter = ReturnCounter(*call)  # off, as yet: the thread isn't guarded
                if self._seize(call.thread):
                    counter.start()
                else:
                    del self._counters[call]
                    counter.close()
        return {*self._counters}

    def pass_on(self) -> None:
        """Let every thread go on that stands for a signal, with it; one that its user stops stays stopped."""
        while True:
            try:
                thread, status = ptrace.wait(-1)
            except ChildProcessError:
                return
            if not thread:
                return
            if not os.WIFSTOPPED(status):
                self._threads.discard(thread)
            elif status >> 16 == ptrace.EVENT_STOP and os.WSTOPSIG(status) != signal.SIGTRAP:
                ptrace.call(ptrace.LISTEN, thread)
            else:
                ptrace.call(ptrace.CONT, thread, self._to_deliver(thread, status))

    def end(self) -> dict[WatchedReturn, int]:
        """Let all threads go; return how often the address of each call was reached. Idempotent."""
        while self._threads:
            self._let_go(self._threads.pop())
        return {call: counter.count() for call, counter in self._counters.items()}

    def close(self) -> None:
        """Let all threads go, and the breakpoints."""
        self.end()
        while self._counters:
            self._counters.popitem()[1].close()

    def _seize(self, thread: int) -> bool:
        if thread not in self._threads and ptrace.call(ptrace.SEIZE, thread):
            if self._owner is None or is_wholly_of(thread, self._owner):  # its number is no other's now
                self._threads.add(thread)
            else:
                self._detach(thread)
        return thread in self._threads

    def _let_go(self, thread: int) -> None:
        """Take a thread's breakpoints away and detach from it, once no signal that they caused is under way."""
        for call, counter in self._counters.items():
            if call.thread == thread:
                counter.stop()
        self._detach(thread)

    def _detach(self, thread: int) -> None:
        def to_deliver(status: int) -> int | None:
            if status >> 16 == ptrace.EVENT_STOP and _may_be_trapped(thread):
                return None  # it has to come as far as to that signal
            return self._to_deliver(thread, status)

        self.keeps |= not ptrace.let_go(thread, to_deliver)

    def _to_deliver(self, thread: int, status: int) -> int:
        """Return the signal for which a thread stands, if it is for the thread; 0 for none."""
        number = 0 if status >> 16 else os.WSTOPSIG(status)
        if number == signal.SIGTRAP:
            code, address = ptrace.signal_of(thread)
            if code == _BREAKPOINT and (thread, address) in self._counters:
                return 0
        return number


def _may_be_trapped(thread: int) -> bool:
    """Return whether a SIGTRAP waits for a thread that stands."""
    try:
        return bool(read_status(thread).pending & 1 << signal.SIGTRAP - 1)
    except NoSuchProcessError:
        return False
