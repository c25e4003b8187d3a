"""Which request in use is what: a receive that waits, one that has its message, a message, a send, ...

ch4 has one list of posted receives and one of unexpected messages for each virtual interface (VCI). Their heads are
variables that a stripped library doesn't name; all members are in the pool of requests, and their links give the order.
Source: src/mpid/ch4/include/mpidpre.h, src/mpid/ch4/src/mpidig_recv.h, mpidig_recvq.h, mpidig_pt2pt_callbacks.c,
ch4_self.c of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mqs_dll.contract.abi import UNKNOWN, Status
from mqs_dll.contract.errors import BrokenStructureError, TargetReadError
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.ch4.unexpected import ACTIVE_MESSAGE, Messages, UnexpectedMessages
from mqs_dll.library.mpi.mpich.links import lists_of
from mqs_dll.library.mpi.mpich.persistent import Started
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import AM_MATCHED, DeviceRequest, RequestKind

PARTITIONED = (RequestKind.PART_SEND, RequestKind.PART_RECV)
POINT_TO_POINT = (RequestKind.SEND, RequestKind.RECV, RequestKind.MPROBE)

MAX_HANDLES = 3
"""Requests that a refusal names."""


class Ch4Message(DeviceRequest):
    """A request of an active message: a receive, a message that a receive or a matched probe took, or a send."""

    __slots__ = ("am", "by_network", "extension", "state", "waits")

    def __init__(
        self,
        common: views.MpirRequest,
        am: views.AmRequest,
        extension: views.AmExtension | None,
        by_network: views.MpirRequest | None = None,
    ) -> None:
        super().__init__(common)
        self.am = am
        self.extension = extension
        """Gone when the request is complete."""
        self.by_network = by_network
        """The netmod's half of a receive from any source, where that one has the message. MPICH ends this half then; of
        4.3 and 5.0 not where the message came before the receive (pmodels/mpich, pull request 7745)."""
        self.state = 0 if extension is None else extension.status
        """What the request is at, 0 for a complete one."""
        self.waits = self.cancelled or (not self.complete and self.state == 0 and by_network is None)
        """Whether it is a receive that has no message, and gets none any more if it is cancelled."""

    @property
    def has_message(self) -> bool:
        """Whether it is a receive that has its message, or was cancelled."""
        return self.complete or self.state != 0 or self.by_network is not None

    @property
    def match_req(self) -> int:
        """The address of the receive that an unexpected message was matched with, 0 for none."""
        return 0 if self.extension is None or not self.state & AM_MATCHED else self.extension.match_req or 0

    @property
    def status(self) -> Status:
        """How far a receive is."""
        if self.complete:
            return Status.COMPLETE
        return Status.PENDING if self.waits else Status.MATCHED

    @property
    def source(self) -> int:
        """The sender's rank: the message's where there is one, or ANY_SOURCE."""
        ended = self.complete and not self.cancelled
        return self.common.status_source if ended or self.am.source is None else self.am.source

    @property
    def tag(self) -> int:
        """The message's tag, or ANY_TAG."""
        ended = self.complete and not self.cancelled
        return self.common.status_tag if ended or self.am.tag is None else self.am.tag

    def length(self, capacity: int) -> int:
        """Return the bytes of the message that a receive has or had, -1 where they are not known.

        Since 4.3 the status has it from the match on; before, what has come and what is to come. What has come is of an
        earlier message until the first data of this one are here, and isn't counted in a message that is too long.

        Args:
            capacity: bytes that the receive asked for.
        """
        left = self.extension
        if left is None or self.am.source is None:
            return self.common.length
        if self.common.status_error or left.in_data_sz + left.came < capacity:
            return UNKNOWN if left.came or self.common.status_error else left.in_data_sz
        return capacity if left.in_data_sz + left.came == capacity else left.in_data_sz


class OfCommunicator(NamedTuple):
    """The sends and receives of one communicator; in the order of the pools, except for those that wait."""

    posted: list[Ch4Message]
    """Receives that wait for a message, in the order in which they are searched."""
    with_message: list[Ch4Message]
    """Receives that have their message, or were cancelled."""
    held: list[Ch4Message]
    """Messages that a matched probe took."""
    sends: list[Ch4Message]
    others: list[views.MpirRequest]
    """Sends and receives that are no active messages: of a communicator of one process, or the netmod's."""
    partitioned: list[views.MpirRequest]


class Sorted:
    """The requests of one process by what they are."""

    def __init__(self) -> None:
        self.of: defaultdict[int, OfCommunicator] = defaultdict(_nothing)
        """By the address of their communicator."""
        self.posted_in_order = True
        self.arrived: Mapping[int, Messages] = {}
        """Messages that no receive has matched, by the context id of their communicator without the bit of collectives,
        in the order in which they came."""
        self.arrived_in_order = True
        self.broken: list[int] = []
        """Handles of requests that can't be read."""


class Ch4Traffic:
    """The requests of one process, sorted once in a sweep."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        self._mpi = mpi
        self._memory = mpi.memory
        layouts = mpi.layouts
        self.started = Started(mpi)
        self.has_shared_memory = layouts.offset(views.MpirRequest.struct, "dev.is_local") is not None
        if self.has_shared_memory:
            self._am = views.by_context_id(views.AmRequest, views.NarrowAmRequest, layouts).bind(layouts)
            self._extension = views.AmExtension.bind(layouts)
            receive = mpi.requests.number(RequestKind.RECV)
            mpi.requests.new_apart = partial(UnexpectedMessages, mpi.memory, mpi.layouts, receive)

    def check_receives(self) -> None:
        """Make sure that all receives were found, and their order.

        Raises:
            BrokenStructureError: they were not.
        """
        self.check_requests()
        if not self._sorted().posted_in_order:
            raise BrokenStructureError("the list of posted receives is broken: the order of the receives is not known")

    def check_arrivals(self) -> None:
        """Make sure that all unexpected messages were found, and their order.

        Raises:
            BrokenStructureError: they were not.
        """
        self.check_requests()
        if not self._sorted().arrived_in_order:
            raise BrokenStructureError("the list of unexpected messages is broken: their order is not known")

    def check_requests(self) -> None:
        """Make sure that the kind of every request is known.

        Raises:
            BrokenStructureError: some refer to memory that can't be read.
        """
        broken = self._sorted().broken
        if broken:
            handles = ", ".join(f"{handle:#x}" for handle in broken[:MAX_HANDLES])
            raise BrokenStructureError(f"{len(broken)} of the process's requests can't be read: {handles}")

    def of(self, comm: int) -> OfCommunicator:
        """Return the requests of the communicator at an address."""
        return self._sorted().of.get(comm) or _nothing()

    def others(self, comm: int) -> Sequence[views.MpirRequest]:
        """Return those of them that are no active messages."""
        return self.of(comm).others

    def all(self) -> Iterable[OfCommunicator]:
        """Return the requests of all communicators."""
        return self._sorted().of.values()

    def arrived(self) -> Mapping[int, Messages]:
        """Return ``Sorted.arrived``."""
        return self._sorted().arrived

    # ------------------------------------------------------------ sorting

    @cached_per_sweep
    def _sorted(self) -> Sorted:
        found = Sorted()
        posted: list[Ch4Message] = []
        for kind, message in self._active_messages(found):
            comm = message.common.comm
            if not comm:
                continue
            if kind is RequestKind.SEND:
                found.of[comm].sends.append(message)
            elif kind is RequestKind.MPROBE:
                found.of[comm].held.append(message)
            elif message.has_message:
                found.of[comm].with_message.append(message)
            else:
                posted.append(message)
        for each in found.of.values():
            each.with_message[:] = _joined(each.with_message)
        posted, found.posted_in_order = _in_order(posted)
        for message in posted:
            found.of[message.common.comm].posted.append(message)
        apart = self._mpi.requests.apart()
        if isinstance(apart, UnexpectedMessages):
            found.arrived, found.arrived_in_order, broken = apart.find()
            if broken:
                found.broken = sorted(found.broken + broken)  # as they lie in a pool
        return found

    def _active_messages(self, found: Sorted) -> Iterator[tuple[RequestKind, Ch4Message]]:
        """Yield the active messages among the requests in use; add to ``found`` the requests that are none."""
        requests = self._mpi.requests
        of_size_1 = {entry.view.address for entry in self._mpi.communicators.read() if entry.has_size_1}
        for request in requests.live().values():
            kind = requests.kind(request)
            if kind in PARTITIONED and request.comm:
                found.of[request.comm].partitioned.append(request)
            if kind not in POINT_TO_POINT:
                continue
            try:
                message = None if request.comm in of_size_1 else self._message(request)
            except TargetReadError:
                found.broken.append(request.handle)
                continue
            if message is not None:
                yield kind, message
            elif (comm := self.started.comm(request)) and not _is_hidden_half(request):
                found.of[comm].others.append(request)

    def _message(self, request: views.MpirRequest) -> Ch4Message | None:
        """Return the request as that of an active message, None where it is none.

        Raises:
            TargetReadError: its extension can't be read.
        """
        is_active = request.is_local if request.type is None else request.type == ACTIVE_MESSAGE
        if not is_active or not self.has_shared_memory:
            return None
        am = self._am.at(self._memory, request.address)
        extension = self._extension.at(self._memory, am.req) if request.cc else None
        partner = request.anysrc_partner if request.cc else None
        half = self._mpi.requests.live().get(partner) if partner else None
        return Ch4Message(request, am, extension, half if half is not None and not half.cc else None)


def _joined(receives: Sequence[Ch4Message]) -> list[Ch4Message]:
    """Return the receives of a communicator, each as one with the unexpected message that it was matched with.

    Until that is here, both have a request: the message's has the state, the receive's the handle that the program has.

        message, match_req -> receive    joined: the message, under the receive's handle
    """
    message_of = {each.match_req: each for each in receives if each.match_req}
    receive_of = {
        message_of[each.common.address].common.address: each.common
        for each in receives
        if each.common.address in message_of and not each.complete
    }
    replaced = {receive.address for receive in receive_of.values()}
    return [
        Ch4Message(receive_of[each.common.address], each.am, each.extension)
        if each.common.address in receive_of
        else each
        for each in receives
        if each.common.address not in replaced
    ]


def _nothing() -> OfCommunicator:
    return OfCommunicator([], [], [], [], [], [])


def _is_hidden_half(request: views.MpirRequest) -> bool:
    """Return whether it is the netmod's half of a receive from any source, whose other half the program has."""
    return bool(request.anysrc_partner) and not request.is_local


def _in_order(messages: list[Ch4Message]) -> tuple[list[Ch4Message], bool]:
    """Return the members of the lists in their order, one list after the other, and whether their links prove it."""
    members = {message.common.address: message for message in messages}
    lists, proved = lists_of({address: each.common.next or 0 for address, each in members.items()})
    return [members[address] for each in lists for address in each], proved
