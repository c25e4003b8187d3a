"""Which function a call instruction calls.

A function that ends in a call of another leaves no frame: the compiler makes a jump of it. MPICH's MPI_Waitall is
nothing but such a jump. Even so the instruction before the return address shows what the caller called.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import drgn

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.job.stacks.modules import MappedProcess

Fetch = Callable[[int, int], bytes]
"""Returns so many bytes at an address, or raises TargetReadError."""

_MASK = (1 << 64) - 1
_X86_REGISTERS = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))
_ENDBR64 = bytes.fromhex("f30f1efa")
_BTI_C = 0xD503245F


def called_function(process: MappedProcess, return_address: int, registers: Mapping[str, int]) -> int | None:
    """Return the address of the function that the call before a return address goes to, None where it isn't known.

    Args:
        process: whose code it is.
        return_address: where the call returns to.
        registers: those that are known in the frame that called; a call through any other can't be determined.
    """
    platform = process.program.platform
    architecture = platform.arch if platform else None
    try:
        if architecture == drgn.Architecture.X86_64:
            return _called_on_x86(process, return_address, registers)
        if architecture == drgn.Architecture.AARCH64:
            return _called_on_arm(process, return_address, registers)
    except TargetReadError:  # code or a table that isn't there
        pass
    return None


def _called_on_x86(process: MappedProcess, return_address: int, registers: Mapping[str, int]) -> int | None:
    code = process.fetch(return_address - 6, 6)
    if code[1] == 0xE8:  # call rel32
        return through_x86_table(process.fetch, return_address + struct.unpack_from("<i", code, 2)[0])
    if code[:2] == b"\xff\x15":  # call *rel32(%rip)
        return _read_pointer(process.fetch, return_address + struct.unpack_from("<i", code, 2)[0])
    if code[4] == 0xFF and 0xD0 <= code[5] <= 0xD7:  # call *%register
        extended = 8 if code[3] == 0x41 else 0
        return registers.get(_X86_REGISTERS[code[5] - 0xD0 + extended])
    return None


def through_x86_table(fetch: Fetch, address: int) -> int:
    """Follow an entry of a procedure linkage table to the function; a function's own address stays as it is.

    Raises:
        TargetReadError: there is no such code, or no such table.
    """
    start = address & _MASK
    code = fetch(start, 16)
    at = len(_ENDBR64) if code.startswith(_ENDBR64) else 0
    at += code[at] == 0xF2  # bnd
    if code[at : at + 2] != b"\xff\x25":  # jmp *rel32(%rip)
        return start
    return _read_pointer(fetch, start + at + 6 + struct.unpack_from("<i", code, at + 2)[0])


def _called_on_arm(process: MappedProcess, return_address: int, registers: Mapping[str, int]) -> int | None:
    instruction = _read_instruction(process, return_address - 4)
    if instruction >> 26 == 0b100101:  # bl
        offset = (instruction & 0x3FFFFFF) << 2
        return _through_arm_table(process, return_address - 4 + offset - ((offset & 1 << 27) << 1))
    if instruction & 0xFFFFFC1F == 0xD63F0000:  # blr
        return registers.get(f"x{instruction >> 5 & 31}")
    return None


def _through_arm_table(process: MappedProcess, address: int) -> int:
    start = address & _MASK
    at = start + 4 if _read_instruction(process, start) == _BTI_C else start
    page_of, load = struct.unpack("<2I", process.fetch(at, 8))
    if page_of & 0x9F00001F != 0x90000010 or load & 0xFFC003FF != 0xF9400211:  # adrp x16; ldr x17, [x16, #offset]
        return start
    pages = (page_of >> 29 & 3) | (page_of >> 5 & 0x7FFFF) << 2
    pages -= (pages & 1 << 20) << 1
    return _read_pointer(process.fetch, (at & ~0xFFF) + (pages << 12) + ((load >> 10 & 0xFFF) << 3))


def _read_pointer(fetch: Fetch, address: int) -> int:
    pointer: int = struct.unpack("<Q", fetch(address & _MASK, 8))[0]
    return pointer


def _read_instruction(process: MappedProcess, address: int) -> int:
    instruction: int = struct.unpack("<I", process.fetch(address, 4))[0]
    return instruction
