"""A process that is nothing but bytes at addresses: for tests of what needs no MPI."""

from __future__ import annotations

from mqs_dll.contract.abi import TypeSizes
from mqs_dll.contract.errors import TargetReadError

LP64 = TypeSizes(2, 4, 8, 8, 8)


class NoSymbols:
    """An image without symbols and types."""

    def find_function(self, name: str) -> int | None:
        """Return None."""
        return None

    def find_symbol(self, name: str) -> int | None:
        """Return None."""
        return None

    def find_type(self, name: str) -> object | None:
        """Return None."""
        return None

    def field_offset(self, handle: object, field: str) -> int | None:
        """Return None."""
        return None

    def type_size(self, handle: object) -> int | None:
        """Return None."""
        return None


class MemoryImage:
    """Bytes at page-aligned addresses; all else is unmapped. Counts the fetches."""

    def __init__(self, pages: dict[int, bytes], sizes: TypeSizes = LP64) -> None:
        self.pages = pages
        self.sizes = sizes
        self.fetches: list[tuple[int, int]] = []
        self.image = NoSymbols()

    def type_sizes(self) -> TypeSizes:
        """Return the sizes given."""
        return self.sizes

    def fetch(self, address: int, size: int) -> bytes:
        """Return bytes of one mapping; a range that leaves it fails whole."""
        self.fetches.append((address, size))
        for start, data in self.pages.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise TargetReadError(address, size)

    def to_host(self, data: bytes) -> bytes:
        """Return the bytes as they are."""
        return data

    def global_rank(self) -> int:
        """Return -1."""
        return -1
