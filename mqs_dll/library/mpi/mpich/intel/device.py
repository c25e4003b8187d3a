"""What is shown of the requests of Intel MPI."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NoReturn

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import BrokenStructureError, MqsError, NoInformation, TooMuchError
from mqs_dll.contract.names import fit
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import LINE, NOTHING, DatatypeFacts, Envelope, buffer_text
from mqs_dll.library.mpi.mpich import operations, views
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.device import Device
from mqs_dll.library.mpi.mpich.handles import COMM_WORLD
from mqs_dll.library.mpi.mpich.intel.messages import IntelMessage, IntelPostedEnvelope, asked
from mqs_dll.library.mpi.mpich.intel.ofi import IntelOfi, find
from mqs_dll.library.mpi.mpich.intel.traffic import IntelTraffic, TrafficReader
from mqs_dll.library.mpi.mpich.partitioned import Partitioned
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import AM_BUSY, AM_PEER_SSEND, AM_RENDEZVOUS, ANY_SOURCE, ANY_TAG

COUNT_NOT_KEPT = b": buffer and count are not kept"

MAX_HANDLES = 8
"""Requests that a refusal names."""


class Intel(Device):
    """Intel MPI's ch4 in one process."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        super().__init__(mpi, mpi.release.device or "ch4")
        self._partitioned = Partitioned(mpi)
        self._reader = TrafficReader(mpi, self._partitioned)
        self._why = ""
        self._network = self._find_network()

    def _find_network(self) -> IntelOfi | None:
        """Return what reads libfabric's memory where it is needed; None where that can't be read."""
        try:
            if self._reader.uses_network() and (network := find(self._mpi)):
                self.fabric = network.fabric
                self.name += f" over {self.fabric.title}"
                return network
        except TooMuchError:  # says nothing of libfabric: the next call tries again
            raise
        except MqsError as error:
            self._why = f" ({error})"
        return None

    def datatypes_in_use(self) -> list[int]:
        """Return the handle of the datatype of each receive, and of each send that is known."""
        traffic = self._traffic()
        receives = chain(*traffic.with_message.values(), *traffic.posted.values())
        used = [each.am.datatype for each in receives if not each.complete]
        sends = map(self._reader.started.asked, chain(*traffic.sends.values()))
        used += [asked.datatype for asked in sends if asked]
        return used + self._partitioned.datatypes(chain(*traffic.partitioned.values()))

    def requests_of(self, entry: MpichEntry) -> int:
        """Return how many requests refer to a communicator; receives keep only its context id."""
        traffic = self._traffic()
        under_way = sum(not each.complete for each in traffic.with_message[entry.receives_in])
        return super().requests_of(entry) + under_way + len(traffic.posted[entry.receives_in])

    # ------------------------------------------------------------ requests

    @cached_per_sweep
    def _traffic(self) -> IntelTraffic:
        return self._reader.read(network_is_read=self._network is not None)

    # ------------------------------------------------------------ receives

    def receives(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the receives of a communicator: those that have their message, then the others in matching order.

        Raises:
            NoInformation: after them, some are with the network, whose memory can't be read.
            BrokenStructureError: after them, their order isn't known, or the network contradicts itself.
        """
        traffic = self._traffic()
        own = self._own_receives(traffic, entry)
        yield from self._network.receives(entry, own) if self._network else (each for _, each in own)
        if entry.receives_in in traffic.split or not traffic.proved:
            raise BrokenStructureError("the list of posted receives is broken: the order of the receives is not known")
        if traffic.remote:
            self._refuse_network("receives", traffic.remote)

    def _own_receives(self, traffic: IntelTraffic, entry: MpichEntry) -> Iterator[tuple[int, Operation]]:
        """Yield the receives over shared memory, each with the address of its request; 0 for partitioned ones."""
        for message in traffic.held[entry.view.address]:
            yield message.common.address, self._held(message, entry)
        for message in traffic.with_message[entry.receives_in] + traffic.posted[entry.receives_in]:
            yield message.common.address, self._receive(message, entry)
        for each in self._partitioned.receives(traffic.partitioned[entry.view.address], entry):
            yield 0, each

    def _receive(self, message: IntelMessage, entry: MpichEntry) -> Operation:
        peers = entry.peers()
        wanted = asked(message)
        facts = None if wanted.datatype is None else self._mpi.datatypes.at(wanted.datatype)
        status = Status.COMPLETE if message.complete else Status.PENDING if message.is_posted else Status.MATCHED
        matched = not message.is_posted and not message.cancelled
        rank = INVALID_RANK if wanted.source in (None, ANY_SOURCE) else wanted.source
        room = UNKNOWN if facts is None or wanted.elements is None else wanted.elements * facts.size
        common = message.common
        return envelopes.receive(
            status,
            Envelope(rank, UNKNOWN if wanted.tag is None else wanted.tag, room),
            Envelope(common.status_source, common.status_tag, message.length) if matched else NOTHING,
            peers,
            wanted.buffer,
            _call(message),
            _buffer_text(facts, wanted),
            phrases.request(message.handle),
            message.given_up,
            _not_kept(wanted),
            tag_wild=wanted.tag == ANY_TAG,
        )

    def _held(self, message: IntelMessage, entry: MpichEntry) -> Operation:
        rank, tag = message.common.status_source, message.common.status_tag
        return operations.matched_message(entry.peers(), rank, tag, message.length, phrases.request(message.handle))

    # ------------------------------------------------------------ sends

    def sends(self, entry: MpichEntry) -> Iterator[Operation]:
        """Return the sends of a communicator that are known, by destination: persistent, partitioned, to this process.

        MPI_COMM_WORLD has besides what is complete and not collected, whatever communicator it was on.

        Raises:
            NoInformation: at once or after them, there are other sends in the process, of any communicator; not where
                this process is alone, since all its messages have come to it.
        """
        traffic = self._traffic()
        shown = [self._send_to_self(request, message, entry) for request, message in traffic.to_self[entry.receives_in]]
        sends = (self._reader.started.send(each, entry.peers()) for each in traffic.sends[entry.view.address])
        shown += filter(None, sends)
        shown += self._reader.started.done_at_once(entry.view.address, entry.peers())
        shown += self._partitioned.sends(traffic.partitioned[entry.view.address], entry)
        if entry.view.handle == COMM_WORLD:
            shown += [_done(handle) for handle in traffic.done]
        nameless = [] if entry.has_size_1 else traffic.nameless
        if nameless and not shown and not self._network:
            self._refuse_sends(nameless)
        return self._sends(sorted(shown, key=lambda each: each.desired_local_rank), nameless, entry)

    def _sends(self, shown: list[Operation], nameless: list[int], entry: MpichEntry) -> Iterator[Operation]:
        yield from shown
        if self._network:
            yield from self._network.sends(entry)
        if nameless:
            self._refuse_sends(nameless)

    @staticmethod
    def _send_to_self(request: views.MpirRequest, message: IntelMessage, entry: MpichEntry) -> Operation:
        rank = message.common.status_source
        return envelopes.send(
            Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            message.common.status_tag,
            message.am.count,
            0,
            phrases.made_by("MPI_Ssend", "MPI_Issend"),
            f"{message.am.count} bytes; buffer and datatype are not kept",
            phrases.request(request.handle),
        )

    def _refuse_sends(self, handles: list[int]) -> NoReturn:
        raise NoInformation(
            "Intel MPI keeps of a pending send only its request, not its communicator, receiver or tag: "
            + _handles(handles),
            "look at the unexpected messages of the other processes",
        )

    # ------------------------------------------------------------ unexpected messages

    def unexpected(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator in the order in which they came, which is that of matching.

        Raises:
            NoInformation: after them, others may be with the network.
            BrokenStructureError: after those that could be reached.
        """
        traffic = self._traffic()
        for message in traffic.unexpected[entry.receives_in]:
            yield self._unexpected(message, entry)
        if entry.view.handle == COMM_WORLD:
            numbers = {context_id: len(messages) for context_id, messages in traffic.unexpected.items() if messages}
            yield from operations.early_notes(numbers, self._mpi.communicators)
        if self._network:
            yield from self._network.unexpected(entry)
        elif traffic.remote or self._uses_network() or INVALID_RANK in entry.peers():
            self._refuse_network("unexpected messages", traffic.remote)

    @cached_per_sweep
    def _uses_network(self) -> bool:
        return self._reader.uses_network()

    @staticmethod
    def _unexpected(message: IntelMessage, entry: MpichEntry) -> Operation:
        am = message.am
        rank = message.common.status_source
        here = not message.state & (AM_BUSY | AM_RENDEZVOUS)
        arrival = "all of it is here" if here else "all of it is not here yet"
        return envelopes.message(
            Status.COMPLETE if here else Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            message.common.status_tag,
            am.count,
            am.buffer if here and am.count else 0,
            f"rendezvous: its {am.count} bytes are with the sender" if message.state & AM_RENDEZVOUS else arrival,
            operations.FROM_SYNCHRONOUS_SEND if message.state & AM_PEER_SSEND else None,
            operations.collective_text(am.context_id, message.common.status_tag),
        )

    def _refuse_network(self, what: str, handles: list[int]) -> NoReturn:
        which = f" ({_handles(handles)})" if handles else ""
        raise NoInformation(
            f"{what} over the network can't be seen{which}: libfabric has them{self._why}",
            "run the job on one node with I_MPI_FABRICS=shm to see them",
        )


def _buffer_text(facts: DatatypeFacts | None, asked: IntelPostedEnvelope) -> str | bytes:
    if asked.datatype is None:
        return "its buffer is not kept"
    if asked.elements is not None:
        return buffer_text(facts, asked.elements, asked.datatype)
    name = facts.name if facts is not None and facts.name else b"datatype %#x" % asked.datatype
    return fit(name, LINE - len(COUNT_NOT_KEPT)) + COUNT_NOT_KEPT


def _not_kept(asked: IntelPostedEnvelope) -> str | None:
    if asked.tag is not None:
        return None
    return operations.NOT_KEPT if asked.source is None else "the tag that it asked for is not kept"


def _done(handle: int) -> Operation:
    """Return a send that is complete: its request is there until it is collected."""
    return envelopes.send(
        Status.COMPLETE,
        INVALID_RANK,
        INVALID_RANK,
        UNKNOWN,
        UNKNOWN,
        0,
        phrases.made_by("MPI_Isend", "MPI_Issend", how=How.BUFFERED_OR_COLLECTIVE),
        "of this or another communicator: what it sent is not kept",
        phrases.request(handle),
        "done",
    )


def _call(message: IntelMessage) -> str:
    """Name the collective operation, or the call, that made a receive; a blocking one is not complete or freed."""
    collective = operations.collective_text(message.am.context_id, message.am.tag or 0)
    if collective is not None:
        return collective
    if message.persistent is not None:
        return operations.persistent("MPI_Recv_init")
    has_message = not (message.is_posted or message.cancelled)
    if message.complete or message.freed:
        return phrases.received_by("MPI_Irecv", how=How.NONBLOCKING, has_message=has_message)
    return phrases.received_by("MPI_Recv", "MPI_Irecv", has_message=has_message)


def _handles(handles: list[int]) -> str:
    named = ", ".join(f"{handle:#x}" for handle in handles[:MAX_HANDLES])
    more = len(handles) - MAX_HANDLES
    return f"{named} and {more} more" if more > 0 else named
