"""Which request of Intel MPI is on which queue.

Each communicator has a list of posted receives, linked in the extensions of the requests; messages that wait have the
number of their arrival. Of a send nothing is kept but the request, unless it is persistent or partitioned, or its
message has come to this process itself. What goes over a network is with libfabric.
"""

from __future__ import annotations

from collections import defaultdict

from mqs_dll.library.mpi.mpich import environment, views
from mqs_dll.library.mpi.mpich.handles import COMM_WORLD
from mqs_dll.library.mpi.mpich.intel.messages import IntelMessage
from mqs_dll.library.mpi.mpich.links import lists_of
from mqs_dll.library.mpi.mpich.partitioned import Partitioned
from mqs_dll.library.mpi.mpich.persistent import Started
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind

TRANSFERS = (RequestKind.SEND, RequestKind.RECV, RequestKind.MPROBE)


class IntelTraffic:
    """The requests of one process."""

    def __init__(self) -> None:
        self.with_message: defaultdict[int, list[IntelMessage]] = defaultdict(list)
        """Receives that have their message or are over, by context id, in the order of the pools."""
        self.posted: defaultdict[int, list[IntelMessage]] = defaultdict(list)
        """Receives that wait, by context id, in matching order."""
        self.proved = True
        """Whether the links prove that order wherever they belong to one list."""
        self.split: set[int] = set()
        """Context ids of communicators whose receives are on two lists, so that their order isn't known."""
        self.unexpected: defaultdict[int, list[IntelMessage]] = defaultdict(list)
        """Messages, by context id, in the order of their arrival."""
        self.held: defaultdict[int, list[IntelMessage]] = defaultdict(list)
        """Messages that a matched probe took, by the address of the communicator."""
        self.sends: defaultdict[int, list[views.MpirRequest]] = defaultdict(list)
        """Sends behind persistent requests, by the address of the communicator."""
        self.to_self: defaultdict[int, list[tuple[views.MpirRequest, IntelMessage]]] = defaultdict(list)
        """Sends to this process, each with the message that refers to it, by context id."""
        self.nameless: list[int] = []
        """Handles of the pending sends of which nothing else is known."""
        self.done: list[int] = []
        """Handles of the complete ones, of which nothing else is known, either."""
        self.partitioned: defaultdict[int, list[views.MpirRequest]] = defaultdict(list)
        """Partitioned requests, by the address of the communicator."""
        self.remote: list[int] = []
        """Handles of the pending receives that are with the network, whose memory can't be read."""


class TrafficReader:
    """Reads the requests of one process."""

    def __init__(self, mpi: MpichProcessContext, partitioned: Partitioned) -> None:
        self._mpi = mpi
        self._partitioned = partitioned
        layouts = mpi.layouts
        self._am = views.AmRequest.bind(layouts)
        self._extension = views.LinkedExtension.bind(layouts)
        self._receive = views.IntelReceive.bind(layouts)
        self.started = Started(mpi)
        self._shares_memory = environment.shares_memory(mpi.image, mpi.memory)

    def uses_network(self) -> bool:
        """Tell whether MPI_COMM_WORLD has processes that shared memory doesn't reach, or nothing goes through it."""
        return not self._shares_memory or self._has_other_nodes()

    def read(self, *, network_is_read: bool) -> IntelTraffic:
        """Return the requests in use, sorted; without the network's where these are read elsewhere."""
        requests = self._mpi.requests
        traffic = IntelTraffic()
        receives: list[IntelMessage] = []
        sends: dict[int, views.MpirRequest] = {}
        for address, request in requests.live().items():
            kind = requests.kind(request)
            if network_is_read and not request.is_local and kind in TRANSFERS:
                continue
            if kind is RequestKind.SEND and (outer := self.started.of(request)):
                traffic.sends[outer.comm].append(request)
            elif kind is RequestKind.SEND and request.cc:
                sends[address] = request
            elif kind is RequestKind.SEND and request.is_local:  # those that the library keeps for itself are not
                traffic.done.append(request.handle)
            elif kind in (RequestKind.PART_SEND, RequestKind.PART_RECV):
                traffic.partitioned[request.comm].append(request)
            elif kind is RequestKind.MPROBE and request.comm:
                traffic.held[request.comm].append(self._message(request))
            elif kind is RequestKind.RECV and request.is_local:
                receives.append(self._message(request))
            elif kind is RequestKind.RECV and request.cc and self._is_remote(request):
                traffic.remote.append(request.handle)
        _sort_receives(receives, traffic)
        self._find_sends_to_self(sends, traffic)
        traffic.nameless = [request.handle for request in sends.values()]
        return traffic

    def _find_sends_to_self(self, sends: dict[int, views.MpirRequest], traffic: IntelTraffic) -> None:
        """Take the sends out whose message has come to this process itself; such a message refers to its send.

        Messages of other processes refer to what is elsewhere at that address.
        """
        own = {
            entry.receives_in: entry.view.rank for entry in self._mpi.communicators.read() if not entry.inter and sends
        }
        for context_id, messages in traffic.unexpected.items():
            for message in messages:
                if message.common.status_source == own.get(context_id) and message.sender in sends:
                    traffic.to_self[context_id].append((sends.pop(message.sender), message))

    def _message(self, request: views.MpirRequest) -> IntelMessage:
        memory = self._mpi.memory
        am = self._am.at(memory, request.address)
        return IntelMessage(
            request,
            am,
            self._extension.at(memory, am.req) if am.req else None,
            self.started.asked(request),
            (self.started.of(request) or request).handle,
            self._receive.at(memory, request.address).asked_process,
        )

    def _is_remote(self, request: views.MpirRequest) -> bool:
        """Tell whether a receive that isn't of shared memory is the network's alone.

        It may also be the network's half of one from any source, or what a partitioned send has announced.
        """
        partner = self._mpi.requests.live().get(request.anysrc_partner or 0)
        if partner is not None and partner.anysrc_partner == request.address:
            return False
        return not self._partitioned.is_announcement(request)

    def _has_other_nodes(self) -> bool:
        """Tell whether MPI_COMM_WORLD has processes that shared memory doesn't reach."""
        communicators = {entry.view.address: entry.view for entry in self._mpi.communicators.read()}
        world = next((view for view in communicators.values() if view.handle == COMM_WORLD), None)
        if world is None:
            return False
        node = communicators.get(world.node_comm or 0)
        return world.local_size > (1 if node is None else node.local_size)


def _sort_receives(receives: list[IntelMessage], traffic: IntelTraffic) -> None:
    """Sort receives and messages by what they are at."""
    for each in sorted((each for each in receives if each.is_unexpected), key=lambda each: each.number):
        traffic.unexpected[each.communicator].append(each)
    for each in receives:
        if each.is_past_waiting:
            traffic.with_message[each.communicator].append(each)
    posted = {each.am.req or each.common.address: each for each in receives if each.is_posted}
    lists, traffic.proved = lists_of({address: each.following for address, each in posted.items()})
    for found in lists:
        members = [posted[address] for address in found]
        traffic.split |= {each.communicator for each in members} & traffic.posted.keys()
        for each in members:
            traffic.posted[each.communicator].append(each)
