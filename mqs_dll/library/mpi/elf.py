"""The image of a shared library in a process's memory: where it begins, its segments, and which build it is.

For MPIs that export no variable worth a name: from the address of one of their functions, the library's own headers
lead to all of its memory. The dynamic linker's list of libraries tells where they begin; without it the header is
looked for below the function. Source: struct r_debug and struct link_map (link.h of glibc and musl).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from mqs_dll.contract import elf_format as elf
from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.library.memory import MAX_FETCH, PAGE, Memory

FARTHEST = 1 << 28
"""Bytes below one of its functions within which a library begins; the largest MPIs have some 60 MB of code."""

MAX_HOLE = 1 << 21
"""Bytes between segments that can't be read: linkers align segments to 2 MB at most."""

MAX_PROGRAM_HEADERS = 64
MAX_NOTES_SIZE = 1 << 16

LINKER_LIST = "_r_debug"
"""The dynamic linker's variable with the list of libraries."""

FIRST_LINK = 8
LINK_MAP = struct.Struct("<QQQQ")
"""l_addr, l_name, l_ld, l_next."""

MAX_LIBRARIES = 4096

KINDS = (elf.EXECUTABLE, elf.SHARED)
"""The MPI may be linked into the program statically."""


class LoadedSegment(NamedTuple):
    """One part of a library in memory."""

    address: int
    size: int
    """Bytes in memory; the part that no file backs (.bss) is included."""
    file_size: int
    """Bytes that come from the file (.data)."""
    writable: bool
    executable: bool

    def holds(self, address: int, size: int = 1) -> bool:
        """Tell whether a range lies within."""
        return self.address <= address and address + size <= self.address + self.size


class LoadedLibrary(NamedTuple):
    """A library as a process has it in memory."""

    base: int
    """Where its first byte lies."""
    segments: tuple[LoadedSegment, ...]
    build: str
    """The build-id that the linker gave it, in hexadecimal; where it has none, "page-" and a hash of its first page."""
    machine: str = ""
    """"x86_64" or "aarch64", empty for another one."""

    @property
    def end(self) -> int:
        """Where its last segment ends. Nothing else lies before: a loader takes the whole range, holes included."""
        return max(segment.address + segment.size for segment in self.segments)

    def holds(self, address: int, size: int = 1) -> bool:
        """Tell whether a range lies within one of its segments."""
        return any(segment.holds(address, size) for segment in self.segments)

    def writable(self) -> tuple[LoadedSegment, ...]:
        """Return the segments with variables."""
        return tuple(segment for segment in self.segments if segment.writable)


def library_at(memory: Memory, address: int, linker_list: int | None) -> LoadedLibrary:
    """Return the library that the function at ``address`` belongs to.

    Args:
        memory: of the process.
        address: of the function.
        linker_list: of LINKER_LIST, None where there is none: the program is linked statically.

    Raises:
        LayoutError: no ELF header below it describes a library that holds the address.
    """
    listed = sorted((base for base in _listed(memory, linker_list) if base <= address), reverse=True)
    for page in chain(listed[:1], _pages_with_magic(memory, address)):
        library = _parse(memory, page)
        if library is not None and library.holds(address):
            return library
    raise LayoutError(f"no library's header lies below the function at {address:#x}")


def _listed(memory: Memory, linker_list: int | None) -> list[int]:
    """Return where the libraries on the dynamic linker's list begin, as far as it can be read."""
    found: list[int] = []
    if linker_list is None:
        return found
    try:
        link = memory.pointer(linker_list + FIRST_LINK)
        while link and len(found) < MAX_LIBRARIES:
            base, _name, _dynamic, link = memory.unpack(LINK_MAP, link)
            found.append(base)
    except TargetReadError:
        pass
    return found


def _pages_with_magic(memory: Memory, address: int) -> Iterator[int]:
    """Yield the pages below an address that begin like a library, the nearest first."""
    end = address - address % PAGE + PAGE
    lowest = max(end - FARTHEST, PAGE)
    grain = MAX_FETCH
    holes = 0
    while end > lowest and holes < MAX_HOLE:
        begin = max(end - grain, lowest)
        try:
            data = memory.read(begin, end - begin)
        except TargetReadError:
            if grain > PAGE:
                grain //= 16
                continue
            holes += PAGE
        else:
            yield from (
                page for page in range(end - PAGE, begin - 1, -PAGE) if data.startswith(elf.MAGIC_64, page - begin)
            )
            grain = min(grain * 16, MAX_FETCH)
        end = begin


def _parse(memory: Memory, address: int) -> LoadedLibrary | None:
    """Return the library whose header lies at an address, None where the header is none."""
    try:
        first_page = memory.read(address, PAGE)
        header = elf.header(first_page)
        if header is None or header.kind not in KINDS or header.segment_size != elf.SEGMENT_SIZE:
            return None
        if not 0 < header.segment_count <= MAX_PROGRAM_HEADERS:
            return None
        table = memory.read(address + header.segments_at, header.segment_count * elf.SEGMENT_SIZE)
    except TargetReadError:
        return None
    entries = elf.segments(table)
    loads = [entry for entry in entries if entry.kind == elf.LOAD]
    if not loads:
        return None
    first = min(loads, key=lambda entry: entry.address)  # of one that was added, the offset may exceed the address
    bias = address - (first.address - first.offset)
    segments = tuple(
        LoadedSegment(
            bias + entry.address,
            entry.memory_size,
            entry.file_size,
            bool(entry.flags & elf.MAY_WRITE),
            bool(entry.flags & elf.MAY_EXECUTE),
        )
        for entry in loads
    )
    notes = [(bias + entry.address, entry.file_size) for entry in entries if entry.kind == elf.NOTE]
    build = _build(memory, notes) or _hash(first_page)
    return LoadedLibrary(address, segments, build, elf.MACHINES.get(header.machine, ""))


def _build(memory: Memory, notes: list[tuple[int, int]]) -> str:
    """Return the build-id in a library's notes, "" where there is none."""
    for address, size in notes:
        try:
            build = elf.build_id(memory.read(address, min(size, MAX_NOTES_SIZE)))
        except TargetReadError:
            continue
        if build:
            return build.hex()
    return ""


def _hash(first_page: bytes) -> str:
    """Return a name for a library by its first page: sizes of its segments and the begin of its symbols' hashes."""
    import hashlib  # here: it loads a library of cryptography, and most builds have an id

    return "page-" + hashlib.sha256(first_page).hexdigest()[:40]


def find_bytes(
    memory: Memory, library: LoadedLibrary, wanted: bytes, limit: int, near: int | None = None
) -> Iterator[int]:
    """Yield the addresses, multiples of 4, where some bytes stand among a library's variables.

    Initialised variables come before the others, of which at most ``limit`` bytes are searched: the first ones, or
    those around the variable at ``near``.

    Raises:
        TargetReadError: after them; there may be others, where something can't be read.
    """
    needle = wanted.rstrip(b"\0")  # a search for bytes that end in 0 would stop at each place of untouched memory
    for address, data in read_ranges(memory, _variables(library, limit, near)):
        at = data.find(needle)
        while at >= 0:
            if (address + at) % 4 == 0 and data.startswith(wanted, at):
                yield address + at
            at = data.find(needle, at + 1)


def read_ranges(memory: Memory, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield what is in some ranges of memory, given by begin and end, each piece with its address.

    Raises:
        TargetReadError: after them; there are others, which can't be read.
    """
    unread: TargetReadError | None = None
    for begin, end in ranges:
        for address in range(begin, end, MAX_FETCH):
            try:
                data = memory.read(address, min(MAX_FETCH, end - address))
            except TargetReadError as error:
                unread = unread or error
                continue
            yield address, data
    if unread is not None:
        raise unread


def _variables(library: LoadedLibrary, limit: int, near: int | None) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each part of a library with initialised, then of those with other variables."""
    for segment in library.writable():
        yield segment.address, segment.address + segment.file_size
    for segment in library.writable():
        begin, end = segment.address + segment.file_size, segment.address + segment.size
        if near is not None and begin <= near < end:
            begin = max(begin, min(near - limit // 2, end - limit))
        size = min(end - begin, limit)
        limit -= size
        yield begin, begin + size
