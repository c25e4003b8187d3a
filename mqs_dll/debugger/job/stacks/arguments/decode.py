"""Machine code of x86_64 as instructions, by capstone: which operands, and which registers are written."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import capstone
from capstone import x86_const as x86

REGISTERS = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
"""Of a call, in their order (System V ABI, section 3.2.3)."""
KEPT = ("rbx", "rbp", "r12", "r13", "r14", "r15")
"""Which a called function leaves as they are, besides rsp."""
OF_DWARF = ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *REGISTERS[8:])
"""By their numbers there (System V ABI, figure 3.36)."""


class Register(NamedTuple):
    """A general register as an operand: its low bytes."""

    name: str
    """Of all 8 bytes."""
    size: int


class MemoryOperand(NamedTuple):
    """What lies at base + index * scale + displacement."""

    base: str | None
    index_register: str | None
    scale: int
    displacement: int
    size: int


class Immediate(NamedTuple):
    """A number."""

    value: int
    size: int


class Other(NamedTuple):
    """A vector register and its like, or memory that isn't addressed as above."""

    size: int
    is_memory: bool


Operand = Register | MemoryOperand | Immediate | Other


class Instruction(NamedTuple):
    """One instruction."""

    address: int
    end: int
    name: str
    """Its mnemonic, without prefixes."""
    operands: tuple[Operand, ...]
    reads: frozenset[str]
    """General registers, also those that no operand names."""
    writes: frozenset[str]
    is_in_image: bool
    """Whether its memory operand, or its immediate, is an address that the instruction has relative to itself."""


def _general_registers(decoder: capstone.Cs) -> dict[int, Register]:
    """Return capstone's numbers of the general registers and their parts; a second byte (ah) counts as one of two."""
    names: dict[str, Register] = {}
    for number in range(8, 16):
        name = f"r{number}"
        names |= {f"{name}{end}": Register(name, size) for end, size in (("", 8), ("d", 4), ("w", 2), ("b", 1))}
    for letter in "abcd":
        whole = f"r{letter}x"
        names |= {whole: Register(whole, 8), f"e{letter}x": Register(whole, 4), f"{letter}x": Register(whole, 2)}
        names |= {f"{letter}l": Register(whole, 1), f"{letter}h": Register(whole, 0)}
    for end in ("si", "di", "bp", "sp"):
        whole = f"r{end}"
        names |= {whole: Register(whole, 8), f"e{end}": Register(whole, 4), end: Register(whole, 2)}
        names |= {f"{end}l": Register(whole, 1)}
    found = {}
    for number in range(1, x86.X86_REG_ENDING):
        known = names.get(decoder.reg_name(number) or "")
        if known:
            found[number] = known
    return found


class Decoder:
    """Decodes; capstone's own objects cost milliseconds to make."""

    def __init__(self) -> None:
        """Initialize."""
        self._capstone = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._capstone.detail = True
        self._registers = _general_registers(self._capstone)

    def decode(self, code: bytes, address: int) -> Instruction | None:
        """Return the instruction that code starts with, None where capstone knows none."""
        raw = next(self._capstone.disasm(code, address, 1), None)
        return None if raw is None else self._convert(raw)

    def jumps(self, code: bytes, address: int) -> list[int] | None:
        """Return where the direct jumps of a whole function go to; None where it can't all be decoded."""
        end, targets = address, []
        for at, size, name, text in self._capstone.disasm_lite(code, address):
            end = at + size
            if name.split()[-1].startswith("j") and text.startswith("0x"):
                targets.append(int(text, 16))
        return targets if end == address + len(code) else None

    def _convert(self, raw: Any) -> Instruction:
        read, written = raw.regs_access()
        name = raw.mnemonic.rpartition(" ")[2]
        operands = tuple(self._operand(raw, each) for each in raw.operands)
        is_relative = any(each.type == x86.X86_OP_MEM and each.mem.base == x86.X86_REG_RIP for each in raw.operands)
        is_branch = raw.group(capstone.CS_GRP_JUMP) or raw.group(capstone.CS_GRP_CALL)
        return Instruction(
            raw.address,
            raw.address + raw.size,
            name,
            operands,
            frozenset(self._registers[each].name for each in read if each in self._registers),
            frozenset(self._registers[each].name for each in written if each in self._registers),
            is_relative or bool(is_branch),
        )

    def _operand(self, raw: Any, operand: Any) -> Operand:
        if operand.type == x86.X86_OP_REG:
            known = self._registers.get(operand.reg)
            return known or Other(operand.size, is_memory=False)
        if operand.type == x86.X86_OP_IMM:
            return Immediate(operand.imm, operand.size)
        if operand.type == x86.X86_OP_MEM and not operand.mem.segment and raw.addr_size == 8:
            return self._memory(raw, operand)
        return Other(operand.size, is_memory=operand.type == x86.X86_OP_MEM)

    def _memory(self, raw: Any, operand: Any) -> Operand:
        place = operand.mem
        base, index = self._registers.get(place.base), self._registers.get(place.index)
        displacement = place.disp
        if place.base == x86.X86_REG_RIP:
            displacement += raw.address + raw.size
        elif (place.base and base is None) or (place.index and index is None):  # a vector's, of a gather
            return Other(operand.size, is_memory=True)
        return MemoryOperand(base and base.name, index and index.name, place.scale, displacement, operand.size)


@lru_cache(maxsize=1)
def decoder() -> Decoder:
    """Return the one decoder."""
    return Decoder()
