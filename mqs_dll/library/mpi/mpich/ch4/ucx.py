"""ch4's netmod ucx: what UCX's workers hold of the messages that shared memory doesn't carry, in terms of MPICH.

UCX knows bytes, and no datatypes.
Source: src/mpid/ch4/netmod/ucx/ucx_impl.h, ucx_recv.h, ucx_send.h, ucx_pre.h, ucx_init.c of 4.0.3 to 5.0.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, Status
from mqs_dll.contract.errors import LayoutError, MqsError, NoInformation
from mqs_dll.library.fabric import Arrived, Posted
from mqs_dll.library.fabric.ucx import find_worker
from mqs_dll.library.fabric.ucx.matching import UcxMatching, arrivals
from mqs_dll.library.fabric.ucx.pool import UcxRequests, UcxSent
from mqs_dll.library.fabric.ucx.version import VERSION_FUNCTION
from mqs_dll.library.fabric.ucx.worker import UcxWorker, is_worker
from mqs_dll.library.memory import WORD, cached_per_sweep
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope
from mqs_dll.library.mpi.mpich import contexts, views
from mqs_dll.library.mpi.mpich.ch4 import variables
from mqs_dll.library.mpi.mpich.ch4.netmod import LOST, Arguments, Netmod, NetmodMessage, NetmodReceive, NetmodSend
from mqs_dll.library.mpi.mpich.ch4.tag_codecs import OLD_UCX, UCX, ucx_codecs
from mqs_dll.library.mpi.mpich.ch4.traffic import Ch4Traffic
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.tag_codec import TagCodec, TagParts

USER_BYTES = 8
"""Which MPICH has behind each request of UCX's: the address of its own (MPIDI_UCX_ucp_request_t)."""

MAX_VCIS = 64
"""Also the length of a row of endpoints in the table of processes."""

NO_CONTEXT = -1
HANDLE_BITS = 0xFFFFFFFF


class Ch4UcxContents(NamedTuple):
    """What the workers hold, by the context id of the communicator without the bit of collectives."""

    posted: Mapping[int, Sequence[Posted]]
    received: Mapping[int, Sequence[tuple[Posted, Arrived]]]
    """Receives that their message is coming into."""
    sent: Mapping[int, Sequence[tuple[int, UcxSent]]]
    """With the address of MPICH's request."""


class Ch4Ucx(Netmod):
    """The netmod ucx of one process."""

    def __init__(self, mpi: MpichProcessContext, traffic: Ch4Traffic, workers: Sequence[UcxWorker]) -> None:
        """Begin; ``workers`` is what find has found."""
        super().__init__(mpi, traffic)
        self._workers = [(worker, UcxMatching(worker), UcxRequests(worker)) for worker in workers]
        self._have_contexts = all(each.layouts.offset("ucp_request", "user_data") is not None for each in workers)
        self._version = mpi.release.version
        self._ranks: dict[int, int] = {}

    def find_way(self) -> None:
        """Search for the table of processes."""
        self._processes()

    # ------------------------------------------------------------ reading

    @cached_per_sweep
    def _held(self) -> Ch4UcxContents:
        """Return what the workers hold.

        Raises:
            BrokenStructureError, TargetReadError: a queue or a pool contradicts itself, or can't be read.
        """
        posted: defaultdict[int, list[Posted]] = defaultdict(list)
        received: defaultdict[int, list[tuple[Posted, Arrived]]] = defaultdict(list)
        sent: defaultdict[int, list[tuple[int, UcxSent]]] = defaultdict(list)
        for worker, matching, pool in self._workers:
            waiting = matching.posted()
            for each in waiting:
                posted[_context(each.tag)].append(each)
            others = sorted(set(pool.in_use()).difference(each.address for each in waiting))
            for got in pool.receives(others):
                if got.asked and got.message:
                    received[_context(got.asked.tag)].append((got.asked, got.message))
            for send in pool.sends(others):
                if not send.done:
                    request = self._memory.pointer(send.address + worker.request_size)
                    sent[self._context_of(request, send)].append((request, send))
        return Ch4UcxContents(posted, received, sent)

    def _context_of(self, address: int, sent: UcxSent) -> int:
        """Return the context id of a send, NO_CONTEXT where it isn't known: to 4.1 requests name no communicator."""
        if sent.tag is not None:
            return _context(sent.tag)
        request = self._request(address)
        comm = request.comm if request else 0
        entries = self._mpi.communicators.read()
        return next((each.sends_in for each in entries if each.view.address == comm), NO_CONTEXT)

    def parts(self, bits: int) -> TagParts:
        """Return what a tag of UCX's carries; nearly always its form doesn't matter."""
        depends_on_form = UCX.tag.of(bits) >> OLD_UCX.tag.width
        return super().parts(bits) if depends_on_form else UCX.read(bits)

    @cached_per_sweep
    def codecs(self) -> Sequence[TagCodec]:
        """Return how tags can be read, by any receive or else by the release: two ways where neither tells."""
        ignored = None
        with suppress(MqsError):
            held = self._held()
            coming = (asked for asked, _ in chain(*held.received.values()))
            ignored = next((each.ignore for each in chain(*held.posted.values(), coming)), None)
        return ucx_codecs(ignored, self._version)

    # ------------------------------------------------------------ receives

    def posted(self, entry: MpichEntry) -> Iterator[NetmodReceive]:
        """Yield the receives of a communicator that wait, in matching order."""
        for each in self._held().posted.get(entry.receives_in, ()):
            yield self._receive_of(each, NOTHING, phrases.WORKER_NUMBER(each.number))

    def with_message(self, entry: MpichEntry) -> Iterator[NetmodReceive]:
        """Yield the receives of a communicator whose message is under way."""
        for asked, message in self._held().received.get(entry.receives_in, ()):
            parts = self.parts(message.tag)
            yield self._receive_of(asked, Envelope(parts.rank, parts.tag, message.length), None)

    def _receive_of(self, asked: Posted, got: Envelope, progress: str | None) -> NetmodReceive:
        source = INVALID_RANK if UCX.is_any_rank(asked.ignore) else UCX.rank.of(asked.tag)
        if not (asked.context or self._have_contexts):
            raise LayoutError("the layouts of UCX don't tell where a receive has MPICH's request")
        request = self._request(asked.context)
        given = None if request is None else self._packed(request, asked.buffer, asked.length)
        return self.asking(asked, source, request, given, progress, got=got)

    def _packed(self, request: views.MpirRequest, buffer: int, length: int) -> Arguments | None:
        """Return the program's arguments of a receive for which MPICH gave UCX a buffer of its own; None without one.

        MPICH does so since 4.1 for data in pieces, and keeps that buffer in its request, the arguments behind it.
        """
        size = self._mpi.layouts.struct(views.MpirRequest.struct).size or 0
        words = self._memory.pointers(request.address, size // WORD)
        for place in range(len(words) - 3):
            if buffer and words[place] == buffer:
                given = Arguments(words[place + 1], words[place + 2], words[place + 3] & HANDLE_BITS)
                facts = self._mpi.datatypes.at(given.datatype)
                if facts is not None and given.elements * facts.size == length:
                    return given
        return None

    def held(self, request: views.MpirRequest) -> Envelope | None:
        """Return nothing of the message that a matched probe holds: its status is not set."""
        return NOTHING

    # ------------------------------------------------------------ sends

    def sent(self, entry: MpichEntry) -> Iterator[NetmodSend]:
        """Yield the sends of a communicator that are not done.

        Their context id is the receivers', who here may have no part in a communicator with the same one.
        """
        peers = entry.peers()
        for address, sent in self._held().sent.get(entry.sends_in, ()):
            world = self._processes().get(sent.destination, INVALID_RANK)
            is_to_peer = world == INVALID_RANK or world in peers
            if is_to_peer and (sent.tag is None or UCX.rank.of(sent.tag) == entry.view.rank):
                yield self._send_of(self._request(address), sent, world, peers)

    def lost_sends(self) -> NoInformation | None:
        """Return that a send is under way of which nothing tells the communicator; to 4.1 there are such."""
        return LOST if self._held().sent.get(NO_CONTEXT) else None

    def _send_of(
        self, request: views.MpirRequest | None, sent: UcxSent, world: int, peers: Sequence[int]
    ) -> NetmodSend:
        return NetmodSend(
            request,
            sent.tag,
            INVALID_RANK if world == INVALID_RANK else peers.index(world),
            sent.length,
            sent.buffer,
            sent.synchronous,
            Status.MATCHED if sent.tag is None else Status.PENDING,
            sent.progress(),
        )

    @cached_per_sweep
    def _processes(self) -> Mapping[int, int]:
        """Return the rank in MPI_COMM_WORLD that each endpoint leads to, from MPICH's table of processes."""
        if not self._ranks:
            world = self._mpi.communicators.predefined(0)
            size = 0 if world is None else world.remote_size
            first, pointer = self._workers[0][2], self._memory.pointer
            entries = variables.processes(self._mpi, size, lambda entry: (pointer(entry),), first.is_endpoint)
            self._ranks = {pointer(entry): rank for rank, entry in enumerate(entries)} | self._of_vcis(entries)
        return self._ranks

    def _of_vcis(self, entries: Sequence[int]) -> dict[int, int]:
        """Return the rank that each endpoint leads to which is from or to another VCI than the first.

        Args:
            entries: the address of each process's endpoints: a row for each VCI of this process's, in which
                stands one for each of the other's.
        """
        count = len(self._workers)
        return {
            endpoint: rank
            for rank, entry in enumerate(entries)
            for index, (_, _, requests) in enumerate(self._workers if count > 1 else ())
            for endpoint in self._memory.pointers(entry + WORD * MAX_VCIS * index, count)
            if endpoint and requests.is_endpoint(endpoint)
        }

    # ------------------------------------------------------------ unexpected messages

    @cached_per_sweep
    def arrived(self) -> tuple[Mapping[int, Sequence[NetmodMessage]], MqsError | None]:
        """Return the messages by the context id of their communicator, and why some may be missing."""
        found, broken = arrivals((matching for _, matching, _ in self._workers), _context)
        with_ranks = {
            number: [NetmodMessage(each, UCX.rank.of(each.tag)) for each in messages]
            for number, messages in found.items()
        }
        return with_ranks, broken


def find(mpi: MpichProcessContext) -> list[UcxWorker]:
    """Return the workers of a process whose netmod is ucx, one for each VCI; none where there is no such netmod.

    Raises:
        LayoutError: they can't be read.
        TargetReadError: there may be others, where memory can't be read.
    """
    image, memory = mpi.image, mpi.memory
    if image.find_function(VERSION_FUNCTION) is None:
        return []

    def is_at(place: int) -> bool:
        return is_worker(memory, memory.pointer(place))

    place = variables.find(mpi, "worker of UCX's", is_at, lambda: _first_worker(mpi))
    if not place:
        return []
    found = [find_worker(image, memory, memory.pointer(place), USER_BYTES, "mpich")]
    record_bytes = mpi.layouts.size(views.UCX_CONTEXT)
    for index in range(1, MAX_VCIS):
        other = memory.pointer(place + record_bytes * index)
        if not variables.is_pointer(other):
            break
        if not is_worker(memory, other):
            raise LayoutError(f"VCI {index} of MPICH has no worker of UCX's")
        found.append(find_worker(image, memory, other, USER_BYTES, "mpich"))
    return found


def _first_worker(mpi: MpichProcessContext) -> int:
    """Return where the pointer to the first VCI's worker lies, 0 where there is none."""
    context = 0
    for place, pointer in variables.pointers(mpi):
        if context == place - WORD and is_worker(mpi.memory, pointer):
            return place
        context = place
    return 0


def _context(bits: int) -> int:
    return contexts.communicator_of(UCX.context.of(bits))
