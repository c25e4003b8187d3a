"""Whether a signal was sent to `mqs run` alone: then the command gets it from us; else it has it already.

A terminal sends Ctrl-C to the foreground process group, timeout(1) and batch systems send theirs to a group or to all
processes of a job. To get a signal twice means something else to many launchers: the second Ctrl-C ends mpiexec by
force. A process that does nothing else is in our group, and says which signals it gets, too.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

from mqs_dll.commands.run.sampling import end_with_parent

SHORTLY = 0.1
"""Seconds within which a signal has reached all that it was sent to."""


class Everybody:
    """That process."""

    def __init__(self) -> None:
        """Start it; all signals are blocked in us."""
        self._said, say = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.pid = os.fork()
        if self.pid == 0:
            _repeat(say)
        os.close(say)
        self._last: dict[int, float] = {}
        """When it got which signal."""

    def got(self, number: int, at: float) -> bool:
        """Return whether it gets a signal that we got at a time (time.monotonic), too; waits shortly for it."""
        while not self._has(number, at) and (left := at + SHORTLY - time.monotonic()) > 0:
            select.select([self._said], [], [], left)
            self._take_in()
        self._take_in()
        return self._has(number, at)

    def end(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._said)

    def _has(self, number: int, at: float) -> bool:
        return self._last.get(number, -SHORTLY) > at - SHORTLY

    def _take_in(self) -> None:
        with suppress(BlockingIOError):
            now = time.monotonic()
            self._last.update(dict.fromkeys(os.read(self._said, 1 << 10), now))


def _repeat(say: int) -> None:
    """Say which signals come, until our parent ends; never returns."""
    try:
        end_with_parent()
        everything = signal.valid_signals()
        while True:
            with suppress(BlockingIOError):
                os.write(say, bytes([signal.sigwait(everything)]))
    finally:
        os._exit(0)
