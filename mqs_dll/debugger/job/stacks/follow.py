"""From a thread's registers and memory to the functions that it is in, by drgn; nothing that was guessed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import drgn

from mqs_dll.debugger.job.stacks.callee import called_function
from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.job.stacks.modules import Modules

_REGISTERS = {
    drgn.Architecture.X86_64: (
        *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di"),
        *("orig_ax", "ip", "cs", "flags", "sp", "ss"),
    ),
    drgn.Architecture.AARCH64: (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate"),
}
"""The members of the kernel's struct pt_regs, which begins like the registers that ptrace gives."""

_CALLEE_SAVED = {drgn.Architecture.X86_64: "rbx", drgn.Architecture.AARCH64: "x19"}
"""A register that call frame information always leads to, and a chain of frame pointers never."""


_MOST_STEPS = 256


@dataclass(frozen=True)
class Step:
    """One frame of the machine's stack: a function, and those that the compiler put into it."""

    pc: int
    """The address of the code: of the call, in all frames but an interrupted one."""
    sp: int
    registers: dict[str, int]
    """Those that are known: all of them where a thread was interrupted, those that calls keep further out."""
    interrupted: bool
    symbol: str
    """The function's name in the symbol table; empty where no symbol covers pc."""
    called: str
    """The symbol of what it called, by its call instruction; empty where that can't be told."""
    module: drgn.Module | None


@dataclass(frozen=True)
class Walk:
    """How far a stack could be followed."""

    steps: tuple[Step, ...]
    """Innermost first."""
    complete: bool
    """Whether the last one is the first function of the thread."""


def trace_of(program: drgn.Program, stack: ThreadStack) -> drgn.StackTrace:
    """Return drgn's stack trace of a captured thread, whose memory from then on stands before the process's own."""
    names = _REGISTERS[_architecture(program)]
    word = program.int_type("unsigned long", 8, False)
    members = tuple(drgn.TypeMember(word, name, bit_offset=64 * index) for index, name in enumerate(names))
    registers = program.struct_type("pt_regs", 8 * len(names), members)
    if stack.memory:
        program.add_memory_segment(stack.base, len(stack.memory), _reader(stack.memory))
    return program.stack_trace(drgn.Object.from_bytes_(program, registers, stack.registers[: 8 * len(names)]))


def _architecture(program: drgn.Program) -> drgn.Architecture:
    known = program.platform
    return known.arch if known else drgn.Architecture.UNKNOWN


def _reader(memory: bytes) -> Callable[[int, int, int, bool], bytes]:
    return lambda address, count, offset, physical: memory[offset : offset + count]


def walk(trace: drgn.StackTrace, modules: Modules) -> Walk:
    """Return the frames of a trace up to the first one that drgn had to guess.

    Where a function has no call frame information, drgn goes on by the frame pointer, which most programs use for
    something else: what it finds then may be no caller at all.
    """
    steps: list[Step] = []
    kept = _CALLEE_SAVED[_architecture(trace.prog)]
    for frame in trace:
        if frame.is_inline:
            continue
        try:
            pc = frame.pc
        except LookupError:  # the caller of a thread's first function: there is none
            return Walk(tuple(steps), complete=True)
        registers = frame.registers()
        guessed = steps and kept in steps[-1].registers and kept not in registers
        if guessed or len(steps) == _MOST_STEPS:
            break
        steps.append(_step(trace.prog, frame, pc, registers, modules))
    return Walk(tuple(steps), complete=False)


def _step(program: drgn.Program, frame: drgn.StackFrame, pc: int, registers: dict[str, int], modules: Modules) -> Step:
    code = pc if frame.interrupted else pc - 1
    target = None if frame.interrupted else called_function(modules.process, pc, registers)
    return Step(
        pc=code,
        sp=stack_pointer(frame),
        registers=registers,
        interrupted=frame.interrupted,
        symbol=_symbol(program, code),
        called="" if target is None else _symbol_at(program, target),
        module=modules.at(code),
    )


def stack_pointer(frame: drgn.StackFrame) -> int:
    """Return a frame's stack pointer, 0 where it isn't known."""
    try:
        known: int = frame.sp
    except LookupError:
        return 0
    return known


def _symbol(program: drgn.Program, address: int) -> str:
    """Return the name of the function whose symbol covers an address: in a stripped file the nearest is another's."""
    try:
        symbol = program.symbol(address)
    except LookupError:
        return ""
    return symbol.name if symbol.address <= address < symbol.address + symbol.size else ""


def _symbol_at(program: drgn.Program, function: int) -> str:
    """Return the name of the function that begins at an address."""
    try:
        symbol = program.symbol(function)
    except LookupError:
        return ""
    return symbol.name if symbol.address == function else ""
