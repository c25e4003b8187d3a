"""A library's or program's file as the target side of the MQS interface: what it will have in memory, before it runs.

So that libmqs can be asked what it knows of an MPI that nobody has started yet. Symbols and types come by drgn, as
those of a live process do; the memory is that of the file's segments, with its own pointers filled in, which the
dynamic linker does.
Source: System V gABI, chapter 5 (dynamic section); R_X86_64_RELATIVE, R_X86_64_64, R_AARCH64_RELATIVE and
R_AARCH64_ABS64 of the processors' supplements.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import drgn

from mqs_dll.contract import elf_format as elf
from mqs_dll.contract.errors import FileError, TargetReadError
from mqs_dll.debugger.bases import OfThisMachine
from mqs_dll.debugger.live import LiveImage, new_program
from mqs_dll.debugger.proc import check_owner

_PAGE = 4096
_BASE = 1 << 40
"""Where a library is put, which may lie anywhere: beyond any program that has a place of its own."""

_DYNAMIC = struct.Struct("<qQ")
_RELOCATION = struct.Struct("<QQq")
_POINTER = struct.Struct("<Q")

_DT_SYMBOLS, _DT_RELOCATIONS, _DT_SIZE = 6, 7, 8
_RELATIVE = frozenset({8, 1027})
_ABSOLUTE = frozenset({1, 257})

_MAX_FILE_SIZE = 1 << 32
_MAX_LOADED = 1 << 28
"""Bytes of all segments together that a file has in memory, copied once: they may overlap in it."""
_MAX_FETCHED = 1 << 26
"""Bytes that are fetched at once: what a file has of zeros is as long as its headers say."""
_MAX_TEXT_LENGTH = 1 << 16
_TEXTS_FOR_THE_LINKER = (b"INPUT", b"GROUP", b"/* GNU ld script")


class _FileSegment(NamedTuple):
    address: int
    data: bytearray
    size: int
    """Bytes in memory; those behind the data are 0."""


class FileProcess(OfThisMachine):
    """A file as if a process had it in memory and had not run yet (interface.TargetProcess)."""

    def __init__(self, path: Path) -> None:
        """Read a library or a program.

        Raises:
            FileError: it is none that libmqs can read.
        """
        header, self._data = _read(path)
        try:
            self._look(path, header)
        finally:
            self._data.close()

    def _look(self, path: Path, header: elf.Header) -> None:
        self._base = 0 if header.kind == elf.EXECUTABLE else _BASE
        try:
            headers = elf.segments(self._table(header.segments_at, header.segment_count * elf.SEGMENT_SIZE))
            sections = elf.sections(self._table(header.sections_at, header.section_count * elf.SECTION_SIZE))
            self.has_symbol_table = any(section.kind == elf.SYMBOL_TABLE for section in sections)
            """Whether it still has the symbols that are for debuggers alone: it was not stripped."""
            self._segments = list(self._load(headers))
            self._relocate(headers)
            self._image = _image(path, self._segments)
        except (struct.error, OSError, OverflowError, TargetReadError) as error:
            raise FileError(f"{path} is cut off or damaged: {error}") from error

    @property
    def image(self) -> LiveImage:
        """The file's symbols and types."""
        return self._image

    def fetch(self, address: int, size: int) -> bytes:
        """Return exactly ``size`` bytes at ``address``.

        Raises:
            TargetReadError: any of the bytes is in no segment.
        """
        if size > _MAX_FETCHED:
            raise TargetReadError(address, size)
        found = bytearray()
        while len(found) < size:
            found += self._part(address + len(found), size - len(found))
        return bytes(found)

    def _part(self, address: int, size: int) -> bytes:
        for segment in self._segments:
            offset = address - segment.address
            if 0 <= offset < segment.size:
                wanted = min(size, segment.size - offset)
                return bytes(segment.data[offset : offset + wanted]).ljust(wanted, b"\0")
        raise TargetReadError(address, size)

    def _table(self, at: int, size: int) -> bytes:
        if at + size > self._data.size:
            raise struct.error(f"a table of it would end at {at + size}, and it has {self._data.size} bytes")
        return self._data.part(at, at + size)

    def _load(self, headers: Iterable[elf.Segment]) -> Iterator[_FileSegment]:
        """Yield the segments as the kernel maps them: whole pages of the file, with what else stands in them."""
        loaded = 0
        for each in headers:
            before = each.address % _PAGE
            if each.kind != elf.LOAD or each.memory_size > _MAX_FILE_SIZE or each.offset % _PAGE != before:
                continue
            start = each.offset - before
            size = -(-(before + each.memory_size) // _PAGE) * _PAGE
            # What is written to starts with zeros.
            end = each.offset + each.file_size if each.flags & elf.MAY_WRITE else start + size
            loaded += max(min(end, self._data.size) - start, 0)
            if loaded > _MAX_LOADED:
                raise OverflowError(f"its segments have more than {_MAX_LOADED >> 20} MiB")
            yield _FileSegment(self._base + each.address - before, bytearray(self._data.part(start, end)), size)

    def _relocate(self, headers: Iterable[elf.Segment]) -> None:
        """Fill in the pointers to what the file itself has."""
        for each in headers:
            if each.kind != elf.DYNAMIC:
                continue
            size = each.file_size - each.file_size % _DYNAMIC.size
            entries = dict(_DYNAMIC.iter_unpack(self.fetch(self._base + each.address, size)))
            if _DT_RELOCATIONS in entries:
                symbols = self._base + entries.get(_DT_SYMBOLS, 0)
                table = self.fetch(self._base + entries[_DT_RELOCATIONS], entries.get(_DT_SIZE, 0))
                for place, information, addend in _RELOCATION.iter_unpack(table):
                    if information & 0xFFFFFFFF in _RELATIVE:
                        self._fill(self._base + place, self._base + addend)
                    elif information & 0xFFFFFFFF in _ABSOLUTE:
                        entry = self.fetch(symbols + (information >> 32) * elf.SYMBOL_SIZE, elf.SYMBOL_SIZE)
                        symbol = next(elf.symbols(entry))
                        if symbol.section:
                            self._fill(self._base + place, self._base + symbol.value + addend)

    def _fill(self, place: int, pointer: int) -> None:
        for segment in self._segments:
            offset = place - segment.address
            if 0 <= offset <= len(segment.data) - _POINTER.size:
                _POINTER.pack_into(segment.data, offset, pointer)
                return


class _Content:
    """The content of a file, of which parts are read; mapped, it would end us where somebody makes it shorter."""

    def __init__(self, file: int) -> None:
        self._file = os.dup(file)
        self.size = os.fstat(file).st_size

    def part(self, start: int, end: int) -> bytes:
        """Return the bytes between two places, as many as there are."""
        return os.pread(self._file, max(min(end, self.size) - start, 0), start)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _read(path: Path) -> tuple[elf.Header, _Content]:
    """Return a file that starts as one of a 64-bit little-endian machine that libmqs knows, its header first.

    Raises:
        FileError: it is another one.
    """
    try:
        with path.open("rb") as file:
            check_owner(os.fstat(file.fileno()).st_uid, str(path))
            start = file.read(elf.HEADER_SIZE)
            if start.startswith(_TEXTS_FOR_THE_LINKER):
                raise FileError(f"{path} is no library but a text for the linker: {_first_line(path)}")
            header = elf.header(start)
            if header is None:
                raise FileError(f"{path} is no 64-bit ELF file")
            if header.kind not in (elf.EXECUTABLE, elf.SHARED) or header.machine not in elf.MACHINES:
                raise FileError(f"{path} is no library and no program for x86_64 or aarch64")
            return header, _Content(file.fileno())
    except OSError as error:
        raise FileError(f"{path} can't be read: {error.strerror}") from error


def _first_line(path: Path) -> str:
    with path.open(errors="replace") as file:
        lines = file.read(_MAX_TEXT_LENGTH).splitlines()
    return next((line for line in lines if line.startswith(("INPUT", "GROUP"))), lines[0])


def _image(path: Path, segments: list[_FileSegment]) -> LiveImage:
    if not segments:
        raise FileError(f"{path} has no part that a process would have in memory")
    program = new_program()
    module = program.extra_module(str(path.resolve()), create=True)
    module.debug_file_status = drgn.ModuleFileStatus.DONT_WANT
    module.address_range = (segments[0].address, segments[-1].address + segments[-1].size)
    module.try_file(path)
    return LiveImage(program, [module])
