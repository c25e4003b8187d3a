"""Follows values through a function, from its entry to a point in it, on all ways that lead there.

Each block of instructions starts with what its ways in have in common (state.join), until nothing changes any more.
What can't be followed, on any way, makes all of it unknown: an instruction that capstone doesn't know, a jump that goes
to nobody knows where, a stack pointer that isn't where the tables for exceptions have it, and too much of anything.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.debugger.job.stacks.arguments.code import Code
from mqs_dll.debugger.job.stacks.arguments.decode import ARGUMENTS, KEPT, OF_DWARF, REGISTERS, Immediate, Instruction
from mqs_dll.debugger.job.stacks.arguments.eh_frame import FrameDescription
from mqs_dll.debugger.job.stacks.arguments.evaluate import FrameValues, targets
from mqs_dll.debugger.job.stacks.arguments.state import EVERYTHING, MachineState, join
from mqs_dll.debugger.job.stacks.arguments.transfer import Transfer
from mqs_dll.debugger.job.stacks.arguments.values import WORD, Label, Value, mask, origins, parts

_MAX_INSTRUCTIONS = 40_000
_MAX_SECONDS = 0.5
"""Of a processor."""
_MAX_VISITS = 150
"""Of one block."""
_MAX_TABLE_SIZE = 4096
STACK_ARGUMENTS = 12
"""Words on the stack that may be arguments at most."""
_ENDS = frozenset({"ret", "hlt", "ud2", "int3"})
_AT_GOAL = 1
"""Stands for the block that the goal is: no address of code."""
_ENTRY = 0
"""Stands for the caller."""


class UnknownWayError(Exception):
    """It can't be determined how the goal is reached; the text says why."""

    def __init__(self, why: str, *, is_by_chance: bool = False) -> None:
        super().__init__(why)
        self.is_by_chance = is_by_chance
        """Whether it may be found another time: when the machine has less to do."""


class Goal(NamedTuple):
    """What a function is followed to."""

    returns: int | None = None
    """The address that the call returns to that it is in."""
    at: int | None = None
    """The instruction that it was interrupted before."""
    jumps: frozenset[int] = frozenset()
    """Other functions, by their addresses in the process: to where it jumps to one of them, having left its frame."""


class _Reached(NamedTuple):
    """The goal, by one way."""

    during: MachineState
    """While the function is in the call, or where it was interrupted."""
    before: MachineState
    """As it called, or jumped."""


class Followed(NamedTuple):
    """What is known of a function that has come to the goal."""

    stack_pointer: tuple[int, int]
    """Base and offset."""
    passed: tuple[tuple[int, Value], ...]
    """The arguments of the call that it is in, by their numbers."""
    held: tuple[tuple[str, Value], ...]
    """What registers hold that it can be asked for, by their names."""
    kept: tuple[tuple[int, int, Value], ...]
    """What slots of the stack hold: base, offset, value."""
    fresh: tuple[Label, ...]
    """Loads that give the same again, if the called function has changed no memory that they read."""
    target: Label | None
    """What an indirect call goes to."""


def follow(code: Code, entry: int, goal: Goal) -> Followed:
    """Return what a function knows when it has come to a goal.

    Args:
        code: of the loaded file that it lies in; all addresses are that file's own.
        entry: where it starts.
        goal: where it has come to.

    Raises:
        UnknownWayError: it can't be followed.
        TableError: what the tables for exceptions say of it can't be read.
        TargetReadError: its code can't be read.
    """
    return _Following(code, entry, goal).run()


class _Following:
    def __init__(self, code: Code, entry: int, goal: Goal) -> None:
        self._code = code
        self._entry = entry
        self._goal = goal
        self._transfer = Transfer(code.is_constant)
        self._ways: dict[int, dict[int, MachineState]] = {}
        self._begun: dict[int, MachineState] = {}
        """What each block began with when it was walked: once more it would lead to the same."""
        self._block_of: dict[int, int] = {}
        self._pending: list[tuple[int, int]] = []
        """Blocks to be walked, each behind how often it has been: what many ways lead to waits for most of them."""
        self._waiting: set[int] = set()
        """Those of the blocks."""
        self._visits: dict[int, int] = {}
        self._reached: dict[int, _Reached] = {}
        self._target: Label | None = None
        self._instructions = 0
        self._functions: dict[int, FrameDescription] = {}
        self._deadline = time.thread_time() + _MAX_SECONDS

    def run(self) -> Followed:
        """Go all ways until nothing new is learnt; return what is known at the goal."""
        self._edge(_ENTRY, self._entry, _at_entry())
        while self._pending:
            _, block = heapq.heappop(self._pending)
            self._waiting.remove(block)
            self._visits[block] = self._visits.get(block, 0) + 1
            if self._visits[block] > _MAX_VISITS:
                raise UnknownWayError("it doesn't come to an end")
            if time.thread_time() > self._deadline:
                raise UnknownWayError("it takes too long to follow", is_by_chance=True)
            self._walk(block)
        if not self._reached:
            raise UnknownWayError("no way to the goal was found")
        return self._result()

    # -------------------------------------------------------- blocks

    def _walk(self, block: int) -> None:
        ways = self._ways[block]
        state = join(block, [ways[source] for source in sorted(ways)])
        if self._begun.get(block) == state:
            return
        self._begun[block] = state.copy()
        if not self._settle(state, block):
            raise UnknownWayError("the stack pointer isn't where it should be")
        address, last = block, block
        while True:
            if address != block and address in self._ways:
                self._edge(last, address, state)
                return
            instruction = self._code.instruction(address)
            self._instructions += 1
            if instruction is None or self._instructions > _MAX_INSTRUCTIONS:
                raise UnknownWayError(
                    "an instruction isn't known" if instruction is None else "there is too much of it"
                )
            self._block_of[address] = block
            if address == self._goal.at:
                self._reached[_AT_GOAL] = _Reached(state.copy(), MachineState())
            following = self._run(state, instruction)
            if not following:
                return
            last, address = address, instruction.end

    def _run(self, state: MachineState, instruction: Instruction) -> bool:
        """Run one instruction; return whether the next one follows it in this block."""
        name = instruction.name
        if name == "call":
            return self._call(state, instruction)
        if name in _ENDS:
            return False
        if name in ("jmp", "ljmp"):
            self._jump(state, instruction)
            return False
        if name.startswith(("j", "loop")):
            self._branch(state, instruction)
            return False
        if name.startswith("x") and name in ("xbegin", "xabort"):
            raise UnknownWayError("a transaction can't be followed")
        self._transfer.run(state, instruction)
        return True

    def _edge(self, source: int, target: int, state: MachineState) -> None:
        """Note a way from an instruction to a block, which a block that it lies within is cut at."""
        known = self._ways.get(target)
        if known is None:
            known = self._ways[target] = {}
            if target in self._block_of:
                self._begun.pop(self._block_of[target], None)
                self._push(self._block_of[target])
        if known.get(source) != state:
            known[source] = state.copy()
            self._push(target)

    def _push(self, block: int) -> None:
        if block not in self._waiting:
            self._waiting.add(block)
            heapq.heappush(self._pending, (self._visits.get(block, 0), block))

    def _settle(self, state: MachineState, address: int) -> bool:
        """Compare the stack with the tables for exceptions, and learn what only they know; False where they differ."""
        row = self._function(address).row(address)
        if row.register is None:
            return True
        name = OF_DWARF[row.register] if row.register < len(OF_DWARF) else ""
        if name not in ("rsp", "rbp"):
            return True
        expected = ("stack", 0, WORD - row.offset)
        value = state.registers.get(name)
        if value and value.label[:2] == ("stack", 0):
            return value == Value(expected, WORD)
        state.registers[name] = Value(expected, WORD)
        return True

    def _function(self, address: int) -> FrameDescription:
        function = self._code.function(address)
        if function is None:
            raise UnknownWayError("the tables for exceptions don't have it")
        self._functions[function.start] = function
        return function

    # -------------------------------------------------------- calls

    def _call(self, state: MachineState, instruction: Instruction) -> bool:
        operand = instruction.operands[0]
        state.forget(instruction.address)
        state.compared = None
        target = None
        if not isinstance(operand, Immediate):
            value = self._transfer.operand(state, instruction, 0)
            target = value.label if value and value.size == WORD else None
        before = state.copy()
        function = self._function(instruction.address)
        pads = function.pads_of(instruction.address)
        state.call()
        if instruction.end == self._goal.returns:
            self._reached[_AT_GOAL] = _Reached(state.copy(), before)
            self._target = target
        if isinstance(operand, Immediate) and self._code.returns_twice(operand.value):
            _enter_again(state)
        for pad in pads:
            landed = state.copy()
            _raise_stack_pointer(landed, function.row(instruction.address).pushed)
            self._edge(instruction.address, pad, landed)
        # Where the stack isn't as it was, or another function starts, the call doesn't return.
        return function.start <= instruction.end < function.end and self._settle(state, instruction.end)

    # -------------------------------------------------------- jumps

    def _branch(self, state: MachineState, instruction: Instruction) -> None:
        taken, passed = state.copy(), state
        if state.compared:
            value, number = state.compared
            bound = {"ja": (passed, 0), "jae": (passed, -1), "jbe": (taken, 0), "jb": (taken, -1)}.get(instruction.name)
            if bound and number + bound[1] >= 0:
                bound[0].bounds[value] = min(number + bound[1], bound[0].bounds.get(value, number))
        self._to(instruction, _immediate(instruction), taken)
        self._edge(instruction.address, instruction.end, passed)

    def _jump(self, state: MachineState, instruction: Instruction) -> None:
        operand = instruction.operands[0]
        if isinstance(operand, Immediate):
            self._to(instruction, operand.value, state)
            return
        state.forget(instruction.address)
        value = self._transfer.operand(state, instruction, 0)
        label = value.label if value and value.size == WORD else None
        is_left = _is_left(state)
        found = label and self._table(label, state)
        if found:
            for target in sorted(set(found)):
                self._to(instruction, target, state)
        elif not is_left:
            raise UnknownWayError("it isn't known where a jump goes to")
        elif self._goal.jumps:
            there = FrameValues(self._code.bias, {}).find(Value(label, WORD), self._load) if label else None
            if there in self._goal.jumps:
                self._reached[instruction.address] = _Reached(state.copy(), state.copy())
            elif there is None:
                raise UnknownWayError("a jump through a pointer may lead to the goal, too")

    def _table(self, label: Label, state: MachineState) -> list[int] | None:
        """Return where a jump goes to through a table, None where it goes through none."""
        if not any(part[0] == "load" for part in parts(label)):
            return None
        bounded = [(value, bound) for value, bound in state.bounds.items() if value.label in parts(label)]
        for part in parts(label):
            if part[0] == "op" and part[1] == "and" and part[4][0] == "const":
                bounded.append((Value(part, part[2]), part[4][1]))
            elif part[0] == "ext" and part[1] == "z" and part[2] == 1:
                bounded.append((Value(part, WORD), mask(1)))
        small = [(value, bound) for value, bound in bounded if bound < _MAX_TABLE_SIZE]
        found = targets(label, small, self._code.bias, self._load)
        return found and [self._code.own(address) for address in found]

    def _load(self, label: Label, address: int, size: int) -> int | None:
        return self._code.number(address, size)

    def _to(self, instruction: Instruction, target: int, state: MachineState) -> None:
        """Go to an address in this part of the function, in another part of it, or in another function.

        Where the frame has been given up, what lies elsewhere may be another function, to which this one jumps in its
        end: that is the goal, or may lead there, or isn't followed.
        """
        here = self._function(instruction.address)
        if not here.start <= target < here.end and _is_left(state):
            if self._goal.jumps and self._code.through_table(target) in self._goal.jumps:
                self._reached[instruction.address] = _Reached(state.copy(), state.copy())
                return
            if self._ends_in(target):
                return
        self._edge(instruction.address, target, state)

    def _ends_in(self, target: int) -> bool:
        """Return whether a function that starts at an address is none from which the goal can be reached."""
        there = self._code.function(target)
        return there is None or (there.start == target and not self._leads_on(there))

    def _leads_on(self, there: FrameDescription) -> bool:
        """Return whether a function that this one ends in may come to the goal, or be a part of this one."""
        goal = self._goal.returns if self._goal.returns is not None else self._goal.at
        if goal is None:
            return True
        if there.start in self._functions or there.start <= goal < there.end:
            return True
        if not any(each.start <= goal < each.end for each in self._functions.values()):
            return True
        jumps = self._code.jumps(there)
        return jumps is None or any(each.start < to < each.end for to in jumps for each in self._functions.values())

    # -------------------------------------------------------- result

    def _result(self) -> Followed:
        during = join(_AT_GOAL, [way.during for way in self._reached.values()])
        before = join(_AT_GOAL, [way.before for way in self._reached.values()])
        pointer = during.registers["rsp"].label[1:]
        names = REGISTERS if self._goal.at is not None else KEPT
        return Followed(
            pointer,
            tuple(self._passed(before, pointer)),
            tuple((name, during.registers[name]) for name in names if name in during.registers and name != "rsp"),
            tuple((*slot, value) for slot, value in sorted(during.slots.items()) if self._may_ask(slot, pointer)),
            tuple(sorted(before.fresh, key=repr)),
            self._target,
        )

    def _passed(self, before: MachineState, pointer: tuple[int, int]) -> Iterator[tuple[int, Value]]:
        for number, name in enumerate(ARGUMENTS):
            if value := before.registers.get(name):
                yield number, value
        above = WORD if self._goal.jumps else 0  # the return address
        for number in range(STACK_ARGUMENTS):
            if value := before.slots.get((pointer[0], pointer[1] + above + WORD * number)):
                yield len(ARGUMENTS) + number, value

    def _may_ask(self, slot: tuple[int, int], pointer: tuple[int, int]) -> bool:
        """Return whether a slot is the function's own: not an argument on the stack of the function that it calls.

        Nor is it one above its return address that it never reads: that isn't an argument of its, but its caller's.
        """
        base, offset = slot
        if base not in (0, pointer[0]):
            return False
        is_read = slot in self._transfer.read_slots
        if base == 0 and offset >= WORD:
            return is_read
        return is_read or base != pointer[0] or not 0 <= offset - pointer[1] < WORD * STACK_ARGUMENTS


def _at_entry() -> MachineState:
    registers = {name: Value(("entry", name), WORD) for name in REGISTERS}
    registers["rsp"] = Value(("stack", 0, 0), WORD)
    slots = {}
    for number in range(len(ARGUMENTS) + STACK_ARGUMENTS):
        value = Value(("arg", number), WORD)
        if number < len(ARGUMENTS):
            registers[ARGUMENTS[number]] = value
        else:
            slots[0, WORD * (1 + number - len(ARGUMENTS))] = value
    return MachineState(registers, slots)


def _is_left(state: MachineState) -> bool:
    """Return whether a function has left its frame: the stack pointer is as at its entry."""
    return state.registers["rsp"].label == ("stack", 0, 0)


def _enter_again(state: MachineState) -> None:
    """Forget what doesn't hold when a call returns once more, after all that came behind it (setjmp)."""
    for name, value in list(state.registers.items()):
        if name != "rsp" and origins(value.label):
            del state.registers[name]
    state.slots.clear()
    state.bounds.clear()
    state.escaped = {0: EVERYTHING}


def _raise_stack_pointer(state: MachineState, pushed: int) -> None:
    _, base, offset = state.registers["rsp"].label
    state.registers["rsp"] = Value(("stack", base, offset + pushed), WORD)


def _immediate(instruction: Instruction) -> int:
    operand = instruction.operands[0]
    if not isinstance(operand, Immediate):
        raise UnknownWayError("a jump isn't known")
    return operand.value
