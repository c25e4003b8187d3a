"""The process context: what every walker over Open MPI's structs reads from."""

from __future__ import annotations

from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.openmpi.containers import Containers
from mqs_dll.library.mpi.openmpi.datatypes import OmpiDatatypes
from mqs_dll.library.mpi.openmpi.groups import Groups
from mqs_dll.library.mpi.openmpi.symbols import Symbols, class_size


class OmpiProcessContext:
    """Open MPI in one process: memory, symbols and layouts, and the readers of what all walkers need."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
        self.memory = memory
        self.symbols = symbols
        self.layouts = layouts
        self.containers = Containers(memory, symbols, layouts)
        self.groups = Groups(memory, symbols, layouts)
        self.datatypes = OmpiDatatypes(memory, symbols, layouts)

    def class_size(self, name: str) -> int:
        """Return the bytes of an object of a class, 0 for what is no class here."""
        return class_size(self.memory, self.symbols, self.layouts, name) or 0
