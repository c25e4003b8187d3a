"""What MPICH's devices say of an operation in the same words, and operations of which what was desired is what is."""

from __future__ import annotations

from mqs_dll import phrases
from mqs_dll.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.mpi.describe import lines
from mqs_dll.mpi.mpich import contexts, tags
from mqs_dll.phrases import How

NOT_KEPT = "the source and tag that it asked for are not kept"
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


def send(
    status: Status, rank: int, world: int, tag: int, length: int, buffer: int, *texts: str | bytes | None
) -> Operation:
    """Return a send to a rank of a communicator, and of MPI_COMM_WORLD; what isn't known of it is -1, a buffer 0."""
    return _envelope(status, rank, world, tag, length, buffer, texts, system_buffer=False)


def message(
    status: Status, rank: int, world: int, tag: int, length: int, buffer: int, *texts: str | bytes | None
) -> Operation:
    """Return an unexpected message from a rank of a communicator, and of MPI_COMM_WORLD."""
    return _envelope(status, rank, world, tag, length, buffer, texts, system_buffer=True)


def held(rank: int, world: int, tag: int, length: int, request: str) -> Operation:
    """Return a message that a matched probe holds; what the probe had asked for is not kept."""
    return Operation(
        status=Status.MATCHED,
        desired_local_rank=INVALID_RANK,
        desired_global_rank=INVALID_RANK,
        tag_wild=False,
        desired_tag=UNKNOWN,
        desired_length=0,
        system_buffer=False,
        buffer=0,
        actual_local_rank=rank,
        actual_global_rank=world,
        actual_tag=tag,
        actual_length=length,
        extra_text=lines(phrases.made_by("MPI_Mprobe", "MPI_Improbe", how=How.HELD), NOT_KEPT, request),
    )


def note(*texts: str | bytes | None) -> Operation:
    """Return an entry of the queue of unexpected messages that is no message: only what its text says is known."""
    return message(Status.PENDING, INVALID_RANK, INVALID_RANK, UNKNOWN, UNKNOWN, 0, *texts)


def _envelope(
    status: Status,
    rank: int,
    world: int,
    tag: int,
    length: int,
    buffer: int,
    texts: tuple[str | bytes | None, ...],
    *,
    system_buffer: bool,
) -> Operation:
    return Operation(
        status=status,
        desired_local_rank=rank,
        desired_global_rank=world,
        tag_wild=False,
        desired_tag=tag,
        desired_length=length,
        system_buffer=system_buffer,
        buffer=buffer,
        actual_local_rank=rank,
        actual_global_rank=world,
        actual_tag=tag,
        actual_length=length,
        extra_text=lines(*texts),
    )
