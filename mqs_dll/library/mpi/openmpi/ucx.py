"""pml/ucx, which leaves the matching of messages to UCX: what UCX's worker holds, in terms of Open MPI.

UCX keeps bytes: of datatypes and counts only a persistent request knows, which is all that is left
when it is done. A blocking MPI_Send or MPI_Recv has its request on the stack; that of a receive hangs in UCX's queues
all the same, that of a send nowhere.
Source: ompi/mca/pml/ucx/pml_ucx.c, pml_ucx_request.h, pml_ucx_request.c of 4.1.4, 4.1.8 and 5.0.11.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import LayoutError, MqsError, NoInformation, TargetReadError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.contract.phrases import How
from mqs_dll.library.fabric import ALL_BITS, Arrived, Posted, Received
from mqs_dll.library.fabric.ucx import find_worker
from mqs_dll.library.fabric.ucx.matching import UcxMatching, arrivals
from mqs_dll.library.fabric.ucx.pool import UcxRequests, UcxSent
from mqs_dll.library.fabric.ucx.worker import UcxWorker, is_worker
from mqs_dll.library.memory import WORD, Memory, cached_per_sweep
from mqs_dll.library.mpi import envelopes, stack
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NO_ORDER, NOTHING, Envelope, buffer_text
from mqs_dll.library.mpi.openmpi import tags, views
from mqs_dll.library.mpi.openmpi.communicators import OmpiCommunicators, OmpiEntry
from mqs_dll.library.mpi.openmpi.describe import CALLS, COMPLETE, early_notes, request_text, tag_text
from mqs_dll.library.mpi.openmpi.groups import ProcName
from mqs_dll.library.mpi.openmpi.pml import Pml, hidden
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.processes import OmpiProcList
from mqs_dll.library.mpi.openmpi.symbols import Symbols
from mqs_dll.library.mpi.openmpi.tag_codecs import PML_UCX
from mqs_dll.library.mpi.transport import NO_COMMUNICATOR

MAX_REQUEST_SIZE = 4096
"""Bytes of an ompi_request_t, which Open MPI has behind each request of UCX's; its class tells how many they are."""

MODULE_BYTES = 2048
"""More than ompi_pml_ucx has (1504 in 4.1, 1552 in 5.0): its worker is told by what it points at."""

SEND = 1
"""Of its flags (MCA_PML_UCX_REQUEST_FLAG_SEND)."""
ACTIVE = 2
"""Of an ompi_request_t that is started and not collected (ompi/request/request.h)."""

NO_SLOT = -1
TOPOLOGIES = 0x100 | 0x200 | 0x400
"""Flags of communicators with a cartesian, graph or distributed graph topology (ompi/communicator/communicator.h)."""

NEIGHBORHOOD_TAGS = 1 << 10
NEIGHBORHOOD = "or a neighborhood collective's: pml/ucx cuts its tag"

MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED = bytes(4), b"\1\0\0\0"


class StartedPersistent(NamedTuple):
    """What a persistent request that is started was made with."""

    own: views.OmpiRequest
    """Its address is the handle."""
    given: views.UcxPersistent
    length: int
    """Bytes; -1 where nothing shows the size of the datatype."""

    def posted(self) -> Posted:
        """Return what a receive asks for."""
        ignore = ALL_BITS & ~self.given.mask
        return Posted(self.own.address, self.given.tag, ignore, 0, self.given.buffer, self.length, 0)

    def done_send(self) -> UcxSent:
        """Return a send that is done."""
        return UcxSent(
            self.own.address,
            self.given.tag,
            self.given.endpoint,
            self.length,
            self.given.buffer,
            has_left=True,
            synchronous=False,
            done=True,
            is_announced=True,
            freed=False,
        )


class PmlUcxContents(NamedTuple):
    """What the worker holds, by the slot of the communicator."""

    posted: Mapping[int, Sequence[Posted]]
    received: Mapping[int, Sequence[Received]]
    sent: Mapping[int, Sequence[UcxSent]]
    done: Mapping[int, Sequence[StartedPersistent]]
    """Persistent requests that are done."""
    in_pool: frozenset[int]
    """The addresses of the requests that Open MPI has a part of."""
    no_other: bool
    """Whether no blocking send can be missing."""


class PmlUcx(Pml):
    """pml/ucx in one process."""

    name = "pml/ucx"

    def __init__(self, mpi: OmpiProcessContext) -> None:
        """Find the worker.

        Raises:
            LayoutError: there is none, or UCX is of a release that isn't known.
        """
        self._memory = memory = mpi.memory
        symbols, layouts = mpi.symbols, mpi.layouts
        self._datatypes = mpi.datatypes
        self._communicators = OmpiCommunicators(mpi)
        self._request = views.OmpiRequest.bind(layouts)
        self._made = views.UcxPersistent.bind(layouts)
        self._own_bytes = own_bytes(mpi)
        self._worker = find_own_worker(symbols.image, memory, self._own_bytes)
        self._matching = UcxMatching(self._worker)
        self._requests = UcxRequests(self._worker)
        self._processes = OmpiProcList(mpi)
        self._containers = mpi.containers
        self._pool = _pool_of_persistent(mpi)
        self._nonblocking_base = tags.nonblocking_base(
            has_index=layouts.offset("ompi_communicator_t", "c_index") is not None
        )
        self._stack = _only_stack(memory, symbols)
        self.fabric = self._worker.fabric
        self.name = f"pml/ucx over {self.fabric.title}"

    def datatypes_in_use(self) -> list[int]:
        """Refuse."""
        raise hidden("the datatypes in use", self.name, "keeps bytes, and no datatypes")

    # ------------------------------------------------------------ reading

    @cached_per_sweep
    def _held(self) -> PmlUcxContents:
        """Return what the worker holds.

        Raises:
            BrokenStructureError, TargetReadError: its queues or its pool contradict themselves, or can't be read.
        """
        waiting = self._matching.posted()
        in_pool = frozenset(self._requests.in_use())
        others = sorted(in_pool.difference(each.address for each in waiting))
        blocking, no_other = self._blocking(any(each.address not in in_pool for each in waiting))
        posted: defaultdict[int, list[Posted]] = defaultdict(list)
        received: defaultdict[int, list[Received]] = defaultdict(list)
        sent: defaultdict[int, list[UcxSent]] = defaultdict(list)
        for each in waiting:
            posted[_slot(each.tag)].append(each)
        for got in self._requests.receives(others):
            received[_slot(got.tag)].append(got)
        for send in chain(self._requests.sends(others), blocking):
            sent[self._slot_of(send, in_pool)].append(send)
        done: defaultdict[int, list[StartedPersistent]] = defaultdict(list)
        for asked in self._persistent().values():
            if not asked.given.work and asked.own.req_complete == COMPLETE:
                done[_slot(asked.given.tag)].append(asked)
        return PmlUcxContents(posted, received, sent, done, in_pool, no_other)

    def _blocking(self, receives: bool) -> tuple[list[UcxSent], bool]:
        """Return the blocking send of the first thread, if it is seen on its stack, and whether there is no other.

        A thread is in one call at a time: the one that waits in a blocking receive (``receives``) sends nothing.
        """
        if self._stack is None or receives:
            return [], self._stack is not None
        try:
            address, words = stack.first_words(self._memory, self._stack)
        except TargetReadError:
            return [], False
        ranks = {each.slot: each.local_rank for each in self._communicators.read()}
        try:
            sends = list(self._requests.on_stack(words, address, self._endpoint_names().keys()))
        except LayoutError:
            return [], False
        known = ((each, None if each.tag is None else PML_UCX.read(each.tag)) for each in sends)
        found = [each for each, parts in known if parts is None or ranks.get(parts.context) == parts.rank]
        return found, bool(found)

    def _slot_of(self, sent: UcxSent, in_pool: frozenset[int]) -> int:
        """Return the slot of a send's communicator, NO_SLOT where it isn't known."""
        if sent.tag is not None:
            return _slot(sent.tag)
        request = self._own_part(sent.address, in_pool)
        if request is None:
            return NO_SLOT
        made = self._asked(request)
        communicator = self._memory.pointer((made.own if made else request).address + self._own_bytes - WORD)
        return next((each.slot for each in self._communicators.read() if each.view.address == communicator), NO_SLOT)

    def _own_part(self, address: int, in_pool: frozenset[int]) -> views.OmpiRequest | None:
        """Return Open MPI's part of a request of the pool; None for one on the stack, which has none."""
        return self._request.at(self._memory, address + self._worker.request_size) if address in in_pool else None

    def _asked(self, request: views.OmpiRequest | None) -> StartedPersistent | None:
        """Return what a persistent request was made with, given it or what does its work; None for another."""
        return None if request is None else self._persistent().get(request.address)

    @cached_per_sweep
    def _persistent(self) -> dict[int, StartedPersistent]:
        """Return the persistent requests that are started, by the address of what does their work, or their own."""
        found: dict[int, StartedPersistent] = {}
        pool = self._containers.pool_elements(self._pool, self._request) if self._pool else []
        for own in pool:
            if own.req_state == ACTIVE:
                made = self._made.at(self._memory, own.address + self._own_bytes)
                facts = self._datatypes.at(made.datatype)
                length = UNKNOWN if facts is None else made.count * facts.size
                found[made.work or own.address] = StartedPersistent(own, made, length)
        return found

    # ------------------------------------------------------------ receives

    def receives(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            BrokenStructureError: UCX's queues contradict themselves.
        """
        held = self._held()
        for asked in held.done.get(entry.slot, ()):
            if not asked.given.flags & SEND:
                yield self._done(asked.posted(), asked.own, entry)
        for got in held.received.get(entry.slot, ()):
            of_mpi = self._request.at(self._memory, got.address + self._worker.request_size)
            if got.asked is None:
                yield self._done_at_once(got, of_mpi, entry)
            elif got.message is None:
                yield self._done(got.asked, of_mpi, entry)
            else:
                _, source, tag, _ = PML_UCX.read(got.message.tag)
                message = Envelope(source, tag, got.message.length)
                yield self._receive(Status.MATCHED, got.asked, of_mpi, entry, message, None, in_pieces=got.in_pieces)
        for each in held.posted.get(entry.slot, ()):
            own = self._own_part(each.address, held.in_pool)
            yield self._receive(Status.PENDING, each, own, entry, NOTHING, phrases.WORKER_NUMBER(each.number))

    def _done(self, asked: Posted, own: views.OmpiRequest, entry: OmpiEntry) -> Operation:
        if own.status_cancelled:
            return self._receive(Status.COMPLETE, asked, own, entry, NOTHING, phrases.CANCELLED())
        return self._receive(Status.COMPLETE, asked, own, entry, _status(own), None)

    def _receive(
        self,
        status: Status,
        asked: Posted,
        own: views.OmpiRequest | None,
        entry: OmpiEntry,
        got: Envelope,
        progress: str | None,
        *,
        in_pieces: bool = False,
    ) -> Operation:
        """Return a receive; the buffer of one whose data come in pieces is not the program's."""
        parts, any_tag = PML_UCX.read(asked.tag), PML_UCX.is_any_tag(asked.ignore)
        source = INVALID_RANK if PML_UCX.is_any_rank(asked.ignore) else parts.rank
        tag = tags.ANY_TAG if any_tag else parts.tag
        made = self._asked(own)
        text = self._buffer_text(made, asked.length)
        return envelopes.receive(
            status,
            Envelope(source, tag, asked.length),
            got,
            entry.peers(),
            0 if in_pieces else asked.buffer,
            _receive_kind(own, made, has_message=status is not Status.PENDING),
            f"{asked.length} bytes; its buffer and datatype are not kept" if in_pieces else text,
            self._request_text(own, made),
            phrases.FREED() if asked.freed else progress,
            self._tag_text(got.tag if any_tag else tag, entry),
            tag_wild=any_tag,
        )

    def _done_at_once(self, late: Received, own: views.OmpiRequest, entry: OmpiEntry) -> Operation:
        """Return a receive that found its whole message."""
        made, got = self._asked(own), _status(own)
        return envelopes.receive(
            Status.COMPLETE,
            NOTHING,
            got,
            entry.peers(),
            0,
            _receive_kind(own, made, has_message=True),
            "its buffer is not kept",
            self._request_text(own, made),
            phrases.FREED() if late.freed else None,
            self._tag_text(got.tag, entry),
            envelopes.NOT_KEPT,
        )

    # ------------------------------------------------------------ sends

    def sends(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Return the sends of a communicator by destination and tag: their order is not kept.

        Raises:
            NoInformation: at once or after them: a blocking one is not seen where several threads may call MPI, nor
                deep in a stack; or nothing tells the communicator of another one.
        """
        held = self._held()
        sent = held.sent.get(entry.slot, ())
        found = [self._send(each, self._own_part(each.address, held.in_pool), entry) for each in sent]
        done = (each for each in held.done.get(entry.slot, ()) if each.given.flags & SEND)
        found += [self._send(each.done_send(), each.own, entry) for each in done]
        found.sort(key=lambda each: (each.desired_local_rank, each.desired_tag))
        if held.sent.get(NO_SLOT):
            refusal = NoInformation(NO_COMMUNICATOR)
        elif held.no_other:
            return iter(found)
        else:
            refusal = hidden(phrases.BLOCKING_SENDS, self.name, "keeps their requests on the stack")
        if not found:
            raise refusal
        return chain(found, _raise(refusal))

    def _send(self, sent: UcxSent, own: views.OmpiRequest | None, entry: OmpiEntry) -> Operation:
        made = self._asked(own)
        name = self._endpoint_names().get(sent.destination)
        rank = next((rank for rank, each in enumerate(entry.peer_names()) if each == name), INVALID_RANK)
        bits = made.given.tag if made and sent.tag is None else sent.tag
        tag = UNKNOWN if bits is None else PML_UCX.read(bits).tag
        status = Status.MATCHED if sent.tag is None else Status.PENDING
        return envelopes.send(
            Status.COMPLETE if sent.done else status,
            rank,
            world_rank(entry.peers(), rank),
            tag,
            sent.length,
            sent.buffer,
            _send_kind(sent, own, made),
            self._buffer_text(made, sent.length),
            self._request_text(own, made),
            phrases.FREED() if sent.freed and not sent.done else sent.progress(),
            self._tag_text(tag, entry) or (NO_ORDER if name else "its receiver is not known"),
        )

    @cached_per_sweep
    def _endpoint_names(self) -> dict[int, ProcName]:
        """Return the name of the process that each of UCX's endpoints leads to, by the endpoint's address."""
        return {
            pointer: name
            for name, pointers in self._processes.endpoints()
            for pointer in pointers
            if self._requests.is_endpoint(pointer)
        }

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came, which is that of matching.

        A note on MPI_COMM_WORLD counts those for communicators that this process doesn't have.

        Raises:
            BrokenStructureError: after those that could be reached.
        """
        arrived, broken = self._arrived()
        for message in arrived.get(entry.slot, ()):
            yield self._unexpected(message, entry)
        if entry.is_world:
            yield from early_notes(arrived, {each.slot for each in self._communicators.read()})
        if broken is not None:
            raise broken

    @cached_per_sweep
    def _arrived(self) -> tuple[Mapping[int, Sequence[Arrived]], MqsError | None]:
        """Return the messages by the slot of their communicator, and why some may be missing."""
        return arrivals([self._matching], _slot)

    def _unexpected(self, message: Arrived, entry: OmpiEntry) -> Operation:
        _, rank, tag, _ = PML_UCX.read(message.tag)
        return envelopes.message(
            Status.COMPLETE if message.here == message.length else Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            tag,
            message.length,
            message.address,
            message.how(),
            "sent by MPI_Ssend or MPI_Issend" if message.synchronous else None,
            self._tag_text(tag, entry),
        )

    # ------------------------------------------------------------ words

    def _tag_text(self, tag: int, entry: OmpiEntry) -> str | None:
        """Return what a tag stands for; None for one of the program.

        Those of neighborhood collectives have more than 24 bits; what is left of them looks like a small one.
        """
        if 0 <= tag < NEIGHBORHOOD_TAGS and entry.view.c_flags & TOPOLOGIES:
            return NEIGHBORHOOD
        return tag_text(tag, self._nonblocking_base)

    def _buffer_text(self, made: StartedPersistent | None, length: int) -> str | bytes:
        if made is None:
            return f"{length} bytes; the datatype is not kept"
        return buffer_text(self._datatypes.at(made.given.datatype), made.given.count, made.given.datatype)

    def _request_text(self, own: views.OmpiRequest | None, made: StartedPersistent | None) -> str | None:
        if own is None:
            return None
        known = made.own if made else own  # the one that the program has, and waits for
        return request_text(self._memory, known.address, known.req_complete)


def own_bytes(mpi: OmpiProcessContext) -> int:
    """Return sizeof(ompi_request_t), as the class tells it; its last word is the communicator (req_mpi_object).

    Raises:
        LayoutError: the class isn't there, or doesn't have what is known of a request.
    """
    size = mpi.class_size("ompi_request_t")
    if size % WORD or not views.OmpiRequest.bind(mpi.layouts).end + WORD <= size <= MAX_REQUEST_SIZE:
        raise LayoutError(f"Open MPI's class ompi_request_t says that a request has {size} bytes")
    return size


def find_own_worker(image: TargetImage, memory: Memory, own: int) -> UcxWorker:
    """Return the worker that ompi_pml_ucx has.

    Args:
        image: of the process.
        memory: of the process.
        own: bytes that Open MPI has behind each of its requests.

    Raises:
        LayoutError: it has none, or UCX is of a release that isn't known.
    """
    module = image.find_symbol("ompi_pml_ucx")
    if module is None:
        raise LayoutError("Open MPI's symbol ompi_pml_ucx is missing")
    for pointer in dict.fromkeys(memory.pointers(module, MODULE_BYTES // WORD)):
        if pointer and is_worker(memory, pointer):
            return find_worker(image, memory, pointer, own, "openmpi")
    raise LayoutError("ompi_pml_ucx has no worker of UCX's")


def _pool_of_persistent(mpi: OmpiProcessContext) -> int | None:
    """Return the address of the pool of persistent requests, an opal_free_list_t in ompi_pml_ucx; None without any.

    Raises:
        LayoutError: it isn't there.
    """
    module = mpi.symbols.get("ompi_pml_ucx")
    kind = mpi.symbols.get("mca_pml_ucx_persistent_request_t_class")
    if module is None or kind is None:
        return None
    for place, word in enumerate(mpi.memory.pointers(module, MODULE_BYTES // WORD)):
        if word == kind:
            return module + WORD * place - views.OpalFreeList.bind(mpi.layouts).offsets["fl_frag_class"]
    raise LayoutError("ompi_pml_ucx has no pool of persistent requests")


def _status(own: views.OmpiRequest) -> Envelope:
    return Envelope(own.status_source, own.status_tag, own.status_ucount)


def _only_stack(memory: Memory, symbols: Symbols) -> int | None:
    """Return an address at the begin of the only stack that calls of MPI can be on; None where threads may call it."""
    level, end = symbols.get("ompi_mpi_thread_provided"), symbols.get("__libc_stack_end")
    try:
        if level and end and memory.read(level, 4) in (MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED):
            return memory.pointer(end)
    except TargetReadError:
        pass
    return None


def _slot(bits: int) -> int:
    return PML_UCX.context.of(bits)


def _receive_kind(own: views.OmpiRequest | None, made: StartedPersistent | None, *, has_message: bool) -> str:
    """Name the call: a blocking receive has no request of Open MPI's; MPI_Sendrecv makes a nonblocking one."""
    if own is None:
        return phrases.received_by("MPI_Recv", how=How.BLOCKING, has_message=has_message)
    if made is not None:
        return phrases.made_by("MPI_Recv_init", how=How.PERSISTENT)
    return phrases.received_by("MPI_Irecv", how=How.NONBLOCKING, has_message=has_message)


def _send_kind(sent: UcxSent, own: views.OmpiRequest | None, made: StartedPersistent | None) -> str:
    """Name the call; that of a standard send is not told from that of one in ready or buffered mode."""
    if own is None:
        return phrases.made_by("MPI_Send", "MPI_Rsend", "MPI_Sendrecv")
    if made is not None:
        return phrases.made_by(f"{CALLS.get(made.given.mode, CALLS[1])[0]}_init", how=How.PERSISTENT)
    if sent.synchronous is None:
        return phrases.made_by("MPI_Isend", "MPI_Issend", "MPI_Irsend", how=How.OR_BUFFERED)
    if sent.synchronous:
        return phrases.made_by("MPI_Issend", how=How.NONBLOCKING) if sent.done else phrases.made_by(*CALLS[0])
    return phrases.made_by("MPI_Isend", "MPI_Irsend", how=How.OR_BUFFERED)


def _raise(refusal: NoInformation) -> Iterator[Operation]:
    yield from ()
    raise refusal
