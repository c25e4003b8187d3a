"""Messages of a process to itself on a communicator that has no other, like MPI_COMM_SELF.

ch4 keeps them on two lists of their own, and copies a message when send and receive have met: a send that waits is the
unexpected message at the same time. Source: src/mpid/ch4/src/ch4_self.c of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope, buffer_text
from mqs_dll.library.mpi.mpich import operations, views
from mqs_dll.library.mpi.mpich.ch4.traffic import Ch4Traffic
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.links import in_list_order
from mqs_dll.library.mpi.mpich.persistent import send_call
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind

OWN_RANK = 0


class Own(NamedTuple):
    """A send or receive, and ch4's part of it."""

    common: views.MpirRequest
    dev: views.SelfRequest


class List(NamedTuple):
    """One of the two lists of the process."""

    by_comm: dict[int, list[Own]]
    """Its members in its order, by the address of their communicator."""
    proved: bool
    """Whether their links prove the order."""


class SelfPath:
    """The messages of one process to itself."""

    def __init__(self, mpi: MpichProcessContext, traffic: Ch4Traffic) -> None:
        self._mpi = mpi
        self._traffic = traffic
        self._dev = views.SelfRequest.bind(mpi.layouts)
        self._memory = mpi.memory

    def receives(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the receives of a communicator of one process: those that have their message, then the others.

        Raises:
            BrokenStructureError: after them, when their order isn't sure.
        """
        requests = [(self._mpi.requests.kind(each), each) for each in self._traffic.of(entry.view.address).others]
        for kind, request in requests:
            if kind is RequestKind.MPROBE:
                yield self._held(self._own(request), entry)
            elif kind is RequestKind.RECV and request.cc == 0:
                yield self._receive(self._own(request), entry)
        for own in self._waiting(entry, RequestKind.RECV):
            yield self._receive(own, entry)

    def sends(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the sends of a communicator of one process that wait, in their order.

        Raises:
            BrokenStructureError: after them, when their order isn't sure.
        """
        for own in self._waiting(entry, RequestKind.SEND):
            yield self._send(own, entry)

    def unexpected(self, entry: MpichEntry) -> Iterator[Operation]:
        """Yield the messages that no receive has matched, in their order.

        Raises:
            BrokenStructureError: after them, when their order isn't sure.
        """
        for own in self._waiting(entry, RequestKind.SEND):
            length = self._length(own.dev)
            world = world_rank(entry.peers(), OWN_RANK)
            how = f"from this process: its {length} bytes are in the send's buffer"
            yield envelopes.message(Status.PENDING, OWN_RANK, world, own.dev.tag, length, 0, how)

    def is_in_order(self) -> bool:
        """Return whether the order of all that waits is sure."""
        return all(self._read(kind).proved for kind in (RequestKind.RECV, RequestKind.SEND))

    def datatypes(self, entry: MpichEntry) -> list[int]:
        """Return the handle of the datatype of each send and receive."""
        requests = self._traffic.of(entry.view.address).others
        return [
            self._own(each).dev.datatype for each in requests if self._mpi.requests.kind(each) is not RequestKind.MPROBE
        ]

    # ------------------------------------------------------------ the lists

    def _own(self, request: views.MpirRequest) -> Own:
        return Own(request, self._dev.at(self._memory, request.address))

    def _waiting(self, entry: MpichEntry, kind: RequestKind) -> Iterator[Own]:
        found = self._read(kind)
        yield from found.by_comm.get(entry.view.address, ())
        if not found.proved:
            raise BrokenStructureError("the list of messages to itself is broken: their order is not known")

    @cached_per_sweep
    def _read(self, kind: RequestKind) -> List:
        """Return a list, without the sends whose message a matched probe has taken."""
        of_size_1 = {entry.view.address for entry in self._mpi.communicators.read() if entry.has_size_1}
        requests = [each for comm in of_size_1 for each in self._traffic.of(comm).others]
        probes = [each for each in requests if self._mpi.requests.kind(each) is RequestKind.MPROBE]
        taken = {self._own(probe).dev.match_req for probe in probes}
        members = {
            each.address: each
            for each in requests
            if self._mpi.requests.kind(each) is kind and each.cc and each.address not in taken
        }
        order, proved = in_list_order({address: each.next or 0 for address, each in members.items()})
        by_comm: defaultdict[int, list[Own]] = defaultdict(list)
        for address in order:
            own = self._own(members[address])
            by_comm[own.common.comm].append(own)
        return List(by_comm, proved)

    # ------------------------------------------------------------ what they are

    def _length(self, dev: views.SelfRequest) -> int:
        facts = self._mpi.datatypes.at(dev.datatype)
        return UNKNOWN if facts is None else dev.count * facts.size

    def _send(self, own: Own, entry: MpichEntry) -> Operation:
        dev = own.dev
        asked = self._traffic.started.asked(own.common)
        call = phrases.made_by("MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Issend", how=How.OR_READY)
        return envelopes.send(
            Status.PENDING,
            OWN_RANK,
            world_rank(entry.peers(), OWN_RANK),
            dev.tag,
            self._length(dev),
            dev.buf,
            call if asked is None else send_call(asked),
            buffer_text(self._mpi.datatypes.at(dev.datatype), dev.count, dev.datatype),
            self._traffic.started.text(own.common),
            "no receive has matched it",
        )

    def _receive(self, own: Own, entry: MpichEntry) -> Operation:
        common, dev = own
        asked = self._traffic.started.asked(common)
        values = self._mpi.requests.values
        source = INVALID_RANK if asked is None or asked.rank == values.any_source else asked.rank
        done = common.cc == 0
        got = done and not common.cancelled
        lost = None if asked else "whether it asked for its own rank or any is not kept"
        any_tag = dev.tag == values.any_tag
        return envelopes.receive(
            Status.COMPLETE if done else Status.PENDING,
            Envelope(source, UNKNOWN if any_tag else dev.tag, self._length(dev)),
            Envelope(OWN_RANK, common.status_tag, common.length) if got else NOTHING,
            entry.peers(),
            dev.buf,
            operations.persistent("MPI_Recv_init")
            if asked
            else phrases.received_by("MPI_Recv", "MPI_Irecv", has_message=got),
            buffer_text(self._mpi.datatypes.at(dev.datatype), dev.count, dev.datatype),
            self._traffic.started.text(common),
            phrases.CANCELLED() if common.cancelled else None,
            lost,
            tag_wild=any_tag,
        )

    def _held(self, own: Own, entry: MpichEntry) -> Operation:
        """Return what a matched probe holds: the send's request has all of it."""
        sent = self._dev.at(self._memory, own.dev.match_req)
        request = self._traffic.started.text(own.common)
        return operations.matched_message(entry.peers(), OWN_RANK, sent.tag, self._length(sent), request)
