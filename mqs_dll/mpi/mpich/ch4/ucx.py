"""ch4's netmod ucx: what UCX's workers hold of the messages that shared memory doesn't carry, in terms of MPICH.

A tag of UCX's is 16 bits of context id, 16 of the source's rank and 32 of the tag; a receive says by a mask which of
them count. UCX knows bytes, and no datatypes. Where a build has shared memory, too, a receive from any source is posted
on both sides, and listed once.
Source: src/mpid/ch4/netmod/ucx/ucx_impl.h, ucx_recv.h, ucx_send.h, ucx_pre.h, ucx_init.c of 4.0.3 to 5.0.2.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mqs_dll import phrases
from mqs_dll.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.errors import LayoutError, MqsError, NoInformation, TargetReadError
from mqs_dll.fabric.ucx.matching import Arrived, Matching, Posted
from mqs_dll.fabric.ucx.pool import Received, Requests, Sent
from mqs_dll.fabric.ucx.releases import VERSION_FUNCTION
from mqs_dll.fabric.ucx.worker import Worker, find_worker, is_worker
from mqs_dll.memory import LARGEST_FETCH, WORD
from mqs_dll.mpi.base import world_rank
from mqs_dll.mpi.describe import buffer_text, lines
from mqs_dll.mpi.mpich import contexts, early, operations, views
from mqs_dll.mpi.mpich.ch4.traffic import PERSISTENT_SENDS, Traffic
from mqs_dll.mpi.mpich.communicators import Entry
from mqs_dll.mpi.mpich.device import Parts
from mqs_dll.mpi.mpich.process import WORLD
from mqs_dll.mpi.mpich.requests import Kind
from mqs_dll.phrases import How

USER_BYTES = 8
"""Which MPICH has behind each request of UCX's: the address of its own (MPIDI_UCX_ucp_request_t)."""

NEXT_WORKER = 88
"""Bytes from one interface's record to the next; the first one's has the context before its worker."""

MOST_INTERFACES = 64

NO_CONTEXT = -1
HANDLE_BITS = 0xFFFFFFFF
CONTEXT_SHIFT, SOURCE_SHIFT = 48, 32
FIELD = 0xFFFF
TAG = 0x3FFFFFFF
"""Of the lower half: bit 30 tells of errors in collectives, bit 29 before 4.3."""

ERROR_29 = 0x20000000

ENTRIES = (8, 16)
"""Where the table of processes has its first entry: since 4.2, and before."""

STRIDES = (16, 72, 32776, 32784)
"""From an entry to the next: its endpoints to all interfaces of the other process lie in it since 4.1."""

LARGEST_VARIABLES = 1 << 24
"""Bytes of a library's variables that are searched."""

NOT_KEPT = "the datatype is not kept"
NO_ORDER = "its order among those to this rank is not known"


class Asked(NamedTuple):
    """What a receive asked for."""

    source: int
    any_tag: bool
    tag: int


class Packed(NamedTuple):
    """What a program gave for a receive."""

    buffer: int
    count: int  # type: ignore[assignment]
    datatype: int


class Ucx:
    """The netmod ucx of one process."""

    def __init__(self, parts: Parts, traffic: Traffic, workers: list[Worker]) -> None:
        """Begin; ``workers`` is what find has found."""
        self._parts = parts
        self._traffic = traffic
        self._workers = workers
        self._matchings = [Matching(each) for each in workers]
        self._pools = [Requests(each) for each in workers]
        self._has_error_29 = parts.release.version.startswith(("4.0", "4.1", "4.2"))
        self._ranks: dict[int, int] | None = None
        self.name = f"UCX {workers[0].version}"
        self.forget()

    def forget(self) -> None:
        """Drop all that was read."""
        self._posted: dict[int, list[Posted]] | None = None
        self._received: dict[int, list[Received]] = {}
        self._sent: dict[int, list[tuple[int, Sent]]] = {}
        self._arrived: dict[int, list[Arrived]] | None = None
        self._broken: MqsError | None = None

    # ------------------------------------------------------------ reading

    def _read(self) -> dict[int, list[Posted]]:
        """Sort what the workers hold by context id without the bit of collectives; return the receives that wait."""
        if self._posted is None:
            posted: defaultdict[int, list[Posted]] = defaultdict(list)
            received: defaultdict[int, list[Received]] = defaultdict(list)
            sent: defaultdict[int, list[tuple[int, Sent]]] = defaultdict(list)
            for worker, matching, pool in zip(self._workers, self._matchings, self._pools, strict=True):
                waiting = matching.posted()
                for each in waiting:
                    posted[_context(each.tag)].append(each)
                others = sorted(set(pool.in_use()).difference(each.address for each in waiting))
                for got in pool.receives(others):
                    if not got.done:
                        received[_context(got.tag)].append(got)
                for send in pool.sends(others):
                    if not send.done:
                        request = self._parts.memory.pointer(send.address + worker.request_size)
                        sent[self._context_of(request, send)].append((request, send))
            self._received, self._sent = received, sent
            self._posted = posted
        return self._posted

    def _context_of(self, address: int, sent: Sent) -> int:
        """Return the context id of a send, NO_CONTEXT where it isn't known: to 4.1 requests name no communicator."""
        if sent.tag is not None:
            return _context(sent.tag)
        request = self._request(address)
        comm = request.comm if request else 0
        return next(
            (each.sends_in for each in self._parts.communicators.read() if each.view.address == comm), NO_CONTEXT
        )

    def _request(self, address: int) -> views.Request | None:
        return self._parts.requests.live().get(address)

    def _tag(self, bits: int) -> int:
        tag = bits & TAG
        return tag & ~ERROR_29 if self._has_error_29 else tag

    # ------------------------------------------------------------ receives

    def receives(self, entry: Entry, others: Iterator[Operation]) -> Iterator[Operation]:
        """Yield the receives of a communicator in matching order.

        Args:
            entry: the communicator.
            others: those over shared memory, in their order. Of two that can match one message the order is known: one
                of any source is on both sides.

        Raises:
            BrokenStructureError: UCX's queues contradict themselves.
        """
        posted = self._read().get(entry.receives_in, ())
        shared = list(others)
        handles = {each.extra_text[2]: place for place, each in enumerate(shared) if len(each.extra_text) > 2}
        for other in self._traffic.of(entry.view.address).others:
            yield from self._done_receive(other, entry)
        for got in self._received.get(entry.receives_in, ()):
            yield self._matched(got, entry)
        done = 0
        for each in posted:
            request = self._request(each.user_data)
            partner = self._request(request.anysrc_partner) if request and request.anysrc_partner else None
            if partner is None:
                yield self._waiting(each, request, entry)
                continue
            place = handles.get(self._traffic.request_text(partner).encode())
            if place is None:
                yield self._waiting(each, partner, entry)
            elif place >= done:
                yield from shared[done : place + 1]
                done = place + 1
        yield from shared[done:]

    def _asked(self, tag: int, mask: int) -> Asked:
        any_source, any_tag = not mask >> SOURCE_SHIFT & FIELD, not mask & 1
        return Asked(INVALID_RANK if any_source else _source(tag), any_tag, UNKNOWN if any_tag else self._tag(tag))

    def _done_receive(self, request: views.Request, entry: Entry) -> Iterator[Operation]:
        """Yield a receive that is done, or a message that a matched probe holds: UCX has forgotten it."""
        kind = self._parts.requests.kind(request)
        rank, tag, length = request.status_source, request.status_tag, request.length
        world, text = world_rank(entry.peers(), rank), self._traffic.request_text(request)
        if kind is Kind.MPROBE:
            yield operations.held(INVALID_RANK, INVALID_RANK, UNKNOWN, UNKNOWN, text)  # its status is not set
        elif kind is Kind.RECV and request.cc == 0:
            cancelled = request.cancelled
            yield Operation(
                status=Status.COMPLETE,
                desired_local_rank=INVALID_RANK,
                desired_global_rank=INVALID_RANK,
                tag_wild=False,
                desired_tag=UNKNOWN,
                desired_length=UNKNOWN,
                system_buffer=False,
                buffer=0,
                actual_local_rank=INVALID_RANK if cancelled else rank,
                actual_global_rank=INVALID_RANK if cancelled else world,
                actual_tag=UNKNOWN if cancelled else tag,
                actual_length=UNKNOWN if cancelled else length,
                extra_text=lines(
                    phrases.made_by("MPI_Irecv", how=How.NONBLOCKING),
                    "its buffer is not kept",
                    text,
                    phrases.CANCELLED() if cancelled else None,
                    operations.NOT_KEPT,
                ),
            )

    def _waiting(self, posted: Posted, request: views.Request | None, entry: Entry) -> Operation:
        call = phrases.made_by("MPI_Recv", "MPI_Irecv")
        got = (INVALID_RANK, UNKNOWN, UNKNOWN)
        return self._receive(Status.PENDING, posted, posted.length, request, entry, got, call, posted.tag)

    def _matched(self, received: Received, entry: Entry) -> Operation:
        request = self._request(received.user_data)
        call = phrases.made_by("MPI_Recv", "MPI_Irecv")
        got = (_source(received.message_tag), self._tag(received.message_tag), received.message_length)
        return self._receive(Status.MATCHED, received, received.room, request, entry, got, call, received.message_tag)

    def _receive(
        self,
        status: Status,
        asked: Posted | Received,
        room: int,
        request: views.Request | None,
        entry: Entry,
        got: tuple[int, int, int],
        call: str,
        bits: int,
    ) -> Operation:
        peers = entry.peers()
        source, any_tag, tag = self._asked(asked.tag, asked.mask)
        made = None if request is None else self._traffic.asked(request)
        actual, actual_tag, length = got
        freed = request is not None and request.ref_count == 1
        packed = None if request is None else self._packed(request, asked.buffer, room)
        return Operation(
            status=status,
            desired_local_rank=source,
            desired_global_rank=world_rank(peers, source),
            tag_wild=any_tag,
            desired_tag=tag,
            desired_length=room,
            system_buffer=False,
            buffer=packed.buffer if packed else asked.buffer,
            actual_local_rank=actual,
            actual_global_rank=world_rank(peers, actual),
            actual_tag=actual_tag,
            actual_length=length,
            extra_text=lines(
                operations.persistent("MPI_Recv_init") if made else call,
                self._buffer_text(made or packed, room),
                None if request is None else self._traffic.request_text(request),
                phrases.FREED() if freed else _number(asked),
                operations.collective_text(bits >> CONTEXT_SHIFT, self._tag(bits)),
            ),
        )

    def _packed(self, request: views.Request, buffer: int, room: int) -> Packed | None:
        """Return the program's arguments of a receive for which MPICH gave UCX a buffer of its own; None without one.

        MPICH does so since 4.1 for data in pieces, and keeps that buffer in its request, the arguments behind it.
        """
        size = self._parts.layouts.struct(views.Request.struct).size or 0
        words = self._parts.memory.pointers(request.address, size // WORD)
        for place in range(len(words) - 3):
            if buffer and words[place] == buffer:
                packed = Packed(words[place + 1], words[place + 2], words[place + 3] & HANDLE_BITS)
                facts = self._parts.datatypes.at(packed.datatype)
                if facts is not None and packed.count * facts.size == room:
                    return packed
        return None

    def _buffer_text(self, made: views.PersistentRequest | Packed | None, length: int) -> str | bytes:
        if made is None:
            return f"{length} bytes; {NOT_KEPT}"
        return buffer_text(self._parts.datatypes.at(made.datatype), made.count, made.datatype)

    # ------------------------------------------------------------ sends

    def sends(self, entry: Entry) -> Iterator[Operation]:
        """Yield the sends of a communicator that wait, by destination and tag: their order is not kept."""
        self._read()
        sends = self._sent.get(entry.sends_in, ())
        found = [
            self._send(request, sent, entry) for request, sent in sends if _source(sent.tag or 0) == entry.view.rank
        ]
        yield from sorted(found, key=lambda each: (each.desired_local_rank, each.desired_tag))
        for done in self._traffic.of(entry.view.address).others:
            if self._parts.requests.kind(done) is Kind.SEND and done.cc == 0:
                texts = "what it sent where is not known", self._traffic.request_text(done), "done"
                call = phrases.made_by("MPI_Isend", "MPI_Issend", how=How.BUFFERED_OR_COLLECTIVE)
                unknown = INVALID_RANK, INVALID_RANK, UNKNOWN, UNKNOWN
                yield operations.send(Status.COMPLETE, *unknown, 0, call, *texts)
        if self._sent.get(NO_CONTEXT):
            raise NoInformation("a send is under way, and nothing tells on which communicator")

    def _send(self, address: int, sent: Sent, entry: Entry) -> Operation:
        request = self._request(address)
        made = None if request is None else self._traffic.asked(request)
        world = self._processes().get(sent.endpoint, INVALID_RANK)
        peers = entry.peers()
        rank = peers.index(world) if world != INVALID_RANK and world in peers else INVALID_RANK
        known = made.tag if made else UNKNOWN
        tag = known if sent.tag is None else self._tag(sent.tag)
        freed = request is not None and request.ref_count == 1
        if made is not None:
            call = operations.persistent(PERSISTENT_SENDS.get(made.p_type, "MPI_Send_init"))
        elif sent.synchronous:
            call = phrases.made_by("MPI_Ssend", "MPI_Issend")
        else:
            call = phrases.made_by("MPI_Send", "MPI_Isend", how=How.OR_BUFFERED)
        return operations.send(
            Status.MATCHED if sent.tag is None else Status.PENDING,
            rank,
            world_rank(peers, rank),
            tag,
            sent.length,
            sent.buffer,
            call,
            self._buffer_text(made, sent.length),
            None if request is None else self._traffic.request_text(request),
            phrases.FREED() if freed else _progress(sent),
            operations.collective_text((sent.tag or 0) >> CONTEXT_SHIFT, tag)
            or (NO_ORDER if rank != INVALID_RANK else "its receiver is not known"),
        )

    def _processes(self) -> Mapping[int, int]:
        """Return the rank in MPI_COMM_WORLD that each endpoint leads to, from MPICH's table of processes."""
        if self._ranks is None:
            world = self._parts.communicators.predefined(0)
            self._ranks = {} if world is None else self._table(world.remote_size)
        return self._ranks

    def _table(self, size: int) -> dict[int, int]:
        """Return the table of processes: the one whose entries begin with different endpoints, as many as there are."""
        pointer, is_endpoint = self._parts.memory.pointer, self._pools[0].is_endpoint
        for _, table in _places(self._parts):
            for first in ENTRIES:
                try:
                    if not is_endpoint(pointer(table + first)):
                        continue
                    for stride in STRIDES:
                        found = [pointer(table + first + stride * rank) for rank in range(size)]
                        if len(set(found)) == size and all(map(is_endpoint, found)):
                            return {endpoint: rank for rank, endpoint in enumerate(found)}
                except TargetReadError:
                    continue
        return {}

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: Entry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came.

        Raises:
            BrokenStructureError: after those that could be reached.
        """
        if self._arrived is None:
            arrived: defaultdict[int, list[Arrived]] = defaultdict(list)
            try:
                for matching in self._matchings:
                    for message in matching.arrived():
                        arrived[_context(message.tag)].append(message)
            except MqsError as error:
                self._broken = error
            self._arrived = arrived
        for message in self._arrived.get(entry.receives_in, ()):
            yield self._message(message, entry, _source(message.tag))
        known = {each.receives_in for each in self._parts.communicators.read()}
        for context_id in contexts.parts_of(entry.receives_in):
            if context_id not in known:
                for message in self._arrived.get(context_id, ()):
                    yield self._message(message, entry, INVALID_RANK)
        if entry.view.handle == WORLD:
            unknown = {
                number: len(messages)
                for number, messages in self._arrived.items()
                if contexts.whole_of(number) not in known
            }
            yield from early.notes(unknown, self._parts.communicators)
        if self._broken is not None:
            raise self._broken

    def _message(self, message: Arrived, entry: Entry, rank: int) -> Operation:
        tag = self._tag(message.tag)
        whole = message.here == message.length
        here = "all" if whole else "a part"
        return operations.message(
            Status.COMPLETE if whole else Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            tag,
            message.length,
            message.address if message.here else 0,
            f"rendezvous: its {message.length} bytes are with the sender"
            if message.rendezvous
            else f"eager: {here} of it is here",
            None if rank != INVALID_RANK else f"from rank {_source(message.tag)} of a part; its rank here is not known",
            operations.FROM_SYNCHRONOUS_SEND if message.synchronous else None,
            operations.collective_text(message.tag >> CONTEXT_SHIFT, tag),
        )


def find(parts: Parts) -> list[Worker]:
    """Return the workers of a process whose netmod is ucx, one for each interface; none where there is no such netmod.

    Raises:
        LayoutError: they can't be read.
    """
    image, memory = parts.image, parts.memory
    if image.find_function(VERSION_FUNCTION) is None:
        return []
    context = (0, 0)
    for place, pointer in _places(parts):
        behind_context, context = context[0] == place - WORD, (place, pointer)
        if behind_context and is_worker(memory, pointer):
            found = [find_worker(image, memory, pointer, USER_BYTES)]
            for index in range(1, MOST_INTERFACES):
                try:
                    other = memory.pointer(place + NEXT_WORKER * index)
                    if not other or not is_worker(memory, other):
                        break
                    found.append(find_worker(image, memory, other, USER_BYTES))
                except (TargetReadError, LayoutError):
                    break
            return found
    return []


def _places(parts: Parts) -> Iterator[tuple[int, int]]:
    """Yield the places of pointers among the library's variables, and the pointers: those that lead out of it."""
    for address, words in _variables(parts):
        for index, word in enumerate(words):
            if 1 << 16 < word < 1 << 47 and not word % WORD and not parts.library.holds(word):
                yield address + WORD * index, word


def _variables(parts: Parts) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the library's variables as words, with the address of the first."""
    for segment in parts.library.writable():
        end = segment.address + min(segment.size, LARGEST_VARIABLES)
        for address in range(segment.address, end, LARGEST_FETCH):
            count = min(LARGEST_FETCH, end - address) // WORD
            try:
                data = parts.memory.read(address, WORD * count)
            except TargetReadError:
                continue
            yield address, struct.unpack(f"<{count}Q", data)


def _context(bits: int) -> int:
    return contexts.communicator_of(bits >> CONTEXT_SHIFT)


def _source(bits: int) -> int:
    return bits >> SOURCE_SHIFT & FIELD


def _number(asked: Posted | Received) -> str | None:
    return phrases.PROCESS_NUMBER(asked.number) if isinstance(asked, Posted) else None


def _progress(sent: Sent) -> str:
    if sent.tag is None:
        return "under way; its tag is not kept"
    if not sent.has_left:
        return "waits for room in UCX"
    return "no receive has matched it" if sent.is_whole_sent else "rendezvous: the receiver has not answered"
