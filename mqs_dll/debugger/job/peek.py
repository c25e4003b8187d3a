"""Watching ranks between two looks while they run: whether a call that a rank was in then has ended meanwhile.

Two looks can't tell a loop of the same calls from one call that lasts. So the call's frame is read time and again: its
return address and the registers that it keeps stay as they are for as long as it lasts, and the next call may write
others over them. Where that shows nothing for a while, and the kernel allows it, the kernel notices from then on when
the call's return address is reached (returns.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from mqs_dll.debugger.job.returns import ReturnCounter
from mqs_dll.debugger.proc import read_stat, turns
from mqs_dll.errors import TargetReadError
from mqs_dll.interface import TargetProcess

CallFrame = tuple[int, int, int]
"""A thread's ID, the address of the frame of the call that it is in, and the frame's size, return address included."""

MOST_PEEKS = 60
LEAST_PEEKS = 20
"""Of one rank; the more ranks, the fewer. In a ping-pong on an idle machine, one in three finds another call."""

FIRST_PEEKS = 20
_FIRST = 0.2
"""Of the time, before the kernel is asked: that nearly always shows a loop of several calls."""

_GOLDEN = 0.6180339887
"""Its multiples are spread evenly, and in step with nothing that a program does at regular times."""

_WORD = 8

_RUNNABLE = "R"
_ENOUGH = 100_000
"""Nanoseconds in which a thread that waits for messages has looked for them many times."""


def changed(
    targets: Sequence[tuple[TargetProcess, Sequence[CallFrame]]], seconds: float, *, count: bool = True
) -> list[bool | None]:
    """Watch running processes for a time.

    Args:
        targets: processes, each with the frames of the MPI calls that its threads are in.
        seconds: how long; it takes about as long without targets, too.
        count: whether to have the kernel count.

    Returns:
        For each process whether one of its calls ended: True when that was seen, False when none did although it could
        have, None where the kernel didn't count, or gave the process no time to run.
    """
    begin = time.monotonic()
    end = begin + seconds
    with ExitStack() as stack:
        watched = [_Watched(*target) for target in targets]
        if count:
            _peek(watched, begin + seconds * _FIRST, FIRST_PEEKS)
            for each in watched:
                each.count(stack)
        _peek(watched, end, MOST_PEEKS)
        time.sleep(max(end - time.monotonic(), 0.0))
        return [each.has_moved() for each in watched]


def _peek(watched: Sequence[_Watched], end: float, most: int) -> None:
    """Peek at frames until a time, so often at most, at irregular times."""
    seconds = end - time.monotonic()
    for number in range(most):
        peeked = [each for each in watched if each.frames and not each.moved]
        left = end - time.monotonic()
        if not peeked or (left <= 0 and number >= LEAST_PEEKS):
            break
        for each in peeked:
            each.peek()
        time.sleep(min(max(left, 0.0), max(seconds, 0.0) / most * (0.5 + number * _GOLDEN % 1)))


class _Watched:
    """A process whose calls are watched."""

    def __init__(self, process: TargetProcess, frames: Sequence[CallFrame]) -> None:
        self.frames = [*frames]
        """Those that have to be peeked at, and can be read."""
        self.moved = False
        self._process = process
        self._calls = len(frames)
        self._first: dict[CallFrame, bytes] = {}
        self._asked = False
        self._counters: list[ReturnCounter] = []
        self._ran: dict[int, int] = {}

    def count(self, stack: ExitStack) -> None:
        """Have the kernel notice from now on when a call ends, unless that was seen already."""
        if self.moved:
            return
        self._asked = True
        self._ran = {thread: _time_of(thread) for thread, _, _ in self.frames}
        for frame in tuple(self.frames):
            returns_to = int.from_bytes(self._first[frame][-_WORD:], "little")
            with suppress(OSError):
                self._counters.append(stack.enter_context(ReturnCounter(frame[0], returns_to)))
                self.frames.remove(frame)

    def peek(self) -> None:
        """Notice whether something else is in a frame than at first; not where it can't be read any more."""
        for frame in tuple(self.frames):
            try:
                now = self._process.fetch(*frame[1:])
            except TargetReadError:
                self.frames.remove(frame)
                continue
            self.moved |= now != self._first.setdefault(frame, now)

    def has_moved(self) -> bool | None:
        """Tell whether one of its calls ended, None where that isn't known."""
        if self.moved or any(counter.count() for counter in self._counters):
            return True
        counted = self._asked and len(self._counters) == self._calls
        return False if counted and all(map(self._had_its_turn, self._ran)) else None

    def _had_its_turn(self, thread: int) -> bool:
        """Tell whether a thread could have noticed a message: it ran meanwhile, or sleeps until one comes."""
        return _time_of(thread) - self._ran[thread] > _ENOUGH or _state_of(thread) != _RUNNABLE


def _time_of(thread: int) -> int:
    """Return the nanoseconds for which a thread has run; 0 where the kernel doesn't tell."""
    return next(iter(turns(thread)), 0)


def _state_of(thread: int) -> str:
    stat = read_stat(thread)
    return stat.state if stat else _RUNNABLE
