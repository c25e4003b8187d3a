"""What our targets, and those who keep them open, have in common."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from mqs_dll.abi import TypeSizes

_LP64 = TypeSizes(short_size=2, int_size=4, long_size=8, long_long_size=8, pointer_size=8)

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
        """Return -1: neither a PID nor a core nor a file tells the rank; the MPI's own memory does."""
        return -1
