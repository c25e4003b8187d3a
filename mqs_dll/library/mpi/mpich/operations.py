"""What MPICH's devices say of an operation in the same words, and a message that a probe holds."""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Operation
from mqs_dll.contract.phrases import How
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.mpich import contexts, tags

NOT_KEPT = envelopes.NOT_KEPT
BUFFERED_SEND = phrases.made_by("MPI_Bsend", "MPI_Ibsend", how=How.GONE_ON)
FROM_SYNCHRONOUS_SEND = "sent by MPI_Ssend or MPI_Issend"
COPY = "the buffer is a copy in the attached buffer"
NO_ORDER = "one of several to this rank, in no particular order"


def persistent(*calls: str) -> str:
    """Name the call that made a persistent request, which is started."""
    return phrases.made_by(*calls, how=How.PERSISTENT)


def collective_text(context_id: int, tag: int) -> str | None:
    """Return what a message of a collective operation stands for; None for one of the program's own."""
    return tags.label(tag) if contexts.is_collective(context_id) else None


def held(peers: Sequence[int], rank: int, tag: int, length: int, request: str) -> Operation:
    """Return a message that a matched probe holds; what the probe had asked for is not kept."""
    return envelopes.held(peers, envelopes.Envelope(rank, tag, length), request)
