"""Receives of active messages, in every state.

When a message matches a receive, its source and tag replace those that were asked for; whether a wildcard stood there
is lost, except for a persistent receive. Of one that is complete nothing else can be believed either: a small message
that came before its receive leaves the address of ch4's own buffer in the place of the program's, and since 4.1 a
receive from any source that finds its message there is complete in a request which still says what it was used for
before. Source: src/mpid/ch4/src/ch4_recv.h, mpidig_recv.h, mpidig_pt2pt_callbacks.c of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation
from mqs_dll.contract.phrases import How
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.envelopes import NOTHING, DatatypeFacts, Envelope, buffer_text
from mqs_dll.library.mpi.mpich import operations, views
from mqs_dll.library.mpi.mpich.ch4.traffic import Ch4Message, Ch4Traffic
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext


class Ch4PostedEnvelope(NamedTuple):
    """What a receive asked for; None where it isn't known that any more."""

    source: int | None
    tag: int | None
    buffer: int | None
    elements: int | None
    datatype: int


class Receives:
    """The receives of one process."""

    def __init__(self, mpi: MpichProcessContext, traffic: Ch4Traffic) -> None:
        self._mpi = mpi
        self._traffic = traffic
        self._values = mpi.requests.values

    def operations(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            BrokenStructureError: after them, when some may be missing, or their order isn't sure.
        """
        return (operation for _, operation in self.by_request(entry))

    def by_request(self, entry: MpichEntry) -> Iterator[tuple[int, Operation]]:
        """Yield the same, each with the address of its request."""
        mine = self._traffic.of(entry.view.address)
        for message in mine.held:
            yield message.common.address, self._held(message, entry)
        for message in (*mine.with_message, *mine.posted):
            yield message.common.address, self._receive(message, entry)
        self._traffic.check_receives()

    def datatypes(self) -> list[int]:
        """Return the handle of the datatype of each receive that is not complete."""
        receives = (message for each in self._traffic.all() for message in (*each.with_message, *each.posted))
        return [message.am.datatype for message in receives if not message.complete]

    def _receive(self, message: Ch4Message, entry: MpichEntry) -> Operation:
        asked = self._asked(message, entry)
        facts = self._mpi.datatypes.at(asked.datatype)
        rank = INVALID_RANK if asked.source in (None, self._values.any_source) else asked.source
        any_tag = asked.tag == self._values.any_tag
        capacity = UNKNOWN if facts is None or asked.elements is None else asked.elements * facts.size
        length = UNKNOWN if message.waits else message.length(capacity)
        half = message.by_network
        got = Envelope(message.source, message.tag, length)
        if half is not None:
            got = Envelope(half.status_source, half.status_tag, half.length)
        return envelopes.receive(
            message.status,
            Envelope(rank, UNKNOWN if asked.tag is None or any_tag else asked.tag, capacity),
            NOTHING if message.waits else got,
            entry.peers(),
            asked.buffer or 0,
            self._call(message, entry),
            _buffer_text(facts, asked),
            self._traffic.started.text(message.common),
            _progress(message, length),
            _collective_text(message, entry) or (operations.NOT_KEPT if _has_forgotten(message, asked) else None),
            tag_wild=any_tag,
        )

    def _asked(self, message: Ch4Message, entry: MpichEntry) -> Ch4PostedEnvelope:
        """Return what a receive asked for, as far as that is kept."""
        arguments = self._traffic.started.asked(message.common)
        if arguments is not None:
            return Ch4PostedEnvelope(
                arguments.rank, arguments.tag, arguments.buffer, arguments.count, arguments.datatype
            )
        am = message.am
        if message.waits or message.by_network is not None:
            return Ch4PostedEnvelope(message.source, message.tag, am.buffer, am.count, am.datatype)
        if not message.complete:
            return Ch4PostedEnvelope(None, None, am.buffer, am.count, am.datatype)
        # An error is noted in a request that was filled in; the size of the buffer explains it.
        was_too_small = message.common.status_error and _keeps_context(message, entry)
        return Ch4PostedEnvelope(None, None, None, am.count if was_too_small else None, am.datatype)

    def _held(self, message: Ch4Message, entry: MpichEntry) -> Operation:
        request = self._traffic.started.text(message.common)
        return operations.matched_message(entry.peers(), message.source, message.tag, message.am.count, request)

    # ------------------------------------------------------------ words

    def _call(self, message: Ch4Message, entry: MpichEntry) -> str:
        """Name the call that made a receive; one that is complete or freed can't belong to a blocking call."""
        if self._traffic.started.of(message.common):
            return operations.persistent("MPI_Recv_init")
        has_message = not message.waits
        if not _keeps_context(message, entry):
            return operations.done_receive(message.tag, has_message=has_message)
        if message.complete or message.freed:
            return phrases.received_by("MPI_Irecv", how=How.NONBLOCKING, has_message=has_message)
        return phrases.received_by("MPI_Recv", "MPI_Irecv", has_message=has_message)


def _buffer_text(facts: DatatypeFacts | None, asked: Ch4PostedEnvelope) -> str | bytes:
    if asked.buffer is None or asked.elements is None:
        return "its buffer is not kept"
    return buffer_text(facts, asked.elements, asked.datatype)


def _progress(message: Ch4Message, length: int) -> str | None:
    if message.cancelled or message.waits:
        return message.given_up
    if message.by_network is not None:
        return phrases.FORGOTTEN()
    if message.complete:
        return "done"
    if length == UNKNOWN or message.extension is None:
        return "matched, its length is not known"
    return f"{length - message.extension.in_data_sz} of {length} bytes are here"


def _has_forgotten(message: Ch4Message, asked: Ch4PostedEnvelope) -> bool:
    """Return whether a receive no longer knows what it asked for."""
    return asked.source is None and not message.cancelled


def _keeps_context(message: Ch4Message, entry: MpichEntry) -> bool:
    """Return whether a receive's context id is still there.

    In one that is complete there may be that of what it was used for before; since 5.0 also the sender's rank, when the
    message was copied out of the sender's memory, which is over at once.
    """
    if not message.complete or message.cancelled:
        return True
    context_id = message.am.context_id
    may_be_rank = context_id == message.source and not isinstance(message.am, views.NarrowAmRequest)
    return context_id == entry.receives_in and not may_be_rank


def _collective_text(message: Ch4Message, entry: MpichEntry) -> str | None:
    if not _keeps_context(message, entry):
        return None
    return operations.collective_text(message.am.context_id, message.tag)
