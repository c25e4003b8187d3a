"""ch4's netmod ofi: what libfabric's endpoints hold of messages that shared memory doesn't carry, in terms of MPICH.

A message brings its sender's rank in libfabric's tag; or beside it, and then a receive names its source by the address
of a process. A synchronous send waits for an answer by a receive of MPICH's own, which tells where the send goes: MPICH
keeps nothing else of a send.
Source: src/mpid/ch4/netmod/ofi/ofi_types.h, ofi_pre.h, ofi_impl.h, ofi_recv.h, ofi_send.h of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import ClassVar, NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Status
from mqs_dll.contract.errors import BrokenStructureError, MqsError, NoInformation
from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope
from mqs_dll.library.mpi.mpich import contexts, operations, views
from mqs_dll.library.mpi.mpich.ch4 import variables
from mqs_dll.library.mpi.mpich.ch4.netmod import (
    LOST,
    Arguments,
    Netmod,
    NetmodMessage,
    NetmodReceive,
    NetmodSend,
    OwnRequests,
)
from mqs_dll.library.mpi.mpich.ch4.tag_codecs import OfiTagForm, OfiTagForms
from mqs_dll.library.mpi.mpich.ch4.unexpected import ACTIVE_MESSAGE
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind
from mqs_dll.library.mpi.tag_codec import TagCodec

NO_SOURCE = "the source that it asked for is not known"
NO_ORDER_OF_SENDERS = "its order among those of other senders is not known"


class Ch4OfiSend(NamedTuple):
    """A send, by the answer that it waits for, by what libfabric has of it, or by both."""

    request: int
    """The address of MPICH's."""
    place: int
    """Of the endpoint."""
    tag: int
    destination: int
    waits_for_match: bool
    sent: OfiSent | None


WITHOUT_ARGUMENTS = ("4.0", "4.1", "4.2")
WITH_ARGUMENTS = ("4.3", "5.0")
"""Releases whose receives have their datatype alone, and all of the program's arguments."""


class Ch4OfiContents(NamedTuple):
    """What the endpoints hold, by the context id of the communicator without the bit of collectives."""

    posted: Mapping[int, Sequence[tuple[int, Posted]]]
    """With the place of the endpoint."""
    sent: Mapping[int, Sequence[Ch4OfiSend]]
    filling: Mapping[int, tuple[int, Arrived]]
    """Messages that come in just now, by the address of MPICH's receive; with the place of the endpoint."""
    seen: frozenset[int]
    """The addresses of MPICH's requests among those posted and sent."""
    refusal: NoInformation | None
    """Why sends may be missing."""


class Ch4Ofi(Netmod):
    """The netmod ofi of one process."""

    SEND_EVENT = 1
    """The request alone ends: what libfabric sends is the program's buffer, no copy (MPIDI_OFI_EVENT_SEND)."""
    OLD_RECEIVE: ClassVar[type[views.OldOfiReceive]] = views.OldOfiReceive
    """To 4.2."""

    def __init__(self, mpi: MpichProcessContext, traffic: OwnRequests, endpoints: Sequence[Endpoint]) -> None:
        """Begin; ``endpoints`` are those of all VCIs."""
        super().__init__(mpi, traffic)
        self._endpoints = endpoints
        self._base = mpi.layouts.offset(views.MpirRequest.struct, "dev.ch4.preq.p_type") or 0
        self._event = views.OfiEvent.bind(mpi.layouts)
        self._receive_of = views.OfiReceive.bind(mpi.layouts)
        self._old_receive_of = self.OLD_RECEIVE.bind(mpi.layouts)
        self._answer = views.OfiAnswer.bind(mpi.layouts)
        self._address = views.OfiAddress.bind(mpi.layouts)
        version = mpi.release.version
        self._is_old = True if version.startswith(WITHOUT_ARGUMENTS) else None
        if version.startswith(WITH_ARGUMENTS):
            self._is_old = False
        self._release = str(mpi.release)
        self._ranks: Sequence[Mapping[int, int]] = ()
        self._forms = OfiTagForms.of(version, min(each.tag_bits for each in endpoints))

    def find_way(self) -> None:
        """Search for the table of processes."""
        self._processes()

    def codecs(self) -> Sequence[TagCodec]:
        """Return the only one."""
        return (self._codec(),)

    def _codec(self) -> TagCodec:
        return self._form().codec

    @cached_per_sweep
    def _form(self) -> OfiTagForm:
        """Return which bits of tags are what.

        Raises:
            NoInformation: nothing tells, and the release, where that would, is none that is known.
        """
        found = self._forms.choose((each.posted(), _beside(each)) for each in self._endpoints)
        if found is None:
            raise NoInformation(
                f"which bits of libfabric's tags are what isn't known of {self._release} until a receive waits there",
                "look again" if self._forms.own else "use a release of MPICH that libmqs knows, or look again",
            )
        return found

    def _context(self, bits: int) -> int:
        return contexts.communicator_of(self.parts(bits).context)

    # ------------------------------------------------------------ reading

    @cached_per_sweep
    def _held(self) -> Ch4OfiContents:
        """Return what the endpoints hold.

        Raises:
            BrokenStructureError, TargetReadError: a queue contradicts itself, or can't be read.
        """
        posted: defaultdict[int, list[tuple[int, Posted]]] = defaultdict(list)
        sent: defaultdict[int, list[Ch4OfiSend]] = defaultdict(list)
        filling: dict[int, tuple[int, Arrived]] = {}
        seen: set[int] = set()
        refusal = None
        for place, endpoint in enumerate(self._endpoints):
            outgoing: dict[int, OfiSent] = {}
            try:
                outgoing = {each.context - self._base: each for each in endpoint.sends() if each.context}
            except NoInformation as error:
                refusal = error
            for each in endpoint.posted():
                request, form = each.context - self._base, self._form()
                if form.is_answer(each):
                    request = self._answer.at(self._memory, each.context).signal_req
                    known = outgoing.pop(request, None)
                    sent[self._context(each.tag)].append(Ch4OfiSend(request, place, each.tag, each.source, True, known))
                elif not form.codec.read(each.tag).protocol:
                    if not form.is_receive(each.ignore):
                        raise BrokenStructureError(f"libfabric has a receive that ignores {each.ignore:#x} of a tag")
                    posted[self._context(each.tag)].append((place, each))
                seen.add(request)
            for request, send in outgoing.items():
                if self._request(request) is not None:
                    sent[self._context(send.tag)].append(
                        Ch4OfiSend(request, place, send.tag, send.destination, False, send)
                    )
                    seen.add(request)
            filling |= {each.context - self._base: (place, each.message) for each in endpoint.filling() if each.message}
        return Ch4OfiContents(posted, sent, filling, frozenset(seen), refusal)

    @cached_per_sweep
    def _processes(self) -> Sequence[Mapping[int, int]]:
        """Return for each endpoint the rank in MPI_COMM_WORLD of the process at each address, from MPICH's table."""
        if not self._ranks:
            world = self._mpi.communicators.predefined(0)
            size, width = 0 if world is None else world.remote_size, len(self._endpoints)
            entries = variables.processes(self._mpi, size, self._entry, lambda word: word < size * width)
            columns = zip(*map(self._entry, entries), strict=True) if entries else [()] * width
            self._ranks = [{address: rank for rank, address in enumerate(column)} for column in columns]
        return self._ranks

    def _entry(self, place: int) -> tuple[int, ...]:
        """Return the addresses by which the VCIs reach a process; since 5.0 all but the first lie elsewhere."""
        width = len(self._endpoints)
        if width == 1 or variables.is_old(self._mpi):
            return self._memory.pointers(place, width)
        address = self._address.at(self._memory, place)
        return (address.dest, *self._memory.pointers(address.all_dest, width)[1:])

    def _rank(self, place: int, address: int, entry: MpichEntry) -> int:
        """Return the rank in a communicator of the process at an address; INVALID_RANK where that isn't known."""
        world, peers = self._processes()[place].get(address, INVALID_RANK), entry.peers()
        return peers.index(world) if world != INVALID_RANK and world in peers else INVALID_RANK

    def _is_elsewhere(self, place: int, address: int) -> bool:
        """Tell whether the process at an address that has no rank in a communicator is known to be another one."""
        return address in self._processes()[place]

    def _sender_of(self, message: Arrived | OfiSent) -> int | None:
        """Return the rank of its sender in the communicator; None where the message doesn't bring it.

        Raises:
            BrokenStructureError: it brings it where others don't.
        """
        if not self._codec().has_rank:
            return message.data
        if message.data is not None:
            raise BrokenStructureError("libfabric has a rank beside a tag, which should be in it")
        return self.parts(message.tag).rank

    def _receiver(self, send: Ch4OfiSend, entry: MpichEntry) -> int:
        """Return the rank in a communicator that a send goes to; INVALID_RANK where that isn't known."""
        return self._rank(send.place, send.destination, entry)

    def _asked_source(self, place: int, receive: Posted, entry: MpichEntry) -> int:
        """Return the rank that a receive asks for; INVALID_RANK where it is any, or isn't known."""
        if not self._codec().has_rank:
            return self._rank(place, receive.source, entry)
        return INVALID_RANK if self._codec().is_any_rank(receive.ignore) else self.parts(receive.tag).rank

    # ------------------------------------------------------------ receives

    def posted(self, entry: MpichEntry) -> Iterator[NetmodReceive]:
        """Yield the receives of a communicator that wait, in matching order."""
        for place, each in self._held().posted.get(entry.receives_in, ()):
            request = self._request(each.context - self._base)
            source = self._asked_source(place, each, entry)
            given = None if request is None else self._given(request, each)
            number = phrases.ENDPOINT_NUMBER(each.number) if self._endpoints[place].numbers_receives else None
            unknown = NO_SOURCE if source == INVALID_RANK and each.source != ANY else None
            yield self.asking(each, source, request, given, number, unknown)

    def with_message(self, entry: MpichEntry) -> Iterator[NetmodReceive]:
        """Yield the receives of a communicator that libfabric has no more among those that wait."""
        held = self._held()
        for request in self._traffic.others(entry.view.address):
            if (
                self._mpi.requests.kind(request) is not RequestKind.RECV
                or not request.cc
                or request.address in held.seen
            ):
                continue
            given = self._given(request, None)
            facts = None if given is None else self._mpi.datatypes.at(given.datatype)
            room = given.elements * facts.size if given and facts else UNKNOWN
            got, progress = NOTHING, "its message is under way or here"
            if request.address in held.filling:
                place, message = held.filling[request.address]
                got = Envelope(self._sender(place, message, entry), self.parts(message.tag).tag, message.length)
                progress = f"{message.here} of {message.length} bytes are here"
            yield NetmodReceive(
                request,
                self._context_id(request, entry),
                NOTHING._replace(length=room),
                False,
                got,
                given.buffer if given else 0,
                given,
                (progress, operations.NOT_KEPT),
            )

    def _given(self, request: views.MpirRequest, posted: Posted | None) -> Arguments | None:
        """Return the program's arguments of a receive, None where they are not kept."""
        if self._is_old is not None:
            return self._kept_datatype(request, posted) if self._is_old else self._kept_arguments(request, posted)
        if posted is None:
            return None
        both = self._kept_arguments(request, posted), self._kept_datatype(request, posted)
        found = [each for each in both if each is not None and each.buffer == posted.buffer]
        return found[0] if len(set(found)) == 1 else None

    def _kept_arguments(self, request: views.MpirRequest, posted: Posted | None) -> Arguments | None:
        """Return them as receives have them since 4.3."""
        kept = self._receive_of.at(self._memory, request.address + self._base)
        facts = self._mpi.datatypes.at(kept.datatype)
        fits = facts is not None and (posted is None or kept.count * facts.size == posted.length)
        return Arguments(kept.buf, kept.count, kept.datatype) if fits else None

    def _kept_datatype(self, request: views.MpirRequest, posted: Posted | None) -> Arguments | None:
        """Return them as receives have them to 4.2: by the datatype, or where MPICH unpacks them."""
        kept = self._old_receive_of.at(self._memory, request.address + self._base)
        facts = self._mpi.datatypes.at(kept.datatype)
        if facts is None or not facts.size:
            return None
        if kept.unpacked_as == kept.datatype and (posted is None or kept.comes_to == posted.buffer):
            return Arguments(kept.buf, kept.count, kept.datatype)
        if posted is None or posted.length % facts.size:
            return None
        return Arguments(posted.buffer, posted.length // facts.size, kept.datatype)

    def _context_id(self, request: views.MpirRequest, entry: MpichEntry) -> int:
        """Return the context id of a receive; its communicator's where what lies there isn't one of that."""
        readers = [self._old_receive_of] * (self._is_old is not False) + [self._receive_of] * (not self._is_old)
        at = request.address + self._base
        kept = {reader.at(self._memory, at).context_id for reader in readers}
        fitting = [each for each in kept if contexts.communicator_of(each) == entry.receives_in]
        return fitting[0] if len(fitting) == 1 else entry.receives_in

    def _sender(self, place: int, message: Arrived, entry: MpichEntry) -> int:
        rank = self._sender_of(message)
        return self._rank(place, message.source, entry) if rank is None else rank

    def held(self, request: views.MpirRequest) -> Envelope | None:
        """Return the message that a matched probe holds; the program has no part in the request of one that waits."""
        if request.ref_count == 1:
            return None
        return Envelope(request.status_source, request.status_tag, request.length)

    # ------------------------------------------------------------ sends

    @cached_per_sweep
    def _sent(self) -> tuple[Mapping[int, Sequence[Ch4OfiSend]], bool]:
        """Return the sends by the address of their communicator, and whether that of all is known.

        A communicator may have the number by which another one, with processes of another group, sends.
        """
        entries = self._mpi.communicators.read()
        found: defaultdict[int, list[Ch4OfiSend]] = defaultdict(list)
        all_known = True
        for number, sends in self._held().sent.items():
            for each in sends:
                fitting = [entry for entry in entries if entry.sends_in == number and self._may_be_of(each, entry)]
                if len(fitting) == 1:
                    found[fitting[0].view.address].append(each)
                all_known &= len(fitting) <= 1
        return found, all_known

    def _may_be_of(self, send: Ch4OfiSend, entry: MpichEntry) -> bool:
        """Tell whether a send may be of one of the communicators that have its number."""
        if send.sent is not None and self._sender_of(send.sent) not in (None, entry.view.rank):
            return False
        is_to_member = self._receiver(send, entry) != INVALID_RANK
        return is_to_member or not self._is_elsewhere(send.place, send.destination)

    def sent(self, entry: MpichEntry) -> Iterator[NetmodSend]:
        """Yield the sends of a communicator that are not done."""
        for each in self._sent()[0].get(entry.view.address, ()):
            known = each.sent
            has_left = known is None or known.has_left
            yield NetmodSend(
                self._request(each.request),
                each.tag,
                self._receiver(each, entry),
                known.length if known else UNKNOWN,
                known.buffer if known and self._is_in_place(each.request) else 0,
                each.waits_for_match,
                Status.PENDING,
                "no receive has matched it" if each.waits_for_match else "not taken in" if has_left else "under way",
            )

    def _is_in_place(self, request: int) -> bool:
        """Tell whether libfabric sends from the program's buffer."""
        return self._event.at(self._memory, request + self._base).event_id == self.SEND_EVENT

    def lost_sends(self) -> NoInformation | None:
        """Return why sends may be missing: libfabric's can't be read, or MPICH has one that libfabric doesn't."""
        held = self._held()
        selves = {entry.view.address for entry in self._mpi.communicators.read() if entry.has_size_1}
        for request in self._mpi.requests.live().values():
            is_active = request.is_local if request.type is None else request.type == ACTIVE_MESSAGE
            is_mine = (
                self._mpi.requests.kind(request) is RequestKind.SEND and request.comm not in selves and not is_active
            )
            if is_mine and request.cc and request.address not in held.seen:
                return held.refusal or LOST
        return held.refusal or (None if self._sent()[1] else LOST)

    # ------------------------------------------------------------ unexpected messages

    @cached_per_sweep
    def arrived(self) -> tuple[Mapping[int, Sequence[NetmodMessage]], MqsError | None]:
        """Return the messages by the context id of their communicator, and why some may be missing."""
        found: defaultdict[int, list[tuple[int, Arrived]]] = defaultdict(list)
        broken = None
        try:
            for place, endpoint in enumerate(self._endpoints):
                for each in endpoint.arrived():
                    if not each.claimed and not self.parts(each.tag).protocol & ~self._form().of_sends:
                        found[self._context(each.tag)].append((place, each))
        except MqsError as error:
            broken = error
        return {number: list(self._messages(messages)) for number, messages in found.items()}, broken

    def _messages(self, found: Sequence[tuple[int, Arrived]]) -> Iterator[NetmodMessage]:
        several = len({(place, each.source, each.data) for place, each in found}) > 1
        for place, each in found:
            rank, protocol, form = self._sender_of(each), self.parts(each.tag).protocol, self._form()
            yield NetmodMessage(
                each._replace(
                    synchronous=bool(protocol & form.synchronous),
                    length=UNKNOWN if protocol & form.in_parts else each.length,
                ),
                INVALID_RANK if rank is None else rank,
                NO_ORDER_OF_SENDERS if several and not self._endpoints[place].orders_sources else None,
            )

    def unlisted(self, entry: MpichEntry) -> NoInformation | None:
        """Return whose messages of a communicator may have come besides."""
        for place, endpoint in enumerate(self._endpoints):
            for address in endpoint.full():
                rank = self._rank(place, address, entry)
                if rank != INVALID_RANK or not self._is_elsewhere(place, address):
                    who = "a process" if rank == INVALID_RANK else f"rank {rank}"
                    return NoInformation(
                        f"more messages of {who} may have come: {endpoint.provider} leaves them in the connection"
                    )
        return None


def _beside(endpoint: Endpoint) -> Iterator[int | None]:
    """Yield what messages and sends have beside the tag, as far as they can be read."""
    with suppress(MqsError):
        yield from chain((each.data for each in endpoint.arrived()), (each.data for each in endpoint.sends()))
