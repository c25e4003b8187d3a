"""Datatypes: their names and sizes.

A predefined datatype is a handle and no object: the handle has the size of an element, and 5.0 another form of it
inside the library. Source: src/include/mpi.h.in of 3.4.3 to 5.0.1, src/include/mpir_datatype.h of 5.0.1.
"""

from __future__ import annotations

from mqs_dll.errors import MqsError
from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory
from mqs_dll.mpi.describe import DatatypeFacts
from mqs_dll.mpi.mpich import handles, views
from mqs_dll.mpi.mpich.datatype_names import name_of
from mqs_dll.mpi.mpich.pools import Pools

LARGEST_SIZE = 1 << 48


class Datatypes:
    """The datatypes that requests use, each read once until ``forget``."""

    def __init__(self, memory: Memory, layouts: Layouts, pools: Pools) -> None:
        self._memory = memory
        self._pools = pools
        self._datatype = views.Datatype.bind(layouts)
        self._facts: dict[int, DatatypeFacts | None] = {}
        self._objects: dict[int, int] | None = None

    def forget(self) -> None:
        """Drop all that was read."""
        self._facts.clear()
        self._objects = None

    def at(self, handle: int) -> DatatypeFacts | None:
        """Return what is known of the datatype with a handle; None when there is none."""
        if handle not in self._facts:
            self._facts[handle] = self._find(handle)
        return self._facts[handle]

    def _find(self, handle: int) -> DatatypeFacts | None:
        if handles.class_of(handle) != handles.DATATYPE:
            return None
        if handles.kind_of(handle) == handles.BUILTIN:
            return DatatypeFacts(name_of(handle), handle >> 8 & 0xFF, predefined=True)
        try:
            return self._read(handle)
        except MqsError:
            return None

    def address_of(self, handle: int) -> int:
        """Return the address of a datatype's struct, 0 for a predefined one, which has none."""
        if self._objects is None:
            self._objects = {
                int.from_bytes(self._memory.read(address, 4), "little"): address
                for address in self._pools.live(handles.DATATYPE)
            }
        return self._objects.get(handle, 0)

    def _read(self, handle: int) -> DatatypeFacts | None:
        address = self.address_of(handle)
        if not address:
            return None
        datatype = self._datatype.at(self._memory, address)
        if datatype.handle != handle or datatype.size > LARGEST_SIZE:
            return None
        name = datatype.name.partition(b"\0")[0]
        return DatatypeFacts(name, datatype.size, predefined=False)
