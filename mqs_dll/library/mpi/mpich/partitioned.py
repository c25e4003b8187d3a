"""Partitioned sends and receives (MPI_Psend_init, MPI_Precv_init), of ch4 since 4.0.

One that is started has its parts sent one by one, as the program says that they are ready. A send doesn't keep its tag.
Source: src/mpid/ch4/include/mpidpre.h (MPIDI_part_request_t), src/mpid/ch4/src/mpidig_part.c of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import UNKNOWN, Operation, Status
from mqs_dll.contract.phrases import How
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope, buffer_text
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind


class Partitioned:
    """Reads partitioned requests."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        self._mpi = mpi
        self._reader = views.PartitionedRequest.bind(mpi.layouts)

    def sends(self, requests: Iterable[views.MpirRequest], entry: MpichEntry) -> Iterator[Operation]:
        """Yield the sends among the partitioned requests of a communicator that are started, by destination."""
        started = [(each, self._read(each)) for each in self._started(requests, RequestKind.PART_SEND)]
        for request, part in sorted(started, key=lambda pair: pair[1].dest):
            yield self._send(request, part, entry)

    def receives(self, requests: Iterable[views.MpirRequest], entry: MpichEntry) -> Iterator[Operation]:
        """Yield the receives among the partitioned requests of a communicator that are started."""
        for request in self._started(requests, RequestKind.PART_RECV):
            yield self._receive(request, self._read(request), entry)

    def datatypes(self, requests: Iterable[views.MpirRequest]) -> list[int]:
        """Return the handle of the datatype of each request that is started."""
        return [
            self._read(each).datatype for each in self._started(requests, RequestKind.PART_SEND, RequestKind.PART_RECV)
        ]

    def is_announcement(self, request: views.MpirRequest) -> bool:
        """Tell whether a request is a send that another process has announced, and not a receive.

        It names the other process's request, and nothing yet of what the receive will.
        """
        part = self._read(request)
        return bool(part.peer_req_ptr) and not (part.buffer or part.count or part.datatype)

    def _started(self, requests: Iterable[views.MpirRequest], *kinds: RequestKind) -> Iterator[views.MpirRequest]:
        return (each for each in requests if self._mpi.requests.kind(each) in kinds and self._read(each).active_flag)

    def _read(self, request: views.MpirRequest) -> views.PartitionedRequest:
        return self._reader.at(self._mpi.memory, request.address)

    def _send(self, request: views.MpirRequest, part: views.PartitionedRequest, entry: MpichEntry) -> Operation:
        facts = self._mpi.datatypes.at(part.datatype)
        elements = part.partitions * part.count
        return envelopes.send(
            Status.PENDING if request.cc else Status.COMPLETE,
            part.dest,
            world_rank(entry.peers(), part.dest),
            UNKNOWN,
            UNKNOWN if facts is None else elements * facts.size,
            part.buffer,
            phrases.made_by("MPI_Psend_init", how=How.PARTITIONED),
            buffer_text(facts, elements, part.datatype),
            phrases.request(self._mpi.requests.handle(request)),
            f"{part.partitions} parts" if part.peer_req_ptr else f"{part.partitions} parts; no receive has matched it",
            "its tag is not kept",
        )

    def _receive(self, request: views.MpirRequest, part: views.PartitionedRequest, entry: MpichEntry) -> Operation:
        facts = self._mpi.datatypes.at(part.datatype)
        elements = part.partitions * part.count
        capacity = UNKNOWN if facts is None else elements * facts.size
        rank, tag = (request.status_source, request.status_tag) if part.tag is None else (part.dest, part.tag)
        matched = bool(part.peer_req_ptr)
        under_way = Status.MATCHED if matched else Status.PENDING
        asked = Envelope(rank, tag, capacity)
        return envelopes.receive(
            under_way if request.cc else Status.COMPLETE,
            asked,
            asked if matched else NOTHING,
            entry.peers(),
            part.buffer,
            phrases.made_by("MPI_Precv_init", how=How.PARTITIONED),
            buffer_text(facts, elements, part.datatype),
            phrases.request(self._mpi.requests.handle(request)),
            f"{part.partitions} parts",
        )
