"""Datatypes: their names and sizes, as MPI_Type_get_name and MPI_Type_size give them.

Predefined datatypes are objects among the library's variables: most of them in an array that the last byte of their
handles indexes, pairs like MPI_FLOAT_INT in another one, where 5.0.2 also has those of MPI_Type_create_f90_real and
its like; before 5.0.2 that is the pool's own. The handle of most has the size of an element, too. 5.0 has another form
of those handles inside the library. Source: src/include/mpi.h.in, src/mpi/datatype/typeutil.c of 3.4.3 to 5.0.1,
src/include/mpir_datatype.h of 5.0.1; for 5.0.2 what lies in its processes.
"""

from __future__ import annotations

from mqs_dll.contract.errors import MqsError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory, cached_per_sweep
from mqs_dll.library.mpi.envelopes import DatatypeFacts
from mqs_dll.library.mpi.mpich import handles, views
from mqs_dll.library.mpi.mpich.pools import Pools

MAX_SIZE = 1 << 48

CHAR, UNSIGNED_CHAR = 0x4C000101, 0x4C000102
"""Neighbours in the array of most predefined datatypes, in every release and under the MPI 5 ABI."""

FLOAT_INT, DOUBLE_INT = 0x8C000000, 0x8C000001
"""The first two pairs; what else is in their array in 5.0.2 is predefined, too."""

PAIRS = 5
INDEX = 0xFF
FORM, PUBLIC, INTERNAL = 0x3FF, 0, range(0x80, 0x100)
"""Of the handle of a predefined datatype, above index and size: as programs have it, or 5.0 inside the library."""


class MpichDatatypes:
    """The datatypes that requests use, each read once in a sweep."""

    def __init__(self, memory: Memory, layouts: Layouts, pools: Pools) -> None:
        self._memory = memory
        self._pools = pools
        self._datatype = views.MpirDatatype.bind(layouts)
        self._arrays: dict[int, int | None] = {}

    @cached_per_sweep
    def at(self, handle: int) -> DatatypeFacts | None:
        """Return what is known of the datatype with a handle; None when there is none."""
        if handles.class_of(handle) != handles.DATATYPE:
            return None
        try:
            if handles.kind_of(handle) == handles.BUILTIN:
                return self._builtin(handle)
            return self._read(handle)
        except MqsError:
            return None

    def _builtin(self, handle: int) -> DatatypeFacts | None:
        """Return what is known of a predefined datatype; one of the library's own, which has no index, is of bytes."""
        form = handle >> 16 & FORM
        if form != PUBLIC and form not in INTERNAL:
            return None
        index, size = handle & INDEX, handle >> 8 & 0xFF
        name = b"MPI_BYTE" if index == 0 and size == 1 else b""
        begin = self._array(CHAR, UNSIGNED_CHAR)
        if index and begin is not None:
            found = self._datatype.at(self._memory, begin + (index - (CHAR & INDEX)) * self._size)
            if handles.kind_of(found.handle) == handles.BUILTIN and found.handle & INDEX == index:
                name = found.name.partition(b"\0")[0]
        return DatatypeFacts(name, size, predefined=True)

    @property
    def _size(self) -> int:
        return self._pools.size_of(handles.DATATYPE)

    def _array(self, first: int, second: int) -> int | None:
        """Return where the predefined datatypes with two handles are neighbours: found once, they don't move."""
        if first not in self._arrays:
            behind = (self._pools.behind_direct(pool) + self._size for pool in self._pools.by_class[handles.DATATYPE])
            self._arrays[first] = self._pools.neighbours(handles.DATATYPE, (first, second), behind)
        return self._arrays[first]

    def address_of(self, handle: int) -> int:
        """Return the address of a datatype's struct, 0 for a predefined one without, or one that is gone."""
        found = self._objects().get(handle, 0)
        if found or handles.kind_of(handle) != handles.DIRECT:
            return found
        begin = self._array(FLOAT_INT, DOUBLE_INT)
        return 0 if begin is None else begin + handles.index_of(handle) * self._size

    @cached_per_sweep
    def _objects(self) -> dict[int, int]:
        """Return the addresses of the pools' datatypes by their handles."""
        return {
            int.from_bytes(self._memory.read(address, 4), "little"): address
            for address in self._pools.live(handles.DATATYPE)
        }

    def _read(self, handle: int) -> DatatypeFacts | None:
        address = self.address_of(handle)
        if not address:
            return None
        datatype = self._datatype.at(self._memory, address)
        if datatype.handle != handle or datatype.ref_count <= 0 or datatype.size > MAX_SIZE:
            return None
        is_direct = handles.kind_of(handle) == handles.DIRECT
        is_predefined = is_direct and (handles.index_of(handle) < PAIRS or handle not in self._objects())
        return DatatypeFacts(datatype.name.partition(b"\0")[0], datatype.size, predefined=is_predefined)
