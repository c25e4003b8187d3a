"""What the tables for exceptions say of the functions of a loaded file: their extents, frames and landing pads.

The format: LSB Core, section 10.6 (.eh_frame, .eh_frame_hdr), and DWARF 5, section 6.4. Only what following code needs
is read: where the canonical frame address (CFA) lies, not where registers are kept.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import NamedTuple

from mqs_dll.contract import elf_format
from mqs_dll.debugger.job.stacks.callee import Fetch

_PT_GNU_EH_FRAME, _PT_GNU_RELRO = 0x6474E550, 0x6474E552
_TABLE_OF_PAIRS = 0x3B
"""Signed numbers of 4 bytes, relative to the table's start: how all linkers make it."""
_MAX_FUNCTIONS = 1 << 20
_MAX_BYTES = 1 << 16
"""Of one function's entry; of its landing pads, too."""
_OMITTED = 0xFF
_INDIRECT = 0x80
_FIXED = {0x0: "<Q", 0x2: "<H", 0x3: "<I", 0x4: "<Q", 0xA: "<h", 0xB: "<i", 0xC: "<q"}


class TableError(Exception):
    """A table is missing, or isn't of the form that is known."""


class CfiRow(NamedTuple):
    """From one address of a function to the next row's."""

    start: int
    register: int | None
    """By its number in DWARF: the CFA is its value and ``offset``; None where it is an expression."""
    offset: int
    pushed: int
    """Bytes of arguments on the stack, which an exception takes off (DW_CFA_GNU_args_size)."""


class FrameDescription(NamedTuple):
    """A function, or the part of one that lies in one piece."""

    start: int
    end: int
    rows: tuple[CfiRow, ...]
    pads: tuple[tuple[int, int, int], ...]
    """Where a call between the first and the second address is left by an exception, to the third."""

    def row(self, address: int) -> CfiRow:
        """Return the row of an address in it."""
        return self.rows[max(bisect_right(self.rows, address, key=lambda row: row.start) - 1, 0)]

    def pads_of(self, address: int) -> list[int]:
        """Return the landing pads of an instruction in it."""
        return [pad for start, end, pad in self.pads if start <= address < end]


class Functions:
    """The functions of one loaded file."""

    def __init__(self, fetch: Fetch, header: int) -> None:
        """Find the table.

        Args:
            fetch: reads the process's memory.
            header: where its ELF header lies.

        Raises:
            TableError: it has none.
            TargetReadError: it can't be read.
        """
        self._fetch = fetch
        self._known: dict[int, FrameDescription | None] = {}
        table, self._constant = _read_header(fetch, header)
        version, frames, numbers, encoding, _, count = struct.unpack("<4BiI", fetch(table, 12))
        if (version, frames & 0x0F, numbers, encoding) != (1, 0x0B, 0x03, _TABLE_OF_PAIRS):
            raise TableError("its table of functions is of an unknown form")
        if count > _MAX_FUNCTIONS:
            raise TableError("its table of functions is damaged")
        pairs = struct.unpack(f"<{2 * count}i", fetch(table + 12, 8 * count))
        self._starts = [table + start for start in pairs[::2]]
        self._entries = [table + entry for entry in pairs[1::2]]

    def at(self, address: int) -> FrameDescription | None:
        """Return the function that an address lies in, None where the table has none.

        Raises:
            TableError: its entry isn't of the form that is known.
            TargetReadError: it can't be read.
        """
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        if place not in self._known:
            self._known[place] = self._read(self._entries[place])
        function = self._known[place]
        return function if function and function.start <= address < function.end else None

    def is_constant(self, address: int) -> bool:
        """Return whether what lies at an address stays as it is once the program has started."""
        return any(start <= address < end for start, end in self._constant)

    def _read(self, entry: int) -> FrameDescription:
        body = _Reader(self._fetch, entry)
        common_at = body.at - body.fixed("<I")
        common = _Common(self._fetch, common_at)
        start = body.pointer(common.pointers)
        end = start + body.pointer(common.pointers & 0x0F)
        landing = None
        if common.is_augmented:
            length = body.unsigned()
            behind = body.at + length
            if common.landing != _OMITTED and length:
                landing = body.pointer(common.landing, null=True)
            body.at = behind
        rows = _rows(common, body, start)
        pads = _pads(self._fetch, landing, start) if landing else ()
        return FrameDescription(start, end, rows, pads)


def _read_header(fetch: Fetch, at: int) -> tuple[int, list[tuple[int, int]]]:
    """Return where the table lies, and the memory that nobody writes to any more (start, end)."""
    header = elf_format.header(fetch(at, 64))
    if header is None:
        raise TableError("no ELF header where one should be")
    segments = elf_format.segments(fetch(at + header.segments_at, header.segment_count * header.segment_size))
    first = next((each.address - each.offset for each in segments if each.kind == elf_format.LOAD), None)
    table = next((each.address for each in segments if each.kind == _PT_GNU_EH_FRAME), None)
    if table is None or first is None:
        raise TableError("it has no table of functions")
    constant = [
        (at + each.address - first, at + each.address - first + each.memory_size)
        for each in segments
        if each.kind == _PT_GNU_RELRO or (each.kind == elf_format.LOAD and not each.flags & elf_format.MAY_WRITE)
    ]
    return at + table - first, constant


class _Reader:
    """Reads one entry of a table, from its length on."""

    def __init__(self, fetch: Fetch, at: int, size: int | None = None) -> None:
        self._fetch = fetch
        if size is None:
            (size,) = struct.unpack("<I", fetch(at, 4))
            at += 4
        if not 0 < size <= _MAX_BYTES:
            raise TableError("an entry of its table of functions is damaged")
        self._data = fetch(at, size)
        self._base = at
        self.at = at

    @property
    def has_more(self) -> bool:
        """Whether its end isn't reached."""
        return self.at < self._base + len(self._data)

    def fixed(self, form: str) -> int:
        """Return the next number, of a form of struct's."""
        size = struct.calcsize(form)
        try:
            (number,) = struct.unpack_from(form, self._data, self.at - self._base)
        except struct.error:
            raise TableError("an entry of its table of functions is cut off") from None
        self.at += size
        return int(number)

    def skip(self, size: int) -> None:
        """Leave out so many bytes."""
        self.at += size

    def byte(self) -> int:
        """Return the next byte."""
        return self.fixed("<B")

    def unsigned(self) -> int:
        """Return the next number in LEB128."""
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return number

    def signed(self) -> int:
        """Return the next signed number in LEB128."""
        first = self.at
        number = self.unsigned()
        bits = 7 * (self.at - first)
        return number - (1 << bits) if number >> (bits - 1) else number

    def pointer(self, encoding: int, *, null: bool = False) -> int:
        """Return an encoded address; with ``null``, 0 stays 0."""
        at = self.at
        form = _FIXED.get(encoding & 0x0F)
        if form is None:
            number = {0x1: self.unsigned, 0x9: self.signed}.get(encoding & 0x0F, self._unknown)()
        else:
            number = self.fixed(form)
        if null and number == 0:
            return 0
        if encoding & 0x70 == 0x10:
            number += at
        elif encoding & 0x70:
            self._unknown()
        if encoding & _INDIRECT:
            (number,) = struct.unpack("<Q", self._fetch(number, 8))
        return number

    def text(self) -> str:
        """Return the next string, which ends in a zero."""
        letters = bytearray()
        while byte := self.byte():
            letters.append(byte)
        return letters.decode("latin-1")

    def _unknown(self) -> int:
        raise TableError("an address in its table of functions is of an unknown form")


class _Common:
    """What several functions' entries have in common (CIE)."""

    def __init__(self, fetch: Fetch, at: int) -> None:
        body = _Reader(fetch, at)
        body.fixed("<I")
        version = body.byte()
        letters = body.text()
        self.code = body.unsigned()
        self.data = body.signed()
        _ = body.byte() if version == 1 else body.unsigned()
        self.pointers = 0
        self.landing = _OMITTED
        self.is_augmented = letters.startswith("z")
        if self.is_augmented:
            length = body.unsigned()
            behind = body.at + length
            for letter in letters[1:]:
                if letter == "R":
                    self.pointers = body.byte()
                elif letter == "L":
                    self.landing = body.byte()
                elif letter == "P":
                    encoding = body.byte()
                    body.pointer(encoding & ~_INDIRECT)
                elif letter not in "SB":
                    break
            body.at = behind
        elif letters:
            raise TableError("an entry of its table of functions is of an unknown form")
        self.instructions = body


def _rows(common: _Common, own: _Reader, start: int) -> tuple[CfiRow, ...]:
    """Run the instructions of an entry, as far as they move the CFA (DWARF 5, section 6.4.2)."""
    rows: list[CfiRow] = []
    kept: list[tuple[int | None, int]] = []
    register: int | None = None
    address, offset, pushed = start, 0, 0
    for body in (common.instructions, own):
        while body.has_more:
            code = body.byte()
            high, low = code & 0xC0, code & 0x3F
            moved = 0
            if high == 0x40:
                moved = low * common.code
            elif high == 0x80:
                body.unsigned()
            elif high == 0xC0 or code in (0x00, 0x2D):
                pass
            elif code == 0x01:
                moved = body.pointer(common.pointers) - address
            elif code in (0x02, 0x03, 0x04):
                moved = body.fixed({2: "<B", 3: "<H", 4: "<I"}[code]) * common.code
            elif code in (0x05, 0x09, 0x14):
                body.unsigned(), body.unsigned()
            elif code in (0x06, 0x07, 0x08):
                body.unsigned()
            elif code in (0x11, 0x15):
                body.unsigned(), body.signed()
            elif code == 0x0A:
                kept.append((register, offset))
            elif code == 0x0B:
                if not kept:
                    raise TableError("a frame is restored that was never kept")
                register, offset = kept.pop()
            elif code == 0x0C:
                register, offset = body.unsigned(), body.unsigned()
            elif code == 0x0D:
                register = body.unsigned()
            elif code == 0x0E:
                offset = body.unsigned()
            elif code == 0x12:
                register, offset = body.unsigned(), body.signed() * common.data
            elif code == 0x13:
                offset = body.signed() * common.data
            elif code == 0x0F:
                register = None
                body.skip(body.unsigned())
            elif code in (0x10, 0x16):
                body.unsigned()
                body.skip(body.unsigned())
            elif code == 0x2E:
                pushed = body.unsigned()
            else:
                raise TableError("a frame is described in an unknown way")
            if moved:
                rows.append(CfiRow(address, register, offset, pushed))
                address += moved
    rows.append(CfiRow(address, register, offset, pushed))
    return tuple(rows)


def _pads(fetch: Fetch, landing: int, start: int) -> tuple[tuple[int, int, int], ...]:
    """Read which calls of a function have landing pads (its language-specific data, as C++ lays it out)."""
    for size in (64, 512, 4 << 10):
        try:
            return _read_pads(_Reader(fetch, landing, size), start)
        except TableError:  # cut off
            continue
    return _read_pads(_Reader(fetch, landing, _MAX_BYTES), start)


def _read_pads(body: _Reader, start: int) -> tuple[tuple[int, int, int], ...]:
    encoding = body.byte()
    base = start if encoding == _OMITTED else body.pointer(encoding)
    if body.byte() != _OMITTED:
        body.unsigned()
    encoding = body.byte()
    length = body.unsigned()
    end = body.at + length
    found = []
    while body.at < end:
        first, size, pad = (body.pointer(encoding & 0x0F) for _ in range(3))
        body.unsigned()
        if pad:
            found.append((start + first, start + first + size, base + pad))
    return tuple(found)
