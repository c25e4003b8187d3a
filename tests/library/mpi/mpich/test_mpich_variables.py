"""The table of processes among the variables of an MPICH: what resembles one, and the one that is."""

from __future__ import annotations

import struct

import pytest

from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary, LoadedSegment
from mqs_dll.library.mpi.mpich.ch4.variables import HEADERS, STRIDES, find, processes
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.release import Release
from tests.support.memory_image import MemoryImage
from tests.support.mpich_process import MpichProcess, layouts_with

LIBRARY, HEAP = 0x7F0000000000, 0x550000000000
FALSE_TABLE, TABLE, LIST = HEAP, HEAP + (1 << 18), HEAP + (1 << 19)
SIZE = 3


def parts_at(base: int, build: str = "") -> MpichProcessContext:
    """Return the parts of a process that has the library at an address, all of it variables."""
    parts = MpichProcess(layouts_with("MPIR_Request", "dev.match.parts.tag")).parts("ch4:ofi")
    parts.library = LoadedLibrary(base, (LoadedSegment(base, PAGE, PAGE, writable=True, executable=False),), build)
    return parts


@pytest.mark.parametrize("release", ["4.1.3", "4.2.3", "4.3.2", "5.0.2"])
def test_the_table_of_processes_is_that_of_the_list_of_tables(release: str) -> None:
    """Other memory with the right size and entries, to which a variable leads first, is none."""
    size_at, first = HEADERS[release[:3]]
    heap = bytearray(1 << 20)
    for table, entries in ((FALSE_TABLE, (2, 1, 0)), (TABLE, (0, 1, 2))):
        struct.pack_into("<i", heap, table - HEAP + size_at, SIZE)
        for rank, entry in enumerate(entries):
            struct.pack_into("<Q", heap, table - HEAP + first + STRIDES[0] * rank, entry)
    struct.pack_into("<Q", heap, LIST - HEAP, TABLE)
    variables = struct.pack("<5Q", FALSE_TABLE, LIST, 0, TABLE, LIST).ljust(PAGE, b"\0")
    memory = Memory(MemoryImage({LIBRARY: variables, HEAP: bytes(heap)}))
    parts = parts_at(LIBRARY)
    parts.memory, parts.release = memory, Release(release, "ch4:ofi")
    found = processes(parts, SIZE, lambda entry: (memory.pointer(entry),), lambda word: word < SIZE)
    assert [memory.pointer(entry) for entry in found] == [0, 1, 2]


def test_processes_of_one_library_are_searched_once() -> None:
    """What one has is searched for at the same distance in the next; it is searched for where it isn't there."""
    searched: list[int] = []

    def found(base: int, build: str, distance: int) -> int:
        def search() -> int:
            searched.append(base)
            return base + distance

        return find(parts_at(base, build), "it", (base + distance).__eq__, search)

    cases = ((1, "one", 8), (2, "one", 8), (3, "one", 16), (4, "one", 16), (5, "other", 16))
    assert [found(PAGE * base, build, distance) - PAGE * base for base, build, distance in cases] == [8, 8, 16, 16, 16]
    assert searched == [PAGE * base for base in (1, 3, 5)]
