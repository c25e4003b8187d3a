"""What all devices of MPICH say of operations: texts, buffered sends, messages that a probe holds or that are early.

A buffered send is a nonblocking send of a copy in the buffer that the program attached. Before the copy lies what MPICH
knows of it, which refers to the request. Source: src/include/mpir_bsend.h, src/mpi/pt2pt/bsendutil.c of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Operation
from mqs_dll.contract.errors import TargetReadError
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import WORD, Memory
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.mpich import contexts, tags
from mqs_dll.library.mpi.mpich.communicators import MpichCommunicators

NOT_KEPT = envelopes.NOT_KEPT
BUFFERED_SEND = phrases.made_by("MPI_Bsend", "MPI_Ibsend", how=How.BUFFERED)
FROM_SYNCHRONOUS_SEND = "sent by MPI_Ssend or MPI_Issend"
COPY = "the buffer is a copy in the attached buffer"
NO_ORDER = "one of several to this rank, in no particular order"

BSEND_HEADER_WORDS = 12
"""The size of MPII_Bsend_data_t, which is MPI_BSEND_OVERHEAD and so a part of MPICH's ABI."""


def persistent(*calls: str) -> str:
    """Name the call that made a persistent request, which is started."""
    return phrases.made_by(*calls, how=How.PERSISTENT)


def done_receive(tag: int, *, has_message: bool) -> str:
    """Name the call of a receive that is done, and of which no context id tells whether it is a collective's.

    Where an algorithm receives from several ranks at once, those that are done wait in their requests for the others.
    """
    how = How.OR_COLLECTIVE if has_message and tags.is_collectives(tag) else How.NONBLOCKING
    return phrases.received_by("MPI_Irecv", how=how, has_message=has_message)


def collective_text(context_id: int, tag: int) -> str | None:
    """Return what a message of a collective operation stands for; None for one of the program's own."""
    return tags.label(tag) if contexts.is_collective(context_id) else None


def matched_message(peers: Sequence[int], rank: int, tag: int, length: int, request: str) -> Operation:
    """Return a message that a matched probe holds; what the probe had asked for is not kept."""
    return envelopes.matched_message(peers, envelopes.Envelope(rank, tag, length), request)


def is_buffered(memory: Memory, buffer: int, request: int) -> bool:
    """Return whether the buffer of a send is a copy in the attached buffer: its header has the addresses of both."""
    try:
        words = memory.pointers(buffer - BSEND_HEADER_WORDS * WORD, BSEND_HEADER_WORDS)
    except TargetReadError:
        return False
    return (request, buffer) in pairwise(words)


def early_notes(numbers: Mapping[int, int], communicators: MpichCommunicators) -> Iterator[Operation]:
    """Yield one note on the messages that belong to no communicator of the process, none without any.

    Args:
        numbers: how many messages have come with each context id, without the bit of collectives.
        communicators: those of the process.
    """
    unknown = dict(numbers)
    if unknown:
        for entry in communicators.read():
            unknown.pop(entry.receives_in, None)
    if unknown:
        yield envelopes.note(
            f"{sum(unknown.values())} for communicators that this process doesn't have",
            "their numbers: " + ", ".join(map(str, sorted(unknown))),
        )
