"""The search for the communicators of MPICH's open files, in made-up memory: how much of a process it looks at."""

from __future__ import annotations

import struct

from mqs_dll.library.memory import PAGE, WORD, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary, LoadedSegment
from mqs_dll.library.mpi.mpich.romio import COOKIE, MAX_PLACES, NEARBY, PARTS, Candidate, Files
from tests.support.memory_image import MemoryImage

COMMUNICATOR = 0x10_0000
LIBRARY = 0x20_0000
HEAP = 0x1000_0000_0000
FAR = 4 * NEARBY
"""Bytes between places so that a search around one doesn't reach the next."""
CANDIDATE = Candidate(COMMUNICATOR, 0x84000000, 4)


def record(table: int = LIBRARY) -> bytes:
    """Return a file's record that refers to the communicator, behind the address of a table."""
    return COOKIE + struct.pack("<4xQQ", table, CANDIDATE.handle) + bytes(PAGE)


def search(words: list[int], mapped: dict[int, bytes]) -> tuple[set[int], list[int]]:
    """Return what is found from a communicator that has these words, and the addresses that were fetched."""
    words = words + [0] * (PARTS - len(words))
    image = MemoryImage({COMMUNICATOR: struct.pack(f"<{PARTS}Q", *words).ljust(4 * PAGE, b"\0"), **mapped})
    library = LoadedLibrary(LIBRARY, (LoadedSegment(LIBRARY, PAGE, PAGE, True, False),), "")
    found = Files(Memory(image), library, None).of_files([CANDIDATE])
    return found, [address for address, _ in image.fetches]


def places(count: int) -> list[int]:
    """Return addresses far from each other."""
    return [HEAP + number * FAR for number in range(count)]


def test_the_record_near_a_part_of_a_communicator_is_found() -> None:
    """It starts with the magic number, and has the communicator's handle behind an address of the library."""
    (place,) = places(1)
    found, _ = search([place + WORD], {place: record()})
    assert found == {COMMUNICATOR}


def test_what_has_no_table_of_the_library_is_no_record() -> None:
    """The magic number and the handle of a communicator may stand anywhere."""
    (place,) = places(1)
    found, _ = search([place + WORD], {place: record(table=place)})
    assert not found


def test_the_search_ends_at_its_bound() -> None:
    """Words behind the last place that is searched from aren't even tried."""
    near = places(MAX_PLACES + 1)
    found, fetched = search(near, {place: bytes(PAGE) for place in near[:-1]} | {near[-1]: record()})
    assert not found
    assert max(fetched) < near[-1] - NEARBY


def test_what_was_searched_is_not_tried_again() -> None:
    """A word into the neighbourhood of a place costs no read: it can only lead to what was read."""
    (place,) = places(1)
    unmapped = [place + WORD + step for step in range(NEARBY // 2, NEARBY // 2 + 64 * PAGE, 16 * PAGE)]
    _, once = search([place], {place: bytes(PAGE)})
    _, again = search([place, *unmapped], {place: bytes(PAGE)})
    assert again == once
