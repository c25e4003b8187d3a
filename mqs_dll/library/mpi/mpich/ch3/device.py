"""What is shown of the requests of ch3.

What a request was asked for stays in it; only a receive that finds its message waiting takes over the request of that,
with its source and its tag: of a matched receive without a wildcard it can't be determined whether it had asked for
one. Source: src/mpid/ch3/src/ch3u_recvq.c, ch3u_eager.c, mpidi_isend_self.c, mpid_isend.c, mpid_send.c of 3.4.3 and
4.0.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope, buffer_text
from mqs_dll.library.mpi.mpich import operations, views
from mqs_dll.library.mpi.mpich.ch3.queues import Ch3Queues, sort
from mqs_dll.library.mpi.mpich.ch3.requests import (
    CALLS,
    EAGER,
    FROM_SELF,
    NO_MESSAGE,
    RENDEZVOUS,
    SYNCHRONOUS,
    SYNCHRONOUS_SEND,
    Ch3DeviceRequest,
)
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.device import Device
from mqs_dll.library.mpi.mpich.handles import COMM_WORLD
from mqs_dll.library.mpi.mpich.persistent import started
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import ANY_SOURCE, ANY_TAG

PACKED = 0x4C00010F
MAX_EAGER = 1 << 17
"""Bytes of a message that goes without being asked for, unless the user sets MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE."""


class Ch3(Device):
    """The device ch3 in one process."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        super().__init__(mpi, mpi.release.device or "ch3")
        self._dev = views.Ch3Request.bind(mpi.layouts)

    def datatypes_in_use(self) -> list[int]:
        """Return the handle of the datatype of each send and receive."""
        queues = self._queues()
        requests = chain(*queues.with_message.values(), *queues.posted.values(), *queues.sends.values())
        return [request.dev.datatype for request in requests if not request.is_held]

    @cached_per_sweep
    def _queues(self) -> Ch3Queues:
        requests = self._mpi.requests
        return sort(
            (
                Ch3DeviceRequest(common, self._dev.at(self._memory, address), requests.kind(common))
                for address, common in requests.live().items()
            ),
            started(requests),
        )

    # ------------------------------------------------------------ receives

    def receives(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order."""
        queues = self._queues()
        for request in queues.with_message.get(entry.view.address, ()):
            yield self._held(request, entry) if request.is_held else self._receive(request, entry)
        for request in queues.posted.get(entry.view.address, ()):
            yield self._receive(request, entry)
        if not queues.posted_proved:
            raise BrokenStructureError("the list of posted receives is broken: the order of the receives is not known")

    def _receive(self, request: Ch3DeviceRequest, entry: MpichEntry) -> Operation:
        dev = request.dev
        facts = self._mpi.datatypes.at(dev.datatype)
        matched = not request.is_posted and not request.cancelled
        lost = matched and request.rank != ANY_SOURCE and dev.match_tag != ANY_TAG
        rank = INVALID_RANK if lost or request.rank == ANY_SOURCE else request.rank
        under_way = Status.MATCHED if matched else Status.PENDING
        capacity = UNKNOWN if facts is None else dev.user_count * facts.size
        common = request.common
        return envelopes.receive(
            Status.COMPLETE if request.complete else under_way,
            Envelope(rank, UNKNOWN if lost else dev.match_tag, capacity),
            Envelope(common.status_source, common.status_tag, request.length) if matched else NOTHING,
            entry.peers(),
            dev.user_buf,
            self._kind(request, ("MPI_Recv", "MPI_Irecv"), has_message=matched),
            buffer_text(facts, dev.user_count, dev.datatype),
            self._request_text(request),
            request.given_up or _receive_progress(request),
            operations.NOT_KEPT if lost else None,
            tag_wild=dev.match_tag == ANY_TAG,
        )

    def _held(self, request: Ch3DeviceRequest, entry: MpichEntry) -> Operation:
        rank, tag = request.common.status_source, request.common.status_tag
        return operations.matched_message(entry.peers(), rank, tag, request.length, self._request_text(request))

    # ------------------------------------------------------------ sends

    def sends(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the sends of a communicator, by destination and then in the order of the pool: ch3 knows no other."""
        sends = self._queues().sends.get(entry.view.address, ())
        to = Counter(request.rank for request in sends)
        for request in sends:
            yield self._send(request, entry, None if to[request.rank] == 1 else operations.NO_ORDER)

    def _send(self, request: Ch3DeviceRequest, entry: MpichEntry, no_order: str | None) -> Operation:
        dev = request.dev
        facts = self._mpi.datatypes.at(dev.datatype)
        length = UNKNOWN if facts is None else dev.user_count * facts.size
        copied = dev.datatype == PACKED and operations.is_buffered(self._memory, dev.user_buf, request.common.address)
        under_way = Status.MATCHED if _is_answered(request, length) else Status.PENDING
        return envelopes.send(
            Status.COMPLETE if request.complete else under_way,
            request.rank,
            world_rank(entry.peers(), request.rank),
            dev.match_tag,
            length,
            dev.user_buf,
            operations.BUFFERED_SEND if copied else self._kind(request, CALLS[request.type]),
            buffer_text(facts, dev.user_count, dev.datatype),
            operations.COPY if copied else self._request_text(request),
            request.given_up or _send_progress(request, length),
            no_order,
        )

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came, which is that of matching.

        A note on MPI_COMM_WORLD counts messages for communicators that this process hasn't made yet.
        """
        queues = self._queues()
        for request in queues.unexpected.get(entry.receives_in, ()):
            yield self._message(request, entry)
        if entry.view.handle == COMM_WORLD:
            numbers = {context_id: len(messages) for context_id, messages in queues.unexpected.items()}
            yield from operations.early_notes(numbers, self._mpi.communicators)
        if not queues.unexpected_proved:
            raise BrokenStructureError("the list of unexpected messages is broken: their order is not known")

    def _message(self, request: Ch3DeviceRequest, entry: MpichEntry) -> Operation:
        here = request.complete and request.message == EAGER
        return envelopes.message(
            Status.COMPLETE if here else Status.PENDING,
            request.rank,
            world_rank(entry.peers(), request.rank),
            request.dev.match_tag,
            request.length,
            request.dev.tmpbuf if here and request.length else 0,
            _arrival(request),
            operations.FROM_SYNCHRONOUS_SEND if request.dev.state & SYNCHRONOUS else None,
            _collective_text(request),
        )

    # ------------------------------------------------------------ words

    def _kind(self, request: Ch3DeviceRequest, calls: tuple[str, str], *, has_message: bool = False) -> str:
        """Name the collective operation, or the call, that made a request.

        One that is complete or freed can't belong to a blocking call, and only nonblocking sends note a rendezvous.
        """
        blocking, nonblocking = calls
        collective = _collective_text(request)
        if collective is not None:
            return collective
        if request.common.address in self._queues().started:
            return operations.persistent(f"{blocking}_init")
        if request.complete or request.freed or (request.is_send and request.message == RENDEZVOUS):
            return phrases.received_by(nonblocking, how=How.NONBLOCKING, has_message=has_message)
        return phrases.received_by(blocking, nonblocking, has_message=has_message)

    def _request_text(self, request: Ch3DeviceRequest) -> str:
        common = self._queues().started.get(request.common.address, request.common)
        return phrases.request(self._mpi.requests.handle(common))


def _is_answered(request: Ch3DeviceRequest, length: int) -> bool:
    """Return whether the receiver of a send that is under way has asked for its data.

    Of an eager message with gaps the bytes that have left are counted, too (ch3u_eagersync.c: MPIDI_CH3_SendNoncontig).
    """
    goes_asked = request.message == RENDEZVOUS or length > MAX_EAGER  # a blocking send doesn't note it
    return goes_asked and 0 < request.dev.msg_offset != length


def _receive_progress(request: Ch3DeviceRequest) -> str | None:
    if request.complete or request.message == NO_MESSAGE:
        return None
    return (
        f"{request.dev.msg_offset} of {request.length} bytes are here"
        if request.dev.msg_offset
        else "matched, none of it is here yet"
    )


def _send_progress(request: Ch3DeviceRequest, length: int) -> str | None:
    if request.complete:
        return "done"
    if 0 < request.dev.msg_offset != length:
        return f"{request.dev.msg_offset} of {length} bytes are sent"
    if request.message == RENDEZVOUS:
        return "rendezvous: the receiver has not answered"
    if request.message == FROM_SELF or request.type == SYNCHRONOUS_SEND:
        return "no receive has matched it"
    return None


def _arrival(request: Ch3DeviceRequest) -> str:
    if request.message == FROM_SELF:
        return f"from this process: its {request.length} bytes are in the send's buffer"
    if request.message == RENDEZVOUS:
        return f"rendezvous: its {request.length} bytes are with the sender"
    return "eager: all of it is here" if request.complete else "eager: a part of it is here"


def _collective_text(request: Ch3DeviceRequest) -> str | None:
    return operations.collective_text(request.dev.match_context_id, request.dev.match_tag)
