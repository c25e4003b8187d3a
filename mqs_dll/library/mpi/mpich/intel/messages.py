"""Receives of Intel MPI, and messages that have come.

A receive that had to wait loses its tag to that of its message; one that finds its message waiting takes over the
message's request, with the buffer and the count of that. Of a complete one only what it got is believed (ch4/receives).
What a persistent one asks for stays in its own request.
"""

from __future__ import annotations

from typing import NamedTuple

from mqs_dll.library.mpi.mpich import contexts, views
from mqs_dll.library.mpi.mpich.requests import AM_DEQUEUED, AM_IN_PROGRESS, AM_UNEXPECTED, ANY_SOURCE, DeviceRequest


class IntelMessage(DeviceRequest):
    """A receive, or a message that has come."""

    __slots__ = ("am", "asked_process", "extension", "handle", "persistent")

    def __init__(
        self,
        common: views.MpirRequest,
        am: views.AmRequest,
        extension: views.LinkedExtension | None,
        persistent: views.PersistentRequest | None,
        handle: int,
        asked_process: int,
    ) -> None:
        super().__init__(common)
        self.am = am
        self.extension = extension
        """Gone when the request is complete."""
        self.persistent = persistent
        """What the program asked for, where it did so by a persistent request."""
        self.handle = handle
        """That of the program's request."""
        self.asked_process = asked_process
        """Which process a receive asked for when it had to wait, by its number in the job, ANY_SOURCE; else 0."""

    @property
    def state(self) -> int:
        """What the request is at, 0 for a complete one."""
        return 0 if self.extension is None else self.extension.status

    @property
    def number(self) -> int:
        """Which of all messages that have come to the process it is."""
        return 0 if self.extension is None else self.extension.seq_no

    @property
    def sender(self) -> int:
        """The address, in the sender's process, of the request of a send that waits to hear of the match."""
        return 0 if self.extension is None else self.extension.peer_req_ptr

    @property
    def following(self) -> int:
        """Where the next on the list of posted receives has its extension."""
        return 0 if self.extension is None else self.extension.next

    @property
    def is_unexpected(self) -> bool:
        """Whether it is a message that no receive has matched."""
        return bool(self.state & AM_UNEXPECTED) and not self.state & AM_DEQUEUED

    @property
    def is_posted(self) -> bool:
        """Whether it is a receive that waits for its message."""
        return self.is_receiving and not self.state & AM_IN_PROGRESS

    @property
    def is_past_waiting(self) -> bool:
        """Whether it is a receive that has its message, or was cancelled.

        A complete request is believed when its status agrees with it: some were used for something else before. So one
        of any source or tag that found its message there isn't found: it may still say what it was used for before.
        """
        if not self.complete:
            return self.is_receiving and not self.is_posted
        return self.cancelled or (self.common.status_source, self.common.status_tag) == (self.am.source, self.am.tag)

    @property
    def is_receiving(self) -> bool:
        """Whether it is a receive that is not complete."""
        return not self.complete and not self.is_unexpected

    @property
    def length(self) -> int:
        """Bytes of the message that has come."""
        return self.common.length

    @property
    def communicator(self) -> int:
        """The context id of its communicator, to which requests don't refer otherwise."""
        return contexts.communicator_of(self.am.context_id)


class IntelPostedEnvelope(NamedTuple):
    """What a receive asked for, None where that isn't kept."""

    source: int | None
    tag: int | None
    buffer: int
    """0 where that isn't kept."""
    elements: int | None
    datatype: int | None


def asked(message: IntelMessage) -> IntelPostedEnvelope:
    """Return what a receive asked for; its message has taken the place of a part."""
    if message.persistent is not None:
        kept = message.persistent
        return IntelPostedEnvelope(kept.rank, kept.tag, kept.buffer, kept.count, kept.datatype)
    am = message.am
    if message.is_posted or message.cancelled:
        return IntelPostedEnvelope(am.source, am.tag, am.buffer, am.count, am.datatype)
    if message.complete:  # what it was used for before may look the same
        return IntelPostedEnvelope(None, None, 0, None, None)
    if message.state & AM_UNEXPECTED:
        return IntelPostedEnvelope(None, None, 0, None, am.datatype)
    source = ANY_SOURCE if message.asked_process == ANY_SOURCE else message.common.status_source
    return IntelPostedEnvelope(source, None, am.buffer, am.count, am.datatype)
