"""A rank's view of itself, from /proc/self: the exported symbols of its objects, and a copy of its memory.

Addresses of symbols come from the objects' files, and are Python numbers throughout: a pointer in this process's own
heap would look like a part of an MPI's object.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from mqs_dll.calibrate.exports import exports
from mqs_dll.debugger.proc import Mapping, mappings

PAGE = 4096
LARGEST_REGION = 256 << 20
"""Bytes; larger mappings hold payloads, not structs."""

PIECE = 64 * PAGE
ZEROS = memoryview(bytes(PAGE)).cast("Q")


class Loaded(NamedTuple):
    """A symbol of a loaded object."""

    address: int
    size: int
    path: str


def find_symbols(wanted: Collection[str]) -> dict[str, Loaded]:
    """Return where the wanted symbols lie, each in the first object that defines it."""
    found: dict[str, Loaded] = {}
    bases: dict[str, int] = {}
    for mapping in mappings("self"):
        if mapping.path.startswith("/"):
            bases.setdefault(mapping.path, mapping.begin)
    for path, base in bases.items():
        for name, (value, size) in exports(Path(path), wanted).items():
            found.setdefault(name, Loaded(base + value, size, path))
    return found


Region = tuple[int, int, int, bool]
"""Address, bytes, place in the file, whether it can be written: as dump.py wants it."""


def copy_memory(copy: Path, objects: Collection[str]) -> list[Region]:
    """Copy what can be written, and of some objects everything; return the regions. Pages of zeros stay holes."""
    regions: list[Region] = []
    place = 0
    with copy.open("wb") as file, Path("/proc/self/mem").open("rb", buffering=0) as memory:
        window = _Window(memory.fileno())
        for mapping in mappings("self"):
            if not _is_wanted(mapping, objects):
                continue
            for address, page in window.pages(mapping):
                os.pwrite(file.fileno(), page, place + address - mapping.begin)
            size = mapping.end - mapping.begin
            regions.append((mapping.begin, size, place, "w" in mapping.permissions))
            place += size
        file.truncate(place)
    return regions


def _is_wanted(mapping: Mapping, objects: Collection[str]) -> bool:
    readable = mapping.readable and not mapping.permissions.endswith("s")
    small = mapping.end - mapping.begin <= LARGEST_REGION
    return readable and small and ("w" in mapping.permissions or mapping.path in objects)


class _Window:
    """Reads memory into a shared mapping, which is not copied itself: on the heap, copies would be copied again."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._bytes = memoryview(mmap.mmap(-1, PIECE))
        self._words = self._bytes.cast("Q")

    def pages(self, mapping: Mapping) -> Iterator[tuple[int, memoryview]]:
        """Yield the pages of a mapping that can be read and are not all zeros; each is good until the next."""
        address = mapping.begin
        while address < mapping.end:
            read = self._read(address, min(PIECE, mapping.end - address))
            for at in range(0, read, PAGE):
                if self._words[at // 8 : (at + PAGE) // 8] != ZEROS:
                    yield address + at, self._bytes[at : at + PAGE]
            address += read or PAGE

    def _read(self, address: int, size: int) -> int:
        try:
            return os.preadv(self._memory, [self._bytes[:size]], address) // PAGE * PAGE
        except OSError:  # a file that is shorter than its mapping, or memory of a device
            return 0
