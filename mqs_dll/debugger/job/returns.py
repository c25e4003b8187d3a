"""Noticing, with the kernel's help, that a thread gets to an address: nothing is written to it, nothing stops it.

The kernel puts the address into one of the processor's breakpoint registers while the thread runs, and notices by
itself (perf_event_open(2), PERF_TYPE_BREAKPOINT). The thread loses some microseconds, once: the first time ends it, as
does closing it, also when we are killed. The kernel allows it of one's own processes where the setting
kernel.perf_event_paranoid is at most 2; containers often forbid it.

Once is enough, and more would do harm: on a virtual machine of a KVM before Linux 6.14 a breakpoint's cause gets lost
now and then (the guest's DR6, where the timer strikes in the same moment), and the guest's kernel then sends the thread
SIGTRAP, which ends the process. That was seen once in 50,000 to 100,000 times: a loop gets there as often in a second.
"""

from __future__ import annotations

import fcntl
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
_DISABLED, _EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 0, 1 << 5 | 1 << 6
_EACH_TIME = 1
_REFRESH = 0x2402
"""PERF_EVENT_IOC_REFRESH: enable it for so many times."""
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
    """Waits from now on for the first return; a context manager that no longer does at the end."""

    def __init__(self, thread: int, address: int) -> None:
        """Begin to wait until a thread executes the instruction at an address.

        Raises:
            OSError: the kernel doesn't allow it, or has no breakpoint left, or there is no such thread.
        """
        number = _NUMBERS.get(platform.machine())
        if number is None:
            raise OSError(f"call frames aren't known on {platform.machine()}")
        flags = _DISABLED | _EXCLUDE_KERNEL_AND_HYPERVISOR
        attributes = _ATTRIBUTES.pack(_BREAKPOINT, _SIZE, 0, _EACH_TIME, 0, 0, flags, 0, _EXECUTE, address, _LENGTH)
        buffer = _ffi.new("char[]", attributes.ljust(_SIZE, b"\0"))
        integers = [_ffi.cast("int", value) for value in (thread, _ANY_PROCESSOR, _NO_GROUP)]
        self._descriptor: int = _libc.syscall(number, buffer, *integers, _ffi.cast("unsigned long", _CLOSE_ON_EXEC))
        if self._descriptor < 0:
            raise OSError(_ffi.errno, os.strerror(_ffi.errno))
        try:
            fcntl.ioctl(self._descriptor, _REFRESH, 1)
        except OSError:
            self.close()
            raise

    def count(self) -> int:
        """Return how often it has: 0 or, mostly, 1; it may have done so again before the kernel ended it."""
        return int.from_bytes(os.read(self._descriptor, 8), "little")

    def close(self) -> None:
        """Stop counting."""
        os.close(self._descriptor)
