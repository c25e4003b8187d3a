"""pml/ob1: the queues that Open MPI keeps itself, and so the ones that can be seen whole.

Receives that wait for a message hang in matching lists; all else that a request does is only known from the pool
that all requests of a direction come from. Both are read and joined by address.
Source: ompi/mca/pml/ob1 of 4.1.0 to 4.1.8 and 5.0.0 to 5.0.11.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import UNKNOWN, Operation, Status
from mqs_dll.contract.errors import MqsError, TargetReadError
from mqs_dll.contract.phrases import How
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope, buffer_text, receive, send
from mqs_dll.library.mpi.openmpi import tags, views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.describe import (
    BUFFERED,
    CALLS,
    COMPLETE,
    request_text,
    send_kind,
    sent_from_copy,
    tag_text,
)
from mqs_dll.library.mpi.openmpi.ob1_matching import Ob1Matching
from mqs_dll.library.mpi.openmpi.ob1_unexpected import Unexpected
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.requests import CANCELLED, PooledPml

# ompi/mca/pml/base/pml_base_request.h: mca_pml_base_request_type_t
PROBE = 4
IMPROBE = 5
MPROBE = 6
HELD = (IMPROBE, MPROBE)
"""Types of a request that holds a matched message for MPI_Mrecv; its buffer is a fragment, not the program's."""


class PmlOb1(PooledPml[views.RecvRequest, views.SendRequest]):
    """pml/ob1 in one process."""

    name = "pml/ob1"

    def __init__(self, mpi: OmpiProcessContext) -> None:
        super().__init__(mpi, views.RecvRequest, views.SendRequest)
        self._cached_recv = mpi.symbols.get("mca_pml_ob1_recvreq")
        self._cached_send = mpi.symbols.get("mca_pml_ob1_sendreq")
        self._matching = Ob1Matching(mpi)
        self._unexpected = Unexpected(mpi, self._matching)

    def unexpected(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the messages of a communicator that no receive has matched, then what is known of early ones."""
        return self._unexpected.operations(entry, self._nonblocking_base)

    def is_empty(self, entry: OmpiEntry) -> bool:
        """Tell whether no request is in use on a communicator, its lists are empty, and its group can be decoded.

        Of MPI_COMM_WORLD that isn't told: its messages have a note on those of other communicators behind them.
        """
        if entry.is_world or entry.view.address in self._with_requests():
            return False
        return self._matching.are_empty(entry) and len(entry.peers()) > 0

    @cached_per_sweep
    def _with_requests(self) -> set[int]:
        """Return the addresses of the communicators on which a request is in use."""
        return {request.req_comm for request in (*self._recv.all(), *self._send.all())}

    def datatypes_in_use(self) -> list[int]:
        """Return the datatype's address of each request in use."""
        requests = (*self._recv.all(), *self._send.all())
        return [request.req_datatype for request in requests if request.pml_type not in HELD]

    @cached_per_sweep
    def _elements(self, datatype: int, count: int) -> tuple[int, bytes]:
        """Return how many bytes some elements have, UNKNOWN where the datatype can't be read, and the line on them."""
        facts = self._datatypes.at(datatype)
        return UNKNOWN if facts is None else count * facts.size, buffer_text(facts, count, datatype)

    # ------------------------------------------------------------ receives

    def receives(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the receives of a communicator in the order in which they were posted, which is that of matching.

        Probes that wait are among them: they take part in matching.
        """
        requests = {request.address: request for request in self._recv.of(entry.view.address)}
        waiting, broken = self._matching.receives(entry, requests)
        for address in waiting:
            if address not in requests:  # a probe, whose request lies on the stack of the caller
                try:
                    requests[address] = self._recv.at(address)
                except MqsError as error:
                    broken = broken or error
        if not requests and broken is None:
            return
        counts = self._matching.counts(entry)
        next_to_match = {peer: phrases.NEXT_TO_MATCH(*numbers).encode() for peer, numbers in counts.items()}
        keeps_request = self._holds_request(self._cached_recv)
        peers = entry.peers() if requests else ()
        for request in sorted(requests.values(), key=attrgetter("req_sequence")):
            yield self._receive(request, peers, next_to_match.get(request.req_peer), keeps_request)
        if broken is not None:
            raise broken

    def _receive(
        self, request: views.RecvRequest, peers: Sequence[int], next_to_match: bytes | None, keeps_request: bool
    ) -> Operation:
        matched = _has_message(request)
        held = request.pml_type in HELD
        has_buffer = not held and request.pml_type != PROBE
        status = Status.MATCHED if matched else Status.PENDING
        if request.req_complete == COMPLETE and not held:  # for a probe that holds a message only the probing is
            status = Status.COMPLETE
        pending = status is Status.PENDING
        length = request.status_ucount if held else request.req_bytes_packed
        capacity, elements = self._elements(request.req_datatype, request.req_count) if has_buffer else (0, None)
        nonblocking = _is_nonblocking(request, keeps_request)
        return receive(
            status,
            Envelope(request.req_peer, request.req_tag, capacity),
            Envelope(request.status_source, request.status_tag, length) if matched else NOTHING,
            peers,
            request.req_addr if has_buffer else 0,
            _receive_kind(request.pml_type, matched, bool(request.req_persistent), nonblocking, not pending),
            elements,
            request_text(self._memory, request.address, request.req_complete),
            _receive_progress(request, status),
            tag_text(request.status_tag if matched else request.req_tag, self._nonblocking_base),
            # last: it is the MPI's own receives that have a sixth line, and what they are for is more important
            next_to_match if pending else None,
            tag_wild=request.req_tag == tags.ANY_TAG,
        )

    @cached_per_sweep
    def _holds_request(self, variable: int | None) -> bool:
        if variable is None:
            return False
        try:
            return self._memory.pointer(variable) != 0
        except TargetReadError:
            return False

    # ------------------------------------------------------------ sends

    def sends(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Yield the sends of a communicator, by destination, and for each in the order of sending."""
        requests = self._send.of(entry.view.address)
        keeps_request = self._holds_request(self._cached_send)
        peers = entry.peers() if requests else ()
        for request in sorted(requests, key=attrgetter("req_peer", "req_sequence")):
            yield self._send_operation(request, peers, keeps_request)

    def _send_operation(self, request: views.SendRequest, peers: Sequence[int], keeps_request: bool) -> Operation:
        _, elements = self._elements(request.req_datatype, request.req_count)
        if request.req_complete == COMPLETE and not request.free_called:
            status = Status.COMPLETE
        else:
            status = Status.MATCHED if request.req_recv else Status.PENDING
        return send(
            status,
            request.req_peer,
            world_rank(peers, request.req_peer),
            request.req_tag,
            request.req_bytes_packed,
            0 if _is_copied(request) else request.req_addr,
            _send_kind(request, keeps_request),
            elements,
            request_text(self._memory, request.address, request.req_complete),
            _send_progress(request, status),
            _copy_text(request) or tag_text(request.req_tag, self._nonblocking_base),
        )


def _is_nonblocking(request: views.PmlRequest, keeps_request: bool) -> bool:
    """Return whether a nonblocking call made a request, as far as ob1 shows it.

    ob1 keeps one request for blocking calls in a variable, which is NULL while such a call uses it, and before the
    first one. A request that is complete or freed can't belong to a blocking call.
    """
    return keeps_request or request.req_complete == COMPLETE or bool(request.free_called)


@lru_cache(maxsize=64)
def _receive_kind(pml_type: int, matched: bool, persistent: bool, nonblocking: bool, has_message: bool) -> bytes:
    if pml_type == PROBE:
        text = phrases.made_by("MPI_Probe", how=How.BLOCKING)
    elif pml_type in HELD and not matched:
        text = phrases.made_by("MPI_Mprobe", how=How.BLOCKING)
    elif pml_type in HELD:
        text = phrases.made_by("MPI_Mprobe", "MPI_Improbe", how=How.MATCHED_MESSAGE)
    elif persistent:
        text = phrases.made_by("MPI_Recv_init", how=How.PERSISTENT)
    elif nonblocking:
        text = phrases.received_by("MPI_Irecv", how=How.NONBLOCKING, has_message=has_message)
    else:
        text = phrases.received_by("MPI_Recv", "MPI_Irecv", has_message=has_message)
    return text.encode()


def _send_kind(request: views.SendRequest, keeps_request: bool) -> str:
    mode = request.req_send_mode
    kind = send_kind(mode, persistent=request.req_persistent, free_called=request.free_called)
    if kind is not None:
        return kind
    blocking, nonblocking = CALLS[mode]
    if _is_nonblocking(request, keeps_request):
        return phrases.made_by(nonblocking, how=How.NONBLOCKING)
    return phrases.made_by(blocking, nonblocking)


def _has_message(request: views.RecvRequest) -> bool:
    """Return whether a receive has matched a message; of a matched probe that waited for one, only its end shows that.

    Source: mca_pml_ob1_recv_request_matched_probe in ompi/mca/pml/ob1/pml_ob1_recvreq.c of 4.1.4 and 5.0.11.
    """
    return bool(request.req_match_received) or (request.pml_type in HELD and request.req_complete == COMPLETE)


def _receive_progress(request: views.RecvRequest, status: Status) -> str | None:
    if request.req_state == CANCELLED or request.status_cancelled:
        return phrases.CANCELLED()
    if request.free_called:
        return phrases.FREED()
    if status is Status.MATCHED and request.pml_type not in HELD:
        return f"{request.req_bytes_received} of {request.req_bytes_packed} bytes are here"
    if status is Status.PENDING:
        return phrases.RECEIVE_NUMBER(request.req_sequence + 1)  # distinguishes two samples of a loop
    return None


def _is_copied(request: views.SendRequest) -> bool:
    """Return whether a message is sent from a copy: the program may have written its own buffer again since."""
    return request.req_send_mode == BUFFERED and request.req_bytes_packed > 0


def _copy_text(request: views.SendRequest) -> str | None:
    """Return where the bytes of a buffered message are, None for any other one.

    ob1 packs what the transport takes at once into the transport's own memory, and only the rest into the attached
    buffer, at its offset in the message. What went at once counts as delivered as soon as the transport says so.
    """
    if not _is_copied(request):
        return None
    if request.send_addr == request.req_addr:
        return sent_from_copy(request.req_addr)
    gone = request.req_bytes_delivered
    return f"that has no {gone} first bytes: they were sent" if gone else "that may lack the first bytes: sent at once"


def _send_progress(request: views.SendRequest, status: Status) -> str:
    if request.req_send_mode == BUFFERED and not request.pml_complete:
        return phrases.NOT_DELIVERED(request.send_addr)
    if status is Status.COMPLETE:
        return "done" if request.pml_complete else "done, not delivered yet"
    if request.req_recv == 0:
        return phrases.SEND_NUMBER(request.req_sequence)
    return f"{request.req_bytes_delivered} of {request.req_bytes_packed} bytes delivered"
