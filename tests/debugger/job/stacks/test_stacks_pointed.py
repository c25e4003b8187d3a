"""The requests that a call was given by address."""

from __future__ import annotations

import struct

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.job.stacks.constants import Constants
from mqs_dll.debugger.job.stacks.pointed import with_elements
from mqs_dll.job.records import Argument, ArgumentEvidence, CallStack

NULL = 0x2C000000
HANDLES = (0x6C000001, NULL, 0x6C000002)
ARRAY = struct.pack("<3I", *HANDLES)
STACK = ThreadStack(1, b"", 0x7000, b"\0" * 16 + ARRAY + b"frame!!!", is_whole=True)
FRAME = (0x7000 + 28, 8)
HEAP = 0x5000


class _Mpich(Constants):
    def __init__(self) -> None:
        self.family, self.handle_size = "MPICH", 4
        self._names = {"MPI_REQUEST_NULL": {NULL: "MPI_REQUEST_NULL"}}  # type: ignore[assignment]


def _waiting(address: int, count: int = len(HANDLES)) -> CallStack:
    given = (("count", count), ("array_of_requests", address))
    arguments = tuple(Argument(name, value, ArgumentEvidence.BOTH) for name, value in given)
    return CallStack(1, "MPI_Waitall", None, None, (), "", FRAME, arguments)


def _requests(read: CallStack, frame: bytes = b"frame!!!") -> tuple[int, ...]:
    def fetch(address: int, size: int) -> bytes:
        known = {HEAP: ARRAY, FRAME[0]: frame}
        if address not in known:
            raise TargetReadError(address, size)
        return known[address][:size]

    found = with_elements(read, STACK, fetch, _Mpich(), {}).argument("array_of_requests")
    assert found is not None
    return found.elements


def test_an_array_on_the_stack_is_taken_from_what_the_stop_has_copied() -> None:
    """Whatever the process does since; requests that are null are no requests."""
    assert _requests(_waiting(0x7010), frame=b"another!") == (HANDLES[0], HANDLES[2])


def test_an_array_elsewhere_counts_while_the_call_lasts() -> None:
    """It is read after the stop, and unknown where the call's frame has changed since or nothing lies there."""
    assert _requests(_waiting(HEAP)) == (HANDLES[0], HANDLES[2])
    assert _requests(_waiting(HEAP), frame=b"another!") == ()
    assert _requests(_waiting(0x6000)) == ()


def test_a_count_that_makes_no_sense_is_followed_nowhere() -> None:
    """Nor one of more requests than anybody waits for."""
    assert _requests(_waiting(HEAP, count=-1)) == _requests(_waiting(HEAP, count=1 << 30)) == ()


def _counts(call: str, given: dict[str, int], sizes: dict[int, int]) -> tuple[int, ...]:
    arguments = tuple(Argument(name, value, ArgumentEvidence.BOTH) for name, value in given.items())
    stack = ThreadStack(1, b"", 0x7000, struct.pack("<4i", 4, 0, -1, 7) + b"frame!!!", is_whole=True)

    def fetch(address: int, size: int) -> bytes:
        raise TargetReadError(address, size)

    read = CallStack(1, call, None, None, (), "", (0x7010, 8), arguments)
    found = with_elements(read, stack, fetch, _Mpich(), sizes).argument("recvcounts")
    assert found is not None
    return found.elements


def test_counts_for_each_process_are_as_many_as_the_communicator_has() -> None:
    """With a communicator that isn't known, or among neighbours, none is reported."""
    given = {"recvcounts": 0x7000, "comm": 0x44000000}
    assert _counts("MPI_Alltoallv", given, {0x44000000: 3}) == (4, 0, -1)
    assert _counts("MPI_Alltoallv_c", given, {0x44000000: 1}) == (4,)
    assert _counts("MPI_Alltoallv", given, {}) == ()
    assert _counts("MPI_Alltoallv", given, {0x44000000: 1 << 30}) == ()
    assert _counts("MPI_Neighbor_alltoallv", given, {0x44000000: 3}) == ()
