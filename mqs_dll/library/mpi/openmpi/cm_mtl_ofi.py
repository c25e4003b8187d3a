"""pml/cm over mtl/ofi where libfabric's endpoint can be read: what that one holds, in terms of Open MPI.

A receive of libfabric's leads to mtl/ofi's record of it, which lies in pml/cm's request, or on the stack of a blocking
call. A send leads there as long as libfabric has something to send; a synchronous one by the receive for its
acknowledgement, whose record, in the heap, names that of the send.
Source: ompi/mca/mtl/ofi/mtl_ofi.h, mtl_ofi_request.h of 4.1.4, 4.1.8 and 5.0.11.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import BrokenStructureError, MqsError, NoInformation, TargetReadError
from mqs_dll.contract.phrases import How
from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NO_ORDER, NOTHING, DatatypeFacts, Envelope, buffer_text
from mqs_dll.library.mpi.openmpi import cm_views, tags
from mqs_dll.library.mpi.openmpi.cm import Cm, by_peer_and_tag
from mqs_dll.library.mpi.openmpi.communicators import OmpiCommunicators, OmpiEntry
from mqs_dll.library.mpi.openmpi.describe import CALLS, COMPLETE, early_notes, tag_text
from mqs_dll.library.mpi.openmpi.mtl_ofi import (
    ANY_SOURCE,
    CONTEXT,
    MTL_REQUEST_BYTES,
    MtlOfi,
    Pattern,
)
from mqs_dll.library.mpi.openmpi.pml import hidden
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.tag_codecs import ACKNOWLEDGEMENT, SYNCHRONOUS
from mqs_dll.library.mpi.transport import NO_COMMUNICATOR

MAX_REQUEST_SIZE = 1024
"""Bytes of one of pml/cm's requests, with mtl/ofi's record (736 at most)."""

_TYPE = struct.Struct("<I")

RECEIVE = 1
"""mtl/ofi's type of a receive; that of other records isn't set in each release."""

NO_SLOT = -1

COMING = "its message is coming in or is here; from whom is not known"


@dataclass
class MtlOfiSend:
    """What libfabric holds of a send."""

    sent: OfiSent | None = None
    """As long as there is something to send."""
    ack: Posted | None = None
    """The receive for the acknowledgement of a synchronous one."""

    @property
    def tag(self) -> int:
        """The bits of its tag, but for the protocol."""
        return self.ack.tag if self.ack else self.sent.tag if self.sent else 0

    @property
    def destination(self) -> int:
        """The address of the receiver, ANY where it isn't known."""
        if self.sent and self.sent.destination != ANY:
            return self.sent.destination
        return self.ack.source if self.ack else ANY

    def progress(self) -> str:
        """Return how far it is, in words."""
        if self.sent and not self.sent.has_left:
            return "it has not left whole"
        return "the receiver has not acknowledged it" if self.ack else "it has not come whole"


class Leaving(NamedTuple):
    """The sends that libfabric holds something of."""

    of_pool: Mapping[int, MtlOfiSend]
    """By the address of pml/cm's request."""
    blocking: Mapping[int, Sequence[tuple[int, MtlOfiSend]]]
    """Of blocking calls, by the slot of the communicator, NO_SLOT where that isn't known; with mtl/ofi's record."""
    refusal: NoInformation | None
    """Why there may be others."""


class Coming(NamedTuple):
    """The receives that wait in libfabric."""

    posted: Mapping[int, Sequence[Posted]]
    """By the slot of the communicator."""
    acks: Sequence[Posted]
    """For acknowledgements of synchronous sends."""


class CmOverOfi(Cm):
    """pml/cm over mtl/ofi in one process, with libfabric's endpoint."""

    def __init__(self, ofi: MtlOfi, endpoint: Endpoint, mpi: OmpiProcessContext) -> None:
        """Begin.

        Raises:
            LayoutError: the layouts of pml/cm's structs are missing.
        """
        super().__init__("mtl/ofi", ofi, mpi)
        self.fabric = endpoint.fabric
        self.name += f" ({self.fabric.title})"
        self._endpoint = endpoint
        self._mtl = ofi
        self._codec = ofi.codec
        self._communicators = OmpiCommunicators(mpi)
        self._record = cm_views.OfiRequest.bind(mpi.layouts)
        self._convertor = cm_views.Convertor.bind(mpi.layouts)

    # ------------------------------------------------------------ receives

    @cached_per_sweep
    def _coming(self) -> Coming:
        """Return the receives that wait.

        Raises:
            BrokenStructureError, TargetReadError: libfabric's queues contradict themselves, or can't be read.
        """
        posted: defaultdict[int, list[Posted]] = defaultdict(list)
        acks = []
        for each in self._endpoint.posted():
            parts = self._codec.read(each.tag)
            if parts.protocol == ACKNOWLEDGEMENT:
                acks.append(each)
            else:
                posted[parts.context].append(each)
        return Coming(posted, acks)

    def receives(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            BrokenStructureError: libfabric's queues contradict themselves.
        """
        requests = {request.address: request for request in self._recv.of(entry.view.address)}

        def request_of(context: int) -> cm_views.CmRecvRequest | None:
            """Return the pool's request that has the record of a receive; None where a blocking call has it."""
            return requests.get(self._owner(context - CONTEXT, requests))

        posted = [(each, request_of(each.context)) for each in self._coming().posted.get(entry.slot, ())]
        filling = {context: (message, request_of(context)) for context, message in self._filling(entry).items()}
        waiting = {request.address for _, request in posted if request}
        coming = {request.address: message for message, request in filling.values() if request}
        for address, request in sorted(requests.items()):
            if address not in waiting:
                yield self._receive_past_waiting(request, coming.get(address), entry)
        for context, (message, owner) in filling.items():
            if owner is None:
                yield self._blocking_receive(context - CONTEXT, None, message, entry)
        yield from self._matched_messages(entry)
        for each, owner in posted:
            if owner is None:
                yield self._blocking_receive(each.context - CONTEXT, each, None, entry)
            else:
                yield self._receive(owner, entry, self._asked(each, entry), self._number(each))

    def _filling(self, entry: OmpiEntry) -> dict[int, Arrived]:
        """Return the messages of a communicator that are coming into a receive, by the receive's context."""
        return {
            each.context: each.message
            for each in self._endpoint.filling()
            if each.message and self._codec.read(each.message.tag).context == entry.slot
        }

    def _receive_past_waiting(
        self, request: cm_views.CmRecvRequest, message: Arrived | None, entry: OmpiEntry
    ) -> Operation:
        """Return a receive of the pool that libfabric has no more among those that wait."""
        got = NOTHING if message is None else self._envelope(message)
        progress = None if request.req_complete == COMPLETE else COMING
        return self._receive(request, entry, self._pattern(request, entry), progress, got)

    def _matched_messages(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator that MPI_Mprobe or MPI_Improbe took."""
        for message in self._arrived()[0].get(entry.slot, ()):
            if message.claimed:
                text = tag_text(self._codec.read(message.tag).tag, self._nonblocking_base)
                yield envelopes.matched_message(entry.peers(), self._envelope(message), text)

    def _number(self, posted: Posted) -> str | None:
        return phrases.ENDPOINT_NUMBER(posted.number) if self._endpoint.numbers_receives else None

    def _owner(self, record: int, requests: Collection[int]) -> int:
        """Return the address of pml/cm's request that a record of mtl/ofi's lies in; 0 for one outside of the pool."""
        try:
            request = self._memory.pointer(record)
        except TargetReadError as error:
            raise BrokenStructureError(f"mtl/ofi has no record at {record:#x}") from error
        return request if request in requests and 0 < record - request < MAX_REQUEST_SIZE else 0

    def _asked(self, posted: Posted, entry: OmpiEntry) -> Pattern:
        """Return which messages a receive of libfabric's asks for."""
        parts = self._codec.read(posted.tag)
        tag = tags.ANY_TAG if self._codec.is_any_tag(posted.ignore) else parts.tag
        if self._codec.has_rank:
            any_rank = self._codec.is_any_rank(posted.ignore)
            return Pattern(ANY_SOURCE if any_rank else parts.rank, tag)
        return Pattern(ANY_SOURCE if posted.source == ANY else self._mtl.rank(posted.source, entry), tag)

    def _envelope(self, message: Arrived) -> Envelope:
        return Envelope(self._source(message), self._codec.read(message.tag).tag, message.length)

    def _source(self, message: Arrived) -> int:
        """Return the rank of a message's sender."""
        if self._codec.has_rank:
            return self._codec.read(message.tag).rank
        return INVALID_RANK if message.data is None else message.data

    def _blocking_receive(
        self, address: int, posted: Posted | None, message: Arrived | None, entry: OmpiEntry
    ) -> Operation:
        """Return a receive of a blocking call, whose record lies on the stack.

        Args:
            address: of the record.
            posted: what libfabric has of it as long as it waits.
            message: the one that is coming in.
            entry: its communicator.

        Raises:
            BrokenStructureError: there is no such record.
        """
        record = self._record.at(self._memory, address)
        bits = record.match_bits if posted is None else posted.tag
        asked = posted or Posted(0, bits, 0, 0, 0, record.length, 0, record.remote_addr)
        (kind,) = self._memory.unpack(_TYPE, address + MTL_REQUEST_BYTES)
        expected = (RECEIVE, asked.tag, asked.length, entry.view.address)
        if (kind, record.match_bits, record.length, record.comm) != expected:
            raise BrokenStructureError(f"there is no record of a receive at {address:#x}")
        source, tag = self._asked(asked, entry)
        if posted is None and not tag:
            tag = None  # which bits count is not kept
        convertor, facts = self._described(record)
        buffer = convertor.buffer if convertor else 0 if record.packed else asked.buffer
        internal = record.match_bits if message is None else message.tag
        return envelopes.receive(
            Status.PENDING if message is None else Status.MATCHED,
            Envelope(INVALID_RANK if source is None else source, UNKNOWN if tag is None else tag, asked.length),
            NOTHING if message is None else self._envelope(message),
            entry.peers(),
            buffer,
            phrases.received_by("MPI_Recv", how=How.BLOCKING, has_message=message is not None),
            _bytes_text(asked.length) if convertor is None else buffer_text(facts, convertor.count, convertor.datatype),
            None if posted is None else self._number(posted),
            "tag: not known" if tag is None else "source: not known" if source is None else None,
            tag_text(self._codec.read(internal).tag, self._nonblocking_base),
            tag_wild=tag == tags.ANY_TAG,
        )

    def _described(self, record: cm_views.OfiRequest) -> tuple[cm_views.Convertor | None, DatatypeFacts | None]:
        """Return what describes the buffer of a blocking call, and its datatype; None where a record has none."""
        try:
            convertor = self._convertor.at(self._memory, record.convertor)
        except TargetReadError:
            return None, None
        facts = self._datatypes.at(convertor.datatype)
        if facts is None or not record.length == convertor.local_size == convertor.count * facts.size:
            return None, None
        return convertor, facts

    # ------------------------------------------------------------ sends

    @cached_per_sweep
    def _leaving(self) -> Leaving:
        """Return the sends.

        Raises:
            BrokenStructureError, TargetReadError: libfabric's queues contradict themselves, or can't be read.
        """
        found: defaultdict[int, MtlOfiSend] = defaultdict(MtlOfiSend)
        refusal = None
        for ack in self._coming().acks:
            found[self._acknowledged(ack)].ack = ack
        try:
            for sent in self._endpoint.sends():
                if sent.context:  # else it is a copy, whose send is done, or an acknowledgement
                    found[sent.context - CONTEXT].sent = sent
        except NoInformation as error:
            refusal = hidden(phrases.BLOCKING_SENDS, self.name, f"leaves them to libfabric ({error})")
        requests = frozenset(request.address for request in self._send.all())
        of_pool: dict[int, MtlOfiSend] = {}
        blocking: defaultdict[int, list[tuple[int, MtlOfiSend]]] = defaultdict(list)
        for record, outgoing in found.items():
            owner = self._owner(record, requests)
            if owner:
                of_pool[owner] = outgoing
            else:
                blocking[self._slot(outgoing.tag)].append((record, outgoing))
        return Leaving(of_pool, blocking, refusal)

    def _acknowledged(self, ack: Posted) -> int:
        """Return the record of the send that a receive for an acknowledgement belongs to.

        Raises:
            BrokenStructureError: it belongs to none.
        """
        if ack.length or ack.ignore:
            raise BrokenStructureError(f"there is no receive for an acknowledgement at {ack.address:#x}")
        return self._record.at(self._memory, ack.context - CONTEXT).parent

    @cached_per_sweep
    def _slot_is_ours(self) -> bool:
        """Tell whether slots are the same in all processes: a communicator with an extended id has others elsewhere."""
        return all(each.extended_id is None for each in self._communicators.read())

    def _slot(self, bits: int) -> int:
        return self._codec.read(bits).context if self._slot_is_ours() else NO_SLOT

    def sends(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the sends of a communicator by destination and tag: their order is not kept.

        Raises:
            NoInformation: after them, there may be others.
            BrokenStructureError: libfabric's queues contradict themselves.
        """
        leaving = self._leaving()
        found = [self._pool_send(request, leaving, entry) for request in self._send.of(entry.view.address)]
        found += [self._blocking_send(*each, entry) for each in leaving.blocking.get(entry.slot, ())]
        yield from sorted(found, key=by_peer_and_tag)
        if leaving.refusal is not None:
            raise leaving.refusal
        if (rank := self._lowest(self._endpoint.connecting(), entry)) is not None:
            what = f"sends to rank {rank}, which has not taken up the connection,"
            raise hidden(what, self.name, "keeps nothing of them")
        if leaving.blocking.get(NO_SLOT):
            raise NoInformation(NO_COMMUNICATOR)

    def _pool_send(self, request: cm_views.CmSendRequest, leaving: Leaving, entry: OmpiEntry) -> Operation:
        outgoing = leaving.of_pool.get(request.address)
        rank = None if outgoing is None else self._mtl.rank(outgoing.destination, entry)
        text = "its destination is not known: mtl/ofi keeps no trace" if rank is None else NO_ORDER
        return self._send_operation(request, entry, text, INVALID_RANK if rank is None else rank)

    def _blocking_send(self, address: int, outgoing: MtlOfiSend, entry: OmpiEntry) -> Operation:
        """Return a send of a blocking call, whose record lies on the stack."""
        record = self._record.at(self._memory, address)
        if not 0 < record.completion_count <= 2 or (outgoing.sent and outgoing.sent.length != record.length):
            raise BrokenStructureError(f"there is no record of a send at {address:#x}")
        convertor, facts = self._described(record)
        if convertor is not None and not convertor.flags & self._convertor_send:  # 4.1 leaves what was there before
            convertor = None
        buffer = 0
        if convertor is not None:
            buffer = self._program_buffer(convertor.buffer, convertor.flags, convertor.datatype)
        elif outgoing.sent and not record.packed:
            buffer = outgoing.sent.buffer
        calls = (CALLS[0][0],) if outgoing.ack else ("MPI_Send", "MPI_Rsend", "MPI_Sendrecv")
        text = buffer_text(facts, convertor.count, convertor.datatype) if convertor else _bytes_text(record.length)
        rank = self._mtl.rank(outgoing.destination, entry)
        rank = INVALID_RANK if rank is None else rank
        tag = self._codec.read(outgoing.tag).tag
        return envelopes.send(
            Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            tag,
            record.length,
            buffer,
            phrases.made_by(*calls),
            text,
            outgoing.progress(),
            NO_ORDER if rank != INVALID_RANK else "its receiver is not known",
            tag_text(tag, self._nonblocking_base),
        )

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which a receive from anybody finds them.

        A note on MPI_COMM_WORLD counts those for communicators that this process doesn't have.

        Raises:
            BrokenStructureError: after those that could be reached.
            NoInformation: after them, libfabric holds back others.
        """
        arrived, broken = self._arrived()
        for message in arrived.get(entry.slot, ()):
            if not message.claimed:
                yield self._message(message, entry)
        if entry.is_world:
            yield from early_notes(arrived, {each.slot for each in self._communicators.read()})
        if broken is not None:
            raise broken
        if (rank := self._lowest(self._endpoint.full(), entry)) is not None:
            what = f"messages of rank {rank} behind those that are here"
            raise hidden(what, self.name, "takes in no more before one of these is received")

    def _lowest(self, addresses: Sequence[int], entry: OmpiEntry) -> int | None:
        """Return the lowest rank in a communicator among processes with addresses of libfabric's."""
        ranks = (self._mtl.rank(address, entry) for address in addresses)
        return min((rank for rank in ranks if rank is not None), default=None)

    @cached_per_sweep
    def _arrived(self) -> tuple[Mapping[int, Sequence[Arrived]], MqsError | None]:
        """Return the messages by the slot of their communicator, and why some may be missing."""
        found: defaultdict[int, list[Arrived]] = defaultdict(list)
        try:
            for message in self._endpoint.arrived():
                parts = self._codec.read(message.tag)
                if parts.protocol != ACKNOWLEDGEMENT:
                    found[parts.context].append(message)
        except MqsError as error:
            return found, error
        return found, None

    def _message(self, message: Arrived, entry: OmpiEntry) -> Operation:
        rank, parts = self._source(message), self._codec.read(message.tag)
        if rank >= len(entry.peers()):
            raise BrokenStructureError(f"a message is said to come from rank {rank}, of {len(entry.peers())}")
        whole = message.here == message.length and not (message.length and not message.address)
        return envelopes.message(
            Status.COMPLETE if whole else Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            parts.tag,
            message.length,
            message.address,
            message.how(),
            "sent by MPI_Ssend or MPI_Issend" if parts.protocol == SYNCHRONOUS else None,
            tag_text(parts.tag, self._nonblocking_base),
        )


def _bytes_text(length: int) -> str:
    return f"{length} bytes; the datatype is not kept"
