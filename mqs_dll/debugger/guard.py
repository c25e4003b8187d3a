"""Noticing that threads return from their calls while they run, and keeping what could end them by that away from them.

The kernel notices, with the processor's breakpoints (returns.py). On a virtual machine of a KVM before Linux 6.14 such
a breakpoint loses its cause now and then (the guest's DR6, where the timer strikes in the same moment): 2 times in
91,000 the guest's kernel took it for an instruction of the thread's own, and sent SIGTRAP, which ends a process. So
whoever has breakpoints there is the threads' tracer as well (ptrace(2), PTRACE_SEIZE). They run; but the kernel asks
their tracer about each signal first. That one is kept back, then the thread gets to the breakpoint again; all others
are passed on.

The tracer is a process of its own, of which holder.py tells why: when it ends, the kernel takes the breakpoints away,
and then lets the threads go.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mqs_dll.contract.errors import NoSuchProcessError, StopError
from mqs_dll.debugger import ptrace
from mqs_dll.debugger.bases import Closes
from mqs_dll.debugger.holder import Call, Holder, Watch
from mqs_dll.debugger.proc import Owner, is_wholly_of, read_status
from mqs_dll.debugger.returns import ReturnCounter

_BREAKPOINT = 1
"""TRAP_BRKPT, as si_code: what x86's exc_debug_user() says where no cause is left (Linux 6.18,
arch/x86/kernel/traps.c). A breakpoint that a program has in its code, int3, says SI_KERNEL."""


# ---------------------------------------------------------------- our side


class Returns(Closes):
    """The other process, as the one that wants to know of returns has it. Once it has ended nothing is noticed."""

    def __init__(self, holder: Holder) -> None:
        """Take the process that will notice; it has no other order as long as it does."""
        self._holder = holder
        self._begun = False

    def begin(self, calls: Sequence[Call], seconds: float) -> set[Call]:
        """Begin to notice, for so many seconds at most; return of which of the calls a return will be."""
        if not calls:
            return set()
        self._begun = True
        return self._ask(Watch(calls, seconds)) or set()

    def end(self) -> dict[Call, int] | None:
        """Return how often the address of each call was reached, 0 or mostly 1; None where that isn't known."""
        counts: dict[Call, int] | None = self._ask(None) if self._begun else None
        self._begun = False
        return counts

    def close(self) -> None:
        """Notice no more. Idempotent."""
        if self._begun:
            self._holder.let_go()

    def _ask(self, what: object) -> Any:
        """Return its answer, None where there is none."""
        try:
            return self._holder.ask(what)
        except StopError:
            self._holder.let_go()
            return None


# ---------------------------------------------------------------- its own side


class Guard(Closes):
    """Has breakpoints in threads that run, and stands between them and their signals."""

    def __init__(self, calls: Sequence[Call], owner: Owner | None = None) -> None:
        """Take in which threads may reach which addresses, and whose they have to be (tracer.Tracer)."""
        self._calls = calls
        self._owner = owner
        self._counters: dict[Call, ReturnCounter] = {}
        self._threads: set[int] = set()
        """Those that we trace."""
        self.keeps = False
        """Whether a thread could not be let go, as Tracer has it."""

    def begin(self) -> set[Call]:
        """Begin; return of which of the calls a return will be noticed."""
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

    def end(self) -> dict[Call, int]:
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
        ptrace.call(ptrace.INTERRUPT, thread)
        deadline = time.monotonic() + ptrace.LETTING_GO
        try:
            while (status := ptrace.news(thread, deadline)) is not None:
                if status >> 16 != ptrace.EVENT_STOP or not _may_be_trapped(thread):
                    ptrace.call(ptrace.DETACH, thread, self._to_deliver(thread, status))
                    return
                ptrace.call(ptrace.CONT, thread)  # as far as to that signal
        except TimeoutError:
            self.keeps = True

    def _to_deliver(self, thread: int, status: int) -> int:
        """Return the signal for which a thread stands, if it is for the thread; 0 for none."""
        number = 0 if status >> 16 else os.WSTOPSIG(status)
        if number == signal.SIGTRAP:
            code, address = ptrace.signal_of(thread)
            if code == _BREAKPOINT and (thread, address) in self._counters:
                return 0
        return number


def _may_be_trapped(thread: int) -> bool:
    """Tell whether a SIGTRAP waits for a thread that stands."""
    try:
        return bool(read_status(thread).pending & 1 << signal.SIGTRAP - 1)
    except NoSuchProcessError:
        return False
