"""libfabric's containers (include/ofi_list.h, ofi_indexer.h, the same in 1.17.0, 1.22.0 and 2.5.1)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mqs_dll.contract.errors import BrokenStructureError, TargetReadError
from mqs_dll.library.memory import WORD, Memory, bounded

MOST = 1 << 22
"""More links than a list of a process has."""

CHUNKS = 1024
"""Pointers at the begin of an array that grows, each to as many items, or 0."""

SLIST_BYTES = 16

_PAIR = struct.Struct("<QQ")
"""Head and tail of a slist; next and previous link of a dlist."""


def slist(memory: Memory, address: int, what: str) -> Iterator[int]:
    """Yield the addresses of the links of a list that is linked one way, and whose head names the last one, too.

    Raises:
        BrokenStructureError: after those that could be reached.
    """
    head, tail = memory.unpack(_PAIR, address)
    link = 0

    def steps() -> Iterator[int]:
        nonlocal link
        following = head
        while following:
            link = following
            yield link
            following = memory.pointer(link)

    yield from _reached(bounded(steps(), MOST, what), what)
    if head and link != tail:
        raise BrokenStructureError(f"{what} doesn't end where it says")


def dlist(memory: Memory, head: int, what: str) -> Iterator[int]:
    """Yield the addresses of the links of a circular list without its head; each must name the one before it.

    Raises:
        BrokenStructureError: after those that could be reached.
    """

    def steps() -> Iterator[int]:
        before = head
        (link, _) = memory.unpack(_PAIR, head)
        while link != head:
            following, previous = memory.unpack(_PAIR, link)
            if previous != before:
                raise BrokenStructureError(f"{what} is broken: {link:#x} doesn't follow {before:#x}")
            yield link
            before, link = link, following

    return _reached(bounded(steps(), MOST, what), what)


def is_dlist(memory: Memory, head: int) -> bool:
    """Tell whether the head of a circular list is at an address: a neighbour names it, both but in an update."""
    following, previous = memory.unpack(_PAIR, head)
    return memory.pointer(following + WORD) == head or memory.pointer(previous) == head


def _reached(links: Iterator[int], what: str) -> Iterator[int]:
    """Yield links; say after how many a list can't be read further."""
    reached = 0
    try:
        for link in links:
            yield link
            reached += 1
    except TargetReadError as error:
        raise BrokenStructureError(f"{what} is broken after {reached}: {error}") from error


def item_size(memory: Memory, array: int) -> int:
    """Return what an ofi_dyn_arr says of the bytes of an item."""
    return memory.pointer(array + WORD * CHUNKS)


def items(memory: Memory, array: int, size: int, at: int) -> Iterator[tuple[int, int]]:
    """Yield index and address of the items of an ofi_dyn_arr that have a word other than 0 at an offset.

    Args:
        memory: of the process.
        array: its address.
        size: of an item.
        at: the offset in an item.
    """
    for number, chunk in enumerate(memory.pointers(array, CHUNKS)):
        if chunk:
            words = memory.pointers(chunk, CHUNKS * size // WORD)[at // WORD :: size // WORD]
            for index, word in enumerate(words):
                if word:
                    yield CHUNKS * number + index, chunk + size * index


def pointers(memory: Memory, index_map: int) -> Iterator[int]:
    """Yield the pointers of an index_map that aren't 0, by their index."""
    for chunk in memory.pointers(index_map, CHUNKS):
        if chunk:
            yield from filter(None, memory.pointers(chunk, CHUNKS))
