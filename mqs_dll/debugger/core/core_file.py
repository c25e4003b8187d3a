"""A core file: the memory that it holds, and what is known of the process.

Source: the ELF-64 object file format (System V gABI, chapters 4 and 5); core(5).
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mqs_dll.contract import elf_format as elf
from mqs_dll.contract.errors import CoreError, NotCoreError, TargetReadError, WordSizeError
from mqs_dll.debugger.core import notes, start
from mqs_dll.debugger.core.notes import MappedFile
from mqs_dll.debugger.proc import check_owner

_MANY_HEADERS = 0xFFFF
"""PN_XNUM: the number of program headers stands in the first section header."""
_MAX_NOTES_SIZE = 1 << 26
"""Bytes of all notes: a process of ten thousand threads has half."""
_MAX_SEGMENTS = 1 << 18
"""Parts of memory: four times what Linux lets a process have by itself (vm.max_map_count)."""
_MAX_FILE_SIZE = 1 << 62
_FIRST_PAGE = 4096

_AT_PROGRAM_HEADERS, _AT_RANDOM, _AT_PROGRAM_NAME = 3, 25, 31
"""Of the auxiliary vector: addresses in the program's file, and in the main thread's stack, around its arguments."""

_COMPRESSED = {
    b"\x28\xb5\x2f\xfd": "zstd -d",
    b"\x04\x22\x4d\x18": "lz4 -d",
    b"\x1f\x8b": "gunzip",
    b"\xfd7zXZ\0": "unxz",
    b"BZh": "bunzip2",
}


class _CoreSegment(NamedTuple):
    start: int
    size: int
    """Bytes that the core holds, or should hold: a core that was cut off has less."""
    offset: int
    """Where they start in the core file."""


class CoreFile:
    """The core file of one process. Close it when done."""

    def __init__(self, path: Path) -> None:
        """Read a core file's headers and notes.

        Raises:
            NotCoreError: it is another file, or compressed.
            CoreError: it has lost its notes, or can't be read.
            WordSizeError: it is the core of a program that libmqs can't read.
        """
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe
        except OSError as error:
            raise CoreError(f"{path} can't be read: {error.strerror}") from error
        try:
            self._read_all()
        except OSError as error:
            self.close()
            raise CoreError(f"{path} can't be read: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def loss(self) -> str:
        """Return a sentence on what a core that was cut off has lost."""
        return f"it was cut off, {_megabytes(self.missing)} of its {_megabytes(self.size)} of memory are missing"

    @property
    def program(self) -> str:
        """The path of the program that the process ran, or its name where no path is known."""
        mapping = self.mapping_at(self._notes.auxiliary.get(_AT_PROGRAM_HEADERS, 0))
        return mapping.path if mapping else self.name

    def mapping_at(self, address: int) -> MappedFile | None:
        """Return what file lay at an address, None where none did or it isn't known."""
        place = bisect_right(self._mapping_begins, address) - 1
        if place >= 0 and address < self.mappings[place].end:
            return self.mappings[place]
        return None

    def first_page(self, mapping: MappedFile) -> bytes | None:
        """Return the first bytes of a mapping, None where the core doesn't hold all of them."""
        try:
            return self.fetch(mapping.start, _FIRST_PAGE)
        except TargetReadError:
            return None

    def held_after(self, address: int) -> int | None:
        """Return where, beyond an address, the next memory starts that the core holds; None where none does."""
        place = bisect_right(self._begins, address)
        return self._begins[place] if place < len(self._begins) else None

    def part(self, address: int, size: int) -> bytes | None:
        """Return up to ``size`` bytes at an address, at least one; None where the core was not to hold them.

        Raises:
            TargetReadError: the core would hold them had it not been cut off.
        """
        segment = self._segment_at(address)
        if segment is None:
            return None
        within = address - segment.start
        wanted = min(size, segment.size - within)
        data = self._read(segment.offset + within, wanted)
        if len(data) < wanted:
            raise TargetReadError(address + len(data), size, "memory that the core file has lost")
        return data

    def fetch(self, address: int, size: int) -> bytes:
        """Return exactly ``size`` bytes at an address, all of one piece of memory.

        Raises:
            TargetReadError: the core doesn't hold them.
        """
        data = self.part(address, size)
        if data is None or len(data) < size:
            raise TargetReadError(address, size)
        return data

    def close(self) -> None:
        """Close the file. Idempotent."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    # ------------------------------------------------------------ reading the file

    def _read_all(self) -> None:
        status = os.fstat(self._file)
        check_owner(status.st_uid, str(self.path))
        if not stat.S_ISREG(status.st_mode):
            raise NotCoreError(f"{self.path} is no regular file")
        self._length = status.st_size
        headers = self._program_headers()
        self._segments = sorted(
            _CoreSegment(each.address, each.file_size, each.offset)
            for each in headers
            if each.kind == elf.LOAD and each.file_size
        )
        self._begins = [segment.start for segment in self._segments]
        self._measure()
        self._notes = notes.parse(self._note_segments(headers))
        if not self._notes.auxiliary:
            lost = f": {self.loss()}" if self.missing else ""
            raise CoreError(f"{self.path} doesn't show what program it is of{lost}")
        self._tell(self._notes)

    def _note_segments(self, headers: Iterable[elf.Segment]) -> Iterator[bytes]:
        left = _MAX_NOTES_SIZE
        for each in headers:
            if each.kind == elf.NOTE and left:
                size = min(each.file_size, left)
                left -= size
                yield self._read(each.offset, size)

    def _tell(self, known: notes.Notes) -> None:
        self.pid = known.pid
        """The process's; 0 where the core doesn't say it."""
        self.name = known.name
        """The process's name, as the kernel had it: 15 bytes at most."""
        self.mappings = known.mappings
        """The files that it had in its memory, by address."""
        self._mapping_begins = [mapping.start for mapping in known.mappings]
        stack = self._stack()
        first, end = known.auxiliary[_AT_RANDOM], known.auxiliary.get(_AT_PROGRAM_NAME, 0)
        arguments, environment = start.find(self.fetch, stack.start, first, end, known.vector)
        self.arguments = arguments or known.arguments
        """Those of the program, its name first; where the stack lacks them, the words of their first 79 bytes."""
        self.environment = environment
        """The variables that it was started with; none where the stack doesn't have them."""

    def _program_headers(self) -> list[elf.Segment]:
        header = self._header(self._read(0, elf.HEADER_SIZE))
        count = header.segment_count
        if count == _MANY_HEADERS:
            first = elf.sections(self._read(header.sections_at, elf.SECTION_SIZE))
            if not first:
                raise CoreError(f"{self.path} was cut off before the list of what it holds")
            count = first[0].information
        if count > _MAX_SEGMENTS:
            raise CoreError(f"{self.path} is damaged: it says that it holds {count} parts of memory")
        segments = elf.segments(self._read(header.segments_at, count * elf.SEGMENT_SIZE))
        if len(segments) < count:
            raise CoreError(f"{self.path} was cut off within the list of what it holds")
        return segments

    def _header(self, first: bytes) -> elf.Header:
        for magic, command in _COMPRESSED.items():
            if first.startswith(magic):
                raise NotCoreError(f"{self.path} is compressed: decompress it first, with `{command}`")
        if not first:
            raise CoreError(f"{self.path} is empty")
        if not first.startswith(elf.MAGIC):
            raise NotCoreError(f"{self.path} is no core file")
        if len(first) < elf.HEADER_SIZE:
            raise CoreError(f"{self.path} was cut off within its first {elf.HEADER_SIZE} bytes")
        header = elf.header(first)
        if header is None:
            raise WordSizeError(f"{self.path} is of a program whose words aren't 64-bit little-endian ones")
        if header.kind != elf.CORE:
            raise NotCoreError(f"{self.path} is no core file but a program or a library")
        if header.machine not in elf.MACHINES:
            raise WordSizeError(f"{self.path} is of a program for another machine (ELF machine {header.machine})")
        return header

    def _measure(self) -> None:
        if any(segment.offset + segment.size > _MAX_FILE_SIZE for segment in self._segments):
            raise CoreError(f"{self.path} is damaged: its headers point beyond the end of any file")
        self.size = sum(segment.size for segment in self._segments)
        """Bytes of the process's memory that it should hold."""
        self.missing = sum(
            min(max(segment.offset + segment.size - self._length, 0), segment.size) for segment in self._segments
        )
        """Bytes of those that it doesn't hold, because it was cut off."""

    def _stack(self) -> _CoreSegment:
        """Return the part with the main thread's stack.

        Only where that was to be kept is what the core leaves out, of a library, still as it is in the library's file.

        Raises:
            CoreError: it was not.
        """
        address = self._notes.auxiliary.get(_AT_RANDOM, 0)
        segment = self._segment_at(address)
        if segment is None:
            raise CoreError(
                f"{self.path} holds nothing of what the process had written: its /proc/PID/coredump_filter left it out"
            )
        return segment

    def _segment_at(self, address: int) -> _CoreSegment | None:
        place = bisect_right(self._begins, address) - 1
        if place < 0 or address >= self._begins[place] + self._segments[place].size:
            return None
        return self._segments[place]

    def _read(self, offset: int, size: int) -> bytes:
        """Return some bytes of the file, as many as there are."""
        return os.pread(self._file, min(size, self._length - offset), offset) if offset < self._length else b""


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
