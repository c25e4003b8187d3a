"""A rank's view of itself, from /proc/self: the exported symbols of its objects, and a copy of its memory for dump.py.

Addresses of symbols come from the objects' files, and are Python numbers throughout: a pointer in this process's own
heap would appear as part of an MPI's object.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mqs_dll.calibrate.dump import PAGE
from mqs_dll.calibrate.exports import exports
from mqs_dll.debugger.proc import mappings

PIECE = 64 * PAGE
ZEROS = memoryview(bytes(PAGE)).cast("Q")


class LoadedSymbol(NamedTuple):
    """A symbol of a loaded object."""

    address: int
    size: int
    path: str


class CopiedPart(NamedTuple):
    """Memory to be copied, in whole pages."""

    start: int
    end: int
    """The address behind it."""
    writable: bool


Region = tuple[int, int, int, bool]
"""Address, bytes, place in the file, whether it can be written: as dump.py wants it."""


def find_symbols(wanted: Collection[str]) -> dict[str, LoadedSymbol]:
    """Return where the wanted symbols lie, each in the first object that defines it."""
    found: dict[str, LoadedSymbol] = {}
    bases: dict[str, int] = {}
    for mapping in mappings("self"):
        if mapping.path.startswith("/"):
            bases.setdefault(mapping.path, mapping.start)
    for path, base in bases.items():
        for name, (value, size) in exports(Path(path), wanted).items():
            found.setdefault(name, LoadedSymbol(base + value, size, path))
    return found


def copy_memory(path: Path, parts: Iterable[CopiedPart]) -> list[Region]:
    """Copy parts of this process's memory to a file; return the regions. Pages of zeros stay holes in the file."""
    regions: list[Region] = []
    place = 0
    with path.open("wb") as file, Path("/proc/self/mem").open("rb", buffering=0) as memory:
        window = memoryview(mmap.mmap(-1, PIECE))  # shared, and so not copied itself; on the heap it would be
        for part in parts:
            for address, page in _pages(part, memory.fileno(), window):
                os.pwrite(file.fileno(), page, place + address - part.start)
            size = part.end - part.start
            regions.append((part.start, size, place, part.writable))
            place += size
        file.truncate(place)
    return regions


def _pages(part: CopiedPart, memory: int, window: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the pages of a part that can be read and are not all zeros; each is good until the next."""
    words = window.cast("Q")
    address = part.start
    while address < part.end:
        read = 0
        with suppress(OSError):  # a file that is shorter than its mapping, or memory of a device
            read = os.preadv(memory, [window[: min(PIECE, part.end - address)]], address) // PAGE * PAGE
        for at in range(0, read, PAGE):
            if words[at // 8 : (at + PAGE) // 8] != ZEROS:
                yield address + at, window[at : at + PAGE]
        address += read or PAGE
