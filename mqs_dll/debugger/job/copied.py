"""What a rank's library reads, copied while the rank stands, and read from the copy when the rank runs again.

To make sense of queues takes milliseconds, to copy them microseconds. A library tells what it will read only by
reading: so it reads once while the rank runs, and what it asked for then is copied in the stop. Where it asks for
something else afterwards, because the rank has done something in between, what it says of the copy is worthless.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError, TooMuchError
from mqs_dll.debugger.bases import OfThisMachine
from mqs_dll.debugger.job.footprint import merged
from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.live import LiveImage, LiveProcess
from mqs_dll.debugger.many_reads import ManyReads, Place

MAX_READS = 1 << 14
MAX_COPIED = 1 << 25
"""Reads of one rank, and bytes there, that are copied; where a library needs more, it reads while the rank stands."""

_READS_BEFORE = 4

_NEAR = _PAGE = 1 << 12
"""Bytes between two places that are rather copied with them than left out; and of what can be read or not as one."""


class Copied(OfThisMachine):
    """A process (interface.TargetProcess) whose memory is read as it is now, or from a copy."""

    def __init__(self, process: LiveProcess) -> None:
        """Initialize without a copy."""
        self._process = process
        self._asked: list[tuple[int, int]] = []
        self._reads = 0
        """How many there were: what was asked for before the first is the library's way into the process."""
        self._before: deque[set[tuple[int, int]]] = deque(maxlen=_READS_BEFORE)
        """What was asked for in earlier reads: a rank that changes takes its requests from the same pools."""
        self._places: tuple[tuple[int, int], ...] = ()
        """What will be copied: addresses, and how many bytes there."""
        self._prepared: _Copy | None = None
        self._copy: _Copy | None = None
        self._stacks: Sequence[ThreadStack] = ()
        self._end = self._seconds = math.inf
        self.has_missed = False
        """Whether something was asked for that the last copy doesn't have."""

    @property
    def image(self) -> LiveImage:
        """The image that the process runs."""
        return self._process.image

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Return a context manager inside of which nothing is read after a time: a process may mislead for ever."""
        self._end = time.monotonic() + seconds
        self._seconds = seconds
        try:
            yield
        finally:
            self._end = math.inf

    def begin_read(self) -> None:
        """Begin another read; of earlier ones what the last few asked for will be copied, too, if it isn't too much."""
        if self._reads:
            self._before.append(set(self._asked))
        self._reads += 1
        self._asked = []

    def prepare(self) -> int | None:
        """Prepare to copy what was asked for; return how many bytes, None where they are too many, or none."""
        places = merged(set(self._asked).union(*self._before), MAX_COPIED, near=_NEAR)
        size = sum(length for _, length in places)
        if size == MAX_COPIED:
            places = merged(set(self._asked), MAX_COPIED + 1, near=_NEAR)
            size = sum(length for _, length in places)
        if not self._asked or len(self._asked) >= MAX_READS or size > MAX_COPIED:
            return None
        if self._prepared is None or places != self._places:
            self._places, self._prepared = places, _Copy(self._process, places)
        return size

    def add_stacks(self, stacks: Sequence[ThreadStack]) -> None:
        """Have the copy include stacks that were copied in the same stop."""
        self._stacks = stacks

    def copy(self) -> None:
        """Copy it; the process stands."""
        assert self._prepared is not None
        self._copy = self._prepared
        self._copy.renew()
        self.has_missed = False

    def drop(self) -> None:
        """Read from the process again. Idempotent."""
        self._copy = None
        self._stacks = ()

    def fetch(self, address: int, size: int) -> bytes:
        """Return the bytes at an address: those of the copy, or those of now where there is none or doesn't have them.

        Raises:
            TargetReadError: any of the bytes can't be read.
            TooMuchError: the time is over.
        """
        if time.monotonic() > self._end:
            raise TooMuchError(f"{self._seconds:g} seconds")
        if len(self._asked) < MAX_READS:
            self._asked.append((address, size))
        if self._copy is not None:
            found = self._copy.at(address, size)
            if found is not None:
                return found
            for stack in self._stacks:
                if len(found := stack.fetch(address, size)) == size:
                    return found
            self.has_missed = True
        return self._process.fetch(address, size)


class _Piece(NamedTuple):
    """What can be read in a row, and the page behind it that can't be, unless a place ends there."""

    start: int
    """Its address."""
    size: int
    """In bytes; 0 where the place begins with a page that can't be read."""
    end: int
    """Of the place that it is in."""
    offset: int
    """Of its copy in the buffer."""


class _Copy:
    """Places of a process's memory as they were at one moment."""

    def __init__(self, process: LiveProcess, places: Sequence[tuple[int, int]]) -> None:
        """Copy them for the first time, to see what of them can be read."""
        self._process = process
        self._places = places
        self._buffer = bytearray(sum(size for _, size in places))
        self._at_first = self._pieces = self._find_pieces()
        readable = [Place(piece.start, piece.size, piece.offset) for piece in self._pieces if piece.size]
        self._together = ManyReads(process.pid, self._buffer, readable)
        self._alone = self._together.left_out or readable[:1]
        """What has to be read otherwise. One at the least, since this also tells whether it still is the same program,
        not another one that has its number."""
        self._holes = [each.start + each.size for each in self._pieces if each.start + each.size < each.end]

    def renew(self) -> None:
        """Copy them again: nearly all by one call, where the same can be read as at first."""
        is_same = (
            self._together.again()
            and all(self._read(*each) == each.size for each in self._alone)
            and not any(self._read(hole, 1, 0) for hole in self._holes)
        )
        self._pieces = self._at_first if is_same else self._find_pieces()

    def at(self, address: int, size: int) -> bytes | None:
        """Return what lay at an address, None where nobody has tried to copy it.

        Raises:
            TargetReadError: it could not be read.
        """
        number = bisect_right(self._pieces, address, key=_start) - 1
        piece = self._pieces[max(number, 0)]
        if number < 0 or address + size > piece.end:
            return None
        if address + size > piece.start + piece.size:
            raise TargetReadError(address, size)
        offset = piece.offset + address - piece.start
        return bytes(memoryview(self._buffer)[offset : offset + size])

    def _find_pieces(self) -> list[_Piece]:
        """Copy what can be read, and return what that is."""
        pieces: list[_Piece] = []
        offset = 0
        for start, length in self._places:
            end = start + length
            while start < end:
                size = self._read(start, end - start, offset)
                pieces.append(_Piece(start, size, end, offset))
                done = min(start + size + _PAGE - (start + size) % _PAGE, end) - start
                start, offset = start + done, offset + done
        return pieces

    def _read(self, address: int, size: int, offset: int) -> int:
        return self._process.part_into(memoryview(self._buffer)[offset : offset + size], address)


def _start(piece: _Piece) -> int:
    return piece.start
