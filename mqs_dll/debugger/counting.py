"""Counting what an MQS library reads: every fetch is a round trip where a debugger works remotely."""

from __future__ import annotations

from mqs_dll.contract.abi import TypeSizes
from mqs_dll.contract.interface import TargetImage, TargetProcess


class CountingProcess:
    """A TargetProcess that passes everything on to another one and counts the fetches."""

    def __init__(self, process: TargetProcess) -> None:
        """Start to count at zero."""
        self._process = process
        self.reads = 0
        self.bytes_read = 0

    @property
    def image(self) -> TargetImage:
        """The image that the process runs."""
        return self._process.image

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of the target's C types."""
        return self._process.type_sizes()

    def fetch(self, address: int, size: int) -> bytes:
        """Return the bytes at an address; a fetch that fails is one too.

        Raises:
            TargetReadError: any of the bytes can't be read.
        """
        self.reads += 1
        data = self._process.fetch(address, size)
        self.bytes_read += size
        return data

    def to_host(self, data: bytes) -> bytes:
        """Return one scalar in the byte order of the host."""
        return self._process.to_host(data)

    def global_rank(self) -> int:
        """Return the process's rank in MPI_COMM_WORLD, or -1."""
        return self._process.global_rank()
