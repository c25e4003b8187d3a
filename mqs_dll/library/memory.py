"""Reads of the target's memory: few, large, cached for one sweep, and never beyond a bound.

A debugger may be remote, so that each fetch is a round trip; and a fetch that touches an unmapped page fails
whole. So memory is fetched in aligned blocks of a few pages, a failed block is tried again as the pages that
were asked for, and what was read is cached until ``forget``, as is what walkers make of it (``cached_per_sweep``).
The next sweep reads the same again, and keeps what was made of it where nothing differs (``revalidate``).
Target memory is hostile: every walk here is bounded by a count that the caller gives, all that one call of the
interface does by one budget (bounds.py), and a null or wild pointer fails without a round trip.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from mqs_dll.contract.errors import BrokenStructureError, TargetReadError, TooMuchError, WordSizeError
from mqs_dll.contract.interface import TargetProcess
from mqs_dll.library.bounds import MAX_OBJECTS, Budget

PAGE = 4096
"""Bytes of the smallest page of x86_64 and aarch64: no fetch of one such page can fail half."""

BLOCK = 4 * PAGE
"""Bytes that are fetched around an address when nothing is known of the neighbourhood."""

MAX_REVALIDATED = 1 << 25
MAX_REVALIDATED_FETCHES = 1 << 10
"""Bytes and fetches of a sweep that the next one does again to see whether anything has changed."""

MAX_AHEAD = 16 * BLOCK
"""Bytes of the largest fetch of what nobody has asked for yet."""

MAX_FETCH = 1 << 20
"""Bytes of the largest single fetch; longer arrays take several."""

MAX_READ = 1 << 26
"""Bytes that are read as one: a table of eight million pointers."""

MAX_KEPT = 1 << 27
"""Bytes of a sweep, after which all that was made of them is dropped before the next call."""

MIN_HELD = 1 << 24
"""Bytes of a sweep that are at hand at least. A hundred thousand messages lie in a hundred megabytes, and are read one
behind the other: what came first is let go of. Where it is asked for again, more is held, up to MAX_KEPT."""

MAX_PARTIAL_SWEEPS = 4
"""Sweeps that keep a part of what those before them have read, one after the other. Each reads again all that they have
read; what the process has let go of since should not be read for ever."""

LOWEST_ADDRESS = PAGE
"""The first page of a process is never mapped: smaller pointers are null pointers with an offset."""

HIGHEST_ADDRESS = 1 << 56
"""No 64-bit Linux gives a process an address above this one."""

WORD = 8
"""Bytes of a pointer in the targets that libmqs reads (LP64)."""

POINTER = struct.Struct("<Q")

Result = TypeVar("Result")


class _Held:
    """What was read in a sweep, as far as it is at hand."""

    def __init__(self) -> None:
        self.pages: dict[int, tuple[bytes, int]] = {}
        """By the page's number: the bytes of a fetch, and the address of their first."""
        self.again = 0
        """Bytes that had been let go of when they were read again."""
        self._order: deque[tuple[bytes, int]] = deque()
        """The fetches, in their order."""
        self._bytes, self._most = 0, MIN_HELD
        self._left: set[int] = set()
        """The numbers of the pages that were let go of."""

    def add(self, data: bytes, base: int) -> None:
        """Keep what was fetched, for each page the fetch that reaches farthest beyond it; let go of the oldest."""
        found, end = (data, base), base + len(data)
        for page in _pages_in(base, len(data)):
            known = self.pages.get(page)
            if known is None or known[1] + len(known[0]) < end:
                self.pages[page] = found
                if page in self._left:
                    self._left.remove(page)
                    self.again += PAGE
        if self.again > self._most // 8:
            self._most = min(2 * self._most, MAX_KEPT)
        self._order.append(found)
        self._bytes += len(data)
        while self._bytes > self._most and len(self._order) > 1:
            self._let_go(*self._order.popleft())

    def _let_go(self, data: bytes, base: int) -> None:
        self._bytes -= len(data)
        for page in _pages_in(base, len(data)):
            known = self.pages.get(page)
            if known is not None and known[0] is data:
                del self.pages[page]
                self._left.add(page)


class Memory:
    """The memory of one stopped process, read through its debugger."""

    def __init__(self, process: TargetProcess) -> None:
        """Prepare to read ``process``; reads nothing yet.

        Raises:
            WordSizeError: the process is not a 64-bit little-endian one.
        """
        sizes = process.type_sizes()
        if sizes.pointer_size != WORD or sizes.long_size != WORD or sizes.int_size != 4:
            raise WordSizeError(
                f"the target has {8 * sizes.pointer_size}-bit pointers and {8 * sizes.long_size}-bit longs, "
                "libmqs reads 64-bit processes"
            )
        if process.to_host(b"\x01\x00\x00\x00") != struct.pack("=i", 1):
            raise WordSizeError("the target has another byte order than this host")
        self._process = process
        self._budget = Budget()
        self.charge, self.charge_objects = self._budget.charge, self._budget.charge_objects
        self._kept = 0
        """About how many objects the calls have made since all was dropped."""
        self._fetches: list[tuple[int, int, bytes | None]] = []
        """What was fetched in this sweep: address, size, and the bytes; None where they could not be read."""
        self._fetched = 0
        """Bytes of it."""
        self._in_sweep = False
        self._excesses = 0
        """How many calls had done more than they may when this sweep started."""
        self._held = _Held()
        self._pages = self._held.pages
        self._unreadable: set[int] = set()
        """Numbers of pages of which nothing can be read: many words resemble the same wild pointer."""
        self.cache: dict[Hashable, Any] = {}
        """What methods that are ``cached_per_sweep`` or ``kept_while_unchanged`` have returned, by their object, the
        method and its arguments."""
        self.is_noting = False
        """Whether answers note of which pages they were made: the process was seen to run between two sweeps."""
        self._noted: set[int] | None = None
        """The numbers of the pages of the answer that is being worked out."""
        self._pages_of: dict[Hashable, set[int]] = {}
        """Those of the answers in the cache that are kept while these are unchanged."""
        self._partial_sweeps = 0

    @property
    def excesses(self) -> int:
        """How often a call did more than it may, or tried to; a walker may have gone on without what was refused."""
        return self._budget.excesses

    def start(self) -> None:
        """Start a call: it may do as much as any. What calls before it have left is dropped where that is much."""
        if self._budget.is_whole:  # as after most calls, which give what an earlier one has made
            return
        self._kept += self._budget.made
        if self._kept > MAX_OBJECTS // 2 or self._fetched - self._held.again > MAX_KEPT:
            self._drop()
        self._budget.start()

    def forget(self) -> None:
        """Drop all that was read, and what was made of it: the process may have run."""
        self._in_sweep = False
        self._drop()

    def revalidate(self) -> None:
        """Start a sweep: the process may have run since the last one.

        What that one fetched is fetched again: where all of it is the same, what was made of it holds. Where something
        differs, what was made of other pages holds, as far as it is ``kept_while_unchanged``. Where it would be too
        much, all is dropped. What cut a call off, in the last sweep or here, leaves nothing for the next one.
        """
        held, unreadable, made, known = self._held, self._unreadable, self.cache, self._fetches
        pages_of, partial_sweeps = self._pages_of, self._partial_sweeps
        can_hold = (
            self._in_sweep
            and self._fetched <= MAX_REVALIDATED
            and len(known) <= MAX_REVALIDATED_FETCHES
            and self._budget.excesses == self._excesses
        )
        self.forget()  # until all of it is known to be the same: what fails in between leaves nothing
        if can_hold:
            self._in_sweep = True
            changed = self._changed(known)
            if not changed:
                self._held, self._pages, self._unreadable, self.cache = held, held.pages, unreadable, made
                self._pages_of, self._partial_sweeps = pages_of, partial_sweeps
            elif partial_sweeps == MAX_PARTIAL_SWEEPS:
                self._drop()
            else:
                for address, _, data in self._fetches:
                    if data is not None:
                        self._held.add(data, address)
                if self.is_noting:
                    same = {page for address, size, _ in known for page in _pages_in(address, size)} - changed
                    self._pages_of = {key: pages for key, pages in pages_of.items() if pages <= same}
                    self.cache = {key: made[key] for key in self._pages_of}
                    self._partial_sweeps = partial_sweeps + 1
                self.is_noting = True
        self._excesses = self._budget.excesses
        self._in_sweep = True

    def _changed(self, known: Iterable[tuple[int, int, bytes | None]]) -> set[int]:
        """Fetch again what a sweep has fetched; return the numbers of the pages that differ.

        Where no answer has noted its pages, some are as good as all.
        """
        changed: set[int] = set()
        for address, size, data in known:
            try:
                now = self._fetch(address, size)
            except TargetReadError:
                now = None
            if now != data:
                changed.update(_differing(address, size, data, now))
                if not self.is_noting:
                    break
        return changed

    def distrust(self) -> None:
        """Have the next sweep start with nothing: a call was cut off, and what it left may be half of something."""
        self._in_sweep = False

    def _drop(self) -> None:
        self._held = _Held()
        self._pages = self._held.pages
        self._unreadable = set()
        self._fetches, self._fetched = [], 0
        self._kept = 0
        self.cache = {}  # a new one: an iterator that was left alone may still add to the old one
        self._pages_of, self._partial_sweeps = {}, 0

    def locate(self, address: int, size: int) -> tuple[bytes, int]:
        """Return a buffer and the offset in it where the ``size`` bytes at ``address`` start.

        Raises:
            TargetReadError: any of the bytes can't be read.
            TooMuchError: the call has read more than any may.
        """
        self.charge(1)
        if self._noted is not None:
            self._note(self._noted, address, size)
        found = self._pages.get(address // PAGE)
        if found is not None:
            data, base = found
            if base <= address and address + size <= base + len(data):
                return data, address - base
        is_unreadable = address // PAGE in self._unreadable and address // PAGE == (address + size - 1) // PAGE
        if is_unreadable or address < LOWEST_ADDRESS or address + size > HIGHEST_ADDRESS:
            raise TargetReadError(address, size)
        data, base = self._read(address, size)
        return data, address - base

    def prefetch(self, addresses: Iterable[int], size: int) -> None:
        """Fetch ``size`` bytes at each address and nothing around them, for small things at distant addresses.

        Raises:
            TargetReadError: any of the bytes can't be read.
        """
        for address in addresses:
            self._held.add(self._fetch(address, size), address)

    def unpack(self, format: struct.Struct, address: int) -> tuple[Any, ...]:
        """Return the values at ``address``, decoded by a compiled format of the struct module.

        Raises:
            TargetReadError: any of the bytes can't be read.
            TooMuchError: the call has read more than any may.
        """
        found = self._pages.get(address // PAGE)
        if found is not None:
            data, base = found
            if base <= address and address + format.size <= base + len(data):
                if self._noted is not None:
                    self._note(self._noted, address, format.size)
                self.charge(1)
                return format.unpack_from(data, address - base)
        data, offset = self.locate(address, format.size)
        return format.unpack_from(data, offset)

    def read(self, address: int, size: int) -> bytes:
        """Return the ``size`` bytes at ``address``.

        Raises:
            TargetReadError: any of the bytes can't be read.
        """
        if size == 0:
            return b""
        data, offset = self.locate(address, size)
        return data[offset : offset + size]

    def pointer(self, address: int) -> int:
        """Return the pointer at ``address``."""
        (pointer,) = self.unpack(POINTER, address)
        return int(pointer)

    def pointers(self, address: int, count: int) -> tuple[int, ...]:
        """Return the array of ``count`` pointers at ``address``.

        Raises:
            TargetReadError: any of the bytes can't be read.
            TooMuchError: the call would make more objects than any may; words() makes none.
        """
        if count == 0:
            return ()
        self.charge_objects(count)
        data, offset = self.locate(address, WORD * count)
        return struct.unpack_from(f"<{count}Q", data, offset)

    def words(self, address: int, count: int, code: Literal["I", "i", "Q", "q"] = "Q") -> array[int]:
        """Return an array of ``count`` numbers at ``address``, which takes no more memory than they do there.

        Args:
            address: of the first.
            count: how many.
            code: of the struct module: of 4 bytes or of 8, with a sign or without.

        Raises:
            TargetReadError: any of the bytes can't be read.
            TooMuchError: the call has read more than any may.
        """
        found = array(code, self.read(address, (4 if code in "iI" else WORD) * count))
        if sys.byteorder == "big":
            found.byteswap()
        return found

    def text(self, address: int, limit: int) -> bytes:
        """Return the string at ``address`` up to its NUL, at most ``limit`` bytes of it.

        A string that is shorter may end right before an unmapped page.

        Raises:
            TargetReadError: not even the first byte, or no byte of the rest up to a NUL, can be read.
        """
        text = b""
        while len(text) < limit:
            here = address + len(text)
            step = min(limit - len(text), PAGE - here % PAGE)
            piece, nul, _ = self.read(here, step).partition(b"\0")
            text += piece
            if nul:
                break
        return text

    # ------------------------------------------------------------ what answers are made of

    def _note(self, noted: set[int], address: int, size: int) -> None:
        """Note the pages of a range that is about to be read; those of a pointer that is wild at sight never change."""
        if address >= LOWEST_ADDRESS and address + size <= HIGHEST_ADDRESS and size <= MAX_READ:
            noted.update(_pages_in(address, size))

    def note_answer(self, key: Hashable) -> None:
        """Note that the answer which is being worked out stands on one that the cache has.

        Of an answer that has no pages of its own it isn't known what it was made of: who stands on it isn't kept.
        """
        if self._noted is not None:
            self._noted |= self._pages_of.get(key, _NO_PAGE)

    def work_out(self, key: Hashable, answer: Callable[[], Result], *, keep: bool) -> Result:
        """Return an answer, and remember it for this sweep, and where it may be kept the pages that it was made of.

        A failure isn't remembered, but whoever catches it stands on the pages that it came from. Nor is what was worked
        out without something that the call was no longer allowed to read.
        """
        outer, excesses = self._noted, self._budget.excesses
        noted: set[int] | None = set() if keep and self.is_noting else None
        self._noted = noted
        try:
            found = answer()
        finally:
            self._noted = outer
            if outer is not None:
                outer |= _NO_PAGE if noted is None else noted
        if self._budget.excesses == excesses:
            self.cache[key] = found
            if noted is not None:
                self._pages_of[key] = noted
        return found

    # ------------------------------------------------------------ fetching

    def _fetch(self, address: int, size: int) -> bytes:
        self._budget.spend_fetch(size)
        data = None
        try:
            data = self._process.fetch(address, size)
        finally:
            self._fetched += size
            if self._fetched > MAX_REVALIDATED:
                self._fetches.clear()
            elif self._in_sweep:
                self._fetches.append((address, size, data))
        return data

    def _read(self, address: int, size: int) -> tuple[bytes, int]:
        """Fetch the blocks around a range, or at least its pages, or at least the range; return bytes and address."""
        if size <= MAX_FETCH:
            for base, end in self._around(address, size):
                try:
                    data = self._fetch(base, end - base)
                except TargetReadError:
                    continue
                self._held.add(data, base)
                return data, base
            try:
                return self._fetch(address, size), address
            except TargetReadError:
                if address // PAGE == (address + size - 1) // PAGE:
                    self._unreadable.add(address // PAGE)
                raise
        if size > MAX_READ:
            raise TooMuchError(f"{MAX_READ} bytes at once")
        pieces = [self._fetch(address + done, min(MAX_FETCH, size - done)) for done in range(0, size, MAX_FETCH)]
        return b"".join(pieces), address

    def _around(self, address: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield what to fetch for a range, one if the other can't be: its start and its end.

        Whoever needs the block behind two that were fetched needs the next one, too: objects lie in the order in which
        they were made. So each such fetch is twice as large as the one before it, up to what is known already.
        """
        first, end = address - address % BLOCK, -(-(address + size) // BLOCK) * BLOCK
        data, base = self._pages.get(first // PAGE - 1, (b"", 0))
        if len(data) >= BLOCK and base // PAGE - 1 in self._pages:
            pages = range(end // PAGE, (first + min(2 * len(data), MAX_AHEAD)) // PAGE)
            ahead = next((page for page in pages if page in self._pages), pages.stop) * PAGE
            if ahead > end:
                yield first, ahead
        yield first, end
        yield address - address % PAGE, -(-(address + size) // PAGE) * PAGE


def bounded(steps: Iterator[int], limit: int, what: str) -> Iterator[int]:
    """Yield the addresses of a walk; one that doesn't end within ``limit`` steps, or meets itself, is broken.

    Raises:
        BrokenStructureError: after what was yielded so far.
    """
    seen: set[int] = set()
    for address in steps:
        if address in seen or len(seen) >= limit:
            raise BrokenStructureError(f"{what} is broken after {len(seen)}: it does not come back to its head")
        seen.add(address)
        yield address


class _Reads(Protocol):
    _memory: Memory


_NOTHING: Any = object()
_NO_PAGE = frozenset({-1})
"""Of what isn't kept: no page has this number."""
ReaderT = TypeVar("ReaderT", bound=_Reads)
Params = ParamSpec("Params")


def cached_per_sweep(
    method: Callable[Concatenate[ReaderT, Params], Result],
) -> Callable[Concatenate[ReaderT, Params], Result]:
    """Make a method's answer hold for one sweep: it is worked out once, until the memory's ``forget`` is called.

    For methods without keyword arguments, of objects that read from their ``_memory``. A failure is not cached, nor
    is what was worked out without something that the call was no longer allowed to read: the next call is.
    """
    return _remembered(method, keep=False)


def kept_while_unchanged(
    method: Callable[Concatenate[ReaderT, Params], Result],
) -> Callable[Concatenate[ReaderT, Params], Result]:
    """Make a method's answer hold until a page changes that it was made of, in later sweeps, too.

    As ``cached_per_sweep``, for methods whose answer depends on memory and on such methods alone, and is never changed.
    """
    return _remembered(method, keep=True)


def _remembered(
    method: Callable[Concatenate[ReaderT, Params], Result], *, keep: bool
) -> Callable[Concatenate[ReaderT, Params], Result]:
    @wraps(method)
    def once(self: ReaderT, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        memory = self._memory
        key = (self, method, *args)
        found: Result = memory.cache.get(key, _NOTHING)
        if found is _NOTHING:
            return memory.work_out(key, lambda: method(self, *args, **kwargs), keep=keep)
        if memory.is_noting:
            memory.note_answer(key)
        return found

    return once


def _pages_in(address: int, size: int) -> range:
    """Return the numbers of the pages of a range."""
    return range(address // PAGE, -(-(address + size) // PAGE))


def _differing(address: int, size: int, before: bytes | None, now: bytes | None) -> Iterator[int]:
    """Yield the numbers of a range's pages that have other bytes now; all, where it could be read but once."""
    for page in _pages_in(address, size):
        start, end = (max(edge * PAGE - address, 0) for edge in (page, page + 1))
        if before is None or now is None or before[start:end] != now[start:end]:
            yield page
