"""One operation of one process, joined with the process that it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.contract.phrases import Words


class Standing(Enum):
    """Where a send's message stands among those of its sender that are under way, as far as their numbers show it."""

    UNKNOWN = "not numbered"
    NEXT = "every message under way before it can be seen"
    BEHIND = "a message that can't be seen is under way before it"
    TAKEN = "its receiver has it"
    UNSEEN = "it does not lie at its receiver: it is under way, or taken"


class Origin(Enum):
    """What an operation is known from."""

    QUEUE = "a queue"
    CALL = "the arguments of the call that waits for it"
    BOTH = "a queue, and the call that waits for it"


@dataclass(eq=False, slots=True)
class Pending:
    """One operation of one process, or a message that lies unexpected in it."""

    process: int
    communicator: int
    channel: int
    """A number that both sides of an inter-communicator share: messages go from one to the other."""
    queue: Queue
    status: Status
    peer: int | None
    """The process that it is to or from; None for any, and where it can't be determined."""
    peer_rank: int | None
    """The peer's rank in the communicator (of the remote group)."""
    any_source: bool
    tag: int | None
    """None for any, and where it isn't known."""
    any_tag: bool
    length: int | None
    """Bytes of a receive's buffer, or of the message; None where they aren't known."""
    arrived: int | None
    """Bytes of the message that a receive has got; None where there is none, or it isn't known."""
    words: Words
    match: Pending | None = None
    """The message that a receive will match; the receive that a message will match."""
    standing: Standing = Standing.UNKNOWN
    """Of a send."""
    other_end: Pending | None = None
    """Of a send, its message where that lies unexpected; of such a message, its send."""
    matched_message: Pending | None = None
    """Of a send: its message, where a matched probe of its receiver has taken it."""
    guessed: bool = False
    """Of a receive: another one from any source may take its match, or it may take another message."""

    origin: Origin = Origin.QUEUE
    is_hidden: bool = False
    """Of one that is known from a call: its process's queues can't all be seen."""

    @property
    def sender(self) -> int | None:
        """The process that a message is from, whether it lies unexpected or is a send; None where it isn't known."""
        return self.peer if self.queue is Queue.UNEXPECTED else self.process

    @property
    def asks_unknown(self) -> bool:
        """Whether it isn't known what would match it."""
        source_open = self.peer_rank is None and not self.any_source
        return source_open or (self.tag is None and not self.any_tag)


def users(operations: Iterable[Pending]) -> list[Pending]:
    """Return the operations that are the program's own: no traffic of collectives, nothing cancelled."""
    return [each for each in operations if not each.words.internal and not each.words.cancelled]
