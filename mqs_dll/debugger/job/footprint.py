"""Where the queues of ranks lie in their memory: what a sample has read there, and whether any of it is otherwise now.

To compare costs a few reads for each rank, needs no symbols, and stops nobody. A call that polls may change something
there, too: whoever knows that nothing else has happened can have it ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqs_dll.debugger.proc import read_stat

if TYPE_CHECKING:
    from mqs_dll.job.records import JobProcess

LIVE_SAMPLES, BETWEEN_LIVE = 2, 0.1
"""Of a look that stops nobody, and seconds between them: the first sample reads what doesn't move, too."""
MAX_BYTES = 1 << 18
"""Of one rank that are compared: where very much is pending, a part of it tells, too."""
_NEAR = 256
"""Bytes between two places that are rather read with them than left out."""
_PIECE = 64
"""Bytes of memory that are compared, or ignored, as one."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where one rank of this machine was read."""

    pid: int
    started: int
    """As proc.Stat has it."""
    places: tuple[tuple[int, int], ...]
    """Addresses, and how many bytes there."""


def merged(reads: Iterable[tuple[int, int]], most: int = MAX_BYTES, near: int = _NEAR) -> tuple[tuple[int, int], ...]:
    """Return the places of reads, by address, each once.

    Args:
        reads: addresses, and how many bytes there.
        most: bytes of all places together; the rest is left out.
        near: bytes between two places up to which they are one.
    """
    found: list[tuple[int, int]] = []
    for address, size in sorted(reads):
        start, length = found[-1] if found else (0, 0)
        if found and address <= start + length + near:
            found[-1] = start, max(length, address + size - start)
        else:
            found.append((address, size))
    kept = []
    for address, size in found:
        if most <= 0:
            break
        kept.append((address, min(size, most)))
        most -= size
    return tuple(kept)


def digest_of(processes: Iterable[JobProcess]) -> str:
    """Return what stands for the queues of ranks, as their last samples have them: equal where these are."""
    from hashlib import blake2b  # OpenSSL, which whoever only compares doesn't need

    digest = blake2b(digest_size=16)
    for each in processes:
        queues = [sample.snapshot.communicators for sample in each.samples[-1:]]
        digest.update(repr((each.pid, queues)).encode())
    return digest.hexdigest()


class Watched:
    """Ranks of this machine that are compared with what they were."""

    def __init__(self, footprints: Iterable[Footprint] = ()) -> None:
        """Read them for the first time."""
        self._queues = ""
        """As digest_of has them."""
        self._begin(footprints)

    def _begin(self, footprints: Iterable[Footprint]) -> None:
        self._last = {each: _read(each) for each in footprints}
        self._ignored: dict[Footprint, set[int]] = {each: set() for each in self._last}
        """Pieces of their memory, by number."""
        self._changed: dict[Footprint, set[int]] = {each: set() for each in self._last}
        """The same: what changed since what changes was last ignored."""

    def looked(self, queues: str, footprints: Sequence[Footprint], *, found: bool) -> bool:
        """Take in what a look has read; return whether the queues are as at the last one.

        Then what else has changed was no progress, and is ignored from now on. Otherwise all begins again.

        Args:
            queues: what stands for them (digest_of).
            footprints: where they were read.
            found: whether any rank was.
        """
        same = found and queues == self._queues
        self._queues = queues
        if not same:
            self._begin(footprints)
        for each, pieces in self._changed.items():
            self._ignored[each] |= pieces
            pieces.clear()
        return same

    def changed(self) -> bool:
        """Return whether any of them is otherwise than it was the last time, or has ended since."""
        is_otherwise = False
        for each, before in list(self._last.items()):
            now = _read(each)
            if now is None or before is None:
                del self._last[each]
                is_otherwise = True
            elif now != before:
                self._last[each] = now
                pieces = _different(before, now) - self._ignored[each]
                self._changed[each] |= pieces
                is_otherwise = is_otherwise or bool(pieces)
        return is_otherwise

    def __len__(self) -> int:
        """Return how many there still are."""
        return len(self._last)


def _different(before: bytes, now: bytes) -> set[int]:
    """Return the numbers of the pieces in which two memories differ; all where they aren't equally long."""
    most = range(0, max(len(before), len(now)), _PIECE)
    if len(before) != len(now):
        return {place // _PIECE for place in most}
    return {place // _PIECE for place in most if before[place : place + _PIECE] != now[place : place + _PIECE]}


def _read(footprint: Footprint) -> bytes | None:
    """Return the memory of a rank; None where the rank is gone, or closed to us."""
    try:
        memory = os.open(f"/proc/{footprint.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        stat = read_stat(footprint.pid)
        if stat is None or stat.gone or stat.started != footprint.started:
            return None
        return b"".join(_at(memory, *place) for place in footprint.places)
    finally:
        os.close(memory)


def _at(memory: int, address: int, size: int) -> bytes:
    """Return what lies at an address, zeros for what the rank has given back."""
    found = b""
    with suppress(OSError, OverflowError):
        found = os.pread(memory, size, address)
    return found.ljust(size, b"\0")
