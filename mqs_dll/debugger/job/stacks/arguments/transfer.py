"""What one instruction does to what is known of registers and stack.

An instruction that isn't understood makes unknown whatever it may write: never less than that.
"""

from __future__ import annotations

from collections.abc import Callable

from mqs_dll.debugger.job.stacks.arguments.decode import (
    KEPT,
    REGISTERS,
    Immediate,
    Instruction,
    MemoryOperand,
    Operand,
    Other,
    Register,
)
from mqs_dll.debugger.job.stacks.arguments.state import MachineState, Slot
from mqs_dll.debugger.job.stacks.arguments.values import OPERATIONS, WORD, Label, Value, bases, extend, narrow, operate

_KEEP_FLAGS = frozenset({"mov", "movabs", "movzx", "movsx", "movsxd", "cdqe", "lea", "nop", "push", "pop", "endbr64"})
_WRITE_NOTHING = frozenset({"cmp", "test", "nop", "endbr64", "bt", "ptest", "comiss", "comisd", "ucomiss", "ucomisd"})
_WRITE_NOTHING |= {f"v{name}" for name in _WRITE_NOTHING} | {"pause", "lfence", "mfence", "sfence"}
_STRINGS = tuple(f"{name}{size}" for name in ("movs", "stos") for size in "bwdq")
_TWO_RESULTS = frozenset({"xchg", "xadd", "cmpxchg", "mulx"})


class Transfer:
    """Changes a state by instructions of one function."""

    def __init__(self, is_constant: Callable[[Label], bool]) -> None:
        """Initialize.

        Args:
            is_constant: returns whether what lies at an address stays as it is.
        """
        self.is_constant = is_constant
        self.read_slots: set[Slot] = set()
        """Those that an instruction has read: of others, only called functions know."""

    def run(self, state: MachineState, instruction: Instruction) -> None:
        """Change a state by an instruction, which is no jump, call or return."""
        state.forget(instruction.address)
        compared, state.compared = state.compared, None
        if instruction.name in _KEEP_FLAGS:
            state.compared = compared
        handler = _HANDLERS.get(instruction.name, _Step.anything)
        step = _Step(self, state, instruction)
        handler(step)
        step.settle_stack_pointer()

    def operand(self, state: MachineState, instruction: Instruction, place: int) -> Value | None:
        """Return what an operand of an instruction holds."""
        return _Step(self, state, instruction).read(instruction.operands[place])


class _Step:
    """One instruction at work on one state."""

    def __init__(self, transfer: Transfer, state: MachineState, instruction: Instruction) -> None:
        self.transfer = transfer
        self.state = state
        self.instruction = instruction

    # -------------------------------------------------------- labels

    def new(self, place: str, origin: tuple[int, ...] = ()) -> Label:
        """Return a label for what this instruction puts or finds somewhere."""
        self.state.made.add(self.instruction.address)
        return ("set", self.instruction.address, place, origin)

    def address(self, place: MemoryOperand) -> Label | None:
        """Return the label of the address of an operand."""
        if place.base is None and place.index_register is None:
            return ("image" if self.instruction.is_in_image else "const", place.displacement)
        label: Label | None = ("const", place.displacement & (1 << 64) - 1)
        for name, scale in ((place.index_register, place.scale), (place.base, 1)):
            if name is not None and label is not None:
                value = self.register(name)
                if value.size < WORD:
                    return None
                scaled = operate("imul", WORD, value.label, ("const", scale))
                label = scaled and operate("add", WORD, scaled, label)
        return label

    def pointer_bases(self, place: MemoryOperand) -> tuple[int, ...]:
        """Return of which bases the stack addresses are that an operand's address is made of."""
        names = [name for name in (place.base, place.index_register) if name]
        return tuple(sorted({base for name in names for base in bases(self.register(name).label)}))

    # -------------------------------------------------------- reading

    def register(self, name: str) -> Value:
        """Return what a whole register holds, which gets a label where it had none."""
        value = self.state.registers.get(name)
        if value is None:
            value = self.state.registers[name] = Value(self.new(name), WORD)
        return value

    def read(self, operand: Operand) -> Value | None:
        """Return what an operand holds; None for what has no labels."""
        if isinstance(operand, Register):
            return narrow(self.register(operand.name), operand.size) if operand.size else None
        if isinstance(operand, Immediate):
            return Value(("const", operand.value & (1 << 64) - 1), WORD)
        if isinstance(operand, MemoryOperand) and operand.size <= WORD:
            return self.load(operand)
        return None

    def load(self, place: MemoryOperand, *, is_wanted: bool = True) -> Value:
        """Return what lies in memory; a slot of the stack gets a label where it had none.

        Args:
            place: where it lies.
            is_wanted: whether the function needs what lies there.
        """
        address = self.address(place)
        if address and address[0] == "stack":
            slot = (address[1], address[2])
            if is_wanted:
                self.transfer.read_slots.add(slot)
            value = self.state.read_slot(slot, place.size)
            if value is None:
                value = Value(self.new(f"{slot[0]}:{slot[1]}"), place.size)
                if self.state.is_free(slot, place.size):
                    self.state.slots[slot] = value
            return value
        if address is None or bases(address):
            return Value(self.new("memory"), place.size)
        if self.transfer.is_constant(address):
            return Value(("load", 0, address, place.size), place.size)
        self.state.made.add(self.instruction.address)
        label = ("load", self.instruction.address, address, place.size)
        self.state.fresh.add(label)
        return Value(label, place.size)

    # -------------------------------------------------------- writing

    def write(self, operand: Operand, value: Value | None) -> None:
        """Put a value where an operand says; None for one that isn't known."""
        if isinstance(operand, Register):
            self.write_register(operand, value)
        elif isinstance(operand, MemoryOperand):
            address = self.address(operand)
            if address and address[0] == "stack":
                self.state.write_slot((address[1], address[2]), operand.size, value)
                return
            if value:
                self.state.escape(value.label)
            if address is None and (found := self.pointer_bases(operand)):
                address = self.new("pointer", found)
            self.state.write_somewhere(address)
        elif isinstance(operand, Other) and operand.is_memory:
            self.state.write_somewhere(None)

    def write_register(self, operand: Register, value: Value | None) -> None:
        """Put a value into a register; the upper half becomes zero, if all of the lower is written."""
        name = operand.name
        if operand.size < 4:
            before = self.state.registers.get(name)
            self.unknown(name, *((before.label,) if before else ()))
        elif value is None:
            self.unknown(name)
        else:
            self.state.registers[name] = extend(value, operand.size, signed=False)

    def unknown(self, name: str, *made_of: Label) -> None:
        """Note that a register holds an unknown value, which is made of others."""
        found = tuple(sorted({base for label in made_of for base in bases(label)}))
        self.state.registers[name] = Value(self.new(name, found), WORD)

    def settle_stack_pointer(self) -> None:
        """Give the stack pointer a new base where it can't be determined any more how far it is from the old one."""
        value = self.state.registers.get("rsp")
        if value is None or value.label[0] != "stack" or value.size < WORD:
            self.state.made.add(self.instruction.address)
            self.state.registers["rsp"] = Value(("stack", self.instruction.address, 0), WORD)

    # -------------------------------------------------------- instructions

    def anything(self) -> None:
        """Do what an unknown instruction may do."""
        instruction = self.instruction
        read = [self.register(name).label for name in sorted(instruction.reads)]
        for operand in instruction.operands:
            if isinstance(operand, MemoryOperand):
                self.read_widely(operand)
        if instruction.name in _WRITE_NOTHING:
            return
        addressing = {
            name
            for each in instruction.operands
            if isinstance(each, MemoryOperand)
            for name in (each.base, each.index_register)
            if name
        }
        if any(isinstance(each, Other) for each in instruction.operands):  # a vector register may take it elsewhere
            for name in instruction.reads - addressing:
                self.state.escape(self.register(name).label)
        written = set(instruction.writes)
        results = 2 if instruction.name in _TWO_RESULTS else 1
        for operand in instruction.operands[:results]:
            if isinstance(operand, Register):
                written.add(operand.name)
            else:
                for label in read:
                    if isinstance(operand, MemoryOperand) and instruction.name in _TWO_RESULTS:
                        self.state.escape(label)
                self.write(operand, None)
        for name in sorted(written & set(REGISTERS)):
            self.unknown(name, *read)

    def read_widely(self, place: MemoryOperand) -> None:
        """Note which slots an instruction reads that takes more than a word, or does something unknown with one."""
        address = self.address(place)
        if address and address[0] == "stack":
            self.transfer.read_slots.update((address[1], address[2] + at) for at in range(0, max(place.size, 1), 4))

    def compare(self) -> None:
        """Note what was compared with a number: a jump may show its bound."""
        first, second = self.instruction.operands
        value, number = self.read(first), self.read(second)
        if value and number and number.label[0] == "const" and not isinstance(first, Immediate):
            self.state.compared = (value, narrow(number, value.size).label[1])

    def move(self) -> None:
        """Do mov."""
        target, source = self.instruction.operands
        if isinstance(target, Other) or isinstance(source, Other):
            self.anything()
        else:
            self.write(target, self.read(source))

    def move_extended(self) -> None:
        """Do movsx, movsxd and movzx."""
        target, source = self.instruction.operands
        value = self.read(source)
        if not isinstance(target, Register) or target.size < 4 or value is None:
            self.write(target, None)
            return
        value = extend(value, _size(source), signed=self.instruction.name != "movzx")
        self.write(target, value)

    def sign_extend(self) -> None:
        """Do cdqe: eax to rax."""
        self.state.registers["rax"] = extend(narrow(self.register("rax"), 4), 4, signed=True)

    def load_address(self) -> None:
        """Do lea."""
        target, place = self.instruction.operands
        if not isinstance(target, Register) or not isinstance(place, MemoryOperand):
            self.anything()
            return
        address = self.address(place)
        if address is None or target.size < 4:
            labels = [self.register(name).label for name in (place.base, place.index_register) if name]
            self.unknown(target.name, *labels)
        else:
            self.write_register(target, Value(address, WORD))

    def push(self) -> None:
        """Do push."""
        operand = self.instruction.operands[0]
        value = self.read(operand)
        pointer = self.move_stack_pointer(-WORD)
        if pointer[0] == "stack":
            self.state.write_slot((pointer[1], pointer[2]), WORD, value if _size(operand) == WORD else None)

    def pop(self) -> None:
        """Do pop."""
        target = self.instruction.operands[0]
        if _size(target) != WORD:
            self.anything()
            self.state.registers.pop("rsp", None)
            return
        # Into another register it may be how a call's arguments are taken off the stack: they are not the function's.
        is_wanted = isinstance(target, Register) and target.name in KEPT
        value = self.load(MemoryOperand("rsp", None, 1, 0, WORD), is_wanted=is_wanted)
        self.move_stack_pointer(WORD)
        self.write(target, value)

    def leave(self) -> None:
        """Do leave: mov rsp, rbp; pop rbp."""
        self.state.registers["rsp"] = self.register("rbp")
        self.settle_stack_pointer()
        value = self.load(MemoryOperand("rsp", None, 1, 0, WORD))
        self.move_stack_pointer(WORD)
        self.state.registers["rbp"] = value

    def move_stack_pointer(self, step: int) -> Label:
        """Push or pop; return the stack pointer afterwards."""
        moved = operate("add", WORD, self.register("rsp").label, ("const", step & (1 << 64) - 1))
        assert moved is not None
        self.state.registers["rsp"] = Value(moved, WORD)
        return moved

    def operation(self) -> None:
        """Do an operation with two operands, or imul with three."""
        instruction = self.instruction
        target, *others = instruction.operands
        name = {"sal": "shl"}.get(instruction.name, instruction.name)
        if name in ("xor", "sub") and others == [target] and isinstance(target, Register) and target.size >= 4:
            self.write_register(target, Value(("const", 0), WORD))
            return
        first, second = (target, others[0]) if len(others) == 1 else (others[0], others[1]) if others else (None, None)
        size = _size(target)
        left, right = (self.read(each) if each else None for each in (first, second))
        if left is None or right is None or size < 4 or left.size < size or right.size < min(size, _size(second)):
            self.anything()
            return
        label = operate(name, size, left.label, narrow(right, size).label)
        if label is None and isinstance(target, Register):
            self.unknown(target.name, left.label, right.label)
        else:
            self.write(target, Value(label, WORD) if label else None)

    def unary(self) -> None:
        """Do inc, dec, neg and not."""
        target = self.instruction.operands[0]
        value, size = self.read(target), _size(target)
        if value is None or size < 4 or value.size < size:
            self.anything()
            return
        minus_one: Label = ("const", (1 << 8 * size) - 1)
        label = {
            "inc": lambda: operate("add", size, value.label, ("const", 1)),
            "dec": lambda: operate("sub", size, value.label, ("const", 1)),
            "neg": lambda: operate("sub", size, ("const", 0), value.label),
            "not": lambda: operate("xor", size, value.label, minus_one),
        }[self.instruction.name]()
        if label is None and isinstance(target, Register):
            self.unknown(target.name, value.label)
        else:
            self.write(target, Value(label, WORD) if label else None)

    def string(self) -> None:
        """Do movs and stos: what lies where rdi points, and above, is written."""
        if any(isinstance(each, Other) for each in self.instruction.operands):  # a vector's move has the same name
            self.anything()
            return
        pointer = self.register("rdi")
        if pointer.label[0] == "stack":
            self.state.fresh.clear()
            self.state.drop_above({pointer.label[1]: pointer.label[2]})
        else:
            self.state.write_somewhere(pointer.label)
        for base in bases(self.register("rsi").label):
            self.transfer.read_slots.update(slot for slot in self.state.slots if slot[0] == base)
        for name in ("rdi", "rsi", "rcx"):
            self.unknown(name, self.register(name).label)

    def system_call(self) -> None:
        """Do syscall: the kernel writes where the arguments say."""
        self.state.escape_arguments()
        self.state.write_somewhere(None)
        for name in ("rax", "rcx", "r11"):
            self.unknown(name)


def _size(operand: Operand | None) -> int:
    return operand.size if operand else 0


_HANDLERS: dict[str, Callable[[_Step], None]] = {
    **dict.fromkeys(("mov", "movabs"), _Step.move),
    **dict.fromkeys(("movsx", "movsxd", "movzx"), _Step.move_extended),
    "cdqe": _Step.sign_extend,
    "lea": _Step.load_address,
    "push": _Step.push,
    "pop": _Step.pop,
    "leave": _Step.leave,
    "cmp": _Step.compare,
    **dict.fromkeys((*OPERATIONS, "sal"), _Step.operation),
    **dict.fromkeys(("inc", "dec", "neg", "not"), _Step.unary),
    **dict.fromkeys(_STRINGS, _Step.string),
    "syscall": _Step.system_call,
}
