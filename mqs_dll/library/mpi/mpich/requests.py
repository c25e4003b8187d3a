"""The requests of a process: all that are in use, from their pools, read once in a sweep.

Source: src/include/mpir_request.h of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from mqs_dll.contract import phrases
from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import Rows
from mqs_dll.library.memory import Memory, cached_per_sweep
from mqs_dll.library.mpi.mpich import handles, views
from mqs_dll.library.mpi.mpich.pools import Pools


class RequestKind(Enum):
    """What a request is for (MPIR_Request_kind_t, whose numbers differ by release)."""

    UNDEFINED = "undefined"
    SEND = "send"
    RECV = "receive"
    PREQUEST_SEND = "persistent send"
    PREQUEST_RECV = "persistent receive"
    PREQUEST_COLL = "persistent collective"
    PART_SEND = "partitioned send"
    PART_RECV = "partitioned receive"
    PART = "partitioned"
    ENQUEUE = "enqueued"
    GREQUEST = "generalised"
    COLL = "nonblocking collective"
    MPROBE = "matched probe"
    RMA = "one-sided"


KINDS_3_4 = ("UNDEFINED", "SEND", "RECV", "PREQUEST_SEND", "PREQUEST_RECV", "GREQUEST", "COLL", "MPROBE", "RMA")
PARTITIONED = ("UNDEFINED", "SEND", "RECV", "PREQUEST_SEND", "PREQUEST_RECV", "PREQUEST_COLL", "PART_SEND", "PART_RECV")
KINDS_4_0 = (*PARTITIONED, "PART", "GREQUEST", "COLL", "MPROBE", "RMA")
KINDS_4_1 = (*PARTITIONED, "PART", "ENQUEUE", "GREQUEST", "COLL", "MPROBE", "RMA")


def kinds_of(layouts: Layouts) -> dict[int, RequestKind]:
    """Return the meaning of a request's kind, by the members that came in the releases that changed it.

    4.0.0 added partitioned communication and links of its own to requests; 4.1.0 enqueued operations, and ch4 a type.
    Intel MPI has the kinds of 4.1, and requests of 3.4.
    """
    extension = "MPIDIG_req_ext_t"
    if extension in layouts and layouts.offset(extension, "rreq.next") is not None:
        names: tuple[str, ...] = KINDS_4_1
    elif layouts.offset("MPIR_Request", "next") is None:
        names = KINDS_3_4
    elif layouts.offset("MPIR_Request", "comm") == 40:  # 4.1.0 moved completion_notification, before it, to ch4
        names = KINDS_4_0
    else:
        names = KINDS_4_1
    return {number: RequestKind[name] for number, name in enumerate(names)}


class Values(NamedTuple):
    """Values of MPI that requests have, and what the program takes for a request's handle."""

    any_source: int
    any_tag: int
    handles_are_addresses: bool


ANY_SOURCE, ANY_TAG = -2, -1
MPICH_ABI = Values(ANY_SOURCE, ANY_TAG, handles_are_addresses=False)
STANDARD_ABI = Values(any_source=-1, any_tag=-2, handles_are_addresses=True)
"""Those of libmpi_abi, since 5.0 (src/binding/abi/mpi_abi.h of 5.0.1)."""


def values_of(layouts: Layouts) -> Values:
    """Return the values by the members of MPI_Status, of which the standard ABI has MPI_SOURCE first."""
    source, count = (layouts.offset("MPIR_Request", f"status.{name}") or 0 for name in ("MPI_SOURCE", "count_lo"))
    return STANDARD_ABI if source < count else MPICH_ABI


# What the request of an active message is at (MPIDIG_REQ_* of src/mpid/ch4 of 4.0.3 to 5.0.1), also in Intel MPI's ch4.
AM_BUSY = 0x1
AM_PEER_SSEND = 0x2
AM_UNEXPECTED = 0x4
AM_DEQUEUED = 0x8
"""A matched probe has taken the message off the list (MPIDIG_REQ_UNEXP_DQUED)."""
AM_MATCHED = 0x40
AM_RENDEZVOUS = 0x80
AM_IN_PROGRESS = 0x100

MAX_LIVE = 1 << 17
"""Requests that are read, of a process that stands still meanwhile: a message that no receive has matched is one."""


class DeviceRequest:
    """A request, with what a device has besides."""

    __slots__ = ("cancelled", "common", "complete")

    def __init__(self, common: views.MpirRequest) -> None:
        self.common = common
        self.complete = common.cc == 0
        """Whether MPICH has done its part."""
        self.cancelled = self.complete and common.cancelled
        """Whether MPI_Cancel has ended it."""

    @property
    def freed(self) -> bool:
        """Whether the program has freed it: only the device refers to it."""
        return not self.complete and self.common.ref_count == 1

    @property
    def given_up(self) -> str | None:
        """How the program gave it up, in words; None where it did not."""
        if self.cancelled:
            return phrases.CANCELLED()
        return phrases.FREED() if self.freed else None


class Apart(Protocol):
    """Requests of which there may be so many that they are no views."""

    addresses: array[int]

    def take(self, rows: Rows, places: list[int]) -> list[int]:
        """Take from some requests in use, by their places, those that are to be here; return the others' places."""


class Live(NamedTuple):
    """What was read of the requests in use."""

    by_address: dict[int, views.MpirRequest]
    apart: Apart | None


class MpichRequests:
    """The requests in use of one process."""

    def __init__(self, memory: Memory, layouts: Layouts, pools: Pools) -> None:
        self._memory = memory
        self._pools = pools
        self._reader = views.MpirRequest.bind(layouts)
        self._kinds = kinds_of(layouts)
        self.values = values_of(layouts)
        self.are_cut = False
        """Whether there are more than were read."""
        self.new_apart: Callable[[], Apart] | None = None
        """Makes what takes those requests that the device reads in another way; they are not in ``live``."""

    @cached_per_sweep
    def _read(self) -> Live:
        """Return the requests in use, MAX_LIVE of them at most."""
        found = Live({}, self.new_apart() if self.new_apart is not None else None)
        left, self.are_cut = MAX_LIVE, False
        for rows, places in self._pools.in_use(handles.REQUEST):
            self._memory.charge(len(places))
            self.are_cut, places = len(places) > left, places[:left]
            left -= len(places)
            if found.apart is not None:
                places = found.apart.take(rows, places)
            if places and self._reader.end > rows.stride:
                raise BrokenStructureError(f"a pool says that its requests are {rows.stride} bytes apart")
            made = (self._reader.row(rows, place) for place in places)
            found.by_address.update((request.address, request) for request in made)
            if self.are_cut:
                break
        return found

    def live(self) -> dict[int, views.MpirRequest]:
        """Return the requests in use by their address, in the order of the pools, except for those that are apart.

        Raises:
            BrokenStructureError, TargetReadError: a pool can't be read.
        """
        return self._read().by_address

    def apart(self) -> Apart | None:
        """Return the others, None where the device wants none of them apart."""
        return self._read().apart

    def unknown(self, addresses: Iterable[int]) -> set[int]:
        """Return those of some addresses that no request in use has."""
        found = set(addresses).difference(self.live())
        apart = self.apart()
        return found.difference(apart.addresses) if found and apart is not None else found

    def kind(self, request: views.MpirRequest) -> RequestKind:
        """Return what a request is for; UNDEFINED for a number that no release uses."""
        return self._kinds.get(request.kind, RequestKind.UNDEFINED)

    def number(self, kind: RequestKind) -> int:
        """Return the number of a kind of request."""
        return next(number for number, meaning in self._kinds.items() if meaning is kind)

    def handle(self, request: views.MpirRequest) -> int:
        """Return the handle of a request as the program has it."""
        return request.address if self.values.handles_are_addresses else request.handle

    def references(self, comm: int) -> int:
        """Return how many requests refer to the communicator at an address."""
        return self._references()[comm]

    @cached_per_sweep
    def _references(self) -> Counter[int]:
        return Counter(request.comm for request in self.live().values())
