"""ch4's netmod ucx: what UCX's workers hold of the messages that shared memory doesn't carry, in terms of MPICH.

A tag of UCX's is 16 bits of context id, 16 of the source's rank and 32 of the tag; a receive says by a mask which of
them count. UCX knows bytes, and no datatypes. Where a build has shared memory, too, a receive from any source is posted
on both sides, and listed once.
Source: src/mpid/ch4/netmod/ucx/ucx_impl.h, ucx_recv.h, ucx_send.h, ucx_pre.h, ucx_init.c of 4.0.3 to 5.0.2.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mqs_dll import phrases
from mqs_dll.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.errors import LayoutError, MqsError, NoInformation, TargetReadError
from mqs_dll.fabric.ucx.matching import Arrived, Matching, Posted, arrivals
from mqs_dll.fabric.ucx.pool import Received, Requests, Sent
from mqs_dll.fabric.ucx.releases import VERSION_FUNCTION
from mqs_dll.fabric.ucx.worker import Worker, find_worker, is_worker
from mqs_dll.memory import LARGEST_FETCH, WORD, remembered
from mqs_dll.mpi import envelopes
from mqs_dll.mpi.communicators import world_rank
from mqs_dll.mpi.describe import buffer_text
from mqs_dll.mpi.envelopes import NOTHING, Envelope
from mqs_dll.mpi.mpich import contexts, early, operations, views
from mqs_dll.mpi.mpich.ch4.traffic import Traffic
from mqs_dll.mpi.mpich.communicators import Entry
from mqs_dll.mpi.mpich.parts import Parts
from mqs_dll.mpi.mpich.persistent import PERSISTENT_SENDS
from mqs_dll.mpi.mpich.process import WORLD
from mqs_dll.mpi.mpich.requests import Kind
from mqs_dll.mpi.transport import NO_COMMUNICATOR
from mqs_dll.phrases import How

USER_BYTES = 8
"""Which MPICH has behind each request of UCX's: the address of its own (MPIDI_UCX_ucp_request_t)."""

NEXT_WORKER = 88
"""Bytes from one interface's record to the next; the first one's has the context before its worker."""

MOST_INTERFACES = 64
"""Also the length of a row of endpoints in the table of processes."""

LONG_ENTRY = WORD * MOST_INTERFACES**2

NO_CONTEXT = -1
HANDLE_BITS = 0xFFFFFFFF
CONTEXT_SHIFT, SOURCE_SHIFT = 48, 32
FIELD = 0xFFFF
TAG = 0x3FFFFFFF
"""Of the lower half: bit 30 tells of errors in collectives, bit 29 before 4.3."""

ERROR_29 = 0x20000000

ENTRIES = (8, 16)
"""Where the table of processes has its first entry: since 4.2, and before."""

STRIDES = (32776, 32784, 72, 16)
"""From an entry to the next: the endpoints to all interfaces of the other process lie in it since 4.1, behind the
first; so the long ones come first, the shorter of them before the longer."""

LARGEST_VARIABLES = 1 << 24
"""Bytes of a library's variables that are searched."""

NO_ORDER = "its order among those to this rank is not known"


class Packed(NamedTuple):
    """What a program gave for a receive."""

    buffer: int
    elements: int
    datatype: int


class Held(NamedTuple):
    """What the workers hold, by the context id of the communicator without the bit of collectives."""

    posted: Mapping[int, Sequence[Posted]]
    received: Mapping[int, Sequence[Received]]
    sent: Mapping[int, Sequence[tuple[int, Sent]]]
    """With the address of MPICH's request."""


class Ucx:
    """The netmod ucx of one process."""

    def __init__(self, parts: Parts, traffic: Traffic, workers: Sequence[Worker]) -> None:
        """Begin; ``workers`` is what find has found."""
        self._parts = parts
        self._memory = parts.memory
        self._traffic = traffic
        self._workers = [(worker, Matching(worker), Requests(worker)) for worker in workers]
        self._has_error_29 = parts.release.version.startswith(("4.0", "4.1", "4.2"))
        self._ranks: dict[int, int] = {}

    def find_way(self) -> None:
        """Search for what doesn't move, while the process may still run."""
        self._processes()

    # ------------------------------------------------------------ reading

    @remembered
    def _held(self) -> Held:
        """Return what the workers hold.

        Raises:
            BrokenStructureError, TargetReadError: a queue or a pool contradicts itself, or can't be read.
        """
        posted: defaultdict[int, list[Posted]] = defaultdict(list)
        received: defaultdict[int, list[Received]] = defaultdict(list)
        sent: defaultdict[int, list[tuple[int, Sent]]] = defaultdict(list)
        for worker, matching, pool in self._workers:
            waiting = matching.posted()
            for each in waiting:
                posted[_context(each.tag)].append(each)
            others = sorted(set(pool.in_use()).difference(each.address for each in waiting))
            for got in pool.receives(others):
                if not got.done:
                    received[_context(got.tag)].append(got)
            for send in pool.sends(others):
                if not send.done:
                    request = self._memory.pointer(send.address + worker.request_size)
                    sent[self._context_of(request, send)].append((request, send))
        return Held(posted, received, sent)

    def _context_of(self, address: int, sent: Sent) -> int:
        """Return the context id of a send, NO_CONTEXT where it isn't known: to 4.1 requests name no communicator."""
        if sent.tag is not None:
            return _context(sent.tag)
        request = self._request(address)
        comm = request.comm if request else 0
        entries = self._parts.communicators.read()
        return next((each.sends_in for each in entries if each.view.address == comm), NO_CONTEXT)

    def _request(self, address: int) -> views.Request | None:
        return self._parts.requests.live().get(address)

    def _tag(self, bits: int) -> int:
        tag = bits & TAG
        return tag & ~ERROR_29 if self._has_error_29 else tag

    # ------------------------------------------------------------ receives

    def receives(self, entry: Entry, others: Iterator[Operation]) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Args:
            entry: the communicator.
            others: those over shared memory, in their order. Of two that can match one message the order is known: one
                of any source is on both sides.

        Raises:
            BrokenStructureError: UCX's queues contradict themselves.
        """
        held = self._held()
        for request in self._traffic.of(entry.view.address).others:
            yield from self._done_receive(request, entry)
        for got in held.received.get(entry.receives_in, ()):
            message = Envelope(_source(got.message_tag), self._tag(got.message_tag), got.message_length)
            own = self._request(got.user_data)
            yield self._receive(Status.MATCHED, got, own, entry, message, None, got.message_tag)
        shared, done = list(others), 0
        places = {line: place for place, each in enumerate(shared) for line in each.extra_text}
        for each in held.posted.get(entry.receives_in, ()):
            half = self._request(each.user_data)
            whole = self._request(half.anysrc_partner) if half and half.anysrc_partner else None
            place = None if whole is None else places.get(self._traffic.request_text(whole).encode())
            if place is None:
                number = phrases.WORKER_NUMBER(each.number)
                yield self._receive(Status.PENDING, each, whole or half, entry, NOTHING, number, each.tag)
            elif place >= done:
                yield from shared[done : place + 1]
                done = place + 1
        yield from shared[done:]

    def _done_receive(self, request: views.Request, entry: Entry) -> Iterator[Operation]:
        """Yield a receive that is done, or a message that a matched probe holds: UCX has forgotten both."""
        kind, text = self._parts.requests.kind(request), self._traffic.request_text(request)
        if kind is Kind.MPROBE:
            yield operations.held((), INVALID_RANK, UNKNOWN, UNKNOWN, text)  # its status is not set
        elif kind is Kind.RECV and request.cc == 0:
            got = Envelope(request.status_source, request.status_tag, request.length)
            yield envelopes.receive(
                Status.COMPLETE,
                NOTHING,
                NOTHING if request.cancelled else got,
                entry.peers(),
                0,
                phrases.made_by("MPI_Irecv", how=How.NONBLOCKING),
                "its buffer is not kept",
                text,
                phrases.CANCELLED() if request.cancelled else None,
                operations.NOT_KEPT,
            )

    def _receive(
        self,
        status: Status,
        asked: Posted | Received,
        request: views.Request | None,
        entry: Entry,
        got: Envelope,
        progress: str | None,
        bits: int,
    ) -> Operation:
        any_tag = not asked.mask & 1
        source = _source(asked.tag) if asked.mask >> SOURCE_SHIFT & FIELD else INVALID_RANK
        made = None if request is None else self._traffic.asked(request)
        packed = None if request is None else self._packed(request, asked.buffer, asked.length)
        call = phrases.made_by("MPI_Recv", "MPI_Irecv")
        return envelopes.receive(
            status,
            Envelope(source, UNKNOWN if any_tag else self._tag(asked.tag), asked.length),
            got,
            entry.peers(),
            packed.buffer if packed else asked.buffer,
            operations.persistent("MPI_Recv_init") if made else call,
            self._buffer_text(packed or _arguments(made), asked.length),
            None if request is None else self._traffic.request_text(request),
            phrases.FREED() if _is_freed(request) else progress,
            operations.collective_text(bits >> CONTEXT_SHIFT, self._tag(bits)),
            tag_wild=any_tag,
        )

    def _packed(self, request: views.Request, buffer: int, length: int) -> Packed | None:
        """Return the program's arguments of a receive for which MPICH gave UCX a buffer of its own; None without one.

        MPICH does so since 4.1 for data in pieces, and keeps that buffer in its request, the arguments behind it.
        """
        size = self._parts.layouts.struct(views.Request.struct).size or 0
        words = self._memory.pointers(request.address, size // WORD)
        for place in range(len(words) - 3):
            if buffer and words[place] == buffer:
                packed = Packed(words[place + 1], words[place + 2], words[place + 3] & HANDLE_BITS)
                facts = self._parts.datatypes.at(packed.datatype)
                if facts is not None and packed.elements * facts.size == length:
                    return packed
        return None

    def _buffer_text(self, given: Packed | None, length: int) -> str | bytes:
        if given is None:
            return f"{length} bytes; the datatype is not kept"
        return buffer_text(self._parts.datatypes.at(given.datatype), given.elements, given.datatype)

    # ------------------------------------------------------------ sends

    def sends(self, entry: Entry) -> Iterator[Operation]:
        """Yield the sends of a communicator, by destination and tag: their order is not kept.

        Raises:
            NoInformation: after them, there are others of which nothing tells the communicator.
        """
        held = self._held()
        found = [
            self._send(request, sent, entry)
            for request, sent in held.sent.get(entry.sends_in, ())
            if sent.tag is None or _source(sent.tag) == entry.view.rank
        ]
        yield from sorted(found, key=lambda each: (each.desired_local_rank, each.desired_tag))
        for done in self._traffic.of(entry.view.address).others:
            if self._parts.requests.kind(done) is Kind.SEND and done.cc == 0:
                unknown = INVALID_RANK, INVALID_RANK, UNKNOWN, UNKNOWN, 0
                call = phrases.made_by("MPI_Isend", "MPI_Issend", how=How.BUFFERED_OR_COLLECTIVE)
                texts = call, "what it sent where is not known", self._traffic.request_text(done), "done"
                yield envelopes.send(Status.COMPLETE, *unknown, *texts)
        if held.sent.get(NO_CONTEXT):
            raise NoInformation(NO_COMMUNICATOR)

    def _send(self, address: int, sent: Sent, entry: Entry) -> Operation:
        request = self._request(address)
        made = None if request is None else self._traffic.asked(request)
        world = self._processes().get(sent.endpoint, INVALID_RANK)
        peers = entry.peers()
        rank = peers.index(world) if world != INVALID_RANK and world in peers else INVALID_RANK
        known = made.tag if made else UNKNOWN
        tag = known if sent.tag is None else self._tag(sent.tag)
        if made is not None:
            call = operations.persistent(PERSISTENT_SENDS.get(made.p_type, "MPI_Send_init"))
        elif sent.synchronous:
            call = phrases.made_by("MPI_Ssend", "MPI_Issend")
        else:
            call = phrases.made_by("MPI_Send", "MPI_Isend", how=How.OR_BUFFERED)
        collective = operations.collective_text((sent.tag or 0) >> CONTEXT_SHIFT, tag)
        return envelopes.send(
            Status.MATCHED if sent.tag is None else Status.PENDING,
            rank,
            world_rank(peers, rank),
            tag,
            sent.length,
            sent.buffer,
            call,
            self._buffer_text(_arguments(made), sent.length),
            None if request is None else self._traffic.request_text(request),
            phrases.FREED() if _is_freed(request) else sent.progress(),
            collective or (NO_ORDER if rank != INVALID_RANK else "its receiver is not known"),
        )

    @remembered
    def _processes(self) -> Mapping[int, int]:
        """Return the rank in MPI_COMM_WORLD that each endpoint leads to, from MPICH's table of processes."""
        if not self._ranks:
            world = self._parts.communicators.predefined(0)
            self._ranks = {} if world is None else self._table(world.remote_size)
        return self._ranks

    def _table(self, size: int) -> dict[int, int]:
        """Return what the table of processes has: its entries begin with different endpoints, as many as there are."""
        pointer, is_endpoint = self._memory.pointer, self._workers[0][2].is_endpoint
        for _, table in _places(self._parts):
            for first in ENTRIES:
                try:
                    if not is_endpoint(pointer(table + first)):
                        continue
                    for stride in STRIDES:
                        entries = [table + first + stride * rank for rank in range(size)]
                        found = [pointer(entry) for entry in entries]
                        if len(set(found)) == size and all(map(is_endpoint, found)):
                            ranks = dict(zip(found, range(size), strict=True))
                            return ranks | (self._of_interfaces(entries) if stride > LONG_ENTRY else {})
                except TargetReadError:
                    continue
        return {}

    def _of_interfaces(self, entries: Sequence[int]) -> dict[int, int]:
        """Return the rank that each endpoint leads to which is from or to another interface than the first.

        Args:
            entries: the address of each process's endpoints: a row for each interface of this process's, in which
                stands one for each of the other's.
        """
        count = len(self._workers)
        return {
            endpoint: rank
            for rank, entry in enumerate(entries)
            for index, (_, _, requests) in enumerate(self._workers if count > 1 else ())
            for endpoint in self._memory.pointers(entry + WORD * MOST_INTERFACES * index, count)
            if endpoint and requests.is_endpoint(endpoint)
        }

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: Entry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came.

        Raises:
            BrokenStructureError: after those that could be reached.
        """
        arrived, broken = self._arrived()
        for message in arrived.get(entry.receives_in, ()):
            yield self._message(message, entry, _source(message.tag))
        known = self._known()
        for context_id in contexts.parts_of(entry.receives_in):
            if context_id not in known:
                for message in arrived.get(context_id, ()):
                    yield self._message(message, entry, INVALID_RANK)
        if entry.view.handle == WORLD:
            unknown = {number: len(each) for number, each in arrived.items() if contexts.whole_of(number) not in known}
            yield from early.notes(unknown, self._parts.communicators)
        if broken is not None:
            raise broken

    @remembered
    def _known(self) -> set[int]:
        return {entry.receives_in for entry in self._parts.communicators.read()}

    @remembered
    def _arrived(self) -> tuple[Mapping[int, Sequence[Arrived]], MqsError | None]:
        """Return the messages by the context id of their communicator, and why some may be missing."""
        return arrivals((matching for _, matching, _ in self._workers), _context)

    def _message(self, message: Arrived, entry: Entry, rank: int) -> Operation:
        tag = self._tag(message.tag)
        return envelopes.message(
            Status.COMPLETE if message.here == message.length else Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            tag,
            message.length,
            message.address if message.here else 0,
            message.how(),
            None if rank != INVALID_RANK else f"from rank {_source(message.tag)} of a part; its rank here is not known",
            operations.FROM_SYNCHRONOUS_SEND if message.synchronous else None,
            operations.collective_text(message.tag >> CONTEXT_SHIFT, tag),
        )


def _arguments(made: views.PersistentRequest | None) -> Packed | None:
    return None if made is None else Packed(made.buffer, made.count, made.datatype)


def _is_freed(request: views.Request | None) -> bool:
    """Tell whether the program has freed a request that is not done: only the device refers to it."""
    return request is not None and request.ref_count == 1


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
