"""A dump as a debugger's target: what the library side reads of a process, it can read of what a rank left behind."""

from __future__ import annotations

from mqs_dll.calibrate.dump import Dump, UnreadableError
from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.bases import OfThisMachine
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.elf import library_at


class DumpProcess(OfThisMachine):
    """One rank as it was when it copied its memory (interface.TargetProcess), and its own image, without types."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self.image = self

    def find_symbol(self, name: str) -> int | None:
        """Return the address of a variable or a function that the program was asked to search for."""
        symbol = self._dump.symbols.get(name)
        return None if symbol is None else symbol.address

    find_function = find_symbol

    def find_type(self, *_: object) -> None:
        """Return nothing: a dump has no types."""

    field_offset = type_size = find_type

    def fetch(self, address: int, size: int) -> bytes:
        """Return bytes of the rank's memory.

        Raises:
            TargetReadError: they are not in the dump.
        """
        try:
            return self._dump.read(address, size)
        except UnreadableError:
            raise TargetReadError(address, size) from None

    def global_rank(self) -> int:
        """Return the rank that the program had in MPI_COMM_WORLD."""
        rank: int = self._dump.truth["rank"]
        return rank


def build_of(dump: Dump, address: int) -> str:
    """Return which build the library is that has a variable or a function at an address.

    Raises:
        LayoutError: there is no library.
    """
    return library_at(Memory(DumpProcess(dump)), address, None).build
