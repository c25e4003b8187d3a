"""What thousands of records need: tuples as keys that cost little, records by their keys, no search for garbage."""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

MANY = 300_000
"""Objects through which a search takes long."""

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Shared(tuple[Item, ...]):
    """A tuple, equal to any other with the same items, that works out its hash once.

    Ten thousand ranks may have one group of ten thousand: to hash it again for each of them takes longer than all else.
    """

    _hash: int

    def __hash__(self) -> int:
        """Return the hash of the tuple."""
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return what has equal keys together; keys and what they have stay in the order in which they came."""
    found: dict[Key, list[Item]] = {}
    for key, each in pairs:
        found.setdefault(key, []).append(each)
    return found


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """Keep Python from looking for garbage: among millions of new objects, all in use, that takes as long as all else.

    Where it has made many, all that there is at the end counts as old at once, so that the next search doesn't go
    through it either. Else garbage from before would stay long: each process that was read leaves some, and open files.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            is_frozen = gc.get_freeze_count() > 0  # by somebody else: thawing would undo it
            if gc.get_count()[0] > MANY and not is_frozen:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
