"""Watching ranks between two samples while they run: whether a call that a rank was in then has ended meanwhile.

Two samples don't distinguish a loop of calls from one call that lasts. So the call's frame is read repeatedly: its
return address and the registers that it keeps stay as they are for as long as it lasts, and the next call may write
others over them. Where that shows nothing for a while, and the kernel allows it, the kernel notices from then on when
the call's return address is reached (stopping/signal_filter.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.contract.interface import TargetProcess
from mqs_dll.debugger.proc import read_stat, turns
from mqs_dll.debugger.stopping.holder import Holder, Returns
from mqs_dll.debugger.stopping.messages import WatchedReturn

CallFrame = tuple[int, int, int]
"""A thread's ID, the address of the frame of the call that it is in, and the frame's size, return address included."""

MAX_PEEKS = 60
MIN_PEEKS = 20
"""Of one rank; the more ranks, the fewer. In a ping-pong on an idle machine, one in three finds another call."""

FIRST_PEEKS = 20
_FIRST = 0.2
"""Of the time, before the kernel is asked: that nearly always shows a loop of several calls."""

_SHARE = 1 / 3
"""Of the time, for which each thread shouldn't have had to wait for a core. Data that several ranks pass on to each
other needs a turn of each for every piece; where the cores are busy, these take longer than what is watched for."""

MAX_LONGER = 3.0
_MAX_TIMES_LONGER = 4
"""Seconds, and times the time, for which threads are watched further until they had that."""

_SPARE = 5.0 + MAX_LONGER
"""Seconds that the kernel may be asked for longer than it should take."""

_GOLDEN = 0.6180339887
"""Its multiples are spread evenly, and in step with nothing that a program does at regular times."""

_WORD = 8

_RUNNABLE = "R"
_ENOUGH = 100_000
"""Nanoseconds in which a thread that waits for messages has polled for them many times."""


def changed(
    targets: Sequence[tuple[TargetProcess, Sequence[CallFrame]]], seconds: float, holder: Holder | None
) -> list[bool | None]:
    """Watch running processes for a time.

    Args:
        targets: processes, each with the frames of the MPI calls that its threads are in.
        seconds: how long; it takes about as long without targets, too, and up to MAX_LONGER more where the threads
            hardly get to run.
        holder: what has the kernel count, without another order meanwhile; None not to count.

    Returns:
        For each process whether one of its calls ended: True when that was seen, False when none did although it could
        have, None where the kernel didn't count, or gave the process no time to run.
    """
    end = time.monotonic() + seconds
    watched = [_Watched(*target) for target in targets]
    if holder is None or not any(each.frames for each in watched):
        _peek(watched, end, MAX_PEEKS)
        return [each.has_moved() for each in watched]
    with Returns(holder) as returns:
        _peek(watched, end - seconds * (1 - _FIRST), FIRST_PEEKS)
        calls = {call: each for each in watched for call in each.calls()}
        for call in returns.start([*calls], seconds + _SPARE):
            calls[call].is_counted(call)
        end = max(end, time.monotonic() + seconds * (1 - _FIRST))  # on a busy machine it takes a while to start
        _peek(watched, end, MAX_PEEKS)
        _let_run(watched, seconds * _SHARE, end + min(seconds * _MAX_TIMES_LONGER, MAX_LONGER))
        for each in watched:
            each.note_turns()  # before the end, which gives each of them one
        counts = returns.end()
    for call, each in calls.items():
        each.note_returns(None if counts is None else counts.get(call, 0))
    return [each.has_moved() for each in watched]


def _peek(watched: Sequence[_Watched], end: float, most: int) -> None:
    """Let time pass until an end, and peek at frames meanwhile, so often at most, at irregular times."""
    seconds = end - time.monotonic()
    for number in range(most):
        peeked = [each for each in watched if each.frames and not each.moved]
        left = end - time.monotonic()
        if not peeked or (left <= 0 and number >= MIN_PEEKS):
            break
        for each in peeked:
            each.peek()
        time.sleep(min(max(left, 0.0), max(seconds, 0.0) / most * (0.5 + number * _GOLDEN % 1)))
    time.sleep(max(end - time.monotonic(), 0.0))


def _let_run(watched: Sequence[_Watched], seconds: float, end: float) -> None:
    """Let time pass until each thread that is watched has run or slept for so many seconds, or an end."""
    while (lack := max((seconds - each.own_seconds() for each in watched), default=0.0)) > 0:
        left = end - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(lack, left))


class _Watched:
    """A process whose calls are watched."""

    def __init__(self, process: TargetProcess, frames: Sequence[CallFrame]) -> None:
        self.frames = [*frames]
        """Those that have to be peeked at, and can be read."""
        self.moved = False
        self._process = process
        self._calls = len(frames)
        self._first: dict[CallFrame, bytes] = {}
        self._counted = 0
        self._before: dict[int, tuple[int, int]] = {}
        """What _turns_of returned when the kernel began to notice, at a time."""
        self._since = 0.0
        self._had_turns = False

    def calls(self) -> list[WatchedReturn]:
        """Return its calls, for the kernel to notice when they end: none where that was seen already."""
        if self.moved:
            return []
        self._since = time.monotonic()
        self._before = {thread: _turns_of(thread) for thread, _, _ in self.frames}
        return [self._call(frame) for frame in self.frames]

    def is_counted(self, call: WatchedReturn) -> None:
        """Have the kernel notice when a call ends; there is no need to peek at it."""
        self.frames = [frame for frame in self.frames if self._call(frame) != call]
        self._counted += 1

    def own_seconds(self) -> float:
        """Return for how long each of its threads has run since, or slept; infinity where nothing depends on that."""
        if self.moved or not self._is_noticed():
            return math.inf
        waited = max((_turns_of(thread)[1] - before for thread, (_, before) in self._before.items()), default=0)
        return time.monotonic() - self._since - waited / 1e9

    def note_turns(self) -> None:
        """Note whether its threads have run since."""
        self._had_turns = all(map(self._had_its_turn, self._before))

    def note_returns(self, number: int | None) -> None:
        """Note how often one of its calls ended, None where that isn't known."""
        if number is None:
            self._counted = 0
        else:
            self.moved |= number > 0

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
        """Return whether one of its calls ended, None where that isn't known."""
        if self.moved:
            return True
        return False if self._had_turns and self._is_noticed() else None

    def _is_noticed(self) -> bool:
        """Return whether the kernel notices the end of each of its calls."""
        return self._counted == self._calls

    def _call(self, frame: CallFrame) -> WatchedReturn:
        return WatchedReturn(frame[0], int.from_bytes(self._first[frame][-_WORD:], "little"))

    def _had_its_turn(self, thread: int) -> bool:
        """Return whether a thread could have noticed a message: it ran meanwhile, or sleeps until one comes."""
        return _turns_of(thread)[0] - self._before[thread][0] > _ENOUGH or _state_of(thread) != _RUNNABLE


def _turns_of(thread: int) -> tuple[int, int]:
    """Return for how many nanoseconds a thread has run, and has waited for a core; 0 where nobody knows."""
    ran, waited, *_ = (*turns(thread), 0, 0)
    return ran, waited


def _state_of(thread: int) -> str:
    stat = read_stat(thread)
    return stat.state if stat else _RUNNABLE
