"""Copies a rank's own memory, as far as an MPI's state can be in it, into a sparse file (the form that dump.py reads).

That is the library's header and its variables, the heap, and the anonymous and shared mappings. Intel MPI maps
gigabytes of shared memory: of each mapping only the parts that were ever touched count,
as /proc/PID/pagemap tells (Documentation/admin-guide/mm/pagemap.rst).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from mqs_dll.debugger.proc import Mapping, mappings

PAGE = 4096
TOUCHED = 0b11 << 62
"""Bits of an entry of pagemap: the page is in memory, or swapped out."""

GAP = 256
"""Pages that were never touched, between two that were, that are taken along as zeros."""

SHARED_MEMORY = ("/dev/shm/mpich", "/dev/shm/Intel_MPI")
"""Files with messages between the processes of a node."""

CHUNK = 1 << 22

Ranges = list[tuple[int, int]]
"""Begins and ends."""

Regions = list[tuple[int, int, int, bool]]
"""Address, size, place in the file, whether it is writable."""


def base_of(library: Path) -> int:
    """Return where a library begins in this process.

    Raises:
        LookupError: it is not loaded.
    """
    found = [
        mapping.begin for mapping in mappings("self") if mapping.readable and mapping.path == str(library.resolve())
    ]
    if not found:
        raise LookupError(library)
    return min(found)


def variables_of(library: Path) -> Ranges:
    """Return the place of a library's variables: what its file backs, and the anonymous mapping behind (.bss)."""
    found: Ranges = []
    own = str(library.resolve())
    for mapping in mappings("self"):
        follows = bool(found) and mapping.path == "" and mapping.begin == found[-1][1]
        if mapping.writable and (mapping.path == own or follows):
            found.append((mapping.begin, mapping.end))
    return found


def shared() -> Ranges:
    """Return the touched parts of the memory that the processes of a node share."""
    return [
        part
        for mapping in mappings("self")
        if mapping.writable and mapping.path.startswith(SHARED_MEMORY)
        for part in _touched(mapping)
    ]


def shared_files() -> list[str]:
    """Return the files of the memory that the processes of a node share; some are deleted as soon as all have them."""
    return [mapping.path for mapping in mappings("self") if mapping.readable and mapping.path.startswith(SHARED_MEMORY)]


def save(library: Path, path: Path) -> Regions:
    """Write the memory to a file and return its regions."""
    regions: Regions = []
    header = base_of(library)
    variables = variables_of(library)
    parts = [(header, header + PAGE, False), *((start, end, True) for start, end in variables)]
    for mapping in mappings("self"):
        if mapping.writable and (mapping.begin, mapping.end) not in variables and _is_wanted(mapping.path):
            parts += [(start, end, True) for start, end in _touched(mapping)]
    with path.open("wb") as copy, Path("/proc/self/mem").open("rb", buffering=0) as memory:
        offset = 0
        for start, end, writable in parts:
            _copy(memory.fileno(), start, end, copy.fileno(), offset)
            regions.append((start, end - start, offset, writable))
            offset += end - start
        copy.truncate(offset)
    return regions


def _is_wanted(name: str) -> bool:
    return name in ("", "[heap]") or name.startswith(SHARED_MEMORY)


def _touched(mapping: Mapping) -> Iterator[tuple[int, int]]:
    """Yield the parts of a mapping that were touched."""
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        entries = os.pread(file.fileno(), (mapping.end - mapping.begin) // PAGE * 8, mapping.begin // PAGE * 8)
    begin = end = None
    for index, (entry,) in enumerate(struct.iter_unpack("<Q", entries)):
        if not entry & TOUCHED:
            continue
        if begin is None or end is None:
            begin = index
        elif index - end > GAP:
            yield mapping.begin + begin * PAGE, mapping.begin + end * PAGE
            begin = index
        end = index + 1
    if begin is not None and end is not None:
        yield mapping.begin + begin * PAGE, mapping.begin + end * PAGE


def _copy(memory: int, start: int, end: int, copy: int, offset: int) -> None:
    for address in range(start, end, CHUNK):
        data = os.pread(memory, min(CHUNK, end - address), address)
        for at in range(0, len(data), 16 * PAGE):
            piece = data[at : at + 16 * PAGE]
            if piece.count(0) != len(piece):  # else the file has a hole there
                os.pwrite(copy, piece, offset + address - start + at)
