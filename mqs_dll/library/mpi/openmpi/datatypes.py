"""Datatypes: their names and sizes."""

from __future__ import annotations

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory, cached_per_sweep
from mqs_dll.library.mpi.envelopes import DatatypeFacts
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.containers import name_at
from mqs_dll.library.mpi.openmpi.symbols import Symbols, class_size

PREDEFINED = 0x0002
"""OPAL_DATATYPE_FLAG_PREDEFINED (opal/datatype/opal_datatype.h)."""

MAX_SIZE = 1 << 48


class OmpiDatatypes:
    """The datatypes that requests use, each read once in a sweep."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
        self._memory = memory
        self._datatype = views.OmpiDatatype.bind(layouts)
        self._size = class_size(memory, symbols, layouts, "ompi_datatype_t") or 0
        # predefined datatypes are made statically, of the class that ompi_datatype_t derives from
        self._classes = (symbols.need("ompi_datatype_t_class"), symbols.need("opal_datatype_t_class"))

    @cached_per_sweep
    def at(self, address: int) -> DatatypeFacts | None:
        """Return what is known of the datatype at an address; None when there is no datatype."""
        try:
            datatype = self._datatype.at(self._memory, address)
            if datatype.obj_class not in self._classes or datatype.size > MAX_SIZE:
                return None
            name = name_at(self._memory, address + datatype.name, self._size - datatype.name)  # nothing is behind it
        except TargetReadError:
            return None
        return DatatypeFacts(name, datatype.size, bool(datatype.flags & PREDEFINED))

    def address_of(self, handle: int) -> int:
        """Return the address of a datatype's struct, which is its handle."""
        return handle
