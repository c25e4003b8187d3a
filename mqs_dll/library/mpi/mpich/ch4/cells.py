"""The cells of shared memory: the header of each message that left lies there until its cell serves another message.

Each process has cells of its own to send from. They come and go in turn: a cell that was freed before another one is
used before it. So the header of a request's last message is gone only when those of its earlier messages are, as long
as each ended with an answer of its receiver.

The chains that link the cells show in which order messages left. A message's cell waits in its receiver's queue
behind those of earlier messages; when it was read, it goes to the end of its sender's free cells. So of two messages to
one receiver the earlier one is before the other in the chain of free cells, or is in it alone, or is before it in the
receiver's queue.
Source: src/mpid/common/genq/mpidu_genqi_shmem_types.h, mpidu_genq_shmem_pool.[ch], mpidu_genq_shmem_queue.h (the queue
of Nemesis), src/mpid/ch4/shm/posix/posix_pre.h, src/mpid/ch4/shm/posix/eager/iqueue of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import WORD, Memory, cached_per_sweep
from mqs_dll.library.mpi.elf import LoadedLibrary, find_bytes
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.links import lists_of
from mqs_dll.library.mpi.mpich.pools import MAX_SEARCH

SIZES = ((64, 16384), (64, 8192), (64, 69632))
"""Number and size of cells, as releases have them by default (MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_*)."""

POOL_WORDS = 16
"""More than MPIDU_genqi_shmem_pool_s has; its members differ by release, and are found by what they point at. Behind
the address of its cells' addresses is that of the queues of free ones."""

FIRST_OF_MESSAGE = 0
SEND = 0
"""The handler of a message's start (MPIDIG_SEND)."""

MAX_PADDING = 128
"""Bytes by which the distance of the cells exceeds their size, at most."""


class Block(NamedTuple):
    """The addresses of a process's cells in one pool."""

    own: list[int]
    """It sends from them."""
    queues: int
    """Address of the first queue of free cells."""
    for_others: list[int]
    """Processes that are far from it within the node send to it from them, and it sends to them from theirs."""


class Departure(NamedTuple):
    """A message whose header lies in a cell."""

    header: views.MessageHeader
    place: Place | None
    """When it left; None where that isn't known."""


class Cells:
    """The cells that one process sends from; where they are is found once, what is in them read once in a sweep."""

    def __init__(self, memory: Memory, library: LoadedLibrary, layouts: Layouts) -> None:
        self._memory = memory
        self._library = library
        self._header = views.by_context_id(views.MessageHeader, views.NarrowMessageHeader, layouts).bind(layouts)
        self._header_size = layouts.struct(views.MessageHeader.struct).size or 0
        self._layouts = layouts
        self._transport = views.CellTransport.bind(layouts)
        self._cell_of = views.Cell.bind(layouts)
        self._before = layouts.size(views.CellHeader.struct)
        """Bytes before each cell."""
        self._start = self._before + layouts.size(views.Cell.struct)
        self._head = self._start + self._header.end
        """Bytes of a cell that are read: of the rest of its 16 KiB, or more, nothing is needed."""
        self._blocks = list(self._find())

    def departures(self, request: int) -> list[Departure]:
        """Return the messages of a send's request whose headers still lie in cells, those of its earlier use too."""
        return self._read().get(request, [])

    @cached_per_sweep
    def _read(self) -> dict[int, list[Departure]]:
        found: defaultdict[int, list[Departure]] = defaultdict(list)
        for block in self._blocks:
            self._memory.prefetch(block.own + block.for_others, self._head)
            if any(self._cell(address).payload_size for address in block.for_others):
                return {}  # what is newest of a request may lie in a cell of another process
            order = CellChains(self._memory, self._layouts, block.own, block.queues)
            for address in block.own:
                header = self._header_in(address)
                if header is not None:
                    found[header.sreq_ptr].append(Departure(header, order.place(address)))
        return found

    def _cell(self, address: int) -> views.Cell:
        return self._cell_of.at(self._memory, address + self._before)

    def _header_in(self, address: int) -> views.MessageHeader | None:
        """Return the header of the message that started in a cell, None where none did."""
        cell = self._cell(address)
        if (
            cell.type != FIRST_OF_MESSAGE
            or cell.handler_id != SEND
            or not self._header_size <= cell.am_hdr_sz <= cell.payload_size
        ):
            return None
        return self._header.at(self._memory, address + self._start)

    # ------------------------------------------------------------ finding them

    def _find(self) -> Iterator[Block]:
        """Yield the cells of each pool; there is one for each pair of VCIs.

        Raises:
            TargetReadError: there may be more, where the library's variables can't be read.
        """
        for count, size in SIZES:
            found = False
            for place in find_bytes(self._memory, self._library, struct.pack("<ii", count, size), MAX_SEARCH):
                block = self._block_of(place, count, size) if place % WORD == 0 else None
                if block is not None:
                    found = True
                    yield block
            if found:
                return

    def _block_of(self, transport: int, count: int, size: int) -> Block | None:
        """Return the cells of a transport, None where it isn't one."""
        try:
            known = self._transport.at(self._memory, transport)
            is_possible = known.terminals <= known.my_terminal
            words = self._memory.pointers(known.cell_pool, POOL_WORDS) if is_possible else (0,)
        except TargetReadError:
            return None
        if words[0] != size:
            return None
        for array, queues in pairwise(words[1:]):
            own = self._cells_of(array, words, count, size)
            if own:
                return Block(own, queues, self._cells_of(array + count * WORD, words, count, size))
        return None

    def _cells_of(self, array: int, words: tuple[int, ...], count: int, size: int) -> list[int]:
        """Return the addresses in what may be the pool's array of its cells, none where it isn't.

        Each cell says how far it lies from the first one of all processes, whose address the pool has.
        """
        try:
            cells = list(self._memory.pointers(array, count))
            step = cells[1] - cells[0]
            even = all(after - before == step for before, after in pairwise(cells))
            if not even or not size + self._before <= step <= size + MAX_PADDING:
                return []
            first, last = (cell - self._memory.pointer(cell) + 1 for cell in (cells[0], cells[-1]))
        except TargetReadError:
            return []
        return cells if first == last and first in words else []


# ---------------------------------------------------------------- in which order messages left

QUEUE_OF_NEMESIS = 2
"""The flags of a queue with one reader that links from its head to its tail."""

MAX_CHAIN_LENGTH = 1 << 16
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


class CellChains:
    """Tells when messages left, by the links between the cells of one process."""

    def __init__(self, memory: Memory, layouts: Layouts, own: Sequence[int], queues: int) -> None:
        """Read the links of the cells.

        Args:
            memory: of the process.
            layouts: of MPICH's structs.
            own: the addresses of its cells.
            queues: the address of the first queue of free cells.
        """
        self._memory = memory
        self._places: dict[int, Place] = {}
        self._links = views.CellHeader.bind(layouts)
        self._queue = views.CellQueue.bind(layouts)
        first = self._links.at(memory, own[0])
        self._base = own[0] - first.handle
        queue_bytes = layouts.size(views.CellQueue.struct)
        with suppress(TargetReadError):
            self._read(own, queues + first.block_idx * queue_bytes)

    def place(self, cell: int) -> Place | None:
        """Return when the message in a cell left, None where that isn't known."""
        return self._places.get(cell)

    def _read(self, own: Sequence[int], address: int) -> None:
        queue = self._queue.at(self._memory, address)
        if queue.flags != QUEUE_OF_NEMESIS:
            return
        free = self._chain(self._base + queue.head, {}) if queue.head else {}
        last = self._base + queue.tail
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
        while address and address not in found and address not in known and len(found) < MAX_CHAIN_LENGTH:
            following = self._links.at(self._memory, address).next
            found[address] = self._base + following if following else 0
            address = found[address]
        return found

    def _number(self, cells: Sequence[int], stage: int, chain: int) -> None:
        for position, cell in enumerate(cells):
            self._places[cell] = Place(stage, chain, position)
