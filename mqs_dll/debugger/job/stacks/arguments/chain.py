"""The arguments of one call from two sides: what the called functions keep of them, and what their caller computed.

From the innermost function outwards, what a function still holds of its own arguments is known of what its caller
passed (the callee's side). What the program's function computed, from constants and what it holds itself, is asked only
of frames further out (the caller's side). Neither side uses what the other one knows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.job.stacks.arguments.code import Code
from mqs_dll.debugger.job.stacks.arguments.decode import ARGUMENTS
from mqs_dll.debugger.job.stacks.arguments.eh_frame import FrameDescription, TableError
from mqs_dll.debugger.job.stacks.arguments.evaluate import ContradictionError, FrameValues, Load, no_load
from mqs_dll.debugger.job.stacks.arguments.flow import STACK_ARGUMENTS, Followed, Goal, UnknownWayError
from mqs_dll.debugger.job.stacks.arguments.loaded import TIME_BUDGET, LoadedCode
from mqs_dll.debugger.job.stacks.arguments.values import WORD, Label, Value, narrow, parts
from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.job.stacks.follow import Step

_FARTHEST = 8
"""Functions outside the caller that are asked at most for what they passed on."""
_ALIGNED = 16
"""Bytes."""
_MOST = len(ARGUMENTS) + STACK_ARGUMENTS
_UNKNOWN = (UnknownWayError, ContradictionError, TableError, TargetReadError)

Known = Mapping[int, tuple[int, int]]
"""Numbers of arguments to what they are, unsigned, and how many low bytes of that are known."""


class Computed(NamedTuple):
    """What a caller computed."""

    number: int
    """Unsigned."""
    size: int
    """How many low bytes of it are known."""
    reread: bool
    """Whether memory was read again for it."""


class Chain:
    """The functions of one stack."""

    def __init__(self, steps: Sequence[Step], stack: ThreadStack, loaded: LoadedCode) -> None:
        """Initialize.

        Args:
            steps: the frames, innermost first.
            stack: what was copied of the thread.
            loaded: the code of the process.
        """
        self._steps = steps
        self._stack = stack
        self._loaded = loaded
        self._followed: dict[int, Followed] = {}
        self._numbers: dict[int, FrameValues] = {}

    # ------------------------------------------------------------ the callee's side

    def kept(self, place: int, entry: int) -> Known:
        """Return what a function, and those that it called, keep of its arguments.

        Args:
            place: of its step.
            entry: where it starts.
        """
        known: Known = {}
        with TIME_BUDGET.counted():
            entries = self._entries(place, entry)
            for at in range(min(entries), place + 1):
                try:
                    known = {} if TIME_BUDGET.is_over else self._kept_in(at, entries[at], known)
                except _UNKNOWN:
                    known = {}
        return known

    def _entries(self, place: int, entry: int) -> dict[int, int]:
        """Return where the functions start that were called from one, as far as one leads to the next."""
        entries = {place: entry}
        while place > 0 and not self._steps[place].interrupted and not TIME_BUDGET.is_over:
            try:
                called = self._callee(place, entries[place])
            except _UNKNOWN:
                break
            if called is None:
                break
            place -= 1
            entries[place] = called
        return entries

    def _callee(self, place: int, entry: int) -> int | None:
        """Return where the function starts that a function called.

        A table that it has from memory is read as it is now; what it gives has to be the function that was called.
        """
        step = self._steps[place]
        if step.target is not None:
            return step.target
        followed = self._follow(place, entry)
        if followed.target is None:
            return None
        target = self._asked(place, followed).find(Value(followed.target, WORD), self._read)
        if target is None or place == 0:
            return None
        code, own = self._loaded.code(target)
        called = code.function(own)
        return target if called and called.start <= code.own(self._steps[place - 1].pc) < called.end else None

    def _kept_in(self, place: int, entry: int, passed: Known) -> Known:
        """Return what is known of a function's arguments: by what it holds, and by what is known of those it passed."""
        landed = self._landed(place, entry)
        followed = self._follow(place, landed)
        known = _given(self._asked(place, followed), followed, passed)
        if landed == entry:
            return known
        code, own = self._loaded.code(entry)
        followed = self._loaded.follow(code, own, Goal(jumps=frozenset((landed,))))
        return _given(FrameValues(code.bias, {0: self._steps[place + 1].sp - WORD}), followed, known)

    def _landed(self, place: int, entry: int) -> int:
        """Return where a step's function starts, when another one was called: one that jumped to another file's."""
        code, _ = self._loaded.code(entry)
        here, own = self._loaded.code(self._steps[place].pc)
        return entry if here is code else self._beginning(here, own)

    # ------------------------------------------------------------ the caller's side

    def computed(self, place: int, functions: Collection[int], wrapper: int | None = None) -> dict[int, Computed]:
        """Return what a function computed for the call that it is in.

        Args:
            place: of its step.
            functions: where the function starts whose arguments are wanted: what was called leads to it.
            wrapper: where one starts that may lie between.
        """
        try:
            return self._computed(place, frozenset(functions), wrapper)
        except _UNKNOWN:
            return {}

    def _computed(self, place: int, functions: frozenset[int], wrapper: int | None) -> dict[int, Computed]:
        entry = self._entry(place)
        followed = self._follow(place, entry)
        target = self._callee(place, entry)
        if target is None:
            return {}
        passed = self._values(place, entry, followed, [value for _, value in followed.passed])
        found = {number: what for (number, _), what in zip(followed.passed, passed, strict=True) if what}
        if wrapper is not None and target not in (*functions, wrapper):
            found, target = self._through(place, target, frozenset((wrapper,)), found), wrapper
        return found if target in functions else self._through(place, target, functions, found)

    def _through(
        self, place: int, helper: int, functions: frozenset[int], passed: Mapping[int, Computed]
    ) -> dict[int, Computed]:
        """Return what a function passes on that ends in a jump, by what was passed to it."""
        code, entry = self._loaded.code(helper)
        followed = self._loaded.follow(code, entry, Goal(jumps=functions))
        numbers = FrameValues(code.bias, {0: self._steps[place].sp - WORD})
        for number, known in passed.items():
            numbers.learn(Value(("arg", number), known.size), known.number)
        reread = any(known.reread for known in passed.values())
        found = {number: _find(numbers, value) for number, value in followed.passed}
        return {number: Computed(*what, reread) for number, what in found.items() if what}

    def _values(
        self, place: int, entry: int, followed: Followed, values: Sequence[Value], farther: int = 0
    ) -> list[Computed | None]:
        """Return what values are that a function holds or computes, and whether memory was read again."""
        numbers = self._asked(place, followed)
        wanted = {part[1] for value in values for part in parts(value.label) if part[0] == "arg"}
        known = _arguments(numbers)
        missing = sorted(number for number in wanted if known.get(number, (0, 0))[1] < WORD)
        outside = self._passed_to(place, entry, missing, farther) if missing else {}
        for number, passed in outside.items():
            numbers.learn(Value(("arg", number), passed.size), passed.number)
        found: list[Computed | None] = []
        for value in values:
            reads: list[int] = []
            what = _find(numbers, value, self._reader(None if farther else followed, reads))
            found.append(Computed(*what, bool(reads)) if what else None)
        return found

    def _passed_to(self, place: int, entry: int, wanted: Sequence[int], farther: int) -> dict[int, Computed]:
        """Return what a function was given as arguments, by its own caller."""
        outer = place + 1
        if farther == _FARTHEST or outer + 1 >= len(self._steps) or self._steps[outer].interrupted:
            return {}
        try:
            start = self._entry(outer)
            if self._callee(outer, start) != entry:
                return {}
            followed = self._follow(outer, start)
            passed = [(number, value) for number, value in followed.passed if number in wanted]
            results = self._values(outer, start, followed, [value for _, value in passed], farther + 1)
        except _UNKNOWN:
            return {}
        return {number: what for (number, _), what in zip(passed, results, strict=True) if what}

    def _entry(self, place: int) -> int:
        """Return where a function starts: where it was called, or where its code starts that it is in."""
        if place + 1 < len(self._steps) and not self._steps[place + 1].interrupted:
            called = self._steps[place + 1].target
            if called is not None:
                return self._landed(place, called)
        return self._beginning(*self._loaded.code(self._steps[place].pc))

    @staticmethod
    def _beginning(code: Code, own: int) -> int:
        """Return where the function starts that code lies in, if that is no part of one which it jumps to.

        Compilers that make such parts align functions, but not these; and most of them jump back.
        """
        function = code.function(own)
        if function is None or (function.start % _ALIGNED and not _is_whole(code, function)):
            raise UnknownWayError("where the function begins isn't known")
        return function.start + code.bias

    # ------------------------------------------------------------ both

    def _follow(self, place: int, entry: int) -> Followed:
        if place not in self._followed:
            step = self._steps[place]
            code, own = self._loaded.code(entry)
            to = code.own(step.pc)
            goal = Goal(at=to) if step.interrupted else Goal(returns=to + 1)
            self._followed[place] = self._loaded.follow(code, own, goal)
        return self._followed[place]

    def _asked(self, place: int, followed: Followed) -> FrameValues:
        """Return the numbers that a function's registers and stack hold.

        Raises:
            ContradictionError: they don't fit with what was followed.
        """
        if place + 1 >= len(self._steps):
            raise UnknownWayError("the frame has no end")
        step = self._steps[place]
        base, offset = followed.stack_pointer
        entered = self._steps[place + 1].sp - WORD
        bases = {0: entered}
        if bases.setdefault(base, step.sp - offset) + offset != step.sp:
            raise ContradictionError
        code, _ = self._loaded.code(step.pc)
        numbers = FrameValues(code.bias, bases)
        for name, value in followed.held:
            if name in step.registers:
                numbers.learn(value, step.registers[name])
        for base, offset, value in followed.kept:
            data = self._stack.fetch(bases[base] + offset, value.size)
            if len(data) == value.size:
                numbers.learn(value, int.from_bytes(data, "little"))
        numbers.check()
        return numbers

    def _reader(self, followed: Followed | None, reads: list[int] | None = None) -> Load:
        """Return what reads memory: the stack as it was copied; else what a function had just read, once more."""

        def load(label: Label, address: int, size: int) -> int | None:
            if label[1] == 0:
                return self._read(label, address, size)
            if followed is None or label not in followed.fresh:
                return None
            if reads is not None and len(self._stack.fetch(address, size)) < size:
                reads.append(address)
            return self._read(label, address, size)

        return load

    def _read(self, label: Label, address: int, size: int) -> int | None:
        data = self._stack.fetch(address, size)
        if len(data) < size:
            try:
                data = self._loaded.fetch(address, size)
            except TargetReadError:
                return None
        return int.from_bytes(data, "little")


def _is_whole(code: Code, function: FrameDescription) -> bool:
    """Return whether all jumps of a function stay within it."""
    jumps = code.jumps(function)
    return jumps is not None and all(function.start <= to < function.end for to in jumps)


def _given(numbers: FrameValues, followed: Followed, passed: Known) -> Known:
    """Return what is known of a function's arguments, also by what is known of those that it passed."""
    for number, value in followed.passed:
        if number in passed:
            what, size = passed[number]
            numbers.learn(Value(value.label, min(value.size, size)), what)
    numbers.check()
    return _arguments(numbers)


def _arguments(numbers: FrameValues) -> dict[int, tuple[int, int]]:
    found = {number: _find(numbers, Value(("arg", number), WORD)) for number in range(_MOST)}
    return {number: what for number, what in found.items() if what}


def _find(numbers: FrameValues, value: Value, load: Load = no_load) -> tuple[int, int] | None:
    """Return the number of a value, or of its low half, and its size."""
    for size in (WORD, 4):
        if size <= value.size:
            number = numbers.find(narrow(value, size), load)
            if number is not None:
                return number, size
    return None
