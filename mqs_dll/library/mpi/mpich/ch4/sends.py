"""Sends of active messages.

A send's request has no tag. A rendezvous keeps its arguments in the request; an eager one leaves there what an earlier
message left, though it waits on when it is synchronous. The message's header shows which it is: in the record of a
message that could not leave yet, or in the cell of shared memory that it left by. Without it nothing is believed.
Of one that is complete and that the program has not collected yet, the header is all that there is to go by.
Source: src/mpid/ch4/src/mpidig_send.h, mpidig_send_utils.h, src/mpid/ch4/shm/ipc/src/ipc_p2p.h of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import DatatypeFacts, buffer_text
from mqs_dll.library.mpi.mpich import contexts, operations, views
from mqs_dll.library.mpi.mpich.ch4.cells import READ, Cells, Departure, Place, order_of
from mqs_dll.library.mpi.mpich.ch4.postponed import Postponed, PostponedSends, Queued
from mqs_dll.library.mpi.mpich.ch4.traffic import Ch4Message, Ch4Traffic
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.persistent import send_call
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext

# flags of a message's header
SYNCHRONOUS = 0x1
RENDEZVOUS = 0x2
RENDEZVOUS_KIND_SHIFT = 8
GENERIC = 0
"""The kind of rendezvous that distinguishes synchronous sends from others."""

UNPLACED = Place(READ, -1, -1)
UNKNOWN_CALL = phrases.made_by("MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Issend", how=How.OR_BUFFERED)
UNKNOWN_COMPLETE_CALL = phrases.made_by("MPI_Isend", "MPI_Issend", how=How.BUFFERED_OR_COLLECTIVE)
NO_HEADER = "its header is gone: what it sends where is not known"
NO_TAG = "its tag is not known: the header is gone"
NO_TAG_NO_ORDER = "its tag and its order among those to this rank are not known"


class ShmSend(NamedTuple):
    """What is known of a send."""

    call: str
    rank: int = INVALID_RANK
    tag: int = UNKNOWN
    context_id: int = 0
    length: int = UNKNOWN
    buffer: int = 0
    elements: int = 0
    datatype: int | None = None
    """Its handle; None where the arguments are not known."""
    facts: DatatypeFacts | None = None
    missing: str | None = None
    """What isn't known, in words, instead of the arguments."""
    lost: str | None = None
    """The same besides the arguments."""
    rendezvous: bool = False
    postponed: bool = False
    """It can't have left yet."""
    place: Place | None = None
    """In the order of sending."""


class ShmSends:
    """The sends of one process."""

    def __init__(self, mpi: MpichProcessContext, traffic: Ch4Traffic) -> None:
        self._mpi = mpi
        self._memory = mpi.memory
        self._traffic = traffic
        self._dest = views.AmSendRequest.bind(mpi.layouts)
        self._cells = Cells(mpi.memory, mpi.library, mpi.layouts)
        self._postponed = PostponedSends(mpi.memory, mpi.layouts)

    def operations(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the sends of a communicator, by destination and then in the order of sending, as far as that is known.

        Raises:
            BrokenStructureError: after them, when some may be missing.
        """
        by_rank: defaultdict[int, list[tuple[Ch4Message, ShmSend]]] = defaultdict(list)
        for message, sent in self._of(entry):
            by_rank[sent.rank].append((message, sent))
        for rank, sends in sorted(by_rank.items()):
            order = order_of([sent.place for _, sent in sends])
            is_ordered = order is not None or len(sends) == 1 or rank == INVALID_RANK
            for index in range(len(sends)) if order is None else order:
                yield self._operation(*sends[index], entry, None if is_ordered else operations.NO_ORDER)
        self._traffic.check_requests()

    def datatypes(self, entry: MpichEntry) -> list[int]:
        """Return the handle of the datatype of each send of a communicator whose arguments are known."""
        return [sent.datatype for _, sent in self._of(entry) if sent.datatype is not None]

    def _of(self, entry: MpichEntry) -> list[tuple[Ch4Message, ShmSend]]:
        """Return the sends of a communicator; a buffered one that is complete is none of the program's any more."""
        sends = self._traffic.of(entry.view.address).sends
        postponed = {
            message.common.address: self._postponed.of(message.common.address)
            for message in sends
            if not message.complete
        }
        found = [(message, self._sent(message, postponed.get(message.common.address), entry)) for message in sends]
        return [(message, sent) for message, sent in found if not (message.complete and self._is_copy(message, sent))]

    def _operation(self, message: Ch4Message, sent: ShmSend, entry: MpichEntry, no_order: str | None) -> Operation:
        copied = self._is_copy(message, sent)
        status, progress = _progress(message, sent)
        return envelopes.send(
            status,
            sent.rank,
            world_rank(entry.peers(), sent.rank),
            sent.tag,
            sent.length,
            sent.buffer,
            operations.BUFFERED_SEND if copied else sent.call,
            sent.missing if sent.datatype is None else buffer_text(sent.facts, sent.elements, sent.datatype),
            operations.COPY if copied else self._traffic.started.text(message.common),
            phrases.FREED() if message.freed and not copied else progress,
            operations.collective_text(sent.context_id, sent.tag),
            NO_TAG_NO_ORDER if sent.lost and no_order else sent.lost or no_order,
        )

    def _is_copy(self, message: Ch4Message, sent: ShmSend) -> bool:
        """Return whether it is a buffered send, carried out as one of the copy."""
        of_bytes = sent.facts is not None and sent.facts.predefined and sent.facts.size == 1
        return of_bytes and operations.is_buffered(self._memory, sent.buffer, message.common.address)

    # ------------------------------------------------------------ what is known of a send

    def _sent(self, message: Ch4Message, postponed: Postponed | None, entry: MpichEntry) -> ShmSend:
        """Return what is known of a send, by the first of these that there is.

        1. the persistent request that it does the work of
        2. the record of a message that could not leave yet
        3. the message's header: in the queue of such records, or in the cell that it left by
        4. the request alone, where only a rendezvous waits like this
        """
        queued = None if message.complete else self._postponed.queued(message.common.address)
        found = queued or self._departure(message, entry)
        sent = (
            self._from_persistent(message)
            or self._from_postponed(postponed, message, entry)
            or self._from_header(found, message, entry)
        )
        if sent is None:
            return self._from_request(message, entry)
        return sent if found is None else sent._replace(place=found.place)

    def _departure(self, message: Ch4Message, entry: MpichEntry) -> Departure | None:
        """Return the header of a send's message, and when it left; None where it is gone or not sure.

        The cells may have those of the request's earlier messages, too; that of its last message left last.
        """
        left = sorted(self._cells.departures(message.common.address), key=lambda each: each.place or UNPLACED)
        if message.complete:
            return left[-1] if left and self._is_of_complete(left[-1], message, entry) else None
        fitting = [each for each in left if self._is_consistent(each.header, message, entry)]
        alike = {(each.header.tag, each.header.context_id, each.header.flags, each.header.data_sz) for each in fitting}
        in_order = all(each.place is not None for each in fitting)
        return fitting[-1] if fitting and (len(alike) == 1 or in_order) else None

    def _is_of_complete(self, left: Departure, message: Ch4Message, entry: MpichEntry) -> bool:
        """Return whether the last header that is there of a complete send is that of its message.

        It is one that a receiver has answered, so that its cell came free before the request could serve again, and it
        is gone before that of any later message. Who has read a small standard one doesn't say so.
        """
        header = left.header
        if left.place is None or left.place.stage != READ or not self._is_from(header, entry):
            return False
        return (
            self._has_arguments(header, message, entry)
            if header.flags & RENDEZVOUS
            else bool(header.flags & SYNCHRONOUS)
        )

    @staticmethod
    def _is_from(header: views.MessageHeader, entry: MpichEntry) -> bool:
        return header.src_rank == entry.view.rank and contexts.communicator_of(header.context_id) == entry.sends_in

    def _has_arguments(self, header: views.MessageHeader, message: Ch4Message, entry: MpichEntry) -> bool:
        """Return whether the arguments in a rendezvous's request are those of a header's message."""
        facts = self._mpi.datatypes.at(message.am.datatype)
        dest = self._dest.at(self._memory, message.common.address).dest
        return (
            facts is not None and message.am.count * facts.size == header.data_sz and 0 <= dest < entry.view.remote_size
        )

    def _is_consistent(self, header: views.MessageHeader, message: Ch4Message, entry: MpichEntry) -> bool:
        """Return whether a header can be of a send that waits; an earlier message of the request may be there.

        Only a rendezvous and a synchronous send wait. The former has its arguments in the request; the latter has just
        left, and counted its bytes.
        """
        if not self._is_from(header, entry):
            return False
        if header.flags & RENDEZVOUS:
            return self._has_arguments(header, message, entry)
        left = message.extension
        return (
            bool(header.flags & SYNCHRONOUS)
            and left is not None
            and (left.offset, left.data_sz_left) == (header.data_sz, 0)
        )

    def _from_persistent(self, message: Ch4Message) -> ShmSend | None:
        arguments = self._traffic.started.asked(message.common)
        if arguments is None:
            return None
        facts = self._mpi.datatypes.at(arguments.datatype)
        return ShmSend(
            send_call(arguments),
            arguments.rank,
            arguments.tag,
            length=UNKNOWN if facts is None else arguments.count * facts.size,
            buffer=arguments.buffer,
            elements=arguments.count,
            datatype=arguments.datatype,
            facts=facts,
        )

    def _from_postponed(self, postponed: Postponed | None, message: Ch4Message, entry: MpichEntry) -> ShmSend | None:
        if postponed is None or postponed.header is None:
            return None
        header = postponed.header
        return ShmSend(
            _call(header, message),
            self._ranks(entry).get(postponed.world_rank, INVALID_RANK),
            header.tag,
            header.context_id,
            header.data_sz,
            postponed.buffer,
            postponed.elements,
            postponed.datatype,
            self._mpi.datatypes.at(postponed.datatype),
            postponed=not header.flags & SYNCHRONOUS,
        )

    @cached_per_sweep
    def _ranks(self, entry: MpichEntry) -> dict[int, int]:
        """Return the ranks in a communicator by those of MPI_COMM_WORLD."""
        return {world: rank for rank, world in enumerate(entry.peers()) if world != INVALID_RANK}

    def _from_header(self, found: Queued | Departure | None, message: Ch4Message, entry: MpichEntry) -> ShmSend | None:
        if found is None or not (message.complete or self._is_consistent(found.header, message, entry)):
            return None
        header = found.header
        sent = ShmSend(
            _call(header, message),
            tag=header.tag,
            context_id=header.context_id,
            length=header.data_sz,
            missing="its destination and buffer are not kept",
        )
        return self._with_arguments(sent, message) if header.flags & RENDEZVOUS else sent

    def _from_request(self, message: Ch4Message, entry: MpichEntry) -> ShmSend:
        if message.complete:
            return ShmSend(UNKNOWN_COMPLETE_CALL, missing=NO_HEADER)
        if _must_be_rendezvous(message):
            sent = self._with_arguments(ShmSend(UNKNOWN_CALL, lost=NO_TAG), message)
            if sent.facts is not None and 0 <= sent.rank < entry.view.remote_size:
                return sent
        return ShmSend(UNKNOWN_CALL, missing=NO_HEADER)

    def _with_arguments(self, sent: ShmSend, message: Ch4Message) -> ShmSend:
        """Return the same with the arguments that the request of a rendezvous has."""
        facts = self._mpi.datatypes.at(message.am.datatype)
        return sent._replace(
            rank=self._dest.at(self._memory, message.common.address).dest,
            length=UNKNOWN if facts is None else message.am.count * facts.size,
            buffer=message.am.buffer,
            elements=message.am.count,
            datatype=message.am.datatype,
            facts=facts,
            rendezvous=True,
        )


def _must_be_rendezvous(message: Ch4Message) -> bool:
    """Return whether a send that waits must be a rendezvous, by what an eager one would have left in its request.

    An eager one leaves in one piece, and counts it; one that is synchronous waits for nothing but the answer. In a
    rendezvous the counts are those of the record's earlier use, or of the data that are under way.
    """
    left = message.extension
    if left is None:
        return False
    under_way = bool(left.data_sz_left and left.offset)
    return under_way or left.seg_issued != 1 or message.common.cc > 1


def _call(header: views.MessageHeader, message: Ch4Message) -> str:
    """Name the call that made a send; a complete or freed request can't belong to a blocking one."""
    only_nonblocking = message.complete or message.freed
    if header.flags & RENDEZVOUS and header.flags >> RENDEZVOUS_KIND_SHIFT != GENERIC:
        standard, synchronous = ("MPI_Send", "MPI_Isend"), ("MPI_Ssend", "MPI_Issend")
        return phrases.made_by(*(standard[1:] + synchronous[1:] if only_nonblocking else standard + synchronous))
    calls = ("MPI_Ssend", "MPI_Issend") if header.flags & SYNCHRONOUS else ("MPI_Send", "MPI_Isend")
    return phrases.made_by(calls[1], how=How.NONBLOCKING) if only_nonblocking else phrases.made_by(*calls)


def _progress(message: Ch4Message, sent: ShmSend) -> tuple[Status, str | None]:
    """Return how far a send is, and the same in words."""
    if message.complete:
        return Status.COMPLETE, "done"
    left = message.extension
    if left is not None and left.data_sz_left and left.data_sz_left + left.offset == sent.length:
        if sent.rendezvous or left.offset:
            return Status.MATCHED, f"{left.offset} of {sent.length} bytes are sent"
        return Status.PENDING, phrases.NO_ROOM("shared memory")
    if sent.postponed:
        return Status.PENDING, phrases.NO_ROOM("shared memory")
    if sent.rendezvous:
        return Status.PENDING, "rendezvous: the receiver has not answered"
    return Status.PENDING, "no receive has matched it" if sent.tag != UNKNOWN else None
