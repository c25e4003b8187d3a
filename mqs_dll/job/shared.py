"""Tuples that thousands of a job's records have in common, as keys that cost no more than a number."""

from __future__ import annotations

from typing import TypeVar

Item = TypeVar("Item")


class Shared(tuple[Item, ...]):
    """A tuple, equal to any other with the same items, that works out its hash once.

    Ten thousand ranks may have one group of ten thousand: to hash it anew for each of them takes longer than all else.
    """

    _hash: int

    def __hash__(self) -> int:
        """Return the hash of the tuple."""
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash
