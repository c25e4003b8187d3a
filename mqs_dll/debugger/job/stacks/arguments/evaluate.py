"""What labels are worth in a process that stands: from what registers and stack hold, checked against one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mqs_dll.debugger.job.stacks.arguments.values import WORD, Label, Value, compute, mask, narrow, sign

Load = Callable[[Label, int, int], int | None]
"""Returns what a label's load read, at an address and of a size; None where that can't be determined (any more)."""


class ContradictionError(Exception):
    """One value was found to be two numbers: what was followed isn't what the process did."""


def no_load(label: Label, address: int, size: int) -> None:
    """Return None, for who may read no memory."""


class FrameValues:
    """The numbers that labels of one frame stand for."""

    def __init__(self, bias: int, stack: Mapping[int, int]) -> None:
        """Initialize with nothing known.

        Args:
            bias: what the addresses of the function's file have to be raised by.
            stack: the addresses of stack bases.
        """
        self._bias = bias
        self._stack = stack
        self._known: dict[Label, tuple[int, int]] = {}

    def learn(self, value: Value, number: int) -> None:
        """Take a number for a value.

        Raises:
            ContradictionError: it can't have it.
        """
        label, size = value
        computed = self.find(Value(label, size))
        if computed is not None and computed != number & mask(size):
            raise ContradictionError
        known = self._known.get(label)
        if known is None or known[1] < size:
            if known is not None and (known[0] ^ number) & mask(known[1]):
                raise ContradictionError
            self._known[label] = (number & mask(size), size)
        if label[0] == "ext":
            self.learn(Value(label[3], min(size, label[2])), number)

    def check(self) -> None:
        """Compute what is known once more from its parts.

        Raises:
            ContradictionError: something else comes out.
        """
        for label, (number, size) in self._known.items():
            if label[0] == "op":
                computed = self._compute(label, size, no_load)
                if computed is not None and computed != number:
                    raise ContradictionError

    def find(self, value: Value, load: Load = no_load) -> int | None:
        """Return a value's number, unsigned; None where it isn't known.

        Args:
            value: which.
            load: reads memory.
        """
        label, size = narrow(value, value.size)
        known = self._known.get(label)
        if known is not None and known[1] >= size:
            return known[0] & mask(size)
        return self._compute(label, size, load)

    def _compute(self, label: Label, size: int, load: Load) -> int | None:
        kind = label[0]
        if kind == "const":
            return int(label[1]) & mask(size)
        if kind == "image":
            return int(label[1] + self._bias) & mask(size)
        if kind == "stack":
            base = self._stack.get(label[1])
            return None if base is None else (base + int(label[2])) & mask(size)
        if kind == "ext":
            inner = self.find(Value(label[3], min(size, label[2])), load)
            if inner is None or size <= label[2]:
                return inner
            return (sign(inner, label[2]) if label[1] == "s" else inner) & mask(size)
        if kind == "op":
            return self._operation(label, size, load)
        if kind == "load":
            address = self.find(Value(label[2], WORD), load)
            number = None if address is None else load(label, address, label[3])
            return None if number is None else number & mask(size)
        return None

    def _operation(self, label: Label, size: int, load: Load) -> int | None:
        _, name, width, first, second = label
        left = self.find(Value(first, width), load)
        right = self.find(Value(second, 1 if name in ("shl", "shr", "sar") else width), load)
        if left is None or right is None:
            return None
        return compute(name, width, left, right) & mask(size)


def targets(label: Label, bounds: Iterable[tuple[Value, int]], bias: int, load: Load) -> list[int] | None:
    """Return all numbers that a label can stand for that is made of one value with a known bound; None without one.

    Args:
        label: what a jump goes to.
        bounds: values and the largest numbers that they can be.
        bias: as of FrameValues.
        load: reads the jump's table.
    """
    for value, bound in sorted(bounds, key=lambda each: each[1]):
        found = []
        for number in range(bound + 1):
            trial = FrameValues(bias, {})
            trial.learn(value, number)
            target = trial.find(Value(label, WORD), load)
            if target is None:
                break
            found.append(target)
        else:
            return found
    return None
