"""What thousands of a job's records have in common: tuples as keys that cost little, and records by their keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

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
