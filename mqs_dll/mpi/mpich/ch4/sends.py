"""Sends of active messages.

A send's request has no tag. A rendezvous keeps its arguments in the request; an eager one leaves there what an earlier
message left, though it waits on when it is synchronous. The message's header tells which it is: in the record of a
message that could not leave yet, or in the cell of shared memory that it left by. Without it nothing is believed.
Source: src/mpid/ch4/src/mpidig_send.h, mpidig_send_utils.h, src/mpid/ch4/shm/ipc/src/ipc_p2p.h of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.mpi.base import world_rank
from mqs_dll.mpi.describe import DatatypeFacts, buffer_text
from mqs_dll.mpi.mpich import buffered, contexts, operations, views
from mqs_dll.mpi.mpich.ch4.cells import Cells
from mqs_dll.mpi.mpich.ch4.postponed import Postponed, PostponedSends
from mqs_dll.mpi.mpich.ch4.traffic import PERSISTENT_SENDS, Message, Traffic
from mqs_dll.mpi.mpich.communicators import Entry
from mqs_dll.mpi.mpich.device import Parts

# flags of a message's header
SYNCHRONOUS = 0x1
RENDEZVOUS = 0x2
RENDEZVOUS_KIND_SHIFT = 8
GENERIC = 0
"""The kind of rendezvous that lets synchronous sends be told from others."""

PACKED = b"MPI_PACKED"
UNKNOWN_CALL = "MPI_Send, MPI_Isend, MPI_Ssend, MPI_Issend or a buffered one"


class Sent(NamedTuple):
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


class Sends:
    """The sends of one process."""

    def __init__(self, parts: Parts, traffic: Traffic) -> None:
        self._parts = parts
        self._traffic = traffic
        self._dest = views.AmSendRequest.bind(parts.layouts)
        self._cells = Cells(parts.memory, parts.library, parts.layouts)
        self._postponed = PostponedSends(parts.memory, parts.layouts)

    def forget(self) -> None:
        """Drop all that was read."""
        self._cells.forget()
        self._postponed.forget()

    def operations(self, entry: Entry) -> Iterator[Operation]:
        """Yield the sends of a communicator, by destination and then in the order of the pool.

        Raises:
            BrokenStructureError: after them, when some may be missing.
        """
        for message, sent in sorted(self._of(entry), key=lambda each: each[1].rank):
            yield self._operation(message, sent, entry)
        self._traffic.check_requests()

    def datatypes(self, entry: Entry) -> list[int]:
        """Return the handle of the datatype of each send of a communicator whose arguments are known."""
        return [sent.datatype for _, sent in self._of(entry) if sent.datatype is not None]

    def _of(self, entry: Entry) -> list[tuple[Message, Sent]]:
        """Return the sends of a communicator; of one that is done nothing is kept, but for a persistent one."""
        sends = [
            message
            for message in self._traffic.of(entry.view.address).sends
            if not message.complete or self._traffic.persistent(message.common)
        ]
        postponed = {message.common.address: self._postponed.of(message.common.address) for message in sends}
        return [(message, self._sent(message, postponed[message.common.address], entry)) for message in sends]

    def _operation(self, message: Message, sent: Sent, entry: Entry) -> Operation:
        copied = self._is_copy(message, sent)
        status, progress = _progress(message, sent)
        return operations.send(
            status,
            sent.rank,
            world_rank(entry.peers(), sent.rank),
            sent.tag,
            sent.length,
            sent.buffer,
            "MPI_Bsend or MPI_Ibsend: the program has gone on" if copied else sent.call,
            sent.missing if sent.datatype is None else buffer_text(sent.facts, sent.elements, sent.datatype),
            "the buffer is a copy in the attached buffer" if copied else self._traffic.request_text(message.common),
            operations.FREED if message.freed and not copied else progress,
            operations.collective_text(sent.context_id, sent.tag) or sent.lost,
        )

    def _is_copy(self, message: Message, sent: Sent) -> bool:
        """Tell whether it is a buffered send, carried out as one of the copy."""
        packed = sent.facts is not None and sent.facts.name == PACKED
        return packed and buffered.is_copy(self._parts.memory, sent.buffer, message.common.address)

    # ------------------------------------------------------------ what is known of a send

    def _sent(self, message: Message, postponed: Postponed | None, entry: Entry) -> Sent:
        arguments = self._traffic.asked(message.common)
        if arguments is not None:
            return self._from_persistent(arguments)
        if postponed is not None and postponed.header is not None:
            return self._from_postponed(postponed, postponed.header, entry, message)
        header = self._find_header(message, entry)
        if header is not None:
            return self._from_header(header, message)
        if _must_be_rendezvous(message):
            sent = self._with_arguments(Sent(UNKNOWN_CALL, lost="its tag is not known: the header is gone"), message)
            if sent.facts is not None and 0 <= sent.rank < entry.view.remote_size:
                return sent
        return Sent(UNKNOWN_CALL, missing="its header is gone: what it sends where is not known")

    def _find_header(self, message: Message, entry: Entry) -> views.MessageHeader | None:
        """Return the header of the message that a send waits for, None where it is gone or not sure."""
        waiting = self._postponed.header(message.common.address)
        found = self._cells.headers(message.common.address) if waiting is None else [waiting]
        headers = {
            (header.tag, header.context_id, header.flags, header.data_sz): header
            for header in found
            if self._is_consistent(header, message, entry)
        }
        return next(iter(headers.values())) if len(headers) == 1 else None

    def _from_persistent(self, arguments: views.PersistentRequest) -> Sent:
        facts = self._parts.datatypes.at(arguments.datatype)
        call = PERSISTENT_SENDS.get(arguments.p_type, "MPI_Send_init")
        return Sent(
            operations.persistent(call),
            arguments.rank,
            arguments.tag,
            length=UNKNOWN if facts is None else arguments.count * facts.size,
            buffer=arguments.buffer,
            elements=arguments.count,
            datatype=arguments.datatype,
            facts=facts,
        )

    def _from_postponed(
        self, postponed: Postponed, header: views.MessageHeader, entry: Entry, message: Message
    ) -> Sent:
        peers = list(entry.peers())
        known = peers.count(postponed.world_rank) == 1
        return Sent(
            _call(header, message),
            peers.index(postponed.world_rank) if known else INVALID_RANK,
            header.tag,
            header.context_id,
            header.data_sz,
            postponed.buffer,
            postponed.elements,
            postponed.datatype,
            self._parts.datatypes.at(postponed.datatype),
            postponed=not header.flags & SYNCHRONOUS,
        )

    def _is_consistent(self, header: views.MessageHeader, message: Message, entry: Entry) -> bool:
        """Tell whether a header can be that of a send that waits; an earlier message of the request may be there, too.

        Only a rendezvous and a synchronous send wait. The former has its arguments in the request; the latter has just
        left, and counted its bytes.
        """
        if header.src_rank != entry.view.rank or contexts.communicator_of(header.context_id) != entry.sends_in:
            return False
        if header.flags & RENDEZVOUS:
            facts = self._parts.datatypes.at(message.am.datatype)
            dest = self._dest.at(self._parts.memory, message.common.address).dest
            return (
                facts is not None
                and message.am.count * facts.size == header.data_sz
                and 0 <= dest < entry.view.remote_size
            )
        left = message.extension
        return (
            bool(header.flags & SYNCHRONOUS)
            and left is not None
            and (left.offset, left.data_sz_left) == (header.data_sz, 0)
        )

    def _from_header(self, header: views.MessageHeader, message: Message) -> Sent:
        sent = Sent(
            _call(header, message),
            tag=header.tag,
            context_id=header.context_id,
            length=header.data_sz,
            missing="its destination and buffer are not kept",
        )
        return self._with_arguments(sent, message) if header.flags & RENDEZVOUS else sent

    def _with_arguments(self, sent: Sent, message: Message) -> Sent:
        """Return the same with the arguments that the request of a rendezvous has."""
        facts = self._parts.datatypes.at(message.am.datatype)
        return sent._replace(
            rank=self._dest.at(self._parts.memory, message.common.address).dest,
            length=UNKNOWN if facts is None else message.am.count * facts.size,
            buffer=message.am.buffer,
            elements=message.am.count,
            datatype=message.am.datatype,
            facts=facts,
            rendezvous=True,
        )


def _must_be_rendezvous(message: Message) -> bool:
    """Tell whether a send that waits must be a rendezvous, by what an eager one would have left in its request.

    An eager one leaves in one piece, and counts it; one that is synchronous waits for nothing but the answer. In a
    rendezvous the counts are those of the record's earlier use, or of the data that are under way.
    """
    left = message.extension
    if left is None:
        return False
    under_way = bool(left.data_sz_left and left.offset)
    return under_way or left.seg_issued != 1 or message.common.cc > 1


def _call(header: views.MessageHeader, message: Message) -> str:
    """Name the call that made a send; a freed request can't belong to a blocking one."""
    if header.flags & RENDEZVOUS and header.flags >> RENDEZVOUS_KIND_SHIFT != GENERIC:
        return "MPI_Isend or MPI_Issend" if message.freed else "MPI_Send, MPI_Isend, MPI_Ssend or MPI_Issend"
    mode = "s" if header.flags & SYNCHRONOUS else ""
    blocking = f"MPI_{mode}send".replace("_s", "_S", 1)
    nonblocking = f"MPI_I{mode}send"
    return f"{nonblocking}, nonblocking" if message.freed else f"{blocking} or {nonblocking}"


def _progress(message: Message, sent: Sent) -> tuple[Status, str | None]:
    """Return how far a send is, and the same in words."""
    if message.complete:
        return Status.COMPLETE, "done"
    left = message.extension
    if left is not None and left.data_sz_left and left.data_sz_left + left.offset == sent.length:
        if sent.rendezvous or left.offset:
            return Status.MATCHED, f"{left.offset} of {sent.length} bytes are sent"
        return Status.PENDING, "waits for room in shared memory"
    if sent.postponed:
        return Status.PENDING, "waits for room in shared memory"
    if sent.rendezvous:
        return Status.PENDING, "rendezvous: the receiver has not answered"
    return Status.PENDING, "no receive has matched it" if sent.tag != UNKNOWN else None
