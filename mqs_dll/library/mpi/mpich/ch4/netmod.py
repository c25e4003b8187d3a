"""What the walkers of both netmods (ofi, ucx) do alike with what their libraries hold.

A netmod's library matches messages itself, by tags that MPICH makes of communicator, source and tag (``tag_codecs``).
Where a build has shared memory, too, a receive from any source is posted on both sides, and listed once.
Source: src/mpid/ch4/src/ch4_recv.h, ch4_send.h of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import MqsError, NoInformation
from mqs_dll.contract.phrases import How
from mqs_dll.library.fabric import Arrived, Posted
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NO_ORDER, NOTHING, Envelope, buffer_text
from mqs_dll.library.mpi.mpich import contexts, operations, views
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.handles import COMM_WORLD
from mqs_dll.library.mpi.mpich.persistent import Started, send_call
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind
from mqs_dll.library.mpi.tag_codec import TagCodec, TagParts
from mqs_dll.library.mpi.transport import NO_COMMUNICATOR

LOST = NoInformation(NO_COMMUNICATOR)


class Arguments(NamedTuple):
    """What a program gave for a send or a receive."""

    buffer: int
    elements: int
    datatype: int


class NetmodReceive(NamedTuple):
    """A receive that the netmod's library has."""

    request: views.MpirRequest | None
    """MPICH's; its handle may be the netmod's half of a receive from any source."""
    context_id: int
    """With the bit of collectives."""
    asked: Envelope
    any_tag: bool
    got: Envelope
    buffer: int
    arguments: Arguments | None
    """None where nothing tells the datatype."""
    texts: tuple[str | None, ...] = ()
    """How far it is, and what is not known of it."""


class NetmodSend(NamedTuple):
    """A send that the netmod's library has."""

    request: views.MpirRequest | None
    tag: int | None
    """The library's, None where that isn't known."""
    rank: int
    """Of the receiver; INVALID_RANK where that isn't known."""
    length: int
    buffer: int
    synchronous: bool | None
    """None where nothing tells that any more."""
    status: Status
    progress: str | None


class NetmodMessage(NamedTuple):
    """A message that no receive has matched."""

    message: Arrived
    """Synchronous where it is known that its sender waits for the match; its length UNKNOWN where that isn't known."""
    source: int
    """The sender's rank in the communicator; INVALID_RANK where that isn't known."""
    order: str | None = None
    """What isn't known of its order."""


class OwnRequests(Protocol):
    """The requests of one process that shared memory doesn't carry."""

    @property
    def started(self) -> Started:
        """Return those of them that are persistent."""

    def others(self, comm: int) -> Sequence[views.MpirRequest]:
        """Return the sends and receives of the communicator at an address."""


class Netmod(ABC):
    """The netmod of one process, whose memory can be read."""

    def __init__(self, mpi: MpichProcessContext, traffic: OwnRequests) -> None:
        self._mpi = mpi
        self._memory = mpi.memory
        self._traffic = traffic

    @abstractmethod
    def find_way(self) -> None:
        """Search for what doesn't move, while the process may still run."""

    @abstractmethod
    def codecs(self) -> Sequence[TagCodec]:
        """Return how the library's tags can be read: in several ways where nothing tells which is the right one."""

    def parts(self, bits: int) -> TagParts:
        """Return what a tag carries; MPI's tag is UNKNOWN where it can be read in several ways."""
        found, *others = dict.fromkeys(codec.read(bits) for codec in self.codecs())
        return found._replace(tag=UNKNOWN) if others else found

    @abstractmethod
    def posted(self, entry: MpichEntry) -> Iterable[NetmodReceive]:
        """Return the receives of a communicator that wait, in matching order."""

    @abstractmethod
    def with_message(self, entry: MpichEntry) -> Iterable[NetmodReceive]:
        """Return the receives of a communicator whose message is under way."""

    @abstractmethod
    def held(self, request: views.MpirRequest) -> Envelope | None:
        """Return the message that a matched probe holds, as far as it is known; None while the probe waits for one."""

    @abstractmethod
    def sent(self, entry: MpichEntry) -> Iterable[NetmodSend]:
        """Return the sends of a communicator that are not done."""

    @abstractmethod
    def lost_sends(self) -> NoInformation | None:
        """Return why sends of any communicator may be missing among those ``sent``."""

    @abstractmethod
    def arrived(self) -> tuple[Mapping[int, Sequence[NetmodMessage]], MqsError | None]:
        """Return the messages by the context id of their communicator, and why some may be missing."""

    def unlisted(self, entry: MpichEntry) -> NoInformation | None:
        """Return why messages of a communicator may have come that ``arrived`` can't have; None where it has all."""
        return None

    # ------------------------------------------------------------ receives

    def receives(self, entry: MpichEntry, shared: Iterable[tuple[int, Operation]]) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Args:
            entry: the communicator.
            shared: those over shared memory in their order, each with the address of its request, 0 where it has no
                half in the netmod.

        Raises:
            BrokenStructureError: the library's queues contradict themselves.
        """
        for request in self._traffic.others(entry.view.address):
            yield from self._done_receive(request, entry)
        for got in self.with_message(entry):
            yield self._receive(Status.MATCHED, got, got.request, entry)
        yield from self._merged(list(shared), entry)

    def _merged(self, shared: Sequence[tuple[int, Operation]], entry: MpichEntry) -> Iterator[Operation]:
        """Yield the receives that wait for either side, in an order that keeps that of both.

        A receive from any source is posted on both sides (X, Y), and is yielded as shared memory has it:

            netmod: p X q Y    shared memory: a X b Y c    merged: p a X q b Y c
        """
        index_of = {address: index for index, (address, _) in enumerate(shared)}
        in_order = [operation for _, operation in shared]
        done = 0
        for each in self.posted(entry):
            half = each.request
            whole = None if half is None else self._request(half.anysrc_partner or 0)
            index = None if whole is None else index_of.get(whole.address)
            if index is None:
                yield self._receive(Status.PENDING, each, whole or half, entry)
            elif index >= done:
                yield from in_order[done : index + 1]
                done = index + 1
        yield from in_order[done:]

    def _request(self, address: int) -> views.MpirRequest | None:
        return self._mpi.requests.live().get(address)

    def _done_receive(self, request: views.MpirRequest, entry: MpichEntry) -> Iterator[Operation]:
        """Yield a receive that is done, or a message that a matched probe holds: the library has forgotten both."""
        kind, started = self._mpi.requests.kind(request), self._traffic.started
        if kind is RequestKind.MPROBE:
            if (message := self.held(request)) is not None:
                yield operations.matched_message(entry.peers(), *message, started.text(request))
        elif kind is RequestKind.RECV and request.cc == 0:
            made = started.asked(request)
            got = Envelope(request.status_source, request.status_tag, request.length)
            yield envelopes.receive(
                Status.COMPLETE,
                started.wanted(made) if made else NOTHING,
                NOTHING if request.cancelled else got,
                entry.peers(),
                made.buffer if made else 0,
                operations.persistent("MPI_Recv_init")
                if made
                else operations.done_receive(request.status_tag, has_message=not request.cancelled),
                self._buffer_text(_arguments(made), UNKNOWN, 0),
                started.text(request),
                phrases.CANCELLED() if request.cancelled else None,
                None if made else operations.NOT_KEPT,
                tag_wild=made is not None and made.tag == self._mpi.requests.values.any_tag,
            )

    def asking(
        self,
        posted: Posted,
        source: int,
        request: views.MpirRequest | None,
        arguments: Arguments | None,
        *texts: str | None,
        got: Envelope = NOTHING,
    ) -> NetmodReceive:
        """Return a receive of which the library keeps what it asks for.

        Args:
            posted: what it asks for.
            source: the rank; INVALID_RANK for any, and where it isn't known.
            request: MPICH's.
            arguments: the program's, where they are known.
            texts: how far it is, and what is not known of it.
            got: its message.
        """
        parts, any_tag = self.parts(posted.tag), self.codecs()[0].is_any_tag(posted.ignore)
        return NetmodReceive(
            request,
            parts.context,
            Envelope(source, UNKNOWN if any_tag else parts.tag, posted.length),
            any_tag,
            got,
            arguments.buffer if arguments else posted.buffer,
            arguments,
            texts,
        )

    def _receive(
        self, status: Status, each: NetmodReceive, request: views.MpirRequest | None, entry: MpichEntry
    ) -> Operation:
        made = None if request is None else self._traffic.started.asked(request)
        tag = each.got.tag if status is Status.MATCHED else each.asked.tag
        progress, *more = each.texts or (None,)
        return envelopes.receive(
            status,
            each.asked,
            each.got,
            entry.peers(),
            made.buffer if made else each.buffer,
            operations.persistent("MPI_Recv_init")
            if made
            else phrases.received_by("MPI_Recv", "MPI_Irecv", has_message=status is Status.MATCHED),
            self._buffer_text(each.arguments or _arguments(made), each.asked.length, each.buffer),
            None if request is None else self._traffic.started.text(request),
            phrases.FREED() if _is_freed(request) else progress,
            operations.collective_text(each.context_id, tag),
            *more,
            tag_wild=each.any_tag,
        )

    def _buffer_text(self, given: Arguments | None, length: int, buffer: int) -> str | bytes:
        if given is not None:
            return buffer_text(self._mpi.datatypes.at(given.datatype), given.elements, given.datatype)
        if length == UNKNOWN:
            return "its buffer is not kept"
        return f"{length} bytes; {'the datatype is' if buffer else 'its buffer and datatype are'} not kept"

    # ------------------------------------------------------------ sends

    def sends(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the sends of a communicator, by destination and tag: their order is not kept.

        Raises:
            NoInformation: after them, there are others of which nothing tells the communicator.
        """
        found = [self._send(each, entry) for each in self.sent(entry)]
        yield from sorted(found, key=lambda each: (each.desired_local_rank, each.desired_tag))
        for done in self._traffic.others(entry.view.address):
            if self._mpi.requests.kind(done) is RequestKind.SEND and done.cc == 0:
                yield self._traffic.started.send(done, entry.peers()) or self._done_send(done)
        if lost := self.lost_sends():
            raise lost

    def _done_send(self, request: views.MpirRequest) -> Operation:
        unknown = INVALID_RANK, INVALID_RANK, UNKNOWN, UNKNOWN, 0
        call = phrases.made_by("MPI_Isend", "MPI_Issend", how=How.BUFFERED_OR_COLLECTIVE)
        text = self._traffic.started.text(request)
        return envelopes.send(Status.COMPLETE, *unknown, call, "what it sent where is not known", text, "done")

    def _send(self, each: NetmodSend, entry: MpichEntry) -> Operation:
        request, peers = each.request, entry.peers()
        made = None if request is None else self._traffic.started.asked(request)
        rank = made.rank if made and each.rank == INVALID_RANK else each.rank
        parts = TagParts(0, INVALID_RANK, UNKNOWN, 0) if each.tag is None else self.parts(each.tag)
        if made is not None:
            call = send_call(made)
        elif each.synchronous is None:
            call = phrases.made_by("MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Issend", how=How.OR_BUFFERED)
        elif each.synchronous:
            call = phrases.made_by("MPI_Ssend", "MPI_Issend")
        else:
            call = phrases.made_by("MPI_Send", "MPI_Isend", how=How.OR_BUFFERED)
        collective = operations.collective_text(parts.context, parts.tag)
        return envelopes.send(
            each.status,
            rank,
            world_rank(peers, rank),
            made.tag if made and parts.tag == UNKNOWN else parts.tag,
            each.length,
            made.buffer if made else each.buffer,
            call,
            self._buffer_text(_arguments(made), each.length, each.buffer),
            None if request is None else self._traffic.started.text(request),
            phrases.FREED() if _is_freed(request) else each.progress,
            collective or (NO_ORDER if rank != INVALID_RANK else "its receiver is not known"),
        )

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came.

        Raises:
            NoInformation: after those that the library has matched, others may have come.
            BrokenStructureError: after those that could be reached.
        """
        arrived, broken = self.arrived()
        for message in arrived.get(entry.receives_in, ()):
            yield self._message(message, entry)
        known = self._known()
        for context_id in contexts.parts_of(entry.receives_in):
            if context_id not in known:
                for message in arrived.get(context_id, ()):
                    yield self._message(message, entry, of_part=True)
        if entry.view.handle == COMM_WORLD:
            unknown = {number: len(each) for number, each in arrived.items() if contexts.whole_of(number) not in known}
            yield from operations.early_notes(unknown, self._mpi.communicators)
        if broken is not None:
            raise broken
        if unlisted := self.unlisted(entry):
            raise unlisted

    @cached_per_sweep
    def _known(self) -> set[int]:
        return {entry.receives_in for entry in self._mpi.communicators.read()}

    def _message(self, each: NetmodMessage, entry: MpichEntry, *, of_part: bool = False) -> Operation:
        message, parts = each.message, self.parts(each.message.tag)
        rank = INVALID_RANK if of_part else each.source
        return envelopes.message(
            Status.COMPLETE if message.here == message.length else Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            parts.tag,
            message.length,
            message.address,
            "a part of it is here; its length is not known" if message.length == UNKNOWN else message.how(),
            f"from rank {each.source} of a part; its rank here is not known" if of_part else None,
            operations.FROM_SYNCHRONOUS_SEND if message.synchronous else None,
            operations.collective_text(parts.context, parts.tag),
            each.order,
        )


def _arguments(made: views.PersistentRequest | None) -> Arguments | None:
    return None if made is None else Arguments(made.buffer, made.count, made.datatype)


def _is_freed(request: views.MpirRequest | None) -> bool:
    """Tell whether the program has freed a request that is not done: only the device refers to it."""
    return request is not None and request.ref_count == 1
