"""One path of a stack: Python functions in place of the frames that run them, one turn of what repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mqs_dll.job.records import CallStack, Frame, Repeat

_MAX_TURN = 4
"""Functions that call one another in a circle."""
_MIN_TIMES = 3


def with_python(stack: CallStack, runs: Sequence[Sequence[Frame]]) -> CallStack:
    """Return a stack whose interpreter's frames are the Python functions that they run.

    Where there are not as many calls of the interpreter as ``runs``, it can't be determined which runs what, and the
    stack stays as it is.
    """
    if sum(frame.runs_python for frame in stack.frames) != len(runs):
        return stack
    left = iter(runs)
    frames: list[Frame] = []
    in_call = 0
    for place, frame in enumerate(stack.frames):
        frames += next(left) if frame.runs_python else [frame]
        if place + 1 == stack.in_call:
            in_call = len(frames)
    return replace(stack, frames=tuple(frames), in_call=in_call)


def folded(stack: CallStack) -> CallStack:
    """Return a stack with one turn of the frames that repeat, its innermost, and with how often they do.

    Functions count, not their lines: a recursion goes on from any of them.
    """
    frames, repeats = _fold(stack.frames[: stack.in_call], 0)
    outer, more = _fold(stack.frames[stack.in_call :], len(frames))
    if not repeats and not more:
        return stack
    return replace(stack, frames=(*frames, *outer), in_call=len(frames), repeats=(*repeats, *more))


def _fold(frames: Sequence[Frame], base: int) -> tuple[list[Frame], list[Repeat]]:
    names = [(frame.function, frame.module, frame.language) for frame in frames]
    found: list[Frame] = []
    repeats = []
    place = 0
    while place < len(names):
        lengths = range(1, _MAX_TURN + 1) if names[place][0] else ()  # those without a name may be different ones
        turns = [(length, _turns(names, place, length)) for length in lengths]
        length, times = max((each for each in turns if each[1] >= _MIN_TIMES), key=_gain, default=(1, 1))
        if times > 1:
            repeats.append(Repeat(base + len(found), length, times))
        found += frames[place : place + length]
        place += length * times
    return found, repeats


def _gain(turn: tuple[int, int]) -> tuple[int, int]:
    """Return how many frames a turn saves; of two that save as many, the shorter turn is the larger."""
    length, times = turn
    return length * (times - 1), -length


def _turns(names: Sequence[tuple[object, ...]], place: int, length: int) -> int:
    """Return how often a turn of some functions stands in a row."""
    times = 1
    while (
        place + (times + 1) * length <= len(names)
        and names[place + times * length : place + (times + 1) * length] == names[place : place + length]
    ):
        times += 1
    return times
