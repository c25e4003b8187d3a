"""Reads of many places of a process's memory by one call of the kernel's: process_vm_readv(2)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from mqs_dll.debugger.stopping.ptrace import Piece

_MAX_PIECES = 1024
"""IOV_MAX of Linux."""
_MAX_LEFT_OUT = 64
"""Places that can't be read so, of many: then no more are tried."""


class Place(NamedTuple):
    """What to read, and where it goes."""

    address: int
    size: int
    """In bytes."""
    offset: int
    """In the buffer."""


_libc = ctypes.CDLL(None)
_read = getattr(_libc, "process_vm_readv", None)
if _read is not None:
    _read.argtypes = (ctypes.c_int, *2 * (ctypes.c_void_p, ctypes.c_ulong), ctypes.c_ulong)
    _read.restype = ctypes.c_ssize_t


class ManyReads:
    """The same reads, as often as wanted. Other threads of ours run meanwhile."""

    def __init__(self, pid: int, buffer: bytearray, places: Sequence[Place]) -> None:
        """Read for the first time, to see what can be read so.

        Args:
            pid: of which process. What has its number when it is read is read.
            buffer: for what is read; its size must stay.
            places: what to read.
        """
        self._pid = pid
        self._buffer = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        self.left_out: list[Place] = []
        """Those that can't be read so, or aren't tried any more: pages that the process itself may not read, or all
        where the kernel lets nobody read so."""
        good: list[Place] = []
        start = 0
        while start < len(places) and len(self.left_out) < _MAX_LEFT_OUT:
            some = places[start : start + _MAX_PIECES]
            done = self._call(some).read()
            ends = accumulate(place.size for place in some)
            number = sum(end <= done for end in ends)
            good += some[:number]
            self.left_out += some[number : number + 1]
            start += min(number + 1, len(some))
        self.left_out += places[start:]
        self._calls = [self._call(good[first : first + _MAX_PIECES]) for first in range(0, len(good), _MAX_PIECES)]

    def again(self) -> bool:
        """Read all but those that are left out; return whether that was possible, else nothing is certain."""
        return all(call.read() == call.size for call in self._calls)

    def _call(self, places: Sequence[Place]) -> _Call:
        base = ctypes.addressof(self._buffer)
        here = (Piece * len(places))(*(Piece(base + place.offset, place.size) for place in places))
        there = (Piece * len(places))(*(Piece(place.address, place.size) for place in places))
        return _Call(self._pid, here, there, sum(place.size for place in places))


class _Call(NamedTuple):
    pid: int
    here: ctypes.Array[Piece]
    there: ctypes.Array[Piece]
    size: int
    """Bytes of all."""

    def read(self) -> int:
        """Return how many bytes were read, in the order of the places."""
        if _read is None:
            return 0
        return int(_read(self.pid, self.here, len(self.here), self.there, len(self.there), 0))
