"""The ELF-64 object file format, from bytes to records: of a file, of a core file, or of a library in memory.

Nothing is read here, and nothing found beyond the bytes that are given: whoever gets them bounds how many they are.
Source: System V gABI, chapters 4 (header, sections, symbols) and 5 (program headers, notes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"\x7fELF"
MAGIC_64 = b"\x7fELF\x02\x01"
"""The start of a 64-bit little-endian file."""
MACHINES = {62: "x86_64", 183: "aarch64"}
"""Those that libmqs reads."""

EXECUTABLE, SHARED, CORE = 2, 3, 4
"""Kinds of files: a program that has a place of its own, a library or a program that may lie anywhere, a core file."""
LOAD, DYNAMIC, NOTE = 1, 2, 4
"""Kinds of segments."""
MAY_EXECUTE, MAY_WRITE = 1, 2
"""Flags of segments."""
SYMBOL_TABLE, DYNAMIC_ENTRIES, DYNAMIC_SYMBOLS = 2, 6, 11
"""Kinds of sections: the symbols for debuggers; what the dynamic linker needs, and the symbols for it."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC_ENTRY = struct.Struct("<QQ")
_NOTE = struct.Struct("<III")
_BUILD_ID, _NEEDED = 3, 1

HEADER_SIZE, SEGMENT_SIZE, SECTION_SIZE, SYMBOL_SIZE = _HEADER.size, _SEGMENT.size, _SECTION.size, _SYMBOL.size


class Header(NamedTuple):
    """What a file is, and where its tables lie."""

    identity: bytes
    kind: int
    machine: int
    version: int
    entry: int
    segments_at: int
    """The place in the file of the program headers."""
    sections_at: int
    flags: int
    size: int
    segment_size: int
    """Bytes of one program header: SEGMENT_SIZE, or the file is damaged."""
    segment_count: int
    section_size: int
    section_count: int
    section_names: int


class Segment(NamedTuple):
    """A program header: a part of the file that a process has in its memory."""

    kind: int
    flags: int
    offset: int
    """In the file."""
    address: int
    physical: int
    file_size: int
    """Bytes that the file has of it."""
    memory_size: int
    alignment: int


class Section(NamedTuple):
    """A section header."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    """In the file."""
    size: int
    link: int
    """The number of another section: of symbols that with their names."""
    information: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """An entry of a symbol table."""

    name: int
    """Where it starts among the names."""
    information: int
    other: int
    section: int
    """0 where the symbol is another file's."""
    value: int
    size: int


def header(data: bytes | bytearray) -> Header | None:
    """Return the header that a 64-bit little-endian file starts with, None where it is another one or ends within."""
    if len(data) < HEADER_SIZE or not data.startswith(MAGIC_64):
        return None
    return Header._make(_HEADER.unpack_from(data))


def segments(table: bytes | bytearray) -> list[Segment]:
    """Return the program headers of a table, as far as it goes."""
    return [Segment._make(fields) for fields in _SEGMENT.iter_unpack(_whole(table, SEGMENT_SIZE))]


def sections(table: bytes | bytearray) -> list[Section]:
    """Return the section headers of a table, as far as it goes."""
    return [Section._make(fields) for fields in _SECTION.iter_unpack(_whole(table, SECTION_SIZE))]


def symbols(table: bytes) -> Iterator[Symbol]:
    """Yield the symbols of a table, as far as it goes."""
    return map(Symbol._make, _SYMBOL.iter_unpack(_whole(table, SYMBOL_SIZE)))


def needed(table: bytes, names: bytes) -> list[str]:
    """Return the names of the libraries that a file is linked with (DT_NEEDED), by its dynamic section."""
    entries = _DYNAMIC_ENTRY.iter_unpack(_whole(table, _DYNAMIC_ENTRY.size))
    found = [names[value : names.find(b"\0", value)] for tag, value in entries if tag == _NEEDED]
    return [name.decode("utf-8", "surrogateescape") for name in found]


def _whole(table: bytes | bytearray, size: int) -> bytes | bytearray:
    return table[: len(table) - len(table) % size]


def notes(data: bytes, owner: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each of an owner's notes, up to the first one that the data doesn't hold."""
    at = 0
    while at + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, at)
        start = at + _NOTE.size + -(-name_size // 4) * 4
        if start + size > len(data):
            return
        if data.startswith(owner + b"\0", at + _NOTE.size):
            yield kind, data[start : start + size]
        at = start + -(-size // 4) * 4


def build_id(data: bytes) -> bytes:
    """Return the build-id that the linker gave a file, by the notes of one of its segments; nothing where it didn't."""
    return next((content for kind, content in notes(data, b"GNU") if kind == _BUILD_ID), b"")


def same_build(page: bytes, other: bytes) -> bool:
    """Return whether two files' first pages are of one build, stripped or not; equal, where they have no build-id."""
    build = _build_id_in(page)
    return build == _build_id_in(other) if build else page == other


def _build_id_in(page: bytes) -> bytes:
    """Return the build-id in a file's first page, nothing where there is none."""
    found = header(page)
    if found is None:
        return b""
    table = page[found.segments_at : found.segments_at + found.segment_count * SEGMENT_SIZE]
    builds = (
        build_id(page[each.offset : each.offset + each.file_size]) for each in segments(table) if each.kind == NOTE
    )
    return next(filter(None, builds), b"")
