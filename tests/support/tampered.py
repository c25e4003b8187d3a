"""A live process whose memory reads differently in places: hostile memory, with a real MPI around it."""

from __future__ import annotations

from mqs_dll.debugger.counting import CountingProcess
from mqs_dll.interface import TargetProcess


class Tampered(CountingProcess):
    """Reads of a process, with bytes laid over them; keeps what was fetched. The process itself is never written."""

    def __init__(self, process: TargetProcess) -> None:
        super().__init__(process)
        self.overlay: dict[int, bytes] = {}
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, address: int, size: int) -> bytes:
        """Return the bytes of the process with the overlay on them."""
        self.fetched.append((address, size))
        data = bytearray(super().fetch(address, size))
        for start, patch in self.overlay.items():
            begin, end = max(start, address), min(start + len(patch), address + size)
            if begin < end:
                data[begin - address : end - address] = patch[begin - start : end - start]
        return bytes(data)

    def write(self, address: int, value: int, size: int = 8) -> None:
        """Lay a number over the memory at an address."""
        self.overlay[address] = value.to_bytes(size, "little")
