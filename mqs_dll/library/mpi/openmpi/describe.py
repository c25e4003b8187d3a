"""What an operation of Open MPI is, in words for its lines of extra_text; and notes on messages that came too early."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sized

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Operation
from mqs_dll.contract.errors import MqsError
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.envelopes import note
from mqs_dll.library.mpi.openmpi import tags

# ompi/mca/pml/pml.h: mca_pml_base_send_mode_t
BUFFERED = 2
CALLS = {
    0: ("MPI_Ssend", "MPI_Issend"),
    1: ("MPI_Send", "MPI_Isend"),
    BUFFERED: ("MPI_Bsend", "MPI_Ibsend"),
    3: ("MPI_Rsend", "MPI_Irsend"),
    4: ("MPI_Send", "MPI_Isend"),
}
"""The blocking and the nonblocking call of each send mode; mode 1 is a standard send that must complete locally."""

COMPLETE = 1
"""Value of req_complete for a request that is done; 0 and addresses of waiters are pending (ompi/request/request.h)."""


_COUNT = struct.Struct("<i")
"""The first member of ompi_wait_sync_t (opal/threads/wait_sync.h of 4.1, opal/mca/threads/wait_sync.h of 5.0)."""

_MAX_REQUESTS = 1 << 24
"""More than a program waits for at once: what claims more is no count."""


def request_text(memory: Memory, address: int, complete: int) -> str:
    """Return the request's handle, and whether some thread of the process waits for it right now.

    Such a thread has put the address of its ompi_wait_sync_t into the request (ompi/request/req_wait.c). That struct
    counts the requests that have to complete before the thread goes on: of MPI_Waitall all that are pending, of
    MPI_Waitany one. A single MPI_Wait does so only where threads are in use.
    """
    if complete in (0, COMPLETE):
        return phrases.request(address)
    try:
        (count,) = memory.unpack(_COUNT, complete)
    except MqsError:
        count = 0
    return phrases.request(address, in_wait=True, needs=count if 0 < count <= _MAX_REQUESTS else None)


def send_kind(mode: int, *, persistent: int, free_called: int) -> str | None:
    """Return the call that made a send; None where this isn't enough to know whether it is one of CALLS[mode].

    MPI_Bsend is an Ibsend whose request is freed at once (pml_ob1_isend.c, pml_cm.h).
    """
    calls = CALLS.get(mode)
    if calls is None:
        return phrases.UNKNOWN_MODE(mode)
    if persistent:
        return phrases.made_by(f"{calls[0]}_init", how=How.PERSISTENT)
    if mode == BUFFERED and free_called:
        return phrases.made_by(*calls, how=How.BUFFERED)
    if mode == BUFFERED:
        return phrases.made_by(calls[1], how=How.NONBLOCKING)
    return None


def sent_from_copy(address: int) -> str:
    """Say of a buffered send whose copy is gone what the program's buffer was: it may hold other bytes by now."""
    return f"sent from a copy; the program's own buffer was {address:#x}"


def tag_text(tag: int, nonblocking_base: int) -> str | None:
    """Return what an internal tag stands for; None for a tag of the program."""
    if not tags.is_internal(tag):
        return None
    return tags.label(tag, nonblocking_base=nonblocking_base)


def early_notes(arrived: Mapping[int, Sized], known: Container[int]) -> Iterator[Operation]:
    """Yield the note of foreign_note if there are such messages.

    Args:
        arrived: messages, by the number of their communicator.
        known: numbers of the communicators that the process has.
    """
    early = Counter({number: len(each) for number, each in arrived.items() if number not in known})
    if early:
        yield foreign_note(early)


def foreign_note(numbers: Counter[int], broken: str | None = None) -> Operation:
    """Return a note of how many messages are for communicators that a process doesn't have: not yet, or no longer.

    Args:
        numbers: of messages, by the number of their communicator.
        broken: why some may be missing.
    """
    if not numbers:
        return note("messages for communicators that this process doesn't have can't be seen", broken)
    return note(
        f"{numbers.total()} for communicators that this process doesn't have",
        "their numbers: " + ", ".join(map(str, sorted(numbers))),
        broken,
    )
