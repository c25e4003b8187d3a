"""A live process whose memory reads differently in places: hostile memory, with a real MPI around it."""

from __future__ import annotations

from mqs_dll.abi import TypeSizes
from mqs_dll.interface import TargetImage, TargetProcess


class Tampered:
    """Reads of a process, with bytes laid over them; counts the fetches. The process itself is never written."""

    def __init__(self, process: TargetProcess) -> None:
        self._process = process
        self.overlay: dict[int, bytes] = {}
        self.fetched: list[tuple[int, int]] = []

    @property
    def image(self) -> TargetImage:
        """The image of the process."""
        return self._process.image

    def type_sizes(self) -> TypeSizes:
        """Return those of the process."""
        return self._process.type_sizes()

    def fetch(self, address: int, size: int) -> bytes:
        """Return the bytes of the process with the overlay on them."""
        self.fetched.append((address, size))
        data = bytearray(self._process.fetch(address, size))
        for start, patch in self.overlay.items():
            begin, end = max(start, address), min(start + len(patch), address + size)
            if begin < end:
                data[begin - address : end - address] = patch[begin - start : end - start]
        return bytes(data)

    def to_host(self, data: bytes) -> bytes:
        """Return what the process does."""
        return self._process.to_host(data)

    def global_rank(self) -> int:
        """Return what the process does."""
        return self._process.global_rank()

    def write(self, address: int, value: int, size: int = 8) -> None:
        """Lay a number over the memory at an address."""
        self.overlay[address] = value.to_bytes(size, "little")
