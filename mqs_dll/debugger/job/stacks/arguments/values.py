"""Names for values that a function computes: their values aren't known before a stopped process is read.

A *label* stands for one value of 8 bytes at one moment. It is a tuple whose first member says what kind it is:

- ``("arg", n)``: the function's argument number n; ``("entry", register)``: what another register held at its entry
- ``("const", number)``; ``("image", address)``: an address in the function's own file, wherever that is loaded
- ``("stack", base, offset)``: an address on the stack; base 0 is the stack pointer at entry, any other the instruction
  or block that gave the stack pointer a value that can't be determined
- ``("set", instruction, location, bases)``: what an instruction, the last time it ran, put or found there
- ``("phi", block, location, bases)``: what was there when a block began, the last time it did
- ``("load", instruction, address, size)``: what an instruction read from memory, zero-extended; 0 stands for any
  instruction, where nobody writes to that memory
- ``("ext", "s" or "z", size, label)``: the low bytes of another value, extended to 8
- ``("op", name, size, label, ...)``: an operation on other values, its result zero-extended

In the third and fourth, bases are those of the stack addresses that the value may have been made of.

Two places with the same label hold the same value. That is all that following code has to prove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

Label = tuple[Any, ...]

WORD = 8
_DEEPEST = 7
"""Operations within operations; what is computed in more steps is a value of its own."""


class Value(NamedTuple):
    """What a register or a slot of the stack holds: the low bytes of a label's value; the others may be anything."""

    label: Label
    size: int


def narrow(value: Value, size: int) -> Value:
    """Return the low bytes of a value, by the simplest label that has them."""
    label, size = value.label, min(value.size, size)
    while label[0] == "ext" and size <= label[2]:
        label = label[3]
    if label[0] == "const" and size < WORD:
        label = ("const", label[1] & mask(size))
    return Value(label, size)


def extend(value: Value, size: int, *, signed: bool) -> Value:
    """Return the low ``size`` bytes of a value, extended to a word; as they are, where fewer are known."""
    value = narrow(value, size)
    label = value.label
    if value.size < size or size == WORD:
        return value
    if label[0] == "const":
        return Value(("const", sign(label[1], size) & mask(WORD) if signed else label[1] & mask(size)), WORD)
    is_extended = (label[0] == "op" and label[2] <= size) or (label[0] == "load" and label[3] <= size)
    if is_extended and not signed:
        return Value(label, WORD)
    return Value(("ext", "s" if signed else "z", size, label), WORD)


def mask(size: int) -> int:
    """Return the largest number of so many bytes."""
    return (1 << 8 * size) - 1


def sign(number: int, size: int) -> int:
    """Return what the low bytes of a number mean as a signed one."""
    number &= mask(size)
    return number - (1 << 8 * size) if number >> (8 * size - 1) else number


# ---------------------------------------------------------------- operations


def _shift_right(a: int, b: int, size: int) -> int:
    return (a & mask(size)) >> _places(b, size)


def _places(b: int, size: int) -> int:
    return b & (63 if size == WORD else 31)


OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, size: a + b,
    "sub": lambda a, b, size: a - b,
    "imul": lambda a, b, size: a * b,
    "and": lambda a, b, size: a & b,
    "or": lambda a, b, size: a | b,
    "xor": lambda a, b, size: a ^ b,
    "shl": lambda a, b, size: a << _places(b, size),
    "shr": _shift_right,
    "sar": lambda a, b, size: sign(a, size) >> _places(b, size),
}
"""By their names: two numbers and their size in bytes to a number, whose low bytes count."""


def compute(name: str, size: int, first: int, second: int) -> int:
    """Return the result of an operation, zero-extended."""
    return OPERATIONS[name](first, second, size) & mask(size)


def operate(name: str, size: int, first: Label, second: Label) -> Label | None:
    """Return the label of an operation's result, None where it would say too much to be worth a name."""
    if first[0] == "const" and second[0] == "const":
        return ("const", compute(name, size, first[1], second[1]))
    if second[0] == "const" and size == WORD and name in ("add", "sub") and first[0] in ("stack", "image"):
        step = sign(second[1] if name == "add" else -second[1], WORD)
        return (*first[:-1], first[-1] + step)
    if first[0] == "const" and name in ("add", "imul", "and", "or", "xor"):
        first, second = second, first
        if first[0] in ("stack", "image") and name == "add":
            return operate(name, size, first, second)
    if second == ("const", 0) and size == WORD and name in ("add", "sub", "or", "xor", "shl", "shr", "sar"):
        return first
    if second == ("const", 1) and size == WORD and name == "imul":
        return first
    return None if max(depth(first), depth(second)) >= _DEEPEST else ("op", name, size, first, second)


# ---------------------------------------------------------------- what labels are made of


def parts(label: Label) -> Iterator[Label]:
    """Yield a label and all that it is made of."""
    yield label
    for member in label[_OPERANDS.get(label[0], len(label)) :]:
        if isinstance(member, tuple):
            yield from parts(member)


_OPERANDS = {"load": 2, "ext": 3, "op": 3}
"""Where in a label those start that it is made of."""


@lru_cache(maxsize=1 << 14)
def depth(label: Label) -> int:
    """Return how many operations a label has within one another."""
    within = label[_OPERANDS.get(label[0], len(label)) :]
    return 1 + max((depth(member) for member in within if isinstance(member, tuple)), default=0)


@lru_cache(maxsize=1 << 14)
def origins(label: Label) -> frozenset[int]:
    """Return the instructions, and the blocks as negative numbers, that give a label a new value when they run."""
    found = set()
    for part in parts(label):
        if part[0] in ("set", "load", "stack"):
            found.add(part[1])
        elif part[0] == "phi":
            found.add(-part[1])
    return frozenset(found - {0})


@lru_cache(maxsize=1 << 14)
def bases(label: Label) -> tuple[int, ...]:
    """Return of which bases the stack addresses are that a value may have been made of."""
    if label[0] == "load":  # what lies there, not where
        return ()
    if label[0] in ("set", "phi"):
        return tuple(label[3])
    if label[0] == "stack":
        return (label[1],)
    members = (member for member in label[1:] if isinstance(member, tuple))
    return tuple(sorted({base for member in members for base in bases(member)}))
