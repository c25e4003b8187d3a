"""Watching ranks between two looks while they run: whether a call that a rank was in then has ended meanwhile.

Two looks can't tell a loop of the same calls from one call that lasts. Where the kernel allows it, it counts how often
the call's return address is reached (returns.py). Else the call's frame is read time and again: its return address and
the registers that it keeps stay as they are for as long as it lasts, and the next call may write others over them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from mqs_dll.debugger.job.returns import ReturnCounter
from mqs_dll.debugger.proc import read_stat, turns
from mqs_dll.errors import TargetReadError
from mqs_dll.interface import TargetProcess

CallFrame = tuple[int, int, int]
"""A thread's ID, the address of the frame of the call that it is in, and the frame's size, return address included."""

MOST_PEEKS = 60
LEAST_PEEKS = 20
"""Of one rank; the more ranks, the fewer. In a ping-pong on an idle machine, one in three finds another call."""

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
    end = time.monotonic() + seconds
    with ExitStack() as stack:
        watched = [_Watched(*target, stack, count=count) for target in targets]
        for number in range(MOST_PEEKS):
            peeked = [each for each in watched if each.frames and not each.moved]
            left = end - time.monotonic()
            if not peeked or (left <= 0 and number >= LEAST_PEEKS):
                break
            for each in peeked:
                each.peek()
            time.sleep(min(max(left, 0.0), seconds / MOST_PEEKS * (0.5 + number * _GOLDEN % 1)))
        time.sleep(max(end - time.monotonic(), 0.0))
        return [each.has_moved() for each in watched]


class _Watched:
    """A process whose calls are watched."""

    def __init__(self, process: TargetProcess, frames: Sequence[CallFrame], stack: ExitStack, *, count: bool) -> None:
        self.frames: list[CallFrame] = []
        """Those that have to be peeked at, and can be read."""
        self.moved = False
        self._counted = count
        self._process = process
        self._first: dict[CallFrame, bytes] = {}
        self._counters: list[ReturnCounter] = []
        self._ran = {thread: _time_of(thread) for thread, _, _ in frames}
        if not count:
            self.frames.extend(frames)
            return
        for frame in frames:
            try:
                self._counters.append(stack.enter_context(ReturnCounter(frame[0], self._return_address(frame))))
            except TargetReadError:
                self._counted = False
            except OSError:
                self._counted = False
                self.frames.append(frame)

    def _return_address(self, frame: CallFrame) -> int:
        _, address, size = frame
        return int.from_bytes(self._process.fetch(address + size - _WORD, _WORD), "little")

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
        return False if self._counted and all(map(self._had_its_turn, self._ran)) else None

    def _had_its_turn(self, thread: int) -> bool:
        """Tell whether a thread could have noticed a message: it ran meanwhile, or sleeps until one comes."""
        return _time_of(thread) - self._ran[thread] > _ENOUGH or _state_of(thread) != _RUNNABLE


def _time_of(thread: int) -> int:
    """Return the nanoseconds for which a thread has run; 0 where the kernel doesn't tell."""
    return next(iter(turns(thread)), 0)


def _state_of(thread: int) -> str:
    stat = read_stat(thread)
    return stat.state if stat else _RUNNABLE
