"""What our targets, and those who keep them open, have in common; and the strings in any target's memory."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from mqs_dll.contract.abi import TypeSizes
from mqs_dll.contract.errors import TargetReadError
from mqs_dll.contract.interface import TargetProcess

_LP64 = TypeSizes(short_size=2, int_size=4, long_size=8, long_long_size=8, pointer_size=8)

_ADDRESS_LIMIT = 1 << 63
"""pread takes a signed offset; no process on Linux has memory of its own above it."""

_MAX_STRING = 4096
"""PATH_MAX of Linux, the closing NUL included."""
_PAGE = 4096

_Kept = TypeVar("_Kept", bound="Closes")


class Closes:
    """A context manager that closes what it is of at the end."""

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        raise NotImplementedError

    def __enter__(self: _Kept) -> _Kept:
        """Return the thing itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class OfThisMachine:
    """What interface.TargetProcess asks of any process, file or core of 64-bit little-endian Linux."""

    def type_sizes(self) -> TypeSizes:
        """Return the sizes of the target's C types: those of 64-bit Linux."""
        return _LP64

    def to_host(self, data: bytes) -> bytes:
        """Return the bytes as they are: libmqs reads little-endian targets on little-endian machines."""
        return data

    def global_rank(self) -> int:
        """Return -1: the rank isn't known from a PID, a core or a file, but from the MPI's own memory."""
        return -1


class ReadInOnePiece(OfThisMachine):
    """A process of which one call reads as much memory as is wanted, or fails."""

    def _read(self, address: int, size: int) -> bytes:
        """Return what lies at an address; less where the rest can't be read.

        Raises:
            TargetReadError: nothing can.
        """
        raise NotImplementedError

    def fetch(self, address: int, size: int) -> bytes:
        """Return exactly ``size`` bytes at ``address``.

        Raises:
            TargetReadError: any of the bytes can't be read.
        """
        if not 0 <= address < _ADDRESS_LIMIT - size or size < 0:
            raise TargetReadError(address, size)
        data = self._read(address, size)
        if len(data) != size:
            raise TargetReadError(address, size)
        return data


def string_at(process: TargetProcess, address: int) -> bytes | None:
    """Return the string at an address without its NUL, None where none ends within what a path may have."""
    text = b""
    while b"\0" not in text and len(text) < _MAX_STRING:
        here = address + len(text)
        try:
            text += process.fetch(here, _PAGE - here % _PAGE)  # never into the next page, which may not be there
        except TargetReadError:
            return None
    string, nul, _ = text.partition(b"\0")
    return string if nul else None
