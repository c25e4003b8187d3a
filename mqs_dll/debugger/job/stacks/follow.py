"""From a thread's registers and memory to the functions that it is in, by drgn; nothing that was guessed."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import drgn

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.job.stacks.callee import called_function
from mqs_dll.debugger.job.stacks.capture import ThreadStack, without_signature
from mqs_dll.debugger.job.stacks.modules import Modules

_REGISTERS = {
    drgn.Architecture.X86_64: (
        *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
        *("orig_rax", "rip", "cs", "rflags", "rsp", "ss"),
    ),
    drgn.Architecture.AARCH64: (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate"),
}
"""Those of the kernel's struct pt_regs, of 8 bytes each, which starts like the registers that ptrace gives."""

_CALLEE_SAVED = {drgn.Architecture.X86_64: "rbx", drgn.Architecture.AARCH64: "x19"}
"""A register that call frame information always leads to, and a chain of frame pointers never."""

_CLONED = re.compile(
    rb"\x0f\x05"  # syscall
    rb"\x48\x85\xc0"  # test %rax,%rax
    rb"(?:\x7c.|\x0f\x8c.{4})"  # jl, to what sets errno
    rb"(?:\x74.|\x0f\x84.{4})"  # jz, to what the child does
    rb"\xc3",  # ret
    re.DOTALL,
)
"""How clone and clone3 end on x86_64 (glibc 2.36: sysdeps/unix/sysv/linux/x86_64/clone.S and clone3.S)."""
_SYSCALL = 2
"""Bytes of a syscall instruction."""
_MAX_CODE = 18
"""Bytes of what _CLONED matches, where its jumps are long ones."""
_RESULT, _PC, _SP = (8 * _REGISTERS[drgn.Architecture.X86_64].index(name) for name in ("rax", "rip", "rsp"))
"""Where rax, rip and rsp lie in struct pt_regs and struct user_regs_struct of x86_64."""

_MAX_STEPS = 16 << 10
_MAX_TRACE = 1024
"""Frames of one trace of drgn's (libdrgn/stack_trace.c)."""
_PC_NAMES = {drgn.Architecture.X86_64: "rip", drgn.Architecture.AARCH64: "pc"}
_WHOLE = (1 << 64) - 1


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
    """The symbol of what it called, by its call instruction; empty where that can't be determined."""
    module: drgn.Module | None
    target: int | None = None
    """The address of what it called, None where that can't be determined."""


@dataclass(frozen=True)
class Walk:
    """How far a stack could be followed."""

    steps: tuple[Step, ...]
    """Innermost first."""
    complete: bool
    """Whether the last one is the first function of the thread."""


class StackTracer:
    """Makes drgn's stack traces of one process's captured threads.

    A program of drgn's keeps each segment of memory and each type that it was given for good: it gets one of each.
    """

    def __init__(self, program: drgn.Program, fetch: Callable[[int, int], bytes]) -> None:
        """Initialize; from the first trace on, ``fetch`` reads the program's memory, except for a captured stack."""
        self._program = program
        self._memory = _Memory(fetch, signs=_architecture(program) is drgn.Architecture.AARCH64)
        self._registers: drgn.Type | None = None

    def trace(self, stack: ThreadStack) -> drgn.StackTrace:
        """Return the trace of a thread, whose memory from now on stands before the process's own, until the next."""
        if self._registers is None:
            self._registers = _type_of_registers(self._program)
            self._program.add_memory_segment(0, _WHOLE, self._memory.read)
        self._memory.stack = stack
        registers = self._memory.unsigned(stack.registers[: drgn.sizeof(self._registers)])
        if _architecture(self._program) is drgn.Architecture.X86_64:
            registers = self._memory.after_clone(registers)
        return self._program.stack_trace(drgn.Object.from_bytes_(self._program, self._registers, registers))


class _Memory:
    """What a program of drgn's reads; it knows no program, which would stay open in a circle with it."""

    def __init__(self, fetch: Callable[[int, int], bytes], *, signs: bool) -> None:
        self._fetch = fetch
        self._signs = signs
        self.stack: ThreadStack | None = None

    def read(self, address: int, count: int, offset: int, physical: bool) -> bytes:
        """Return a piece of the captured stack, or of what ``fetch`` reads, as drgn asks for it."""
        assert self.stack is not None
        data = self.stack.fetch(address, count)
        if len(data) == count:
            return self.unsigned(data)
        try:
            return self._fetch(address, count)
        except TargetReadError as error:
            raise drgn.FaultError(str(error), address) from error

    def unsigned(self, data: bytes) -> bytes:
        """Return registers or a piece of a stack with its return addresses as drgn can follow them.

        Of a signed one it learns the mask in core files alone.
        """
        if not self._signs or len(data) % 8:
            return data
        words = struct.Struct(f"<{len(data) // 8}Q")
        return words.pack(*map(without_signature, words.unpack(data)))

    def after_clone(self, registers: bytes) -> bytes:
        """Return the registers of a thread of x86_64, of one that starts another as if it had come back from clone.

        Behind that system call glibc's code has no call frame information, since in the child it would be wrong; the
        return address is where the stack pointer points to.
        """
        result, pc, sp = (struct.unpack_from("<Q", registers, at)[0] for at in (_RESULT, _PC, _SP))
        caller = self.stack.fetch(sp, 8) if self.stack else b""
        if len(caller) < 8 or result == 0:  # 0 in the child
            return registers
        try:
            is_clone = _CLONED.match(self._fetch(max(pc - _SYSCALL, 0), _MAX_CODE))
        except TargetReadError:
            return registers
        if not is_clone:
            return registers
        returned = bytearray(registers)
        returned[_PC : _PC + 8] = caller
        returned[_SP : _SP + 8] = struct.pack("<Q", sp + 8)
        return bytes(returned)


def _type_of_registers(program: drgn.Program) -> drgn.Type:
    """Return the kernel's struct pt_regs without its members, which drgn doesn't ask for."""
    return program.struct_type("pt_regs", 8 * len(_REGISTERS[_architecture(program)]), ())


def _architecture(program: drgn.Program) -> drgn.Architecture:
    known = program.platform
    return known.arch if known else drgn.Architecture.UNKNOWN


def walk(trace: drgn.StackTrace, modules: Modules) -> Walk:
    """Return the frames of a trace up to the first one that drgn had to guess.

    Where a function has no call frame information, drgn goes on by the frame pointer, which most programs use for
    something else: what it finds then may be no caller at all.
    """
    steps: list[Step] = []
    kept = _CALLEE_SAVED[_architecture(trace.prog)]
    for frame in _frames(trace):
        try:
            pc = frame.pc
        except LookupError:  # the caller of a thread's first function: there is none
            return Walk(tuple(steps), complete=True)
        registers = frame.registers()
        guessed = steps and kept in steps[-1].registers and kept not in registers
        if guessed or len(steps) == _MAX_STEPS:
            break
        steps.append(_step(trace.prog, frame, pc, registers, modules))
    return Walk(tuple(steps), complete=False)


def _frames(trace: drgn.StackTrace) -> Iterator[drgn.StackFrame]:
    """Yield the frames of a stack that aren't inlined, also where it has more than a trace of drgn's holds."""
    yield from (frame for frame in trace if not frame.is_inline)
    last = trace[-1] if len(trace) else None
    while last is not None and len(trace) >= _MAX_TRACE:
        try:
            trace = _further(trace.prog, last)
        except (LookupError, drgn.FaultError):
            return
        frames = [frame for frame in trace if not frame.is_inline][1:]  # the first of them was there
        yield from frames
        last = frames[-1] if frames else None


def _further(program: drgn.Program, frame: drgn.StackFrame) -> drgn.StackTrace:
    """Return the trace from a frame outwards.

    It is one that waits for a call to return, at an address that may belong to another function: that of the call, a
    byte before, does not.
    """
    architecture = _architecture(program)
    known = frame.registers() | {_PC_NAMES[architecture]: frame.pc - 1}
    names = _REGISTERS[architecture]
    registers = struct.pack(f"<{len(names)}Q", *(known.get(name, 0) for name in names))
    return program.stack_trace(drgn.Object.from_bytes_(program, _type_of_registers(program), registers))


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
        target=target,
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
    if not symbol.address <= address < symbol.address + symbol.size:
        return ""
    return _public_name(program, symbol) if symbol.name.startswith("_") else symbol.name


def _public_name(program: drgn.Program, symbol: drgn.Symbol) -> str:
    """Return the name by which programs call a function: the C library has several for most of its own."""
    names: list[str] = [other.name for other in program.symbols(symbol.address) if other.address == symbol.address]
    return min(names, key=lambda name: (len(name) - len(name.lstrip("_")), name), default=symbol.name)


def _symbol_at(program: drgn.Program, function: int) -> str:
    """Return the name of the function that starts at an address."""
    try:
        symbol = program.symbol(function)
    except LookupError:
        return ""
    return symbol.name if symbol.address == function else ""
