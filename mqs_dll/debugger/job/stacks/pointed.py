"""What the requests are that a call was given by address: the one of MPI_Wait, the array of MPI_Waitall."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace

from mqs_dll.debugger.job.stacks.capture import ThreadStack
from mqs_dll.debugger.job.stacks.constants import Constants
from mqs_dll.errors import TargetReadError
from mqs_dll.job.bindings import Parameter, Role, parameters
from mqs_dll.job.records import Argument, CallStack

MOST_REQUESTS = 1 << 12
"""Of one call: more are not looked at."""

_ALL_ACTIVE = frozenset(f"MPI_{verb}{which}" for verb in ("Wait", "Test") for which in ("", "all", "any", "some"))


def with_requests(
    read: CallStack, stack: ThreadStack, fetch: Callable[[int, int], bytes], constants: Constants
) -> CallStack:
    """Return a stack with the requests of its call.

    An array on the thread's own stack was copied in the stop. What lies elsewhere is read now, and counts if the call's
    frame is still as it was: a call that has not ended has left its array alone.

    Args:
        read: where the thread stood.
        stack: what was copied of it.
        fetch: reads the process's memory, or raises TargetReadError.
        constants: those of its MPI.
    """
    if read.call not in _ALL_ACTIVE:
        return read
    given = parameters(read.call) or ()
    found = {each.name: _elements(each, read, stack, fetch, constants) for each in given if each.role is Role.REQUEST}
    return replace(read, arguments=tuple(_with(each, found.get(each.name, ())) for each in read.arguments))


def _with(argument: Argument, elements: Iterable[int]) -> Argument:
    return argument._replace(elements=tuple(elements))


def _elements(
    parameter: Parameter, read: CallStack, stack: ThreadStack, fetch: Callable[[int, int], bytes], constants: Constants
) -> tuple[int, ...]:
    """Return the handles that a pointer points at, without null ones; empty where they can't be told."""
    pointer, length = read.argument(parameter.name), read.argument(parameter.length or "")
    count = 1 if parameter.length is None else length.value if length else 0
    if pointer is None or not 0 < count <= MOST_REQUESTS:
        return ()
    size = count * constants.handle_size
    memory = stack.fetch(pointer.value, size)
    if len(memory) != size:
        memory = _read_again(read, stack, fetch, pointer.value, size)
    null = constants.null_request
    handles = struct.unpack(f"<{count}{'I' if constants.handle_size == 4 else 'Q'}", memory) if memory else ()
    return tuple(each for each in handles if each != null)


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
