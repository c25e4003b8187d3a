"""The ranks of a job on other nodes, as the supervisor knows them: what they do is said by a process of its own.

That process (`comparing`) keeps the agents, and says a byte for each interval. If it dies, or can't reach anybody, the
job is watched by the ranks of this node alone, and it is started again rarely.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import time
from contextlib import suppress

from mqs_dll.commands.run.pace import LOOKS
from mqs_dll.commands.run.sampling import in_own_process
from mqs_dll.debugger.job.ending import GRACE

PROGRESS, NOTHING, MARK, END, LEFT = b"+", b".", b"m", b"e", b"l"
"""What is said: compared, with progress and without; what is to be ended is to be noted, or was; the same of ending it,
and that some processes are left."""

_LIFE = 60.0
"""Seconds that a job lives at least before agents are started: most never hang."""
_LONGEST = 3600.0
"""Seconds between two tries to start that process at most."""
_TO_MARK, _TO_END = 45.0, 2 * GRACE + 10.0
"""Seconds that nodes have, those that don't answer included."""


class OtherNodes:
    """What is known of them."""

    def __init__(self, options: argparse.Namespace, what: int) -> None:
        """Initialize; the arguments are those of watcher.Watcher."""
        self._options, self._what = options, what
        self.have_ranks = False
        """Whether the job is known to have ranks there."""
        self.compared = 0
        """How many intervals something was said for."""
        self._next = time.monotonic() + min(_LIFE, options.after)
        self._gap = LOOKS * options.after
        self._pid = 0
        self._channel: socket.socket | None = None

    def progressed(self, now: float) -> bool:
        """Return whether there was progress since this was asked last; begin, if it is time to."""
        if self._channel is None and self.have_ranks and now >= self._next:
            self._begin(now)
        said = self._said()
        self.compared += len(said)
        return PROGRESS in said

    def ended(self, pid: int) -> bool:
        """Take in that a child of ours has ended; return whether it was ours."""
        if pid != self._pid:
            return False
        self._pid = 0
        self.close()
        return True

    def mark(self) -> None:
        """Have agents note what of the job runs there, before its launcher is ended, and then end what that leaves."""
        if self.have_ranks and self._channel is None:
            self._begin(time.monotonic())
        self._say(MARK)
        self._wait_for(MARK, _TO_MARK)
        self._say(END)

    def are_ended(self) -> bool:
        """Return whether all that was noted there has ended; waits for it."""
        return not self.have_ranks or self._wait_for(END + LEFT, _TO_END) == END

    def close(self) -> None:
        """End all agents. Idempotent."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _begin(self, now: float) -> None:
        self._next, self._gap = now + self._gap, min(2 * self._gap, _LONGEST)
        ours, its = socket.socketpair()

        def act() -> int:
            from mqs_dll.commands.run import comparing

            ours.close()
            return comparing.run(self._options, self._what, its)

        self._pid, self._channel = in_own_process(act), ours
        its.close()

    def _said(self) -> bytes:
        """Return what was said since."""
        said = b""
        with suppress(OSError):
            while self._channel is not None and (piece := self._channel.recv(1 << 10, socket.MSG_DONTWAIT)):
                said += piece
        return said

    def _say(self, what: bytes) -> None:
        if self._channel is not None:
            with suppress(OSError):
                self._channel.send(what, socket.MSG_DONTWAIT)

    def _wait_for(self, words: bytes, seconds: float) -> bytes:
        """Return which of some words has come within a time; empty when none has, or none can."""
        until = time.monotonic() + seconds
        while self._channel is not None and (left := until - time.monotonic()) > 0:
            if not select.select([self._channel], [], [], left)[0]:
                continue
            try:
                said = self._channel.recv(1)
            except OSError:
                return b""
            if not said or said in words:
                return said
        return b""
