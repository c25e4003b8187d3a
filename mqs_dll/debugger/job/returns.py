"""Counting, with the kernel's help, how often a thread gets to an address: nothing is written to it, nothing stops it.

The kernel puts the address into one of the processor's breakpoint registers while the thread runs, and counts by
itself (perf_event_open(2), PERF_TYPE_BREAKPOINT). The thread loses about a microsecond each time, and nothing else; it
is over when the counter is closed, also when we are killed. The kernel allows it of one's own processes where the
setting kernel.perf_event_paranoid is at most 2; containers often forbid it.
"""

from __future__ import annotations

import os
import platform
import struct
from typing import Any

import cffi

from mqs_dll.debugger.bases import Closes

_NUMBERS = {"x86_64": 298}
"""Of the system call; machines where call frames can be told."""

_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQ")
"""perf_event_attr up to bp_len: type, size, config, sample_period, sample_type, read_format, flags, wakeup_events,
bp_type, bp_addr, bp_len."""
_SIZE = 112
"""PERF_ATTR_SIZE_VER5."""
_BREAKPOINT = 5
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
_EXECUTE = 4
_LENGTH = 8
"""sizeof(long), as the kernel asks for an address that is executed."""
_ANY_PROCESSOR = -1
_NO_GROUP = -1
_CLOSE_ON_EXEC = 8

_ffi = cffi.FFI()
_ffi.cdef("long syscall(long number, ...);")
_libc: Any = _ffi.dlopen(None)


class ReturnCounter(Closes):
    """Counts from now on; a context manager that stops counting at the end."""

    def __init__(self, thread: int, address: int) -> None:
        """Begin to count how often a thread executes the instruction at an address.

        Raises:
            OSError: the kernel doesn't allow it, or has no breakpoint left, or there is no such thread.
        """
        number = _NUMBERS.get(platform.machine())
        if number is None:
            raise OSError(f"call frames aren't known on {platform.machine()}")
        flags = _EXCLUDE_KERNEL_AND_HYPERVISOR
        attributes = _ATTRIBUTES.pack(_BREAKPOINT, _SIZE, 0, 0, 0, 0, flags, 0, _EXECUTE, address, _LENGTH)
        buffer = _ffi.new("char[]", attributes.ljust(_SIZE, b"\0"))
        integers = [_ffi.cast("int", value) for value in (thread, _ANY_PROCESSOR, _NO_GROUP)]
        self._descriptor: int = _libc.syscall(number, buffer, *integers, _ffi.cast("unsigned long", _CLOSE_ON_EXEC))
        if self._descriptor < 0:
            raise OSError(_ffi.errno, os.strerror(_ffi.errno))

    def count(self) -> int:
        """Return how often it was so far."""
        return int.from_bytes(os.read(self._descriptor, 8), "little")

    def close(self) -> None:
        """Stop counting."""
        os.close(self._descriptor)
