"""The stack of each thread of a stopped process beside its registers: bytes alone, so that the stop stays short."""

from __future__ import annotations

import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqs_dll.debugger.proc import turns

if TYPE_CHECKING:
    from mqs_dll.debugger.live import LiveProcess

_STACK_POINTER = {"x86_64": 19 * 8, "aarch64": 31 * 8}
"""Where the stack pointer lies in what the kernel calls struct user_regs_struct, struct user_pt_regs."""

RED_ZONE = 128
"""Bytes below the stack pointer that a function of x86_64 may use (System V ABI, section 3.2.2)."""

_ADDRESS = (1 << 48) - 1
"""Bits of a program's addresses, but where it asks for higher ones."""

_BLOCK = 1 << 14
"""Bytes of what libmqs reads at once: of requests on a stack, what lies below comes with them."""
_MAX_THREADS = 256
_MAIN_STACK = 8 << 20
"""Bytes of the main thread's stack that are copied at most: all that the usual limit lets it have."""
_THREAD_STACK = 128 << 10
"""The same of any other thread's."""


@dataclass(frozen=True)
class ThreadStack:
    """One thread as it stood."""

    thread: int
    registers: bytes
    """As the kernel gives them: struct user_regs_struct on x86_64, struct user_pt_regs on aarch64."""
    base: int
    """The address of the first byte of memory."""
    memory: bytes
    """The stack from below the stack pointer up: as far as it goes, or as is copied at most."""
    is_whole: bool
    """Whether that is as far as it goes."""
    turns: tuple[int, ...] = ()
    """How long it had run, and how often (proc.turns)."""

    def fetch(self, address: int, size: int) -> bytes:
        """Return what was copied of an address range, fewer bytes or none where it wasn't."""
        start = address - self.base
        return self.memory[start : start + size] if start >= 0 else b""


@dataclass(frozen=True)
class Captured:
    """All threads of one process as they stood in one stop, the main thread first."""

    pid: int
    threads: tuple[ThreadStack, ...]


def without_signature(word: int) -> int:
    """Return the return address that a processor of aarch64 has signed; any other word as it is.

    The signature lies between the address and bit 55, which with all above it is zero in a program's addresses (Linux,
    Documentation/arm64/pointer-authentication.rst, for the usual addresses of 48 bits).
    """
    return word if word >> 55 else word & _ADDRESS


def capture(process: LiveProcess, registers: Mapping[int, bytes]) -> Captured:
    """Copy the stacks of a process that stands (stop.stopped).

    Takes microseconds for each thread. A thread that can't be read is left out.

    Args:
        process: the process.
        registers: of each of its threads, as stop.stopped gives them.
    """
    sp_offset = _STACK_POINTER.get(platform.machine())
    if sp_offset is None:
        return Captured(process.pid, ())
    threads = sorted(registers, key=lambda thread: (thread != process.pid, thread))
    found = [_capture_thread(process, thread, registers[thread], sp_offset) for thread in threads[:_MAX_THREADS]]
    if len(threads) > _MAX_THREADS:  # one without its stack stands for the others: they may do anything
        found.append(ThreadStack(threads[_MAX_THREADS], b"", 0, b"", is_whole=False))
    return Captured(process.pid, tuple(stack for stack in found if stack))


def _capture_thread(process: LiveProcess, thread: int, registers: bytes, sp_offset: int) -> ThreadStack | None:
    if len(registers) < sp_offset + 8:
        return None
    (stack_pointer,) = struct.unpack_from("<Q", registers, sp_offset)
    lowest = max(stack_pointer - RED_ZONE, 0)
    base = lowest - lowest % _BLOCK
    most = _MAIN_STACK if thread == process.pid else _THREAD_STACK
    # A read ends where the mapping does; of a thread's own stack, the limit keeps it from going far beyond.
    data = process.part(base, most)
    if len(data) <= lowest - base:  # the stack starts in between
        base, data = lowest, process.part(lowest, most)
    whole = 0 < len(data) < most
    return ThreadStack(thread, registers, base, data, is_whole=whole, turns=turns(thread, process.pid))
