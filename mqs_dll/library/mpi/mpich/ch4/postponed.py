"""Messages that found no free cell: ch4 keeps all that there is to know of them until they can leave.

That is what a program waits for that sends small messages to a process that makes no MPI call.
Source: src/mpid/ch4/shm/posix/posix_pre.h, posix_am.h of 4.0.3 to 5.0.1.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from mqs_dll.contract.errors import TargetReadError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import WORD, Memory, cached_per_sweep
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.ch4.cells import WAITS, Place
from mqs_dll.library.mpi.mpich.links import in_list_order

NEAREST = 2
"""Words before the members of all active messages (MPIDIG_req_t.req) among which the record's address is.

It is the last member of the shared memory's part, except for a word of inter-process copies, which some releases have.
"""

MAX_QUEUE_LENGTH = 1 << 16

SEND = 0
"""The handler of a message's start (MPIDIG_SEND)."""


class Postponed(NamedTuple):
    """A send that waits for a free cell, as it was called."""

    header: views.MessageHeader | None
    """None where its header has left, and data follow."""
    world_rank: int
    datatype: int
    buffer: int
    elements: int


class Queued(NamedTuple):
    """A message in the queue, by the header that it has to send."""

    header: views.MessageHeader
    place: Place | None


class PostponedQueues(NamedTuple):
    """The queues that were gone through."""

    records: set[int]
    """The addresses of their records."""
    queued: dict[int, Queued]
    """Their messages, by the address of the send's request."""


class PostponedSends:
    """Finds what belongs to a send's request."""

    def __init__(self, memory: Memory, layouts: Layouts) -> None:
        self._memory = memory
        self._header = views.by_context_id(views.MessageHeader, views.NarrowMessageHeader, layouts).bind(layouts)
        self._end = views.AmRequest.bind(layouts).offsets["req"]
        self._record = views.PosixRecord.bind(layouts)
        self._arguments = views.PosixArguments.bind(layouts)

    @cached_per_sweep
    def _seen(self) -> PostponedQueues:
        """Return what was found so far, for ``_look_around`` to add to."""
        return PostponedQueues(set(), {})

    def of(self, request: int) -> Postponed | None:
        """Return the record of a send's request, None where there is none."""
        for address in self._memory.pointers(request + self._end - NEAREST * WORD, NEAREST):
            if address % WORD == 0 and address:
                found = self._at(address, request)
                if found is not None:
                    self._look_around(address)
                    return found
        return None

    def queued(self, request: int) -> Queued | None:
        """Return the message of a send that waits in the queue of a record that ``of`` has found.

        The record of a rendezvous doesn't know the request, but its header does.
        """
        return self._seen().queued.get(request)

    def _at(self, address: int, request: int) -> Postponed | None:
        """Return the record at an address, if it belongs to a request."""
        try:
            if not self._is_record(address):
                return None
            sent = self._arguments.at(self._memory, address)
            if sent.request != request:
                return None
            return Postponed(self._header_of(address), sent.dst_grank, sent.datatype, sent.buf, sent.count)
        except TargetReadError:
            return None

    def _is_record(self, address: int) -> bool:
        record = self._record.at(self._memory, address)
        return (record.am_hdr, record.msg_hdr) == (address + record.am_hdr_buf, address + record.msg_hdr_buf)

    def _header_of(self, address: int) -> views.MessageHeader | None:
        record = self._record.at(self._memory, address)
        return self._header.at(self._memory, record.am_hdr) if record.handler_id == SEND else None

    def _look_around(self, first: int) -> None:
        """Read the queue that a record is on, backwards, since its head leads to its tail."""
        seen = self._seen()
        if first in seen.records:
            return
        address, links, headers = first, dict[int, int](), dict[int, views.MessageHeader]()
        with suppress(TargetReadError):
            for _ in range(MAX_QUEUE_LENGTH):
                if not self._is_record(address):
                    break
                header = self._header_of(address)
                if header is not None:
                    headers[address] = header
                sent = self._arguments.at(self._memory, address)
                links[address] = sent.next
                address = sent.prev
                if address == first:
                    break
        seen.records.update(links)
        order, proved = in_list_order(links)
        places = {address: Place(WAITS, 0, index) for index, address in enumerate(order)} if proved else {}
        seen.queued.update(
            {header.sreq_ptr: Queued(header, places.get(address)) for address, header in headers.items()}
        )
