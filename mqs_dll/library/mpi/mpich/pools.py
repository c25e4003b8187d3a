"""MPICH's pools of objects: all communicators, requests, datatypes and windows of a process are in them.

Each class has a record with the size of its objects and the address of the first ones, in the library's variables
(MPIR_Comm_mem and its like; MPIR_Request_mem is an array, one record for each virtual interface). In a stripped
library a record is recognised by its own consistency: the objects that it points at start with the handles that
their class and place demand. Source: src/include/mpir_objects.h, src/util/mpir_handlemem.h of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from mqs_dll.contract.errors import BrokenStructureError, LayoutError, TargetReadError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import Rows
from mqs_dll.library.memory import BLOCK, MAX_FETCH, WORD, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary, find_bytes
from mqs_dll.library.mpi.mpich import handles, views

MIN_OBJECT = 16
MAX_OBJECT_SIZE = 8192
MAX_DIRECT = 1024
MAX_BLOCKS = 1 << 13
"""Blocks of a pool: its handles have no more bits for them."""

OBJECTS_OF_A_BLOCK = 1024
"""Before 4.3, which has the number in the record."""

OBJECTS_OF_A_LARGE_BLOCK = 4096
"""In Intel MPI's pool of requests, whose record is that of 3.4."""

MAX_SEARCH = 1 << 24
"""Bytes of a library's variables that are searched, around what is known: Intel MPI has 150 MB of them."""

SYMBOLS = {
    handles.COMM: "MPIR_Comm_mem",
    handles.GROUP: "MPIR_Group_mem",
    handles.DATATYPE: "MPIR_Datatype_mem",
    handles.WIN: "MPIR_Win_mem",
    handles.REQUEST: "MPIR_Request_mem",
}
INDEX = 0xFFF
"""The bits of a handle that have the place in a block, or among the first direct objects."""

REQUEST_POOLS = 64
"""Records of MPIR_Request_mem at most."""

_known_places: dict[tuple[str, int, int], int] = {}
"""Where records lay in other processes, from the start of the library, by its build, class and size of the objects: a
job has many of one build. They are tried first, and believed as any others."""


class Objects(NamedTuple):
    """An array of objects of one class that lie one behind the other."""

    address: int
    objects: int
    first_handle: int


class ObjectPool(NamedTuple):
    """One pool, by the address of its record; what it holds is read again each time."""

    record: int
    cls: int
    size: int
    """Bytes from one object to the next."""


class Pools:
    """The pools of one process, and the size of the objects of each class."""

    def __init__(
        self, memory: Memory, layouts: Layouts, library: LoadedLibrary, by_class: dict[int, list[ObjectPool]]
    ) -> None:
        self.memory = memory
        self.layouts = layouts
        self.library = library
        self.by_class = by_class
        self._alloc = views.ObjectAlloc.bind(layouts)
        self._head = views.ObjectHead.bind(layouts)
        self._frees_with_reference = _frees_with_reference(layouts)

    def size_of(self, cls: int) -> int:
        """Return the bytes of an object of a class.

        Raises:
            LayoutError: it has no pool.
        """
        for pool in self.by_class.get(cls, ()):
            return pool.size
        raise LayoutError(f"there is no pool of {handles.CLASSES[cls]}")

    def behind_direct(self, pool: ObjectPool) -> int:
        """Return the address behind the array of a pool that lies among the library's variables."""
        record = self._alloc.at(self.memory, pool.record)
        return record.direct + record.direct_size * pool.size

    def known_variable(self, cls: int | None = None) -> int | None:
        """Return the address of the first objects of a class, else of some class, near which other variables are."""
        in_turn = chain(self.by_class.get(cls or 0, ()), *self.by_class.values())
        records = (self._alloc.at(self.memory, pool.record) for pool in in_turn)
        return next((record.direct for record in records if record.direct), None)

    def neighbours(self, cls: int, pair: tuple[int, int], likely: Iterable[int] = ()) -> int | None:
        """Return where two objects with these handles lie one behind the other among the library's variables.

        Args:
            cls: their class.
            pair: their handles.
            likely: addresses to try before all variables are searched.

        Raises:
            TargetReadError: they may lie where the library's variables can't be read.
        """
        size = self.size_of(cls)
        near = self.known_variable(cls)
        searched = find_bytes(self.memory, self.library, struct.pack("<I", pair[0]), MAX_SEARCH, near)
        variables = (address for address in chain(likely, searched) if self.library.holds(address, 2 * size))
        return next((address for address in variables if self._has_handles(address, size, pair)), None)

    def _has_handles(self, address: int, size: int, pair: tuple[int, int]) -> bool:
        return all(
            int.from_bytes(self.memory.read(address + index * size, 4), "little") == handle
            for index, handle in enumerate(pair)
        )

    def live(self, cls: int, most: int | None = None) -> list[int]:
        """Return the addresses of a class's objects in use, pool by pool, in the order of their handles.

        The predefined ones are in no pool. An object is in use while its reference count isn't 0, the same as not being
        on the pool's chain of free ones, but for communicators that 5.0 makes for the node: both are looked at there.

        Args:
            cls: the class.
            most: how many of them are searched for; all by default.

        Raises:
            BrokenStructureError, TargetReadError: a pool contradicts itself or can't be read.
        """
        found = (rows.address + place * rows.stride for rows, places in self.in_use(cls) for place in places)
        return list(islice(found, most))

    def in_use(self, cls: int) -> Iterator[tuple[Rows, list[int]]]:
        """Yield a class's objects piece by piece, each with the places of those that are in use.

        Raises:
            BrokenStructureError, TargetReadError: a pool contradicts itself or can't be read.
        """
        for pool in self.by_class.get(cls, ()):
            yield from self._in_use(pool)

    def not_free(self, cls: int) -> list[int]:
        """Return the addresses of a class's objects that are not on the chain of free ones.

        For windows, whose reference count ch4 leaves at 0.

        Raises:
            BrokenStructureError, TooMuchError, TargetReadError: a pool contradicts itself or can't be read.
        """
        found = []
        for pool in self.by_class.get(cls, ()):
            record = self._alloc.at(self.memory, pool.record)
            objects = [
                array.address + index * pool.size
                for array in self.arrays(pool)
                for index in range(array.objects)
                if record.initialized
            ]
            free = set(self._chain(record.avail, len(objects)))
            found += [address for address in objects if address not in free]
        return found

    def _chain(self, first: int, limit: int) -> Iterator[int]:
        address = first
        for _ in range(limit):
            if address == 0:
                return
            yield address
            address = self._head.at(self.memory, address).next
        if address:
            raise BrokenStructureError(f"the chain of free objects is broken after {limit}: it does not end")

    def arrays(self, pool: ObjectPool) -> Iterator[Objects]:
        """Yield the arrays that a pool's objects lie in: the library's own, then the blocks that were added.

        Raises:
            BrokenStructureError, TooMuchError: the record's counts are absurd.
        """
        record = self._alloc.at(self.memory, pool.record)
        if not record.initialized:
            return
        if not 0 <= record.direct_size <= MAX_DIRECT:
            raise BrokenStructureError(
                f"the pool at {pool.record:#x} says {record.direct_size} objects of the library's"
            )
        if record.direct:
            yield Objects(record.direct, record.direct_size, handles.first(handles.DIRECT, pool.cls))
        if not 0 <= record.indirect_size <= MAX_BLOCKS:
            raise BrokenStructureError(f"the pool at {pool.record:#x} says that it has {record.indirect_size} blocks")
        handle = handles.first(handles.INDIRECT, pool.cls)
        for block, address in enumerate(self.memory.pointers(record.indirect, record.indirect_size)):
            count = record.indirect_block_size or self._objects_of_a_block(address, pool)
            if not 0 < count <= 1 << 16:
                raise BrokenStructureError(f"the pool at {pool.record:#x} says {count} objects a block")
            self.memory.charge(count)
            self.memory.charge_objects(1)
            yield Objects(address, count, handle | block << 12)

    def _objects_of_a_block(self, address: int, pool: ObjectPool) -> int:
        """Return how many objects a block has where no record says so: more when they go on behind the usual end."""
        try:
            beyond = self._head.at(self.memory, address + OBJECTS_OF_A_BLOCK * pool.size).handle
        except TargetReadError:
            return OBJECTS_OF_A_BLOCK
        goes_on = (
            beyond >> 26 == handles.first(handles.INDIRECT, pool.cls) >> 26 and beyond & INDEX == OBJECTS_OF_A_BLOCK
        )
        return OBJECTS_OF_A_LARGE_BLOCK if goes_on else OBJECTS_OF_A_BLOCK

    def _in_use(self, pool: ObjectPool) -> Iterator[tuple[Rows, list[int]]]:
        """Yield the objects of one pool.

        The first objects are used first, and of most pools few ever were: it is read in pieces, each larger than all
        before it, until there are as many in use as its record says.
        """
        arrays = list(self.arrays(pool))
        objects = sum(array.objects for array in arrays)
        left = self._count_in_use(pool, objects)
        free = _Free(self._chain(self._alloc.at(self.memory, pool.record).avail, objects))
        read = 0
        for array in arrays:
            start = 0
            while start < array.objects and left:
                piece = min(max(BLOCK, 3 * read), MAX_FETCH)
                count = min(max(piece // pool.size, 1), array.objects - start)
                address = array.address + start * pool.size
                data, offset = self.memory.locate(address, count * pool.size)
                rows = Rows(address, count, pool.size, data, offset)
                _check_heads(self._head.column(rows, "handle"), array.first_handle, pool)
                counts = self._head.column(rows, "ref_count")
                places = [place for place, references in enumerate(counts) if references]
                if places and pool.cls == handles.COMM and self._frees_with_reference:
                    links = self._head.column(rows, "next")
                    places = [
                        place
                        for place in places
                        if not (_is_link(links[place], arrays, pool) and address + place * pool.size in free)
                    ]
                yield rows, places
                left -= len(places)
                start += count
                read += count * pool.size

    def _count_in_use(self, pool: ObjectPool, objects: int) -> int:
        """Return how many of a pool's objects are in use at most: what its record says, where it counts them."""
        counts = self._alloc.at(self.memory, pool.record)
        free = counts.num_avail
        if free is None or counts.num_allocated != objects or not 0 <= free <= objects:
            return objects
        return objects - free


class _Free:
    """A pool's chain of free objects, which is read as far as is needed: those that were freed last come first."""

    def __init__(self, chain: Iterator[int]) -> None:
        self._chain = chain
        self._known: set[int] = set()

    def __contains__(self, address: int) -> bool:
        """Return whether an object is on it.

        Raises:
            BrokenStructureError, TargetReadError: the chain can't be followed.
        """
        while address not in self._known:
            following = next(self._chain, None)
            if following is None:
                return False
            self._known.add(following)
        return True


def _frees_with_reference(layouts: Layouts) -> bool:
    """Return whether communicators of the node are freed with the one reference that they have (MPIR_Subcomm_free).

    So it is since 5.0, which has the number of a communicator in the word where a free one has the link.
    """
    if views.Comm.struct not in layouts:
        return False
    context_id = layouts.offset(views.Comm.struct, "context_id")
    link = views.ObjectHead.bind(layouts).offsets["next"]
    return context_id is not None and link <= context_id < link + WORD


def _is_link(word: int, arrays: Iterable[Objects], pool: ObjectPool) -> bool:
    """Return whether a word can be what a free object links to."""
    return word == 0 or any(0 <= word - array.address < array.objects * pool.size for array in arrays)


def _check_heads(heads: Sequence[int], first_handle: int, pool: ObjectPool) -> None:
    """Make sure that a chunk of a pool holds objects of its class.

    Raises:
        BrokenStructureError: it holds something else.
    """
    tops = {first_handle >> 26, handles.null(pool.cls) >> 26}
    if any(head >> 26 not in tops for head in heads):
        raise BrokenStructureError(f"the pool at {pool.record:#x} has objects of another class")


# ---------------------------------------------------------------- finding them


def find(memory: Memory, layouts: Layouts, library: LoadedLibrary, symbols: dict[str, int]) -> Pools:
    """Return the pools of a process, by symbols where there are any, else by searching the library's variables.

    Args:
        memory: of the process.
        layouts: of the records, and of the structs that the pools hold: their sizes are what is searched for.
        library: MPICH's.
        symbols: addresses of what SYMBOLS names, as far as the debugger knows them.

    Returns:
        The pools of objects that have the sizes of these layouts; those of some classes may be missing.

    Raises:
        TargetReadError: some may be missing because the library's variables can't be read.
    """
    finder = _Finder(memory, layouts, library)
    found = Pools(memory, layouts, library, {})
    for cls, struct_name in handles.CLASSES.items():
        size = layouts.struct(struct_name).size if struct_name in layouts else None
        if SYMBOLS[cls] in symbols:
            pools = finder.records_from(symbols[SYMBOLS[cls]], cls)
        else:
            pools = [] if size is None else finder.search(cls, size, found.known_variable())
        pools = [pool for pool in pools if size in (None, pool.size)]
        used = [pool for pool in pools if finder.is_initialized(pool)]
        found.by_class[cls] = used or pools  # a record without objects may resemble one by chance
    return found


def sizes(memory: Memory, layouts: Layouts, library: LoadedLibrary) -> dict[int, int]:
    """Return the bytes of an object of each class, by the records of its pools, whatever the size in the layouts is.

    A class is missing whose records tell several sizes, or none. Those of pools that were used count before others.

    Args:
        memory: of the process.
        layouts: of the records.
        library: MPICH's.

    Raises:
        TargetReadError: there may be other records, where the library's variables can't be read.
    """
    finder = _Finder(memory, layouts, library)
    kinds = {cls: struct.pack("<i", cls) for cls in handles.CLASSES}
    found: dict[int, int] = {}
    for cls, kind in kinds.items():
        places = find_bytes(memory, library, kind, MAX_SEARCH)
        told = [pool for place in places if (pool := finder.pool_of(cls, place)) is not None]
        used = [pool for pool in told if finder.is_initialized(pool)]
        bytes_ = {pool.size for pool in used or told}
        if len(bytes_) == 1:
            found[cls] = bytes_.pop()
    return found


class _Finder:
    """Recognises the records of pools by one release's layout of them."""

    def __init__(self, memory: Memory, layouts: Layouts, library: LoadedLibrary) -> None:
        self._memory = memory
        self._library = library
        self._alloc = views.ObjectAlloc.bind(layouts)
        self._head = views.ObjectHead.bind(layouts)
        self._frees_with_reference = _frees_with_reference(layouts)
        self._stride = layouts.struct(views.ObjectAlloc.struct).size

    def records_from(self, address: int, cls: int) -> list[ObjectPool]:
        """Return the record at an address, and for requests those of the array that it lies in.

        Raises:
            TargetReadError: there is a record whose objects can't be read.
        """
        first = self.pool_at(address)
        if first is None or first.cls != cls:
            return []
        if cls != handles.REQUEST or self._stride is None:
            return [first]
        before = self._more_like(first, -self._stride)
        return [*reversed(before), first, *self._more_like(first, self._stride)]

    def _more_like(self, first: ObjectPool, stride: int) -> list[ObjectPool]:
        """Return the pools of the records that follow one in an array, by a stride that may be negative.

        Raises:
            BrokenStructureError: a record is like the one beside it, but contradicts itself. (Where it counted as none,
                the others might be taken for all, and hold nothing.)
        """
        found = []
        for address in range(first.record + stride, first.record + REQUEST_POOLS * stride, stride):
            pool = self.pool_at(address, like=first) if self._library.holds(address, abs(stride)) else None
            if pool is None:
                break
            found.append(pool)
        return found

    def pool_of(self, cls: int, place: int) -> ObjectPool | None:
        """Return the pool of a class whose record has the class's number at an address, None where there is none."""
        record = place - self._alloc.offsets["kind"]
        try:
            pool = self.pool_at(record) if record % WORD == 0 else None
        except TargetReadError:
            return None
        return pool if pool is not None and pool.cls == cls else None

    def is_initialized(self, pool: ObjectPool) -> bool:
        """Return whether a pool has objects, whose handles were checked."""
        return bool(self._alloc.at(self._memory, pool.record).initialized)

    def search(self, cls: int, size: int, near: int | None) -> list[ObjectPool]:
        """Return the pools of a class with objects of this size among the library's variables, around a known one.

        Raises:
            TargetReadError: there may be others, where the library's variables can't be read.
        """
        base, kind = self._library.base, (self._library.build, cls, size)
        if kind in _known_places:
            found = self.records_from(base + _known_places[kind], cls)
            if found and found[0].size == size:
                return found
        wanted = struct.pack("<ii", cls, size)  # neighbours in the record of every release
        candidates: list[tuple[int, list[ObjectPool]]] = []
        for place in find_bytes(self._memory, self._library, wanted, MAX_SEARCH, near):
            record = place - self._alloc.offsets["kind"]
            found = self.records_from(record, cls) if record % 8 == 0 else []
            if found and self.is_initialized(found[0]):
                candidates = [(record, found)]
                break
            if found:
                candidates.append((record, found))
        if len(candidates) == 1 and self._library.build:
            _known_places[kind] = candidates[0][0] - base
        return [pool for _, pools in candidates for pool in pools]

    def pool_at(self, address: int, like: ObjectPool | None = None) -> ObjectPool | None:
        """Return the pool whose record lies at an address, None where there is none, or none like another one.

        Raises:
            TargetReadError: there is one whose objects can't be read: it has them among the library's variables, or it
                is like the one that lies beside it. Anything else that leads to what can't be read is none.
            BrokenStructureError: there is one that is like the one that lies beside it, and contradicts itself.
        """
        record = self._alloc.at(self._memory, address)
        if like is not None and (record.kind, record.size) != (like.cls, like.size):
            return None
        try:
            if self._is_plausible(record) and self._has_objects(record):
                return ObjectPool(address, record.kind, record.size)
        except TargetReadError:
            if record.direct or like is not None:
                raise
        if like is not None:
            name = handles.CLASSES[like.cls]
            raise BrokenStructureError(f"the pool of {name} at {address:#x} doesn't fit the objects that it points at")
        return None

    def _is_plausible(self, record: views.ObjectAlloc) -> bool:
        return (
            MIN_OBJECT <= record.size <= MAX_OBJECT_SIZE
            and record.size % 8 == 0
            and record.initialized in (0, 1)
            and 0 <= record.indirect_size <= MAX_BLOCKS
            and 0 <= record.direct_size <= MAX_DIRECT
            and (record.direct == 0 or self._library.holds(record.direct, record.direct_size * record.size))
            and bool(record.direct) == bool(record.direct_size)
        )

    def _has_objects(self, record: views.ObjectAlloc) -> bool:
        """Return whether the first objects carry the handles of their class and place, and the first free one is free.

        A pool that was never used has none; it is believed for the size of its objects.
        """
        if not record.initialized:
            return record.avail == 0 and record.indirect_size == 0
        if record.avail and not self._is_free(record.avail, record.kind):
            return False
        if record.direct:
            return self._begin_with(record.direct, record.size, handles.first(handles.DIRECT, record.kind))
        if record.indirect_size == 0:
            return False
        block = self._memory.pointer(record.indirect)
        return self._begin_with(block, record.size, handles.first(handles.INDIRECT, record.kind))

    def _is_free(self, address: int, cls: int) -> bool:
        head = self._head.at(self._memory, address)
        is_builtin = handles.kind_of(head.handle) == handles.BUILTIN
        references = int(cls == handles.COMM and self._frees_with_reference)
        return not is_builtin and handles.class_of(head.handle) == cls and 0 <= head.ref_count <= references

    def _begin_with(self, address: int, size: int, handle: int) -> bool:
        """Return whether the first two objects of an array have its handles, except for the number of their pool.

        Requests of the second and further virtual interfaces carry that from the first time that they are used. One of
        the two may have lost its handle.
        """
        null = handles.null(handles.class_of(handle))
        heads = [self._head.at(self._memory, address + index * size).handle for index in (0, 1)]
        are_its_own = [head >> 26 == handle >> 26 and head & INDEX == index for index, head in enumerate(heads)]
        return all(own or head == null for own, head in zip(are_its_own, heads, strict=True)) and any(are_its_own)
