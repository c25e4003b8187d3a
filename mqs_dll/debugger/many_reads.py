"""Reads of many places of a process's memory by one call of the kernel's: process_vm_readv(2)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

_MAX_PIECES = 1024
"""IOV_MAX of Linux."""


class _Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None)
_read = getattr(_libc, "process_vm_readv", None)
if _read is not None:
    _read.argtypes = (ctypes.c_int, *2 * (ctypes.c_void_p, ctypes.c_ulong), ctypes.c_ulong)
    _read.restype = ctypes.c_ssize_t


class ManyReads:
    """The same reads, as often as wanted. Other threads of ours run meanwhile."""

    def __init__(self, pid: int, buffer: bytearray, places: Sequence[tuple[int, int, int]]) -> None:
        """Prepare; nothing is read yet.

        Args:
            pid: of which process. What has its number when it is read is read.
            buffer: for what is read; its size must stay.
            places: addresses, how many bytes there, and where they go in the buffer.
        """
        self._pid = pid
        self._buffer = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        base = ctypes.addressof(self._buffer)
        self._calls = []
        for first in range(0, len(places), _MAX_PIECES):
            some = places[first : first + _MAX_PIECES]
            here = (_Piece * len(some))(*(_Piece(base + offset, size) for _, size, offset in some))
            there = (_Piece * len(some))(*(_Piece(address, size) for address, size, _ in some))
            self._calls.append((here, there, sum(size for _, size, _ in some)))

    def read(self) -> bool:
        """Read all; return whether that was possible: of what can't be read, or not by us, nothing is certain."""
        return _read is not None and all(
            _read(self._pid, here, len(here), there, len(there), 0) == size for here, there, size in self._calls
        )
