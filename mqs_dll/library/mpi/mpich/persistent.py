"""Persistent requests: each that is started has a request behind it, which does the work and is on the queues.

Source: src/include/mpir_request.h, src/mpid/ch3/src/mpid_startall.c of 3.4.3, src/mpid/ch4/src/ch4_persist.c of 4.0.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NO_ORDER, Envelope, buffer_text
from mqs_dll.library.mpi.mpich import operations, views
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import MpichRequests, RequestKind

PERSISTENT = (RequestKind.PREQUEST_SEND, RequestKind.PREQUEST_RECV)

SENDS = {1: "MPI_Send_init", 2: "MPI_Bsend_init", 3: "MPI_Ssend_init"}
"""By the type of a persistent request of ch4 (MPIDI_ptype); one in the ready mode is like a standard one."""

MIN_REQUEST = 128


def started(requests: MpichRequests) -> dict[int, views.MpirRequest]:
    """Return the persistent request, whose handle the program has, by the address of the request behind it.

    A buffered send that was started is complete for the program, and what is behind it goes on like that of MPI_Bsend.
    """
    return {request.real_request: request for request in _started(requests)}


def _started(requests: MpichRequests) -> Iterator[views.MpirRequest]:
    for request in requests.live().values():
        if requests.kind(request) in PERSISTENT and request.real_request and _waits(request):
            yield request


def send_call(asked: views.PersistentRequest) -> str:
    """Name the call that made the persistent request of a send."""
    return operations.persistent(SENDS.get(asked.p_type, SENDS[1]))


class Started:
    """The persistent requests of ch4 that are started, by what does their work, and what they ask for."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        self._mpi = mpi
        self._memory = mpi.memory
        self._arguments = views.PersistentRequest.bind(mpi.layouts)

    @cached_per_sweep
    def _all(self) -> dict[int, views.MpirRequest]:
        return started(self._mpi.requests)

    def of(self, request: views.MpirRequest) -> views.MpirRequest | None:
        """Return the persistent request that a request does the work of."""
        return self._all().get(request.address)

    def asked(self, request: views.MpirRequest) -> views.PersistentRequest | None:
        """Return the arguments of the persistent request that a request does the work of."""
        persistent = self.of(request)
        return None if persistent is None else self._arguments.at(self._memory, persistent.address)

    def comm(self, request: views.MpirRequest) -> int:
        """Return the address of a request's communicator, 0 for none: one that is done may have let go of it."""
        return request.comm or (0 if (persistent := self.of(request)) is None else persistent.comm)

    def text(self, request: views.MpirRequest) -> str:
        """Return the handle that the program has for a request, in words."""
        return phrases.request(self._mpi.requests.handle(self.of(request) or request))

    def wanted(self, asked: views.PersistentRequest) -> Envelope:
        """Return the rank, tag and bytes that a persistent request asks for, -1 for any."""
        values, facts = self._mpi.requests.values, self._mpi.datatypes.at(asked.datatype)
        return Envelope(
            INVALID_RANK if asked.rank == values.any_source else asked.rank,
            UNKNOWN if asked.tag == values.any_tag else asked.tag,
            UNKNOWN if facts is None else asked.count * facts.size,
        )

    def send(self, request: views.MpirRequest, peers: Sequence[int]) -> Operation | None:
        """Return the send that a request does the work of, as it was asked for; None where it is no persistent one."""
        persistent = self.of(request)
        return None if persistent is None else self._send(persistent, peers, done=request.cc == 0)

    def done_at_once(self, comm: int, peers: Sequence[int]) -> Iterator[Operation]:
        """Yield the sends of the communicator at an address that were done when they started.

        Behind all of them is one request of the library's own, which is in no pool.
        """
        for each in self._without_work().get(comm, ()):
            yield self._send(each, peers, done=True)

    @cached_per_sweep
    def _without_work(self) -> dict[int, list[views.MpirRequest]]:
        """Return the persistent requests of sends that no request of a pool does the work of, by communicator."""
        requests = self._mpi.requests
        found: defaultdict[int, list[views.MpirRequest]] = defaultdict(list)
        sends = [each for each in _started(requests) if requests.kind(each) is RequestKind.PREQUEST_SEND]
        done = requests.unknown(each.real_request for each in sends)
        for each in sends:
            if each.real_request in done:
                found[each.comm].append(each)
        return found

    def _send(self, persistent: views.MpirRequest, peers: Sequence[int], *, done: bool) -> Operation:
        asked = self._arguments.at(self._memory, persistent.address)
        wanted = self.wanted(asked)
        return envelopes.send(
            Status.COMPLETE if done else Status.PENDING,
            wanted.rank,
            world_rank(peers, wanted.rank),
            wanted.tag,
            wanted.length,
            asked.buffer,
            send_call(asked),
            buffer_text(self._mpi.datatypes.at(asked.datatype), asked.count, asked.datatype),
            phrases.request(self._mpi.requests.handle(persistent)),
            "done" if done else None,
            NO_ORDER,
        )


def _waits(request: views.MpirRequest) -> bool:
    """Return whether a persistent request completes with the one behind it, whose counter it points at."""
    return 0 <= request.cc_ptr - request.real_request < MIN_REQUEST
