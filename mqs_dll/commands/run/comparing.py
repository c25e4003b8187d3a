"""The process that keeps agents on the other nodes of a job: they compare the memory of its ranks, and end them.

It ends with the supervisor, and the agents end with it: their standard input does.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from mqs_dll.commands import nodes
from mqs_dll.commands.run.other_nodes import END, LEFT, MARK, NOTHING, PROGRESS
from mqs_dll.commands.run.pace import LOOKS, Doubt
from mqs_dll.commands.run.sampling import end_with_parent
from mqs_dll.contract.errors import MqsError, NodesError
from mqs_dll.debugger.job.ending import GRACE
from mqs_dll.debugger.job.nodes import wire
from mqs_dll.debugger.job.nodes.agents import Agents
from mqs_dll.debugger.job.nodes.wire import Compared, Looked
from mqs_dll.debugger.job.ranks import ReadingOptions

_COMPARE, _LOOK, _MARK, _END = 10.0, 60.0, 10.0, 2 * GRACE + 5.0
"""Seconds that an agent has; a node that needs longer is lost until the next try."""
_SOON = 1.0
"""Seconds from the first look to the first comparison: the ranks may be about to be stopped."""
_PATIENCE = 120.0
"""Seconds that an agent waits for a word, beyond some intervals: its link may be down and not say so."""


def run(options: argparse.Namespace, what: int, channel: socket.socket) -> int:
    """Keep agents until the supervisor ends; return the exit code.

    Args:
        options: of the command.
        what: as watcher.Watcher has it.
        channel: by which the supervisor speaks (other_nodes).

    Raises:
        MqsError: no other node can be reached.
    """
    end_with_parent()
    parent = os.getppid()
    kept = _found(options, what)
    comparing = Comparing(kept, options.interval, options.after)
    due = time.monotonic()
    gap = LOOKS * options.after
    again = due + gap
    try:
        while os.getppid() == parent:
            order = _order(channel, due - time.monotonic())
            if order == b"":
                break
            is_late = order is None and time.monotonic() >= again
            if not kept.is_whole and (is_late or order == MARK):
                again, gap = time.monotonic() + gap, 2 * gap
                with suppress(MqsError):
                    found = _found(options, what)
                    kept.close()
                    kept, comparing = found, Comparing(found, options.interval, options.after)
            if order is None:
                _say(channel, PROGRESS if comparing.progressed() else NOTHING)
                due = time.monotonic() + (options.interval if comparing.compared else min(options.interval, _SOON))
            elif order == MARK:
                comparing.mark()
                _say(channel, MARK)
            elif order == END:
                _say(channel, END if comparing.end() else LEFT)
                break
    finally:
        kept.close()
    return 0


def _found(options: argparse.Namespace, what: int) -> Agents:
    """Return the agents of the other nodes; that of this one isn't needed."""
    asked = argparse.Namespace(**{**vars(options), "what": what})
    _, ranks = nodes.find_ranks(asked, ReadingOptions(stop=False, stacks=False))
    if not isinstance(ranks, Agents):
        ranks.close()
        raise NodesError("no other node of it can be reached")
    ranks.leave_here()
    return ranks


def _order(channel: socket.socket, seconds: float) -> bytes | None:
    """Return what the supervisor says within a time; None when it says nothing, empty when it has ended."""
    if not select.select([channel], [], [], max(seconds, 0.0))[0]:
        return None
    with suppress(OSError):
        return channel.recv(1)
    return b""


def _say(channel: socket.socket, what: bytes) -> None:
    with suppress(OSError):  # it is stopped for long, or has ended
        channel.send(what, socket.MSG_DONTWAIT)


class Comparing:
    """Agents that compare the memory of their ranks."""

    def __init__(self, agents: Agents, interval: float, after: float) -> None:
        """Initialize; nothing is read yet. Times are those of pace.Pace."""
        self._agents = agents
        self._doubt = Doubt(time.monotonic(), interval, after)
        self._patience = _PATIENCE + 3 * interval
        self._has_looked = False
        self.compared = 0
        """How often."""

    def progressed(self) -> bool:
        """Return whether any rank has made progress since the last time, which is unknown at the first time."""
        if not self._has_looked:
            self._has_looked = True
            self._look(self._agents.others)
            return False
        self.compared += 1
        changed: list[str] = []

        def take(name: str, answer: Any) -> None:
            if wire.read(Compared, answer).changed:
                changed.append(name)

        self._ask(self._agents.others, {"do": "compare"}, _COMPARE, take)
        return bool(changed) and (not self._doubt.is_due(time.monotonic()) or self._look(changed))

    def _look(self, names: Iterable[str]) -> bool:
        """Have queues read on nodes; return whether any are otherwise than at the last look: a call may only poll."""
        moved: list[str] = []

        def take(name: str, answer: Any) -> None:
            if not wire.read(Looked, answer).same:
                moved.append(name)

        self._ask(names, {"do": "look", "patience": self._patience}, _LOOK, take)
        return bool(moved)

    def mark(self) -> None:
        """Have noted what is to be ended."""
        self._agents.ask(self._agents.to_mark(), _MARK, lambda name, answer: None)

    def end(self) -> bool:
        """End it; return whether all of it has ended, on all nodes."""
        ended: list[str] = []

        def take(name: str, answer: Any) -> None:
            if answer == 0:
                ended.append(name)

        asked = self._agents.others
        self._ask(asked, {"do": "end"}, _END, take)
        return self._agents.is_whole and len(ended) == len(asked)

    def _ask(self, names: Iterable[str], message: wire.Message, seconds: float, take: Any) -> None:
        """Ask agents; who doesn't answer is lost."""
        self._agents.ask(dict.fromkeys(names, message), seconds, take)
