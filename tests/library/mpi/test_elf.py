"""A library's image in memory, found from the address of one of its functions."""

from __future__ import annotations

import hashlib
import struct

import pytest

from mqs_dll.contract.errors import LayoutError, TargetReadError
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary, LoadedSegment, find_bytes, library_at
from tests.support.memory_image import MemoryImage

BASE = 0x7F0000000000
CODE = BASE + 64 * PAGE
DATA = BASE + 128 * PAGE
BSS_BYTES = 2 * PAGE
R, W, X = 4, 2, 1


def header(segments: list[tuple[int, int, int, int]], note: bytes = b"") -> bytes:
    """Return the first page of a library with (flags, address, bytes in the file, bytes in memory) segments."""
    loads = [(1, flags, 0, address - BASE, 0, file, size, PAGE) for flags, address, file, size in segments]
    entries = [*loads, (4, R, PAGE - len(note), PAGE - len(note), 0, len(note), len(note), 4)] if note else loads
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(entries), 64, 0, 0
    )
    page = elf + b"".join(struct.pack("<IIQQQQQQ", *entry) for entry in entries)
    return page.ljust(PAGE - len(note), b"\0") + note


SEGMENTS = [(R, BASE, PAGE, PAGE), (R | X, CODE, 2 * PAGE, 2 * PAGE), (R | W, DATA, PAGE, PAGE + BSS_BYTES)]


def mapped(first_page: bytes, **more: bytes) -> Memory:
    """Return a process with the library of SEGMENTS, with a hole between each two segments."""
    variables = more.get("variables", b"").ljust(PAGE + BSS_BYTES, b"\0")
    return Memory(MemoryImage({BASE: first_page, CODE: b"\xcc" * 2 * PAGE, DATA: variables}))


def test_a_library_is_found_from_one_of_its_functions() -> None:
    """The header below a function is found over holes between the segments, and shows all segments."""
    library = library_at(mapped(header(SEGMENTS)), CODE + PAGE + 17, None)
    assert library.base == BASE
    assert library.segments == (
        LoadedSegment(BASE, PAGE, PAGE, writable=False, executable=False),
        LoadedSegment(CODE, 2 * PAGE, 2 * PAGE, writable=False, executable=True),
        LoadedSegment(DATA, PAGE + BSS_BYTES, PAGE, writable=True, executable=False),
    )


def test_a_segment_may_lie_farther_back_in_the_file_than_in_memory() -> None:
    """Tools that edit libraries, like patchelf, put it there: the header shows all the same where the others are."""
    page = bytearray(header(SEGMENTS))
    struct.pack_into("<Q", page, 64 + 2 * 56 + 8, DATA - BASE + PAGE)  # p_offset of the last one
    library = library_at(mapped(bytes(page)), CODE, None)
    assert [segment.address for segment in library.segments] == [BASE, CODE, DATA]


def test_a_library_that_does_not_hold_the_function_is_passed_over() -> None:
    """A header whose segments leave the function out is another library's."""
    other = header([(R, BASE, PAGE, PAGE), (R | W, DATA, PAGE, PAGE)])
    with pytest.raises(LayoutError, match="no library's header"):
        library_at(mapped(other), CODE, None)


@pytest.mark.parametrize("damage", [(16, 1), (54, 57), (56, 0), (56, 65)], ids=str)
def test_a_header_that_contradicts_itself_is_none(damage: tuple[int, int]) -> None:
    """An object file, entries of another size, and absurd counts of entries are refused."""
    offset, value = damage
    page = bytearray(header(SEGMENTS))
    page[offset : offset + 2] = value.to_bytes(2, "little")
    with pytest.raises(LayoutError):
        library_at(mapped(bytes(page)), CODE, None)


def test_the_linkers_list_spares_the_search() -> None:
    """With the dynamic linker's list of libraries, nothing between header and function is read."""
    links = DATA + 16 * PAGE
    entry = struct.pack("<QQQQ", BASE, 0, 0, links + 32) + struct.pack("<QQQQ", BASE + (1 << 40), 0, 0, 0)
    process = MemoryImage(
        {
            BASE: header(SEGMENTS),
            CODE: b"\xcc" * 2 * PAGE,
            DATA: bytes(PAGE + BSS_BYTES),
            links: (entry + bytes(16) + struct.pack("<QQ", 1, links)).ljust(PAGE, b"\0"),
        }
    )
    library = library_at(Memory(process), CODE, links + 80)
    assert library.base == BASE
    assert not any(CODE <= address < CODE + 2 * PAGE for address, _ in process.fetches)


def test_a_list_of_the_linker_that_leads_nowhere_is_done_without() -> None:
    """A wild link, or one in a loop, costs the search but not the library."""
    links = DATA + 16 * PAGE
    loop = struct.pack("<QQQQ", 0x123000, 0, 0, links) + struct.pack("<QQ", 1, links)
    for start in (0xDEAD000, links + 32):
        memory = Memory(MemoryImage({BASE: header(SEGMENTS), CODE: b"\xcc" * 2 * PAGE, links: loop.ljust(PAGE, b"\0")}))
        assert library_at(memory, CODE, start).base == BASE


def test_a_build_is_known_by_its_build_id() -> None:
    """The build is the linker's note where there is one, behind whatever notes come before it."""
    other = struct.pack("<III", 4, 4, 1) + b"GNU\0" + b"abcd"
    build_id = struct.pack("<III", 4, 3, 3) + b"GNU\0" + b"\x01\xab\xff\0"
    assert library_at(mapped(header(SEGMENTS, other + build_id)), CODE, None).build == "01abff"


def test_a_build_without_a_note_is_known_by_its_first_page() -> None:
    """The build of a library without a build-id is a hash of its first page."""
    page = header(SEGMENTS)
    assert library_at(mapped(page), CODE, None).build == "page-" + hashlib.sha256(page).hexdigest()[:40]


def test_bytes_are_found_among_the_variables() -> None:
    """Aligned places are found, initialised variables first; misaligned ones and those beyond the limit are not."""
    wanted = b"\x0b\0\0\0\x10\x02\0\0"
    variables = bytearray(PAGE + BSS_BYTES)
    for offset in (8, 101, PAGE + 8, PAGE + PAGE + 8):
        variables[offset : offset + len(wanted)] = wanted
    memory = mapped(header(SEGMENTS), variables=bytes(variables))
    library = library_at(memory, CODE, None)
    assert list(find_bytes(memory, library, wanted, PAGE)) == [DATA + 8, DATA + PAGE + 8]


def test_bytes_are_found_around_a_known_variable() -> None:
    """Where not all variables are searched, those around a known one are."""
    wanted = b"\x0b\0\0\0\x10\x02\0\0"
    variables = bytearray(PAGE + BSS_BYTES)
    for offset in (PAGE + 8, PAGE + PAGE + 8):
        variables[offset : offset + len(wanted)] = wanted
    memory = mapped(header(SEGMENTS), variables=bytes(variables))
    library = library_at(memory, CODE, None)
    assert list(find_bytes(memory, library, wanted, PAGE, near=DATA + PAGE + PAGE + 16)) == [DATA + PAGE + PAGE + 8]


def test_variables_that_cannot_be_read_are_an_error_after_the_others() -> None:
    """What is found elsewhere comes first; then it is told that there may be more."""
    segments = (LoadedSegment(BASE + n * PAGE, PAGE, PAGE, writable=True, executable=False) for n in (0, 1))
    found = find_bytes(
        Memory(MemoryImage({BASE + PAGE: b"\x01".ljust(PAGE)})), LoadedLibrary(BASE, (*segments,), ""), b"\x01", PAGE
    )
    assert next(found) == BASE + PAGE
    with pytest.raises(TargetReadError):
        next(found)
