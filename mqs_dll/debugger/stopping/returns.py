"""Noticing, with the kernel's help, that a thread gets to an address: nothing is written to it, nothing stops it.

The kernel puts the address into one of the processor's breakpoint registers while the thread runs, and notices by
itself (perf_event_open(2), PERF_TYPE_BREAKPOINT). The thread loses some microseconds, once: the first time ends it, as
does closing it, also when we are killed. The kernel allows it of one's own processes where the setting
kernel.perf_event_paranoid is at most 2; containers often forbid it.

On some virtual machines the thread could end by it: signal_filter.py keeps that off. ctypes, because a
holder has to start quickly.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct

_NUMBERS = {"x86_64": 298}
"""Of the system call; machines where call frames can be determined."""

_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQ")
"""perf_event_attr up to bp_len: type, size, config, sample_period, sample_type, read_format, flags, wakeup_events,
bp_type, bp_addr, bp_len."""
_SIZE = 112
"""PERF_ATTR_SIZE_VER5."""
_BREAKPOINT = 5
_DISABLED, _EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 0, 1 << 5 | 1 << 6
_EACH_TIME = 1
_REFRESH, _DISABLE = 0x2402, 0x2401
"""PERF_EVENT_IOC_REFRESH enables it for so many times, PERF_EVENT_IOC_DISABLE ends that."""
_EXECUTE = 4
_LENGTH = 8
"""sizeof(long), as the kernel asks for an address that is executed."""
_ANY_PROCESSOR = -1
_NO_GROUP = -1
_CLOSE_ON_EXEC = 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class ReturnCounter:
    """Notices the first time that a thread gets to an address after start(), until stop()."""

    def __init__(self, thread: int, address: int) -> None:
        """Prepare to notice that a thread executes the instruction at an address.

        Raises:
            OSError: the kernel doesn't allow it, or has no breakpoint left, or there is no such thread.
        """
        number = _NUMBERS.get(platform.machine())
        if number is None:
            raise OSError(f"call frames aren't known on {platform.machine()}")
        flags = _DISABLED | _EXCLUDE_KERNEL_AND_HYPERVISOR
        attributes = _ATTRIBUTES.pack(_BREAKPOINT, _SIZE, 0, _EACH_TIME, 0, 0, flags, 0, _EXECUTE, address, _LENGTH)
        buffer = ctypes.create_string_buffer(attributes.ljust(_SIZE, b"\0"))
        integers = [ctypes.c_long(each) for each in (thread, _ANY_PROCESSOR, _NO_GROUP, _CLOSE_ON_EXEC)]
        self._descriptor: int = _libc.syscall(ctypes.c_long(number), buffer, *integers)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def start(self) -> None:
        """Notice it from now on, once.

        Raises:
            OSError: the thread has ended.
        """
        fcntl.ioctl(self._descriptor, _REFRESH, 1)

    def stop(self) -> None:
        """Notice it no longer; what was noticed stays."""
        fcntl.ioctl(self._descriptor, _DISABLE, 0)

    def count(self) -> int:
        """Return how often it has: 0 or, mostly, 1; it may have done so again before the kernel ended it."""
        return int.from_bytes(os.read(self._descriptor, 8), "little")

    def close(self) -> None:
        """Give it up."""
        os.close(self._descriptor)
