"""A library's or program's file as the target side of the MQS interface: what it will have in memory, before it runs.

So that libmqs can be asked what it knows of an MPI that nobody has started yet.
Symbols and types come by drgn, as those
of a live process do; the memory is that of the file's segments, with its own pointers filled in, which the dynamic
linker does.
Source: the ELF-64 object file format (System V gABI, chapters 4 and 5); R_X86_64_RELATIVE, R_X86_64_64,
R_AARCH64_RELATIVE and R_AARCH64_ABS64 of the processors' supplements.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import drgn

from mqs_dll.abi import TypeSizes
from mqs_dll.debugger.live import LP64, LiveImage, new_program
from mqs_dll.errors import FileError, TargetReadError

_PAGE = 4096
_BASE = 1 << 40
"""Where a library is put, which may lie anywhere: beyond any program that has a place of its own."""

_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_RELOCATION = struct.Struct("<QQq")
_POINTER = struct.Struct("<Q")

_MACHINES = frozenset({62, 183})
_TYPES = frozenset({2, 3})
"""ET_EXEC, which has a place of its own, and ET_DYN."""
_AT_ITS_PLACE = 2
_LOAD, _DYNAMIC_SEGMENT = 1, 2
_SYMBOL_TABLE = 2
_DT_SYMBOLS, _DT_RELOCATIONS, _DT_SIZE = 6, 7, 8
_RELATIVE = frozenset({8, 1027})
_ABSOLUTE = frozenset({1, 257})

_LARGEST_FILE = 1 << 32
_TEXTS_FOR_THE_LINKER = (b"INPUT", b"GROUP", b"/* GNU ld script")


class _Segment(NamedTuple):
    address: int
    data: bytearray
    size: int
    """Bytes in memory; those behind the data are 0."""


class FileProcess:
    """A file as if a process had it in memory and had not run yet (interface.TargetProcess)."""

    def __init__(self, path: Path) -> None:
        """Read a library or a program.

        Raises:
            FileError: it is none that libmqs can look at.
        """
        self._data = _read(path)
        fields = _HEADER.unpack_from(self._data)
        self._base = 0 if fields[1] == _AT_ITS_PLACE else _BASE
        try:
            headers = self._table(_PROGRAM_HEADER, fields[5], fields[10])
            self.has_symbol_table = any(
                section[1] == _SYMBOL_TABLE for section in self._table(_SECTION, fields[6], fields[12])
            )
            """Whether it still has the symbols that are for debuggers alone: it was not stripped."""
            self._segments = list(self._load(headers))
            self._relocate(headers)
            self._image = _image(path, self._segments)
        except (struct.error, OverflowError, TargetReadError) as error:
            raise FileError(f"{path} is cut off or damaged: {error}") from error

    @property
    def image(self) -> LiveImage:
        """The file's symbols and types."""
        return self._image

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of the target's C types: those of 64-bit Linux."""
        return LP64

    def fetch(self, address: int, size: int) -> bytes:
        """Return exactly ``size`` bytes at ``address``.

        Raises:
            TargetReadError: any of the bytes is in no segment.
        """
        found = bytearray()
        while len(found) < size:
            found += self._part(address + len(found), size - len(found))
        return bytes(found)

    def to_host(self, data: bytes) -> bytes:
        """Return the bytes as they are: libmqs reads little-endian files on little-endian machines."""
        return data

    def global_rank(self) -> int:
        """Return -1."""
        return -1

    def _part(self, address: int, size: int) -> bytes:
        for segment in self._segments:
            offset = address - segment.address
            if 0 <= offset < segment.size:
                wanted = min(size, segment.size - offset)
                return bytes(segment.data[offset : offset + wanted]).ljust(wanted, b"\0")
        raise TargetReadError(address, size)

    def _table(self, entry: struct.Struct, offset: int, count: int) -> list[tuple[int, ...]]:
        return [entry.unpack_from(self._data, offset + index * entry.size) for index in range(count)]

    def _load(self, headers: list[tuple[int, ...]]) -> Iterator[_Segment]:
        """Yield the segments as the kernel maps them: whole pages of the file, with what else stands in them."""
        for kind, flags, offset, address, _, in_file, in_memory, _ in headers:
            before = address % _PAGE
            if kind != _LOAD or in_memory > _LARGEST_FILE or offset % _PAGE != before:
                continue
            size = -(-(before + in_memory) // _PAGE) * _PAGE
            end = offset + in_file if flags & 2 else offset - before + size  # what is written to begins with zeros
            yield _Segment(self._base + address - before, self._data[offset - before : end], size)

    def _relocate(self, headers: list[tuple[int, ...]]) -> None:
        """Fill in the pointers to what the file itself has."""
        for kind, _, _, address, _, size, _, _ in headers:
            if kind != _DYNAMIC_SEGMENT:
                continue
            entries = dict(_DYNAMIC.iter_unpack(self.fetch(self._base + address, size - size % _DYNAMIC.size)))
            if _DT_RELOCATIONS in entries:
                symbols = self._base + entries.get(_DT_SYMBOLS, 0)
                table = self.fetch(self._base + entries[_DT_RELOCATIONS], entries.get(_DT_SIZE, 0))
                for place, information, addend in _RELOCATION.iter_unpack(table):
                    if information & 0xFFFFFFFF in _RELATIVE:
                        self._fill(self._base + place, self._base + addend)
                    elif information & 0xFFFFFFFF in _ABSOLUTE:
                        symbol = _SYMBOL.unpack(self.fetch(symbols + (information >> 32) * _SYMBOL.size, _SYMBOL.size))
                        if symbol[3]:
                            self._fill(self._base + place, self._base + symbol[4] + addend)

    def _fill(self, place: int, pointer: int) -> None:
        for segment in self._segments:
            offset = place - segment.address
            if 0 <= offset <= len(segment.data) - _POINTER.size:
                _POINTER.pack_into(segment.data, offset, pointer)
                return


def _read(path: Path) -> bytearray:
    """Return a file that begins as one of a 64-bit little-endian machine that libmqs knows.

    Raises:
        FileError: it is another one.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(_HEADER.size)
            if begin.startswith(_TEXTS_FOR_THE_LINKER):
                raise FileError(f"{path} is no library but a text for the linker: {_first_line(path)}")
            if not begin.startswith(_MAGIC) or len(begin) < _HEADER.size:
                raise FileError(f"{path} is no 64-bit ELF file")
            fields = _HEADER.unpack(begin)
            if fields[1] not in _TYPES or fields[2] not in _MACHINES:
                raise FileError(f"{path} is no library and no program for x86_64 or aarch64")
            return bytearray(begin + file.read(_LARGEST_FILE))
    except OSError as error:
        raise FileError(f"{path} can't be read: {error.strerror}") from error


def _first_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return next((line for line in lines if line.startswith(("INPUT", "GROUP"))), lines[0])


def _image(path: Path, segments: list[_Segment]) -> LiveImage:
    if not segments:
        raise FileError(f"{path} has no part that a process would have in memory")
    program = new_program()
    module = program.extra_module(str(path.resolve()), create=True)
    module.debug_file_status = drgn.ModuleFileStatus.DONT_WANT
    module.address_range = (segments[0].address, segments[-1].address + segments[-1].size)
    module.try_file(path)
    return LiveImage(program, [module])
