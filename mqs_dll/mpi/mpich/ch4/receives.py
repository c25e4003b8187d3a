"""Receives of active messages, in every state.

When a message matches a receive, its source and tag replace those that were asked for; whether a wildcard stood there
is lost, but for a persistent receive. A small message that came before its receive even leaves the address of ch4's own
buffer in the place of the program's.
Source: src/mpid/ch4/src/mpidig_recv.h, mpidig_pt2pt_callbacks.c, src/mpid/common/genq/mpidu_genq_private_pool.c of
4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll import phrases
from mqs_dll.abi import INVALID_RANK, UNKNOWN, Operation
from mqs_dll.errors import TargetReadError
from mqs_dll.memory import Memory
from mqs_dll.mpi import envelopes
from mqs_dll.mpi.describe import buffer_text
from mqs_dll.mpi.envelopes import NOTHING, Envelope
from mqs_dll.mpi.mpich import contexts, operations, views
from mqs_dll.mpi.mpich.ch4.traffic import Message, Traffic
from mqs_dll.mpi.mpich.communicators import Entry
from mqs_dll.mpi.mpich.parts import Parts
from mqs_dll.phrases import How

CELL_HEADER = 16
"""Bytes before a buffer of ch4's own: the address of its block, and a link."""

LARGEST_BLOCK = 1 << 26


class Asked(NamedTuple):
    """What a receive asked for; None where nothing tells that any more."""

    source: int | None
    tag: int | None
    buffer: int | None
    elements: int
    datatype: int


class Receives:
    """The receives of one process."""

    def __init__(self, parts: Parts, traffic: Traffic) -> None:
        self._parts = parts
        self._traffic = traffic
        self._values = parts.requests.values

    def operations(self, entry: Entry) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            BrokenStructureError: after them, when some may be missing, or their order isn't sure.
        """
        mine = self._traffic.of(entry.view.address)
        for message in mine.held:
            yield self._held(message, entry)
        for message in (*mine.with_message, *mine.posted):
            yield self._receive(message, entry)
        self._traffic.check_receives()

    def datatypes(self) -> list[int]:
        """Return the handle of the datatype of each receive."""
        return [message.am.datatype for each in self._traffic.all() for message in (*each.with_message, *each.posted)]

    def _receive(self, message: Message, entry: Entry) -> Operation:
        asked = self._asked(message)
        facts = self._parts.datatypes.at(asked.datatype)
        rank = INVALID_RANK if asked.source in (None, self._values.any_source) else asked.source
        any_tag = asked.tag == self._values.any_tag
        has_buffer = asked.buffer is not None
        room = UNKNOWN if facts is None else asked.elements * facts.size
        length = UNKNOWN if message.waits else message.length(room)
        half = message.by_network
        got = Envelope(message.source, message.tag, length)
        if half is not None:
            got = Envelope(half.status_source, half.status_tag, half.length)
        return envelopes.receive(
            message.status,
            Envelope(rank, UNKNOWN if asked.tag is None or any_tag else asked.tag, room if has_buffer else UNKNOWN),
            NOTHING if message.waits else got,
            entry.peers(),
            asked.buffer or 0,
            self._call(message, entry),
            buffer_text(facts, asked.elements, asked.datatype) if has_buffer else "its buffer is not kept",
            self._traffic.request_text(message.common),
            _progress(message, length),
            _collective_text(message, entry) or (operations.NOT_KEPT if _has_forgotten(message, asked) else None),
            tag_wild=any_tag,
        )

    def _asked(self, message: Message) -> Asked:
        """Return what a receive asked for, as far as that is kept."""
        arguments = self._traffic.asked(message.common)
        if arguments is not None:
            return Asked(arguments.rank, arguments.tag, arguments.buffer, arguments.count, arguments.datatype)
        am = message.am
        if message.waits or message.by_network is not None:
            return Asked(message.source, message.tag, am.buffer, am.count, am.datatype)
        buffer = None if self._has_other_buffer(message) else am.buffer
        return Asked(None, None, buffer, am.count, am.datatype)

    def _has_other_buffer(self, message: Message) -> bool:
        """Tell whether the buffer of a complete receive is the one that its message lay in before."""
        facts = self._parts.datatypes.at(message.am.datatype)
        length = message.common.length
        if not message.complete or facts is None or message.am.count * facts.size != length:
            return False
        return bool(length) and is_own_buffer(self._parts.memory, message.am.buffer)

    def _held(self, message: Message, entry: Entry) -> Operation:
        request = self._traffic.request_text(message.common)
        return operations.held(entry.peers(), message.source, message.tag, message.am.count, request)

    # ------------------------------------------------------------ words

    def _call(self, message: Message, entry: Entry) -> str:
        """Name the call that made a receive; one that is complete or freed can't belong to a blocking call."""
        if self._traffic.persistent(message.common):
            return operations.persistent("MPI_Recv_init")
        if not _keeps_context(message, entry):
            return phrases.made_by("MPI_Irecv", how=How.OR_COLLECTIVE)
        if message.complete or message.freed:
            return phrases.made_by("MPI_Irecv", how=How.NONBLOCKING)
        return phrases.made_by("MPI_Recv", "MPI_Irecv")


def _progress(message: Message, length: int) -> str | None:
    if message.cancelled or message.waits:
        return message.given_up
    if message.by_network is not None:
        return phrases.FORGOTTEN()
    if message.complete:
        return "done"
    if length == UNKNOWN or message.extension is None:
        return "matched, its length is not known"
    return f"{length - message.extension.in_data_sz} of {length} bytes are here"


def _has_forgotten(message: Message, asked: Asked) -> bool:
    """Tell whether a receive no longer knows what it asked for."""
    return asked.source is None and not message.cancelled


def _keeps_context(message: Message, entry: Entry) -> bool:
    """Tell whether a receive's context id is still there.

    Since 5.0 the sender's rank is in its place when the message was copied out of the sender's memory, which is over at
    once.
    """
    if not message.complete or message.cancelled or isinstance(message.am, views.NarrowAmRequest):
        return True
    context_id = message.am.context_id
    return contexts.communicator_of(context_id) == entry.receives_in and context_id != message.source


def _collective_text(message: Message, entry: Entry) -> str | None:
    if not _keeps_context(message, entry):
        return None
    return operations.collective_text(message.am.context_id, message.tag)


def is_own_buffer(memory: Memory, buffer: int) -> bool:
    """Tell whether a buffer is one of those that ch4 keeps for unexpected messages, or isn't there any more.

    They lie in blocks, and each refers to the record of its block, which knows where the block begins.
    """
    cell = buffer - CELL_HEADER
    try:
        block = memory.pointer(cell)
    except TargetReadError:
        return True
    try:
        slab = memory.pointer(block)
        return 0 <= cell - slab < LARGEST_BLOCK and memory.pointer(slab) == block
    except TargetReadError:
        return False
