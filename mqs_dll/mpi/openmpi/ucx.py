"""pml/ucx, which leaves the matching of messages to UCX: what UCX's worker holds, in terms of Open MPI.

A tag of UCX's is 24 bits of tag, 20 of the source's rank and 20 of the communicator's number; a receive says by a mask
which of them count. UCX keeps bytes: of datatypes and counts only a persistent request knows. A blocking MPI_Send or
MPI_Recv has its request on the stack; that of a receive hangs in UCX's queues all the same, that of a send nowhere.
Source: ompi/mca/pml/ucx/pml_ucx.c, pml_ucx_request.h, pml_ucx_request.c of 4.1.4, 4.1.8 and 5.0.11.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from mqs_dll import phrases
from mqs_dll.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.errors import LayoutError, MqsError, NoInformation, TargetReadError
from mqs_dll.fabric.ucx.matching import Arrived, Matching, Posted
from mqs_dll.fabric.ucx.pool import Received, Requests, Sent
from mqs_dll.fabric.ucx.worker import Worker, find_worker, is_worker
from mqs_dll.interface import TargetImage
from mqs_dll.layout import Layouts
from mqs_dll.memory import WORD, Memory
from mqs_dll.mpi import stack
from mqs_dll.mpi.base import world_rank
from mqs_dll.mpi.describe import buffer_text, lines
from mqs_dll.mpi.openmpi import cm_views, tags, views
from mqs_dll.mpi.openmpi.communicators import Communicators, Entry
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.datatypes import Datatypes
from mqs_dll.mpi.openmpi.describe import CALLS, request_text, tag_text
from mqs_dll.mpi.openmpi.groups import ProcName
from mqs_dll.mpi.openmpi.pml import Pml, hidden
from mqs_dll.mpi.openmpi.symbols import Symbols, class_size
from mqs_dll.mpi.openmpi.unexpected import foreign_note
from mqs_dll.phrases import How

USER_BYTES = 160
"""sizeof(ompi_request_t), which Open MPI has behind each request of UCX's."""

MODULE_BYTES = 2048
"""More than ompi_pml_ucx has (1504 in 4.1, 1552 in 5.0): its worker is told by what it points at."""

SLOT_BITS, SOURCE_BITS, TAG_BITS = 20, 20, 24
SOURCE = (1 << SOURCE_BITS) - 1 << SLOT_BITS
TAG = (1 << TAG_BITS - 1) - 1 << SLOT_BITS + SOURCE_BITS
"""Without the sign: MPI_ANY_TAG never matches Open MPI's own messages, whose tags are negative."""

PERSISTENT = struct.Struct("<QI4xQQQQQI")
"""mca_pml_ucx_persistent_request_t behind its ompi_request_t: the request that does its work, flags, buffer, count,
UCX's and Open MPI's datatype, the tag, the mode of a send."""

IS_SEND = 0x1

COMMUNICATOR = 152
"""Of req_mpi_object in ompi_request_t."""

NO_SLOT = -1
TOPOLOGIES = 0x100 | 0x200 | 0x400
"""Flags of communicators with a cartesian, graph or distributed graph topology (ompi/communicator/communicator.h)."""

NEIGHBORHOOD_TAGS = 1 << 10
NEIGHBORHOOD = "or a neighborhood collective's: pml/ucx cuts its tag"

MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED = bytes(4), b"\1\0\0\0"
NO_ORDER = "its order among those to this rank is not known"

NOT_KEPT = "the datatype is not kept"
NO_BUFFER = "its buffer and datatype are not kept"


class Asked(NamedTuple):
    """What a persistent request was made with."""

    request: int
    """The handle."""
    buffer: int
    elements: int
    datatype: int
    is_send: bool
    tag: int
    mode: int


class Ucx(Pml):
    """pml/ucx in one process."""

    name = "pml/ucx"

    def __init__(
        self,
        memory: Memory,
        symbols: Symbols,
        layouts: Layouts,
        containers: Containers,
        datatypes: Datatypes,
        communicators: Communicators,
    ) -> None:
        """Find the worker.

        Raises:
            LayoutError: there is none, or UCX is of a release that isn't known.
        """
        self._memory = memory
        self._containers = containers
        self._datatypes = datatypes
        self._communicators = communicators
        self._request = views.Request.bind(layouts)
        self._proc = views.Proc.bind(layouts)
        self._worker = find_own_worker(symbols.image, memory)
        self._matching = Matching(self._worker)
        self._requests = Requests(self._worker)
        self._procs = symbols.need("ompi_proc_list")
        self._endpoints = cm_views.Endpoints.bind(layouts).constant("proc_endpoints")
        proc_size = class_size(memory, symbols, layouts, "ompi_proc_t") or 0
        self._endpoint_slots = max(0, proc_size - self._endpoints) // WORD
        self._persistent_class = symbols.get("mca_pml_ucx_persistent_request_t_class")
        self._nonblocking_base = tags.nonblocking_base(
            has_index=layouts.offset("ompi_communicator_t", "c_index") is not None
        )
        self._stack = _only_stack(memory, symbols)
        self.name = f"pml/ucx over UCX {self._worker.version}"
        self.forget()

    def forget(self) -> None:
        """Drop all that was read of the process."""
        self._posted: dict[int, list[Posted]] | None = None
        self._arrived: dict[int, list[Arrived]] | None = None
        self._arrived_broken: MqsError | None = None
        self._received: dict[int, list[Received]] = {}
        self._sent: dict[int, list[Sent]] = {}
        self._in_use: frozenset[int] = frozenset()
        self._no_other = False
        self._by_endpoint: dict[int, ProcName] | None = None

    def requests_of(self, entry: Entry) -> int:
        """Return 0: requests hold no communicator."""
        return 0

    def datatypes_in_use(self) -> list[int]:
        """Refuse."""
        raise hidden("the datatypes in use", self.name, "keeps bytes, and no datatypes")

    # ------------------------------------------------------------ reading

    def _read(self) -> dict[int, list[Posted]]:
        """Sort what the worker holds by the slot of its communicator; return the receives that wait."""
        if self._posted is None:
            posted: defaultdict[int, list[Posted]] = defaultdict(list)
            received: defaultdict[int, list[Received]] = defaultdict(list)
            sent: defaultdict[int, list[Sent]] = defaultdict(list)
            waiting = self._matching.posted()
            for each in waiting:
                posted[_slot(each.tag)].append(each)
            self._in_use = frozenset(self._requests.in_use())
            self._no_other = self._stack is not None and any(each.address not in self._in_use for each in waiting)
            others = sorted(self._in_use.difference(each.address for each in waiting))
            for done in self._requests.receives(others):
                received[_slot(done.tag)].append(done)
            for send in chain(self._requests.sends(others), self._blocking()):
                sent[self._slot_of(send)].append(send)
            self._received, self._sent = received, sent
            self._posted = posted
        return self._posted

    def _slot_of(self, sent: Sent) -> int:
        """Return the slot of a send's communicator, NO_SLOT where it isn't known."""
        if sent.tag is not None:
            return _slot(sent.tag)
        request = self._open_mpi(sent.address)
        if request is None:
            return NO_SLOT
        made = self._asked(request)
        communicator = self._memory.pointer((made.request if made else request.address) + COMMUNICATOR)
        return next((each.slot for each in self._communicators.read() if each.view.address == communicator), NO_SLOT)

    def _asked(self, request: views.Request) -> Asked | None:
        """Return what a persistent request was made with, given the request that does its work; None for another."""
        if self._persistent_class is None:
            return None
        for pointer in self._memory.pointers(request.address + COMMUNICATOR - WORD, 2):
            with suppress(MqsError):
                if self._memory.pointer(pointer) != self._persistent_class:
                    continue
                work, flags, buffer, count, _, datatype, bits, mode = self._memory.unpack(
                    PERSISTENT, pointer + USER_BYTES
                )
                if work == request.address:
                    return Asked(pointer, buffer, count, datatype, bool(flags & IS_SEND), _tag(bits), mode)
        return None

    def _open_mpi(self, address: int) -> views.Request | None:
        """Return Open MPI's part of a request of the pool; None for one on the stack, which has none."""
        if address not in self._in_use:
            return None
        return self._request.at(self._memory, address + self._worker.request_size)

    # ------------------------------------------------------------ receives

    def receives(self, entry: Entry) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            BrokenStructureError: UCX's queues contradict themselves.
        """
        posted = self._read().get(entry.slot, ())
        for done in self._received.get(entry.slot, ()):
            yield self._matched(done, entry)
        for each in posted:
            yield self._waiting(each, entry)

    def _waiting(self, posted: Posted, entry: Entry) -> Operation:
        own = self._open_mpi(posted.address)
        return self._receive(
            Status.PENDING,
            posted,
            own,
            entry,
            posted.length,
            (INVALID_RANK, UNKNOWN, UNKNOWN),
            phrases.PROCESS_NUMBER(posted.number),
        )

    def _matched(self, received: Received, entry: Entry) -> Operation:
        own = self._open_mpi(received.address)
        got = (_source(received.message_tag), _tag(received.message_tag), received.message_length)
        if received.done and own is not None:
            got = (own.status_source, own.status_tag, own.status_ucount)
        status = Status.COMPLETE if received.done else Status.MATCHED
        return self._receive(status, received, own, entry, received.room, got, None)

    def _receive(
        self,
        status: Status,
        asked: Posted | Received,
        own: views.Request | None,
        entry: Entry,
        room: int,
        got: tuple[int, int, int],
        progress: str | None,
    ) -> Operation:
        world = entry.peers()
        source = _source(asked.tag) if asked.mask & SOURCE else INVALID_RANK
        any_tag = not asked.mask & TAG
        tag = tags.ANY_TAG if any_tag else _tag(asked.tag)
        made = None if own is None else self._asked(own)
        cancelled = own is not None and bool(own.status_cancelled) and status is Status.COMPLETE
        actual, actual_tag, length = (INVALID_RANK, UNKNOWN, UNKNOWN) if cancelled else got
        has_other = isinstance(asked, Received) and asked.in_pieces and not asked.done  # one of UCX's or of the MPI's
        return Operation(
            status=status,
            desired_local_rank=source,
            desired_global_rank=world_rank(world, source),
            tag_wild=any_tag,
            desired_tag=tag,
            desired_length=room,
            system_buffer=False,
            buffer=0 if has_other else asked.buffer,
            actual_local_rank=actual,
            actual_global_rank=world_rank(world, actual),
            actual_tag=actual_tag,
            actual_length=length,
            extra_text=lines(
                _receive_kind(own, made),
                NO_BUFFER if has_other else self._buffer_text(made, room),
                self._request_text(own, made),
                phrases.CANCELLED() if cancelled else phrases.FREED() if asked.freed else progress,
                self._tag_text(actual_tag if any_tag else tag, entry),
            ),
        )

    def _tag_text(self, tag: int, entry: Entry) -> str | None:
        """Return what a tag stands for; None for one of the program.

        Those of neighborhood collectives have more than 24 bits; what is left of them looks like a small one.
        """
        if 0 <= tag < NEIGHBORHOOD_TAGS and entry.view.c_flags & TOPOLOGIES:
            return NEIGHBORHOOD
        return tag_text(tag, self._nonblocking_base)

    def _buffer_text(self, made: Asked | None, length: int) -> str | bytes:
        if made is None:
            return f"{length} bytes; {NOT_KEPT}"
        return buffer_text(self._datatypes.at(made.datatype), made.elements, made.datatype)

    def _request_text(self, own: views.Request | None, made: Asked | None) -> str | None:
        if own is None:
            return None
        return request_text(self._memory, made.request if made else own.address, own.req_complete)

    # ------------------------------------------------------------ sends

    def sends(self, entry: Entry) -> Iterator[Operation]:
        """Return the sends of a communicator by destination and tag: their order is not kept.

        Raises:
            NoInformation: at once or after them: a blocking one is not seen where several threads may call MPI, nor
                deep in a stack.
        """
        self._read()
        found = [self._send(each, entry) for each in self._sent.get(entry.slot, ())]
        found.sort(key=lambda each: (each.desired_local_rank, each.desired_tag))
        if self._no_other:
            return iter(found)
        refusal = hidden("blocking sends", self.name, "keeps their requests on the stack")
        if not found:
            raise refusal
        return chain(found, _raise(refusal))

    def _blocking(self) -> Iterator[Sent]:
        """Yield the blocking send of the first thread, if it is seen on its stack.

        A thread is in one call at a time: the one that waits in a blocking receive sends nothing.
        """
        if self._stack is None or self._no_other:
            return
        with suppress(TargetReadError):
            address, words = stack.first_words(self._memory, self._stack)
            for sent in self._requests.on_stack(words, address, self._endpoint_names().keys()):
                self._no_other = True
                yield sent

    def _send(self, sent: Sent, entry: Entry) -> Operation:
        own = self._open_mpi(sent.address)
        made = None if own is None else self._asked(own)
        name = self._endpoint_names().get(sent.endpoint)
        rank = next((rank for rank, each in enumerate(entry.peer_names()) if each == name), INVALID_RANK)
        world = world_rank(entry.peers(), rank)
        known = made.tag if made else UNKNOWN
        tag = known if sent.tag is None else _tag(sent.tag)
        status = Status.MATCHED if sent.tag is None else Status.PENDING
        return Operation(
            status=Status.COMPLETE if sent.done else status,
            desired_local_rank=rank,
            desired_global_rank=world,
            tag_wild=False,
            desired_tag=tag,
            desired_length=sent.length,
            system_buffer=False,
            buffer=sent.buffer,
            actual_local_rank=rank,
            actual_global_rank=world,
            actual_tag=tag,
            actual_length=sent.length,
            extra_text=lines(
                _send_kind(sent, own, made),
                self._buffer_text(made, sent.length),
                self._request_text(own, made),
                _progress(sent),
                self._tag_text(tag, entry) or (NO_ORDER if name else "its receiver is not known"),
            ),
        )

    def _endpoint_names(self) -> dict[int, ProcName]:
        """Return the name of the process that each of UCX's endpoints leads to, by the endpoint's address."""
        if self._by_endpoint is None:
            self._by_endpoint = {}
            with suppress(MqsError):
                for address in self._containers.list_items(self._procs, "the list of processes"):
                    proc = self._proc.at(self._memory, address)
                    for pointer in self._memory.pointers(address + self._endpoints, self._endpoint_slots):
                        if self._requests.is_endpoint(pointer):
                            self._by_endpoint[pointer] = ProcName(proc.jobid, proc.vpid)
        return self._by_endpoint

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: Entry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came, which is that of matching.

        A note on MPI_COMM_WORLD counts those for communicators that this process has not made yet.

        Raises:
            BrokenStructureError: after those that could be reached.
        """
        if self._arrived is None:
            arrived: defaultdict[int, list[Arrived]] = defaultdict(list)
            try:
                for message in self._matching.arrived():
                    arrived[_slot(message.tag)].append(message)
            except MqsError as error:
                self._arrived_broken = error
            self._arrived = arrived
        for message in self._arrived.get(entry.slot, ()):
            yield self._unexpected(message, entry)
        if entry.is_world:
            known = {each.slot for each in self._communicators.read()}
            early = Counter({slot: len(each) for slot, each in self._arrived.items() if slot not in known})
            yield from foreign_note(early, None)
        if self._arrived_broken is not None:
            raise self._arrived_broken

    def _unexpected(self, message: Arrived, entry: Entry) -> Operation:
        rank, tag = _source(message.tag), _tag(message.tag)
        world = world_rank(entry.peers(), rank)
        return Operation(
            status=Status.COMPLETE if message.here == message.length else Status.PENDING,
            desired_local_rank=rank,
            desired_global_rank=world,
            tag_wild=False,
            desired_tag=tag,
            desired_length=message.length,
            system_buffer=True,
            buffer=message.address if message.here else 0,
            actual_local_rank=rank,
            actual_global_rank=world,
            actual_tag=tag,
            actual_length=message.length,
            extra_text=lines(
                _how(message),
                "sent by MPI_Ssend or MPI_Issend" if message.synchronous else None,
                self._tag_text(tag, entry),
            ),
        )


def find_own_worker(image: TargetImage, memory: Memory) -> Worker:
    """Return the worker that ompi_pml_ucx has.

    Raises:
        LayoutError: it has none, or UCX is of a release that isn't known.
    """
    module = image.find_symbol("ompi_pml_ucx")
    if module is None:
        raise LayoutError("Open MPI's symbol ompi_pml_ucx is missing")
    for pointer in dict.fromkeys(memory.pointers(module, MODULE_BYTES // WORD)):
        if pointer and is_worker(memory, pointer):
            return find_worker(image, memory, pointer, USER_BYTES)
    raise LayoutError("ompi_pml_ucx has no worker of UCX's")


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
    return bits & (1 << SLOT_BITS) - 1


def _source(bits: int) -> int:
    return bits >> SLOT_BITS & (1 << SOURCE_BITS) - 1


def _tag(bits: int) -> int:
    tag = bits >> SLOT_BITS + SOURCE_BITS
    return tag - (1 << TAG_BITS) if tag >> TAG_BITS - 1 else tag


def _receive_kind(own: views.Request | None, made: Asked | None) -> str:
    """Name the call: a blocking receive has no request of Open MPI's; MPI_Sendrecv makes a nonblocking one."""
    if own is None:
        return phrases.made_by("MPI_Recv", how=How.BLOCKING)
    if made is not None:
        return phrases.made_by("MPI_Recv_init", how=How.PERSISTENT)
    return phrases.made_by("MPI_Irecv", how=How.NONBLOCKING)


def _send_kind(sent: Sent, own: views.Request | None, made: Asked | None) -> str:
    """Name the call; that of a standard send is not told from that of one in ready or buffered mode."""
    if own is None:
        return phrases.made_by("MPI_Send", "MPI_Rsend", "MPI_Sendrecv")
    if made is not None:
        return phrases.made_by(f"{CALLS.get(made.mode, CALLS[1])[0]}_init", how=How.PERSISTENT)
    if sent.synchronous:
        return phrases.made_by("MPI_Issend", how=How.NONBLOCKING) if sent.done else phrases.made_by(*CALLS[0])
    return phrases.made_by("MPI_Isend", "MPI_Irsend", how=How.OR_BUFFERED)


def _progress(sent: Sent) -> str | None:
    if sent.done:
        return "done"
    if sent.freed:
        return phrases.FREED()
    if sent.tag is None:
        return "under way; its tag is not kept"
    if not sent.has_left:
        return "waits for room in UCX"
    return "no receive has matched it" if sent.is_whole_sent else "rendezvous: the receiver has not answered"


def _how(message: Arrived) -> str:
    if message.rendezvous:
        return f"rendezvous: its {message.length} bytes are with the sender"
    return "eager: all of it is here" if message.here == message.length else "eager: a part of it is here"


def _raise(refusal: NoInformation) -> Iterator[Operation]:
    yield from ()
    raise refusal
