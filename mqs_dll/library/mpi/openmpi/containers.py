"""Open MPI's containers: lists, pointer arrays, pools of objects (its free lists), and blocks of the heap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from mqs_dll.contract.errors import BrokenStructureError, TargetReadError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import Reader, Rows
from mqs_dll.library.memory import POINTER, WORD, Memory
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.symbols import Symbols, class_size

RequestT = TypeVar("RequestT", bound=views.OmpiRequest)

LIST_SLACK = 64
"""A process that was stopped in the middle of an update may have linked items that it has not counted yet."""

OBJECTS_OF_A_SLOT = 3
"""The slot's number, its pointer, and the pair."""

NAME_BYTES = 64
"""MPI_MAX_OBJECT_NAME of Open MPI: what a name has at most, NUL included."""

HEAP_ALIGNMENT = 2 * WORD
"""Of what glibc's malloc gives."""

MAX_COUNT = 1 << 26
"""No table, list or pool of a real process has more entries; larger counts are taken for rubbish."""


def name_at(memory: Memory, address: int, room: int) -> bytes:
    """Return the name at an address in a struct: an array, or a pointer where the struct has no room for the array.

    Raises:
        TargetReadError: it can't be read.
    """
    if room < NAME_BYTES:
        address = memory.pointer(address)
    return memory.text(address, NAME_BYTES) if address else b""


class Containers:
    """Walks over the containers of one process."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
        self._memory = memory
        self._list = views.OpalList.bind(layouts)
        self._next = views.OpalListItem.bind(layouts).offsets["opal_list_next"]
        self._array = views.OpalPointerArray.bind(layouts)
        self._pool = views.OpalFreeList.bind(layouts)
        self._object = views.OpalObject.bind(layouts)
        self._chunk_header = class_size(memory, symbols, layouts, "opal_free_list_item_t") or 0

    def pointer_array(self, address: int) -> list[tuple[int, int]]:
        """Return the (slot, pointer) pairs of an opal_pointer_array_t, empty slots left out.

        Raises:
            BrokenStructureError: its counts are absurd.
        """
        array = self._array.at(self._memory, address)
        if not 0 <= array.number_free <= array.size <= MAX_COUNT:
            raise BrokenStructureError(
                f"the table at {address:#x} says {array.size} slots, {array.number_free} of them free"
            )
        pointers = self._memory.words(array.addr, array.size)
        self._memory.charge_objects(OBJECTS_OF_A_SLOT * (array.size - pointers.count(0)))
        return [(slot, pointer) for slot, pointer in enumerate(pointers) if pointer]

    def following(self, address: int) -> int:
        """Return the address of the item that is linked behind the one at an address.

        Raises:
            TargetReadError: the link can't be read.
        """
        return self._memory.pointer(address + self._next)

    def link_in(self, item: bytes) -> int:
        """Return the address of the item that is linked behind one whose first bytes were read."""
        (link,) = POINTER.unpack_from(item, self._next)
        return int(link)

    def list_items(self, address: int, what: str, following: Callable[[int], int] | None = None) -> Iterator[int]:
        """Yield the addresses of the items of an opal_list_t in its order.

        Args:
            address: of the list.
            what: it is, for a sentence.
            following: does what ``following`` above does, where the caller reads more of an item than its link.

        Raises:
            BrokenStructureError: after the items that could be reached.
        """
        head = self._list.at(self._memory, address)
        sentinel = address + head.opal_list_sentinel
        if head.first == sentinel:
            return
        if head.opal_list_length > MAX_COUNT:
            raise BrokenStructureError(f"{what} is broken: it says that it has {head.opal_list_length} items")
        yield from self.ring(head.first, sentinel, head.opal_list_length + LIST_SLACK, what, following)

    def ring(
        self, first: int, end: int, limit: int, what: str, following: Callable[[int], int] | None = None
    ) -> Iterator[int]:
        """Yield ``first`` and the items linked behind it, up to ``end``, which is not yielded.

        An item's link is read before the item is yielded.

        Raises:
            BrokenStructureError: after the items that could be reached.
        """
        following = following or self.following
        seen: set[int] = set()
        address = first
        while address != end:
            if address in seen or len(seen) >= limit:
                raise BrokenStructureError(f"{what} is broken after {len(seen)}: it does not come back to its head")
            try:
                behind = following(address)
            except TargetReadError as error:
                raise BrokenStructureError(f"{what} is broken after {len(seen)}: {error}") from error
            seen.add(address)
            yield address
            address = behind

    def pool_elements(self, address: int, reader: Reader[RequestT]) -> list[RequestT]:
        """Return the elements of an opal_free_list_t of requests that somebody uses.

        These are those whose ``req_state`` isn't 0, since the pool itself doesn't show which they are.

        Raises:
            BrokenStructureError: the chunks and the counts of the pool contradict each other.
        """
        pool = self._pool.at(self._memory, address)
        if pool.fl_num_allocated == 0:
            return []
        stride = _align(pool.fl_frag_size, pool.fl_frag_alignment)
        chunks = list(self.list_items(address + pool.fl_allocations, f"the list of chunks of the pool at {address:#x}"))
        counts = self._chunk_counts(address, pool, len(chunks))
        if stride % 8 or not reader.end <= stride < 1 << 20:
            raise BrokenStructureError(f"the pool at {address:#x} says that its elements are {stride} bytes apart")
        elements: list[RequestT] = []
        for chunk, count in zip(chunks, counts, strict=True):
            base = _align(chunk + self._chunk_header, pool.fl_frag_alignment)
            rows = Rows(base, count, stride, *self._memory.locate(base, stride * count))
            self._memory.charge_objects(2 * count)
            if self._object.column(rows, "obj_class").count(pool.fl_frag_class) != count:
                raise BrokenStructureError(f"the pool at {address:#x} has elements of another class in a chunk")
            states = reader.column(rows, "req_state")
            self._memory.charge_objects(len(reader.offsets) * (count - states.count(0)))
            elements.extend(reader.row(rows, place) for place, used in enumerate(states) if used)
        return elements

    def _chunk_counts(self, address: int, pool: views.OpalFreeList, chunks: int) -> list[int]:
        """Return the number of elements of each chunk: all have fl_num_per_alloc but the first."""
        first = pool.fl_num_allocated - (chunks - 1) * pool.fl_num_per_alloc
        if chunks == 0 or pool.fl_num_allocated > MAX_COUNT or not 0 < first <= pool.fl_num_allocated:
            raise BrokenStructureError(
                f"the pool at {address:#x} says {pool.fl_num_allocated} elements, "
                f"{pool.fl_num_per_alloc} a chunk, but has {chunks} chunks"
            )
        return [first] + [pool.fl_num_per_alloc] * (chunks - 1)

    def pool_class(self, address: int) -> int:
        """Return the address of the class descriptor of a pool's elements, 0 for a pool that was never set up."""
        return self._pool.at(self._memory, address).fl_frag_class


def _align(value: int, alignment: int) -> int:
    if alignment <= 1:
        return value
    return -(-value // alignment) * alignment


def heap_bytes(memory: Memory, address: int, limit: int) -> int:
    """Return how many bytes belong to the heap block at an address, ``limit`` at most; 0 when it is none.

    The size that glibc's malloc keeps before each block (its low bits are flags) shows where the neighbour starts,
    whose words must not speak for this one.
    """
    if address % HEAP_ALIGNMENT:
        return 0
    try:
        size = (memory.pointer(address - WORD) & ~7) - WORD
    except TargetReadError:
        return 0
    return min(size, limit) if WORD <= size < 1 << 32 else 0
