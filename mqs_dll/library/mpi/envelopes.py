"""Operations as the interface has them: rank, tag and bytes of what is asked for and of what has come, and texts.

All MPIs make theirs here. The texts of an operation are at most five lines of 63 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, TEXT_LINES, TEXT_SIZE, UNKNOWN, Operation, Status
from mqs_dll.contract.names import fit
from mqs_dll.contract.phrases import How
from mqs_dll.library.mpi.communicators import world_rank

LINE = TEXT_SIZE - 1

_Fields: TypeAlias = tuple[
    Status, int, int, bool, int, int, bool, int, int, int, int, int, tuple[bytes, ...]
]  # of Operation, in its order
_operation: Callable[[_Fields], Operation] = partial(tuple.__new__, Operation)
"""Makes an Operation in a third of the time that the names of its fields take: there may be a hundred thousand."""

NOT_KEPT = "the source and tag that it asked for are not kept"
NO_ORDER = "its order among those to this rank is not known"
"""Of a send."""


class Envelope(NamedTuple):
    """What a receive asks for, or what it got; what isn't known, or is left open, is -1."""

    rank: int
    """Of the communicator, or of the remote group of an inter-communicator."""
    tag: int
    length: int
    """Bytes."""


NOTHING = Envelope(INVALID_RANK, UNKNOWN, UNKNOWN)


class DatatypeFacts(NamedTuple):
    """What is known of one datatype."""

    name: bytes
    """Empty for a derived datatype that the program didn't name."""
    size: int
    """Bytes of data in one element."""
    predefined: bool


def lines(*texts: str | bytes | None) -> tuple[bytes, ...]:
    """Return the texts that are there, each cut to its line."""
    encoded = [text[:LINE] if isinstance(text, bytes) else text.encode()[:LINE] for text in texts if text]
    return tuple(encoded if len(encoded) <= TEXT_LINES else encoded[:TEXT_LINES])


def buffer_text(facts: DatatypeFacts | None, count: int, handle: int) -> bytes:
    """Return "MPI_INT x 4, 16 bytes"; the name is cut when it is long, the numbers never."""
    if facts is None:
        return b"%d elements of an unreadable datatype at %#x" % (count, handle)
    numbers = b" x %d, %d bytes" % (count, count * facts.size)
    name = facts.name or b"unnamed datatype %#x" % handle
    return fit(name, LINE - len(numbers)) + numbers


def receive(
    status: Status,
    asked: Envelope,
    got: Envelope,
    peers: Sequence[int],
    buffer: int,
    *texts: str | bytes | None,
    tag_wild: bool = False,
) -> Operation:
    """Return a receive.

    Args:
        status: how far it is.
        asked: for what, as far as that is kept.
        got: which message; NOTHING while there is none.
        peers: the MPI_COMM_WORLD ranks of the communicator's.
        buffer: where the message goes; 0 where that isn't known.
        texts: the lines of extra_text; those that are None are left out.
        tag_wild: whether it takes any tag.
    """
    rank, tag, length = asked
    local, got_tag, got_length = got
    asked_world, got_world, text = world_rank(peers, rank), world_rank(peers, local), lines(*texts)
    return _operation(
        (status, rank, asked_world, tag_wild, tag, length, False, buffer, local, got_world, got_tag, got_length, text)
    )


def matched_message(peers: Sequence[int], got: Envelope, *texts: str | bytes | None) -> Operation:
    """Return a message that a matched probe holds; what the probe had asked for is not kept."""
    call = phrases.made_by("MPI_Mprobe", "MPI_Improbe", how=How.MATCHED_MESSAGE)
    return receive(Status.MATCHED, NOTHING._replace(length=0), got, peers, 0, call, NOT_KEPT, *texts)


def send(
    status: Status,
    rank: int,
    world: int,
    tag: int,
    length: int,
    buffer: int,
    *texts: str | bytes | None,
    system_buffer: bool = False,
) -> Operation:
    """Return a send to a rank of a communicator, and of MPI_COMM_WORLD; what isn't known of it is -1, a buffer 0."""
    text = lines(*texts)
    return _operation((status, rank, world, False, tag, length, system_buffer, buffer, rank, world, tag, length, text))


def message(
    status: Status, rank: int, world: int, tag: int, length: int, buffer: int, *texts: str | bytes | None
) -> Operation:
    """Return an unexpected message from a rank of a communicator, and of MPI_COMM_WORLD."""
    return message_with(lines(*texts), status, rank, world, tag, length, buffer)


def message_with(
    text: tuple[bytes, ...], status: Status, rank: int, world: int, tag: int, length: int, buffer: int
) -> Operation:
    """Return the same with a text that is made already: most messages of a flood have the same."""
    return _operation((status, rank, world, False, tag, length, True, buffer, rank, world, tag, length, text))


def note(*texts: str | bytes | None, rank: int = INVALID_RANK, world: int = INVALID_RANK) -> Operation:
    """Return an entry of the queue of unexpected messages that is none: what its text counts, and who sent them."""
    return message(Status.PENDING, rank, world, UNKNOWN, UNKNOWN, 0, *texts)
