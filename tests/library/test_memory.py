"""Reads of the target's memory: few, large, remembered, bounded."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import NamedTuple

import pytest

from mqs_dll.contract.abi import TypeSizes
from mqs_dll.contract.errors import BrokenStructureError, MqsError, TargetReadError, TooMuchError, WordSizeError
from mqs_dll.library import bounds
from mqs_dll.library.bounds import BYTES_OF_A_STEP, MAX_STEPS
from mqs_dll.library.memory import (
    BLOCK,
    MAX_FETCH,
    MAX_PARTIAL_SWEEPS,
    MIN_HELD,
    PAGE,
    Memory,
    bounded,
    cached_per_sweep,
    kept_while_unchanged,
)
from mqs_dll.library.mpi import stack
from tests.support.memory_image import MemoryImage

BASE = 0x10000


def test_neighbouring_reads_take_one_fetch() -> None:
    """A fetch brings the block around an address, and later reads in it fetch nothing."""
    target = MemoryImage({BASE: bytes(range(256)) * (BLOCK // 256)})
    memory = Memory(target)
    assert memory.read(BASE + 5, 3) == bytes([5, 6, 7])
    assert memory.pointer(BASE + 8) == int.from_bytes(bytes(range(8, 16)), "little")
    assert memory.read(BASE + BLOCK - 1, 1) == b"\xff"
    assert target.fetches == [(BASE, BLOCK)]


def test_a_block_that_is_partly_unmapped_is_read_by_pages() -> None:
    """What can be read of a block is read, although a fetch that touches an unmapped page fails whole."""
    target = MemoryImage({BASE: b"a" * PAGE})
    assert Memory(target).read(BASE + PAGE - 4, 4) == b"aaaa"
    assert target.fetches == [(BASE, BLOCK), (BASE, PAGE)]


def test_forgotten_memory_is_fetched_again() -> None:
    """After the process may have run, nothing that was read before is believed."""
    target = MemoryImage({BASE: b"old!" * BLOCK})
    memory = Memory(target)
    memory.read(BASE, 4)
    target.pages[BASE] = b"new!" * BLOCK
    assert memory.read(BASE, 4) == b"old!"
    memory.forget()
    assert memory.read(BASE, 4) == b"new!"


ONE = struct.Struct("1s")


class _Counter:
    """Counts how often it worked something out."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.times = 0
        self.read: list[int] = []
        """Where it read."""

    @kept_while_unchanged
    def byte(self, address: int) -> int | None:
        """Return a byte; None where it can't be read."""
        self.read.append(address)
        try:
            return int.from_bytes(self._memory.unpack(ONE, address)[0])
        except TargetReadError:
            return None

    @kept_while_unchanged
    def both(self, address: int, other: int) -> list[int | None]:
        """Return two."""
        return [self.byte(address), self.byte(other)]

    @cached_per_sweep
    def once(self, address: int) -> int | None:
        """Return a byte for one sweep."""
        return self.byte(address)

    @kept_while_unchanged
    def by_once(self, address: int, other: int) -> list[int | None]:
        """Return two, one of which holds for one sweep."""
        self.read.append(0)
        return [self.byte(address), self.once(other)]

    @cached_per_sweep
    def half(self, number: int) -> int:
        """Return the half of an even number."""
        self.times += 1
        if number % 2:
            raise BrokenStructureError("odd")
        return number // 2


def test_what_is_made_of_memory_is_made_once_in_a_sweep() -> None:
    """A remembered method works for each object and each argument once, until the memory is forgotten."""
    memory = Memory(MemoryImage({}))
    first, second = _Counter(memory), _Counter(memory)
    assert [first.half(4), first.half(4), first.half(8), second.half(4)] == [2, 2, 4, 2]
    assert (first.times, second.times) == (2, 1)
    memory.forget()
    assert (first.half(4), first.times) == (2, 3)


def test_a_failure_is_not_remembered() -> None:
    """What could not be worked out is tried again."""
    counter = _Counter(Memory(MemoryImage({})))
    for _ in range(2):
        with pytest.raises(BrokenStructureError):
            counter.half(3)
    assert counter.times == 2


@pytest.mark.parametrize("address", [0, 8, PAGE - 1, 1 << 60, (1 << 64) - 8])
def test_null_and_wild_pointers_cost_no_fetch(address: int) -> None:
    """An address that no process has fails at once, without a round trip to the debugger."""
    target = MemoryImage({})
    with pytest.raises(TargetReadError):
        Memory(target).read(address, 8)
    assert target.fetches == []


def test_an_unmapped_address_is_named_in_the_error() -> None:
    """A failed read says which bytes at which address."""
    with pytest.raises(TargetReadError, match="8 bytes of memory at 0xdead0"):
        Memory(MemoryImage({})).pointer(0xDEAD0)


def test_long_arrays_are_fetched_in_pieces() -> None:
    """No single fetch is larger than the limit, and the pieces are put together in order."""
    count = MAX_FETCH // 8 + 1000
    target = MemoryImage({BASE: struct.pack(f"<{count}Q", *range(count))})
    assert Memory(target).pointers(BASE, count) == tuple(range(count))
    assert max(size for _, size in target.fetches) <= MAX_FETCH


def test_one_call_may_do_so_much_whatever_it_does() -> None:
    """Steps of walks, structs that are read and bytes that are fetched have one bound, anew for each call."""
    memory = Memory(MemoryImage({BASE: b"a" * BLOCK}))
    memory.charge(MAX_STEPS - BLOCK // BYTES_OF_A_STEP - 3)
    memory.pointer(BASE)
    memory.unpack(struct.Struct("<Q"), BASE)
    memory.charge(1)
    for step in (
        lambda: memory.charge(1),
        lambda: memory.pointer(BASE),
        lambda: memory.unpack(struct.Struct("<Q"), BASE),
    ):
        with pytest.raises(TooMuchError, match=str(MAX_STEPS)):
            step()
    memory.start()
    assert memory.read(BASE, 1) == b"a"


def test_one_call_may_fetch_so_often_and_take_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches of a call are counted, also those that fail, and its time runs out between them and between steps."""
    monkeypatch.setattr(bounds, "MAX_FETCHES", 3)
    memory = Memory(MemoryImage({BASE: b"a" * PAGE}))
    for page in range(3):
        with pytest.raises(TargetReadError):
            memory.prefetch([BASE - page * PAGE - 8], 8)
    with pytest.raises(TooMuchError, match="3 fetches"):
        memory.prefetch([BASE], 8)
    memory.start()
    monkeypatch.setattr(bounds, "MAX_SECONDS", 0)
    memory.prefetch([BASE], 8)  # when its time begins
    with pytest.raises(TooMuchError, match="0 seconds"):
        memory.prefetch([BASE], 8)
    with pytest.raises(TooMuchError, match="0 seconds"):
        memory.charge(MAX_STEPS // 2)


def test_a_string_ends_at_its_nul_or_at_the_limit() -> None:
    """A string may end right before an unmapped page; without a NUL it is as long as the limit."""
    target = MemoryImage({BASE: b"x" * (PAGE - 4) + b"abc\0"})
    memory = Memory(target)
    assert memory.text(BASE + PAGE - 4, 64) == b"abc"
    assert memory.text(BASE, 10) == b"x" * 10


@pytest.mark.parametrize("sizes", [TypeSizes(2, 4, 4, 8, 4), TypeSizes(2, 4, 4, 8, 8), TypeSizes(2, 8, 8, 8, 8)])
def test_a_process_of_other_words_is_refused(sizes: TypeSizes) -> None:
    """libmqs reads LP64 processes, and says so of any other."""
    with pytest.raises(WordSizeError):
        Memory(MemoryImage({}, sizes))


def test_a_process_of_another_byte_order_is_refused() -> None:
    """A debugger that swaps bytes for its target is told that libmqs can't read it."""

    class Swapped(MemoryImage):
        def to_host(self, data: bytes) -> bytes:
            return data[::-1]

    with pytest.raises(WordSizeError, match="byte order"):
        Memory(Swapped({}))


def test_a_walk_that_meets_itself_is_broken() -> None:
    """A list that is a loop ends with an error after its items, each yielded once."""
    walk = bounded(iter([1, 2, 3, 2, 3, 2]), 100, "the list")
    assert [next(walk), next(walk), next(walk)] == [1, 2, 3]
    with pytest.raises(BrokenStructureError, match="broken after 3"):
        next(walk)


def test_a_walk_beyond_its_limit_is_broken() -> None:
    """A list that never ends is given up at the bound."""
    walk = bounded(iter(range(10**9)), 5, "the list")
    with pytest.raises(BrokenStructureError, match="broken after 5"):
        list(walk)


def test_what_was_made_of_unchanged_memory_holds_in_the_next_sweep() -> None:
    """A new sweep reads again what the last one read, and works out again only where something has changed."""
    target = MemoryImage({BASE: b"old!" * BLOCK})
    memory = Memory(target)
    counter = _Counter(memory)
    for _ in range(3):
        target.fetches.clear()
        memory.revalidate()
        assert (memory.read(BASE, 4), counter.half(4)) == (b"old!", 2)
        assert target.fetches == [(BASE, BLOCK)]
    assert counter.times == 1
    target.pages[BASE] = b"new!" * BLOCK
    memory.revalidate()
    assert (memory.read(BASE, 4), counter.half(4), counter.times) == (b"new!", 2, 2)
    memory.forget()
    memory.revalidate()
    assert (counter.half(4), counter.times) == (2, 3)


class _Kept(NamedTuple):
    """A process of some pages, which was seen to run, and what is kept of it."""

    target: MemoryImage
    memory: Memory
    counter: _Counter

    def sweep(self, changed: int | None = None) -> None:
        """Start a sweep; the last byte of the memory at an address has changed since the last one."""
        if changed is not None:
            data = self.target.pages[changed]
            self.target.pages[changed] = data[:-1] + bytes([data[-1] ^ 1])
        self.memory.revalidate()
        self.counter.read.clear()


FAR = BASE + 64 * BLOCK
MISSING = BASE + 128 * BLOCK
NEAR_END, FAR_END = BASE + PAGE - 1, FAR + BLOCK - 1


@pytest.fixture
def kept() -> _Kept:
    """Return a process that has run between its first two sweeps."""
    target = MemoryImage({BASE: b"a" * PAGE, BASE + PAGE: b"c" * 3 * PAGE, FAR: b"e" * BLOCK})
    found = _Kept(target, memory := Memory(target), _Counter(memory))
    found.sweep()
    memory.read(BASE, 1)
    found.sweep(BASE)
    return found


def test_an_answer_is_kept_until_a_page_changes_that_it_was_made_of(kept: _Kept) -> None:
    """Its own pages, and those of the answers that it stands on, whichever of them was there before."""
    counter = kept.counter
    assert (counter.byte(BASE + PAGE), counter.both(NEAR_END, FAR_END)) == (99, [96, 101])
    kept.sweep(BASE)
    assert (counter.byte(FAR_END), counter.byte(BASE + PAGE), counter.read) == (101, 99, [])
    assert (counter.both(NEAR_END, FAR_END), counter.read) == ([97, 101], [NEAR_END])
    kept.sweep(FAR)
    assert (counter.both(NEAR_END, FAR_END), counter.read) == ([97, 100], [FAR_END])


def test_a_failed_read_is_something_that_an_answer_was_made_of(kept: _Kept) -> None:
    """What could not be read, and now can, is a change, and so is the opposite."""
    counter = kept.counter
    assert counter.both(MISSING, FAR) == [None, 101]
    kept.sweep(BASE)
    assert (counter.both(MISSING, FAR), counter.read) == ([None, 101], [])
    kept.target.pages[MISSING] = b"m" * BLOCK
    kept.sweep()
    assert (counter.both(MISSING, FAR), counter.read) == ([109, 101], [MISSING])
    del kept.target.pages[MISSING]
    kept.sweep()
    assert (counter.both(MISSING, FAR), counter.read) == ([None, 101], [MISSING])


def test_what_stands_on_an_answer_for_one_sweep_is_kept_no_longer(kept: _Kept) -> None:
    """Nobody knows of which pages that was made; it doesn't matter whether it was there before."""
    counter = kept.counter
    for known in (False, True):
        if known:
            counter.once(FAR)
        assert counter.by_once(BASE + PAGE, FAR) == [99, 101]
        kept.sweep(BASE)
        assert (counter.by_once(BASE + PAGE, FAR), counter.read) == ([99, 101], [0])
        kept.sweep(BASE)


def test_a_part_is_kept_for_some_sweeps_in_a_row(kept: _Kept) -> None:
    """Then all is made anew, and what nobody asks for any more is fetched no more."""
    counter = kept.counter
    counter.byte(FAR_END)
    for _ in range(MAX_PARTIAL_SWEEPS):
        kept.target.fetches.clear()
        kept.sweep(BASE)
        assert FAR in [address for address, _ in kept.target.fetches]
        counter.byte(NEAR_END)
    kept.sweep(BASE)
    assert (counter.byte(NEAR_END), counter.byte(BASE + PAGE), counter.read) == (97, 99, [NEAR_END, BASE + PAGE])
    kept.target.fetches.clear()
    kept.sweep(BASE)
    assert FAR not in [address for address, _ in kept.target.fetches]


def test_nothing_is_kept_of_a_sweep_in_which_a_call_was_cut_off(kept: _Kept) -> None:
    """What it left may be half of something."""
    counter = kept.counter
    counter.byte(FAR_END)
    kept.memory.distrust()
    kept.sweep(BASE)
    assert (counter.byte(FAR_END), counter.read) == (101, [FAR_END])


def test_a_page_that_becomes_readable_is_a_change() -> None:
    """What was made of a failed read holds as long as it fails."""
    target = MemoryImage({})
    memory = Memory(target)
    counter = _Counter(memory)
    for mapped, times in ((False, 1), (False, 1), (True, 2)):
        if mapped:
            target.pages[BASE] = b"new!" * BLOCK
        memory.revalidate()
        if mapped:
            assert memory.read(BASE, 4) == b"new!"
        else:
            with pytest.raises(TargetReadError):
                memory.read(BASE, 4)
        assert (counter.half(4), counter.times) == (2, times)


def test_blocks_grow_where_the_next_one_is_needed_too() -> None:
    """A walk over neighbouring objects takes few reads; where less is mapped, the block that was asked for is read."""
    target = MemoryImage({BASE: b"a" * 65 * BLOCK})
    memory = Memory(target)
    for place in range(0, 65 * BLOCK, PAGE):
        memory.read(BASE + place, 8)
    sizes = [size // BLOCK for _, size in target.fetches]
    assert sizes == [1, 1, 2, 4, 8, 16, 16, 16, 16, 1]


def test_what_was_read_first_is_let_go_of_until_it_is_asked_for_again() -> None:
    """So many bytes are at hand; of who reads the same in turn twice as many are, until none is fetched again."""
    size = 2 * MIN_HELD
    target = MemoryImage({BASE: b"x" * size})
    memory = Memory(target)

    def pass_over() -> int:
        """Read all of it, and return how many bytes that fetched."""
        before = sum(fetched for _, fetched in target.fetches)
        memory.start()
        for place in range(0, size, MAX_FETCH):
            assert memory.read(BASE + place, MAX_FETCH) == b"x" * MAX_FETCH
        return sum(fetched for _, fetched in target.fetches) - before

    assert pass_over() == size
    memory.read(BASE + size - MAX_FETCH, MAX_FETCH)
    assert pass_over() > MIN_HELD
    assert [pass_over() for _ in range(2)] == [0, 0]


def test_nothing_below_the_mapped_part_of_a_stack_is_read() -> None:
    """A read there would have the kernel make the stack larger."""
    begin = 0x7FFC_0000_0000 + 5 * PAGE + 8
    lowest = begin - begin % PAGE - stack.MAPPED
    process = MemoryImage({lowest: bytes(stack.MAPPED + PAGE)})
    address, words = stack.first_words(Memory(process), begin)
    assert lowest <= address < lowest + BLOCK
    assert address + 8 * len(words) == begin
    assert min(fetched for fetched, _ in process.fetches) >= lowest


def test_what_lies_far_apart_is_fetched_alone() -> None:
    """Small ranges that are asked for together bring nothing around them, and need not be fetched again."""
    target = MemoryImage({BASE: bytes(range(256)) * BLOCK})
    memory = Memory(target)
    places = [BASE + 100, BASE + BLOCK + PAGE - 8, BASE + 2 * BLOCK]
    memory.prefetch(places, 16)
    assert [memory.read(place, 16) for place in places] == [target.fetch(place, 16) for place in places]
    assert target.fetches == [(place, 16) for place in (*places, *places)]


def test_a_page_that_cannot_be_read_is_tried_once_in_a_sweep() -> None:
    """Many words resemble the same wild pointer: each costs its reads once."""
    target = MemoryImage({})
    memory = Memory(target)
    for _ in range(3):
        with pytest.raises(TargetReadError):
            memory.read(BASE, 8)
    assert len(target.fetches) == 3  # the block, the page, the bytes


@pytest.mark.parametrize("error", [TooMuchError("a test"), KeyboardInterrupt(), ZeroDivisionError()])
@pytest.mark.parametrize("is_in_fetch", [False, True])
def test_a_sweep_that_could_not_start_leaves_nothing_for_the_next_one(
    error: BaseException, is_in_fetch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever cuts off the comparison with the last sweep, what was read and made then isn't taken for new."""
    far = BASE + (1 << 20)
    target = MemoryImage({BASE: b"same" * BLOCK, far: b"old!" * BLOCK})
    memory = Memory(target)
    counter = _Counter(memory)
    memory.revalidate()
    assert (memory.read(BASE, 4), memory.read(far, 4), counter.half(4)) == (b"same", b"old!", 2)
    target.pages[far] = b"new!" * BLOCK
    left = iter(range(1))

    def fail(*args: int) -> bytes:
        if next(left, None) is None:
            raise error
        return MemoryImage.fetch(target, *args) if is_in_fetch else b""

    with monkeypatch.context() as patch:
        patch.setattr(target if is_in_fetch else memory._budget, "fetch" if is_in_fetch else "spend_fetch", fail)
        with pytest.raises(type(error)):
            memory.revalidate()
    memory.revalidate()
    assert (memory.read(BASE, 4), memory.read(far, 4)) == (b"same", b"new!")
    assert (counter.half(4), counter.times) == (2, 2)


class _Patient:
    """Works something out with what can be read, as far as it may."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @cached_per_sweep
    def seen(self) -> int:
        """Return how many of two places could be read."""
        seen = 0
        for place in (BASE, BASE + (1 << 20)):
            with suppress(MqsError):
                self._memory.prefetch([place], 8)
                seen += 1
        return seen


def test_what_a_call_was_not_allowed_to_read_is_read_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was worked out without it isn't remembered, neither in this sweep nor in the next one."""
    memory = Memory(MemoryImage({BASE: b"a" * BLOCK, BASE + (1 << 20): b"b" * BLOCK}))
    patient = _Patient(memory)
    memory.revalidate()
    with monkeypatch.context() as patch:
        patch.setattr(bounds, "MAX_FETCHES", 1)
        assert patient.seen() == 1
    memory.start()
    assert patient.seen() == 2
