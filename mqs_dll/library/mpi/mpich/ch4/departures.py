"""In which order messages left: by the chains that link the cells of shared memory.

A message's cell waits in its receiver's queue behind those of earlier messages; when it was read, it goes to the end of
its sender's free cells. So of two messages to one receiver the earlier one is before the other in the chain of free
cells, or is in it alone, or is before it in the receiver's queue.
Source: src/mpid/common/genq/mpidu_genq_shmem_queue.h (the queue of Nemesis), mpidu_genq_shmem_pool.h of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.mpich.links import lists_of

QUEUE = struct.Struct("<Q56xQ56xI")
"""MPIDU_genq_shmem_queue: head, tail, each in a cache line of its own, flags."""

QUEUE_SIZE = 192
QUEUE_OF_NEMESIS = 2
"""The flags of a queue with one reader that links from its head to its tail."""

CELL_LINKS = struct.Struct("<QixxxxQ")
"""MPIDU_genqi_shmem_cell_header: the cell's own handle, the number of its free queue, the handle of the next cell."""

LONGEST_CHAIN = 1 << 16
"""Cells that all processes of a node can have in one receiver's queue."""


class Place(NamedTuple):
    """When a message left, or where it waits to leave; those of one chain have an order, and so have the stages."""

    stage: int
    """READ, LEFT or WAITS."""
    chain: int
    """Messages in one receiver's queue are in one chain."""
    position: int


READ, LEFT, WAITS = range(3)
"""Its receiver has read its envelope; it is in its receiver's queue; it has found no free cell."""


def order_of(places: Sequence[Place | None]) -> list[int] | None:
    """Return the indices of messages to one receiver in the order of sending; None where it isn't known."""
    known = [place for place in places if place is not None]
    chains = {(place.stage, place.chain) for place in known}
    if len(known) < len(places) or len(set(known)) < len(known) or len({stage for stage, _ in chains}) < len(chains):
        return None
    return sorted(range(len(places)), key=known.__getitem__)


class Departures:
    """Tells the places of messages by the cells of one process."""

    def __init__(self, memory: Memory, own: Sequence[int], queues: int) -> None:
        """Read the links of the cells.

        Args:
            memory: of the process.
            own: the addresses of its cells.
            queues: the address of the first queue of free cells.
        """
        self._memory = memory
        self._places: dict[int, Place] = {}
        handle, number, _ = memory.unpack(CELL_LINKS, own[0])
        self._base = own[0] - handle
        with suppress(TargetReadError):
            self._read(own, queues + number * QUEUE_SIZE)

    def place(self, cell: int) -> Place | None:
        """Return when the message in a cell left, None where that isn't known."""
        return self._places.get(cell)

    def _read(self, own: Sequence[int], queue: int) -> None:
        head, tail, flags = self._memory.unpack(QUEUE, queue)
        if flags != QUEUE_OF_NEMESIS:
            return
        free = self._chain(self._base + head, {}) if head else {}
        last = self._base + tail
        if free and (free.get(last) != 0 or not set(free) <= set(own)):
            return  # a cell is being freed
        self._number(list(free), READ, 0)
        elsewhere: dict[int, int] = {}
        for cell in own:
            if cell not in free and cell not in elsewhere:
                elsewhere.update(self._chain(cell, elsewhere))
        lists, proved = lists_of(elsewhere)
        if proved:
            for number, chain in enumerate(lists):
                self._number(chain, LEFT, number)

    def _chain(self, first: int, known: dict[int, int]) -> dict[int, int]:
        """Return which cell each one from the first on leads to, the last one to 0, in the order of the chain."""
        found: dict[int, int] = {}
        address = first
        while address and address not in found and address not in known and len(found) < LONGEST_CHAIN:
            following = self._memory.unpack(CELL_LINKS, address)[2]
            found[address] = self._base + following if following else 0
            address = found[address]
        return found

    def _number(self, cells: Sequence[int], stage: int, chain: int) -> None:
        for position, cell in enumerate(cells):
            self._places[cell] = Place(stage, chain, position)
