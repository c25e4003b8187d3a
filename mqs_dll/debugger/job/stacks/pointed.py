"""What a call was given by address: the request of MPI_Wait, those of MPI_Waitall, the counts of MPI_Alltoallv."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import replace

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.job.stacks.constants import Constants
from mqs_dll.job.bindings import Parameter, Role, parameters
from mqs_dll.job.records import Argument, CallStack

MAX_ELEMENTS = 1 << 12
"""Of one array: where it has more, none is read."""

_ALL_ACTIVE = frozenset(f"MPI_{verb}{which}" for verb in ("Wait", "Test") for which in ("", "all", "any", "some"))


_COUNTS = frozenset({"sendcounts", "recvcounts"})
"""Arrays with a count for each process of the communicator, except for calls among neighbours."""


def with_elements(
    read: CallStack,
    stack: ThreadStack,
    fetch: Callable[[int, int], bytes],
    constants: Constants,
    sizes: Mapping[int, int],
) -> CallStack:
    """Return a stack with the requests of its call, or with its counts for each process.

    An array on the thread's own stack was copied in the stop. What lies elsewhere is read now, and counts if the call's
    frame is still as it was: a call that has not ended has left its array alone.

    Args:
        read: where the thread stood.
        stack: what was copied of it.
        fetch: reads the process's memory, or raises TargetReadError.
        constants: those of its MPI.
        sizes: of its intra-communicators, by handle.
    """
    given = parameters(read.call or "") or ()
    if read.call in _ALL_ACTIVE:
        lengths = {each.name: _requests(each, read) for each in given if each.role is Role.REQUEST}
        kind = "I" if constants.handle_size == 4 else "Q"
    elif not (read.call or "").startswith("MPI_Neighbor_"):
        communicator = read.argument("comm")
        size = sizes.get(communicator.value, 0) if communicator else 0
        lengths = {each.name: size for each in given if each.name in _COUNTS and each.pointers == 1}
        kind = "q" if (read.call or "").endswith("_c") else "i"
    else:
        return read

    def elements(argument: Argument) -> tuple[int, ...]:
        count = lengths.get(argument.name, 0)
        size = count * struct.calcsize(kind)
        if not 0 < count <= MAX_ELEMENTS:
            return ()
        memory = stack.fetch(argument.value, size)
        if len(memory) != size:
            memory = _read_again(read, stack, fetch, argument.value, size)
        found = struct.unpack(f"<{count}{kind}", memory) if memory else ()
        return found if argument.name in _COUNTS else tuple(each for each in found if each != constants.null_request)

    return replace(read, arguments=tuple(each._replace(elements=elements(each)) for each in read.arguments))


def _requests(parameter: Parameter, read: CallStack) -> int:
    """Return how many requests a pointer points at, 0 where that isn't known."""
    length = read.argument(parameter.length or "")
    return 1 if parameter.length is None else length.value if length else 0


def _read_again(
    read: CallStack, stack: ThreadStack, fetch: Callable[[int, int], bytes], address: int, size: int
) -> bytes:
    """Return memory that the process may have changed since the stop; nothing where it may have."""
    if read.call_frame is None:
        return b""
    try:
        memory = fetch(address, size)
        return memory if fetch(*read.call_frame) == stack.fetch(*read.call_frame) else b""
    except TargetReadError:
        return b""
