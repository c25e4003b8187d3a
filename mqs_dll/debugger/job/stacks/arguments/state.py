"""What registers and stack hold at one point of a function, as labels; and what two ways to a point have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain

from mqs_dll.debugger.job.stacks.arguments.decode import ARGUMENTS, REGISTERS
from mqs_dll.debugger.job.stacks.arguments.values import WORD, Label, Value, bases, narrow, origins

Slot = tuple[int, int]
"""A place on the stack: a base, and the offset from it (see values)."""

EVERYTHING = -(1 << 62)
"""The offset of all that a base has."""


@dataclass
class MachineState:
    """One point, by all ways that were gone to it so far."""

    registers: dict[str, Value] = field(default_factory=dict)
    """One that is missing holds an unknown value, which no stack address was made into, but such as have escaped."""
    slots: dict[Slot, Value] = field(default_factory=dict)
    """By where they start; no two overlap. As of registers."""
    escaped: dict[int, int] = field(default_factory=dict)
    """By base: what lies at or above the offset may be written to by whoever has pointers."""
    fresh: set[Label] = field(default_factory=set)
    """Loads since which no memory has changed that they may have read."""
    bounds: dict[Value, int] = field(default_factory=dict)
    """The largest number that a value can be, as unsigned."""
    compared: tuple[Value, int] | None = None
    """What the flags depend on: a value that was compared with a number."""
    made: set[int] = field(default_factory=set)
    """Instructions that have made a label on some way to here."""

    def copy(self) -> MachineState:
        """Return one that can be changed."""
        return MachineState(
            self.registers.copy(),
            self.slots.copy(),
            self.escaped.copy(),
            self.fresh.copy(),
            self.bounds.copy(),
            self.compared,
            self.made.copy(),
        )

    def forget(self, instruction: int) -> None:
        """Forget what an instruction made when it ran before: it is about to give these labels to other values."""
        if instruction not in self.made:
            return
        for places in (self.registers, self.slots):
            for place in [place for place, value in places.items() if instruction in origins(value.label)]:
                del places[place]  # type: ignore[arg-type]
        for slot in [slot for slot in self.slots if slot[0] == instruction]:
            del self.slots[slot]
        self.escaped.pop(instruction, None)
        self.fresh = {label for label in self.fresh if instruction not in origins(label)}
        self.bounds = {value: bound for value, bound in self.bounds.items() if instruction not in origins(value.label)}

    # ------------------------------------------------------------ the stack

    def read_slot(self, slot: Slot, size: int) -> Value | None:
        """Return the low bytes of what a slot holds, None where it holds nothing known."""
        value = self.slots.get(slot)
        return narrow(value, size) if value and value.size >= size else None

    def is_free(self, slot: Slot, size: int) -> bool:
        """Return whether nothing is known of any byte of a slot."""
        base, start = slot
        return not any((base, at) in self.slots for at in range(start - WORD + 1, start + size))

    def write_slot(self, slot: Slot, size: int, value: Value | None) -> None:
        """Note that memory was written to at a known offset."""
        base, start = slot
        for at in range(start - WORD + 1, start + size):
            known = self.slots.get((base, at))
            if known and at + known.size > start:
                del self.slots[base, at]
        if value:
            self.slots[slot] = narrow(value, size)
            self.escape(value.label)
        if self.escaped.get(base, start + 1) <= start:
            self.fresh.clear()

    def write_somewhere(self, pointer: Label | None) -> None:
        """Note that memory was written to, of which a pointer alone is known, or not even that."""
        self.fresh.clear()
        if pointer and pointer[0] in ("const", "image"):
            return
        within = dict.fromkeys(bases(pointer) if pointer else (), EVERYTHING)
        self.drop_above(within or self.escaped)

    def drop_above(self, offsets: Mapping[int, int]) -> None:
        """Forget the slots at or above an offset, for each base."""
        if offsets:
            for slot in [slot for slot in self.slots if slot[1] >= offsets.get(slot[0], slot[1] + 1)]:
                del self.slots[slot]

    def escape(self, label: Label) -> None:
        """Note that others may have a value, and write where it points."""
        for base in bases(label):
            offset = label[2] if label[0] == "stack" else EVERYTHING
            self.escaped[base] = min(offset, self.escaped.get(base, offset))

    def call(self) -> None:
        """Note what any function may do that is called here."""
        self.escape_arguments()
        self.write_somewhere(None)
        pointer = self.registers.get("rsp")
        if pointer and pointer.label[0] == "stack":
            _, base, offset = pointer.label
            for slot in [slot for slot in self.slots if slot[0] == base and slot[1] < offset]:
                del self.slots[slot]
        for name in ("rax", "r10", "r11", *ARGUMENTS):
            self.registers.pop(name, None)

    def escape_arguments(self) -> None:
        """Note that what arguments are passed in is known to another."""
        for name in ("rax", "r10", *ARGUMENTS):
            if name in self.registers:
                self.escape(self.registers[name].label)


# ---------------------------------------------------------------- joining


def join(block: int, ways: Collection[MachineState]) -> MachineState:
    """Return what holds at the start of a block, whichever way it was reached.

    Where values differ, the place gets a label of the block's; places that hold the same value on each way still do. So
    does what the block itself gave a label to the last time that it ran.
    """
    first, *others = ways
    if not others:
        return first.copy()
    made = _Merged(block, ways)
    registers = {}
    for name in REGISTERS:
        values = [way.registers.get(name) for way in ways]
        value = made.merge(name, values) if None not in values else made.unknown(name, values)
        if value:
            registers[name] = value
    slots = {}
    for slot in sorted(slot for slot in first.slots if slot[0] != -block):
        values = [way.slots.get(slot) for way in ways]
        if None not in values:
            value = made.merge(f"{slot[0]}:{slot[1]}", values)
            if value:
                slots[slot] = value
    escaped: dict[int, int] = {}
    for base, offset in chain.from_iterable(way.escaped.items() for way in ways):
        escaped[base] = min(offset, escaped.get(base, offset))
    bounds = {
        value: max(way.bounds[value] for way in ways)
        for value in first.bounds
        if all(value in way.bounds for way in others) and -block not in origins(value.label)
    }
    fresh = set.intersection(*(way.fresh for way in ways))
    return MachineState(
        registers,
        slots,
        escaped,
        {label for label in fresh if -block not in origins(label)},
        bounds,
        None,
        set().union(*(way.made for way in ways)),
    )


class _Merged:
    r"""What places hold where ways through the code meet, at the start of a block.

    mov edi, 1   mov edi, 2
            \   /              rdi is the phi of this block for (1, 2), as SSA form has it; another place with
           block              the same values on the same ways is given the same one
    """

    def __init__(self, block: int, ways: Collection[MachineState]) -> None:
        self._block = block
        self._given: dict[tuple[Value, ...], Value] = {}

    def merge(self, place: str, values: list[Value | None]) -> Value | None:
        """Return what a place holds that holds these on the ways."""
        known = [value for value in values if value]
        least = min(value.size for value in known)
        if (same := self._same(known, least)) is not None:
            return same
        if least < 4 and len({narrow(value, least) for value in known}) > 1:
            return self.unknown(place, values)
        if place == "rsp":
            return Value(("stack", -self._block, 0), WORD)
        key = tuple(narrow(value, least) for value in known)
        if key not in self._given:
            self._given[key] = Value(("phi", self._block, place, self._bases(values)), least)
        return self._given[key]

    def _same(self, known: list[Value], least: int) -> Value | None:
        """Return the value that is the same on all ways, in a word or in its low four bytes; None where they differ.

        Args:
            known: what it is on each way.
            least: bytes that are known of all.
        """
        first = known[0]
        if first.size == WORD and self._is_from_elsewhere(first) and known.count(first) == len(known):
            return first  # as nearly always: what comes below would say so, too
        for size in (WORD, 4):
            if size <= least:
                narrowed = {narrow(value, size) for value in known}
                same = narrowed.pop()
                if not narrowed and same.size == size and self._is_from_elsewhere(same):
                    return same
        return None

    def _is_from_elsewhere(self, value: Value) -> bool:
        """Return whether a value isn't one that this block has given: in a loop that may be another one by now."""
        return -self._block not in origins(value.label)

    def unknown(self, place: str, values: list[Value | None]) -> Value | None:
        """Return what a place holds that isn't known on each way: nothing, or what a stack address was made into."""
        found = self._bases(values)
        return Value(("phi", self._block, place, found), WORD) if found else None

    @staticmethod
    def _bases(values: list[Value | None]) -> tuple[int, ...]:
        return tuple(sorted({base for value in values if value for base in bases(value.label)}))
