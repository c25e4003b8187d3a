"""What one call of the interface may do at most, whatever lies in the target: steps, fetches, bytes, objects, seconds.

Target memory is hostile, and every walk has a bound of its own; bounds of walks within walks would multiply. So one
budget bounds all that a call does. The largest that is known to be needed is a group of a million processes.
"""

from __future__ import annotations

import sys
import time

from mqs_dll.contract.errors import TooMuchError

MAX_STEPS = 1 << 22
"""Four times what a communicator of a million processes takes. A step is one of a walk, or a struct that is read, or
BYTES_OF_A_STEP bytes that are fetched."""

BYTES_OF_A_STEP = 64
"""Of memory: 256 MiB in all."""

MAX_OBJECTS = 1 << 22
"""That a call makes of what it reads: a count of eight bytes can ask for a number of forty for each of millions. Four
times what a group of a million processes takes."""

RANKS_OF_A_STEP = 8
"""Of a group's processes that are computed, not read."""

MAX_FETCHES = 1 << 16
"""Round trips, where the debugger is remote."""

MAX_SECONDS = 100
"""By the clock, besides the fetch that runs, which is the debugger's. Less than csrc/helper.c waits (SECONDS)."""

_STEPS_BETWEEN_LOOKS = 1 << 12
"""Looks at the clock, which takes as long as a step."""


class Budget:
    """What is left to one call."""

    def __init__(self) -> None:
        """Initialize with all of it."""
        self.excesses = 0
        """How often a call was refused something."""
        self.start()

    def start(self) -> None:
        """Start a call: it may do as much as any."""
        self._left = MAX_STEPS
        self._made = 0
        self._blocks = -1
        self._fetches = 0
        self._look_at = MAX_STEPS - _STEPS_BETWEEN_LOOKS
        self._end: float | None = None
        """When the time is over; None until the clock is first looked at, from when on it counts."""

    @property
    def is_whole(self) -> bool:
        """Whether the call has taken nothing of it."""
        return self._left == MAX_STEPS and not self._made and not self._fetches

    def charge(self, steps: int) -> None:
        """Take steps, before they are done.

        Raises:
            TooMuchError: the call has done, or would do, more than any may.
        """
        self._left -= steps
        if self._left < self._look_at:
            self._look()

    def charge_objects(self, count: int) -> None:
        """Take objects that are made all at once, before they are.

        Raises:
            TooMuchError: the call has made, or would make, more than any may.
        """
        self._made += count
        if self._made > MAX_OBJECTS:
            raise self._excess(f"{MAX_OBJECTS} objects")

    def spend_fetch(self, size: int) -> None:
        """Take a fetch of so many bytes, before it is done.

        Raises:
            TooMuchError: the call has fetched, or would fetch, more than any may.
        """
        self.charge(size // BYTES_OF_A_STEP)
        self._fetches += 1
        if self._fetches > MAX_FETCHES:
            raise self._excess(f"{MAX_FETCHES} fetches")
        self._look_at_clock()

    def _excess(self, what: str) -> TooMuchError:
        self.excesses += 1
        return TooMuchError(what)

    @property
    def made(self) -> int:
        """About how many objects this call has made, as far as it counted."""
        return self._made if self._blocks < 0 else max(self._made, sys.getallocatedblocks() - self._blocks)

    def _look_at_clock(self) -> None:
        if self._left < 0:
            raise self._excess(f"{MAX_STEPS} steps")
        now = time.monotonic()
        if self._end is None:
            self._end = now + MAX_SECONDS
        elif now > self._end:
            raise self._excess(f"{MAX_SECONDS} seconds")

    def _look(self) -> None:
        self._look_at_clock()
        blocks = sys.getallocatedblocks()  # which counts what nobody has taken, too
        if self._blocks < 0:
            self._blocks = blocks
        elif blocks - self._blocks > MAX_OBJECTS:
            raise self._excess(f"{MAX_OBJECTS} objects")
        self._look_at = max(self._left - _STEPS_BETWEEN_LOOKS, 0)
