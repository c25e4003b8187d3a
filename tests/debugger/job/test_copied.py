"""The memory of a process as it was copied, on this process's own."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from mqs_dll.contract.errors import TargetReadError, TooMuchError
from mqs_dll.debugger import many_reads
from mqs_dll.debugger.job import copied
from mqs_dll.debugger.job.copied import Copied
from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.many_reads import Place

PAGE = mmap.PAGESIZE
PAGES = 8
CLOSED, MISSING = 2, 5
"""Pages that the process itself may not read, and that it doesn't have."""


class Pages:
    """Some pages of memory, of which two are special."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *3 * (ctypes.c_int,), ctypes.c_long)
        self._libc = libc
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.address = int(libc.mmap(None, PAGES * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0))
        for page in range(PAGES):
            self.write(page, bytes([page + 1]))
        libc.mprotect(ctypes.c_void_p(self.at(CLOSED)), PAGE, 0)
        libc.munmap(ctypes.c_void_p(self.at(MISSING)), PAGE)

    def at(self, page: int) -> int:
        """Return where a page starts."""
        return self.address + page * PAGE

    def write(self, page: int, byte: bytes) -> None:
        """Fill a page."""
        ctypes.memset(self.at(page), byte[0], PAGE)

    def map_missing(self) -> None:
        """Have the page that is missing."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
        self._libc.mmap(self.at(MISSING), PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)

    def free(self) -> None:
        """Give all of them back."""
        self._libc.munmap(ctypes.c_void_p(self.address), PAGES * PAGE)


@pytest.fixture
def pages() -> Iterator[Pages]:
    """Return pages of this process."""
    made = Pages()
    yield made
    made.free()


@pytest.fixture(params=[True, False], ids=["one call", "a call each"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, pages: Pages) -> Iterator[Copied]:
    """Return this process, after each page was asked for; also where the kernel refuses to read many places at once."""
    if not request.param:
        monkeypatch.setattr(many_reads, "_read", None)
    with LiveProcess(os.getpid()) as process:
        memory = Copied(process)
        memory.begin_read()
        for page in range(PAGES):
            with suppress(TargetReadError):
                memory.fetch(pages.at(page), PAGE)
        yield memory


def test_a_copy_says_what_was_there(memory: Copied, pages: Pages) -> None:
    """Also across pages, and of one that the process may not read itself; what has come since is not seen."""
    assert memory.prepare() == PAGES * PAGE
    pages.write(0, b"\x55")
    pages.write(PAGES - 1, b"\x44")
    memory.copy()
    pages.write(0, b"\x66")
    assert memory.fetch(pages.at(0), PAGE + 1) == b"\x55" * PAGE + b"\x02"
    assert memory.fetch(pages.at(PAGES - 1), PAGE) == b"\x44" * PAGE
    assert memory.fetch(pages.at(CLOSED), PAGE) == bytes([CLOSED + 1]) * PAGE
    with pytest.raises(TargetReadError):
        memory.fetch(pages.at(MISSING), 1)
    with pytest.raises(TargetReadError):
        memory.fetch(pages.at(MISSING) - 1, 2)
    assert not memory.has_missed
    memory.drop()
    assert memory.fetch(pages.at(0), 1) == b"\x66"


def test_what_was_not_copied_is_missed(memory: Copied, pages: Pages) -> None:
    """It is read as it is now, and whoever reads learns of it."""
    memory.prepare()
    memory.copy()
    other = ctypes.create_string_buffer(b"other", PAGE)
    assert memory.fetch(ctypes.addressof(other), 5) == b"other"
    assert memory.has_missed
    memory.copy()
    assert not memory.has_missed
    assert memory.fetch(pages.at(PAGES - 1), PAGE)
    assert not memory.has_missed


def test_a_page_that_is_there_by_now_is_copied(memory: Copied, pages: Pages) -> None:
    """What could not be read when it was asked for is tried again each time."""
    memory.prepare()
    pages.map_missing()
    pages.write(MISSING, b"\x77")
    memory.copy()
    assert memory.fetch(pages.at(MISSING), PAGE) == b"\x77" * PAGE
    pages.free()
    memory.copy()
    for page in range(PAGES):
        with pytest.raises(TargetReadError):
            memory.fetch(pages.at(page), 1)


def test_nothing_is_read_after_a_time(memory: Copied, pages: Pages) -> None:
    """Neither of a copy nor of the process; then again."""
    memory.prepare()
    for act in (memory.copy, memory.drop):
        act()
        with memory.within(0.0), pytest.raises(TooMuchError, match="given up after 0 seconds"):
            memory.fetch(pages.at(0), 1)
        assert memory.fetch(pages.at(0), 1)


def test_what_is_too_much_is_not_copied(memory: Copied, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether bytes or reads; and nothing, where nothing was asked for."""
    monkeypatch.setattr(copied, "MAX_COPIED", PAGES * PAGE - 1)
    assert memory.prepare() is None
    monkeypatch.setattr(copied, "MAX_COPIED", PAGES * PAGE)
    assert memory.prepare() == PAGES * PAGE
    monkeypatch.setattr(copied, "MAX_READS", PAGES)
    assert memory.prepare() is None
    memory.begin_read()
    assert memory.prepare() is None


def test_more_places_than_one_call_takes_are_read(pages: Pages) -> None:
    """Those that can't be read so are left out, wherever they are; where they are very many, nothing else is tried."""
    buffer = bytearray(3000 * 8)
    sound = [Place(pages.at(0) + 8 * (number % 100), 8, 8 * number) for number in range(3000)]
    bad = [Place(pages.at(MISSING), 8, 0), Place(pages.at(CLOSED), 8, 0)]
    places = [*sound[:1], bad[0], *sound[1:2000], bad[1], *sound[2000:]]
    reads = many_reads.ManyReads(os.getpid(), buffer, places)
    assert reads.left_out == bad
    pages.write(0, b"\x33")
    assert reads.again()
    assert buffer == b"\x33" * len(buffer)
    assert many_reads.ManyReads(os.getpid(), buffer, bad * 100 + sound).left_out == bad * 100 + sound
    pages.free()
    assert not reads.again()


def test_what_earlier_reads_asked_for_is_copied_too(memory: Copied, pages: Pages) -> None:
    """Of the last few, as long as it isn't too much: what changes is often where it was before."""
    for _ in range(4):
        memory.begin_read()
        memory.fetch(pages.at(0), 8)
    assert memory.prepare() == PAGES * PAGE
    memory.begin_read()
    memory.fetch(pages.at(0), 8)
    assert memory.prepare() == 8


def test_what_a_library_asks_for_before_it_reads_is_not_copied(pages: Pages) -> None:
    """It may search megabytes to find its way."""
    with LiveProcess(os.getpid()) as process:
        memory = Copied(process)
        memory.fetch(pages.at(0), 2 * PAGE)
        memory.begin_read()
        memory.fetch(pages.at(0), 8)
        assert memory.prepare() == 8


def test_too_much_of_earlier_reads_is_left_out(memory: Copied, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the last one alone is copied."""
    monkeypatch.setattr(copied, "MAX_COPIED", PAGES * PAGE - 1)
    memory.begin_read()
    memory.fetch(pages.at(0), 8)
    assert memory.prepare() == 8


def test_stacks_belong_to_the_copy(memory: Copied, pages: Pages) -> None:
    """Until it is dropped: what lies on a stack changes most of all, and was copied anyway."""
    for _ in range(5):
        memory.begin_read()
        memory.fetch(pages.at(0), 8)
    memory.prepare()
    memory.copy()
    memory.add_stacks([ThreadStack(1, b"", pages.at(6), b"\x99" * PAGE, is_whole=True)])
    assert memory.fetch(pages.at(6) + 8, 16) == b"\x99" * 16
    assert not memory.has_missed
    assert memory.fetch(pages.at(7) - 8, 16) == bytes([7]) * 8 + bytes([8]) * 8
    assert memory.has_missed
    memory.drop()
    memory.copy()
    assert memory.fetch(pages.at(6) + 8, 1) == bytes([7])
