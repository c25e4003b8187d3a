"""pml/cm, which leaves the matching of messages to the layer below (an "mtl" component, mostly mtl/ofi).

It keeps requests for what is nonblocking or persistent, and little in them. A blocking receive has its request on the
stack, a blocking send has none: neither can be seen. Nothing tells in which order requests were made, so they are
listed by peer and tag.
Source: ompi/mca/pml/cm of 4.1.0 to 4.1.8, 5.0.0 to 5.0.10 and 6.0.0rc2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Status
from mqs_dll.contract.errors import TargetReadError
from mqs_dll.contract.phrases import Fate, How
from mqs_dll.library.mpi.communicators import world_rank
from mqs_dll.library.mpi.envelopes import NO_ORDER, NOTHING, DatatypeFacts, Envelope, buffer_text, receive, send
from mqs_dll.library.mpi.openmpi import cm_views, tags
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
from mqs_dll.library.mpi.openmpi.mtl_ofi import MtlOfi, Pattern
from mqs_dll.library.mpi.openmpi.pml import hidden
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.requests import PooledPml

# ompi/mca/pml/cm/pml_cm_request.h: mca_pml_cm_request_type_t
HEAVY_SEND = 0
HEAVY_RECEIVE = 2

CONVERTOR_SEND, CONVERTOR_SEND_6 = 0x00040000, 0x00800000
"""Set where opal_convertor_prepare_for_send was called; the second since 6.0.0 (opal/datatype/opal_convertor.h)."""

ADDRESS_MASK = (1 << 64) - 1
"""A datatype's lower bound may be negative, and is read as an unsigned number."""

NO_ORDER_NO_BLOCKING = "pml/cm: order not known, blocking receives are not visible"
UNSEEN_BLOCKING = "pml/cm: blocking sends are not visible"
NO_DESTINATION = "pml/cm keeps no destination, and no blocking sends"

NOTHING_KNOWN = Pattern(None, None)

KEEPERS = {"mtl/ofi": "libfabric", "mtl/psm2": "the PSM2 library", "mtl/portals4": "Portals 4"}
"""Who matches the messages of each layer below."""


def is_6(convertor: Mapping[str, int]) -> bool:
    """Return whether an opal_convertor_t is of 6.0.0 or later, which gave its flags other values, by its offsets."""
    return convertor["count"] < convertor["local_size"]


class Cm(PooledPml[cm_views.CmRecvRequest, cm_views.CmSendRequest]):
    """pml/cm in one process."""

    def __init__(self, mtl: str, ofi: MtlOfi | None, mpi: OmpiProcessContext, why: str = "") -> None:
        """Begin.

        Args:
            mtl: the layer below, as Open MPI calls it, like "mtl/ofi".
            ofi: tells what that one keeps.
            mpi: in the process.
            why: the memory of the layer's library can't be read.

        Raises:
            LayoutError: the layouts of pml/cm's structs are missing.
        """
        super().__init__(mpi, cm_views.CmRecvRequest, cm_views.CmSendRequest)
        self.name = f"pml/cm over {mtl}"
        self._keeper = KEEPERS.get(mtl, "its own library") + (f" ({why})" if why else "")
        self._ofi = ofi
        self._lower_bound = cm_views.LowerBound.bind(mpi.layouts)
        self._is_6 = is_6(mpi.layouts.struct("opal_convertor_t").offsets)
        """Whether MPI_Recv, too, uses a request of the pool."""
        self._convertor_send = CONVERTOR_SEND_6 if self._is_6 else CONVERTOR_SEND

    def unexpected(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Refuse: the layer below has them."""
        raise hidden("unexpected messages", self.name, f"leaves them to {self._keeper}")

    def datatypes_in_use(self) -> list[int]:
        """Return the datatype's address of each request in use."""
        return [request.req_datatype for request in (*self._recv.all(), *self._send.all())]

    # ------------------------------------------------------------ receives

    def receives(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Return the nonblocking and persistent receives of a communicator by source and tag: no order is kept.

        Raises:
            NoInformation: there are none, and a blocking one could not be seen.
        """
        found = [
            self._receive(
                request, entry, self._pattern(request, entry), NO_ORDER if self._is_6 else NO_ORDER_NO_BLOCKING
            )
            for request in self._recv.of(entry.view.address)
        ]
        if not found:
            raise hidden("receives", self.name, "keeps only nonblocking ones, and has none on this communicator")
        return iter(sorted(found, key=by_peer_and_tag))

    def _receive(
        self,
        request: cm_views.CmRecvRequest,
        entry: OmpiEntry,
        pattern: Pattern | None,
        progress: str | None,
        got: Envelope | None = None,
    ) -> Operation:
        """Return a receive.

        Args:
            request: of the pool.
            entry: its communicator.
            pattern: what it asks for, None where nothing is kept of it.
            progress: how far it is, or what isn't known of that.
            got: the message that is coming into it, NOTHING where that isn't known; None while it waits. What one has
                got that is complete stands in the request.
        """
        complete = request.req_complete == COMPLETE
        source, tag = pattern or NOTHING_KNOWN
        rank = INVALID_RANK if source is None else source
        if _has_message(request):
            got = Envelope(request.status_source, self._arrived_tag(request), request.status_ucount)
        under_way = Status.PENDING if got is None else Status.MATCHED
        return receive(
            Status.COMPLETE if complete else under_way,
            Envelope(rank, UNKNOWN if tag is None else tag, request.local_size),
            got or NOTHING,
            entry.peers(),
            request.buffer,
            self._receive_kind(request, complete, known=pattern is not None),
            buffer_text(self._datatypes.at(request.req_datatype), request.count, request.req_datatype),
            request_text(self._memory, request.address, request.req_complete),
            _unclear(pattern),
            None if tag is None else tag_text(tag, self._nonblocking_base),
            progress,
            tag_wild=tag == tags.ANY_TAG,
        )

    def _receive_kind(self, request: cm_views.CmRecvRequest, complete: bool, *, known: bool) -> str:
        fate = Fate.CANCELLED if request.status_cancelled else Fate.FREED if request.free_called else Fate.NONE
        error = request.status_error if complete and not request.status_cancelled else 0
        if request.pml_type == HEAVY_RECEIVE:
            return phrases.made_by("MPI_Recv_init", how=How.PERSISTENT, fate=fate, error=error)
        blocking = ("MPI_Recv",) if self._is_6 and not complete and fate == Fate.NONE else ()
        if known and not complete:
            how = How.EITHER if blocking else How.NONBLOCKING
            return phrases.made_by(*blocking, "MPI_Irecv", how=how, fate=fate)
        return phrases.made_by(*blocking, "MPI_Irecv", "MPI_Imrecv", fate=fate, error=error)

    def _pattern(self, request: cm_views.CmRecvRequest, entry: OmpiEntry) -> Pattern | None:
        """Return what a receive asks for, None where nothing is kept of it."""
        if request.pml_type == HEAVY_RECEIVE:
            return Pattern(request.heavy_peer, request.heavy_tag)
        if self._ofi is None:
            return None
        of_complete = _has_message(request)
        return self._ofi.pattern_of_complete(request, entry) if of_complete else self._ofi.pattern(request, entry)

    def _arrived_tag(self, request: cm_views.CmRecvRequest) -> int:
        return request.status_tag if self._ofi is None else self._ofi.codec.read(request.status_tag).tag

    # ------------------------------------------------------------ sends

    def sends(self, entry: OmpiEntry) -> Iterator[Operation]:
        """Return the sends of a communicator that keep a request, by destination and tag: no order is kept.

        Raises:
            NoInformation: there are none, and a blocking one could not be seen.
        """
        found = [
            self._send_operation(request, entry, UNSEEN_BLOCKING if request.pml_type == HEAVY_SEND else NO_DESTINATION)
            for request in self._send.of(entry.view.address)
        ]
        if not found:
            raise hidden("sends", self.name, "keeps only nonblocking ones, and has none on this communicator")
        return iter(sorted(found, key=by_peer_and_tag))

    def _send_operation(
        self, request: cm_views.CmSendRequest, entry: OmpiEntry, progress: str, rank: int = INVALID_RANK
    ) -> Operation:
        """Return a send.

        Args:
            request: of the pool.
            entry: its communicator.
            progress: how far it is, or what isn't known of that.
            rank: of the receiver, as far as it isn't kept in the request.
        """
        facts = self._datatypes.at(request.req_datatype)
        heavy = request.pml_type == HEAVY_SEND
        rank = request.heavy_peer if heavy else rank
        tag = request.heavy_tag if heavy else request.status_tag
        complete = request.req_complete == COMPLETE and not request.free_called
        return send(
            Status.COMPLETE if complete else Status.PENDING,
            rank,
            world_rank(entry.peers(), rank),
            tag,
            request.local_size,
            self._send_buffer(request),
            _send_kind(request),
            buffer_text(facts, _elements(request, facts), request.req_datatype),
            request_text(self._memory, request.address, request.req_complete),
            progress,
            tag_text(tag, self._nonblocking_base) or _send_progress(request),
            system_buffer=_is_copy(request),
        )

    def _send_buffer(self, request: cm_views.CmSendRequest) -> int:
        """Return where a message begins; of a buffered one it is the copy, 0 when that is no longer needed."""
        if request.req_send_mode == BUFFERED:
            return request.buffer if _is_copy(request) else 0
        return (
            request.heavy_addr
            if request.pml_type == HEAVY_SEND
            else self._program_buffer(request.buffer, request.convertor_flags, request.req_datatype)
        )

    def _program_buffer(self, buffer: int, flags: int, datatype: int) -> int:
        """Return the address that the program gave for a send, 0 where its datatype can't be read.

        4.1 adds the datatype's lower bound to it where it can send in place.

        Args:
            buffer: in the convertor.
            flags: of the convertor.
            datatype: its address.
        """
        if flags & self._convertor_send:
            return buffer
        if self._datatypes.at(datatype) is None:
            return 0
        try:
            lower_bound = self._lower_bound.at(self._memory, datatype).true_lb
        except TargetReadError:
            return 0
        return buffer - lower_bound & ADDRESS_MASK


def by_peer_and_tag(operation: Operation) -> tuple[int, int, int]:
    """Return by what operations without an order are sorted."""
    return operation.desired_local_rank, operation.desired_tag, operation.buffer


def _has_message(request: cm_views.CmRecvRequest) -> bool:
    return request.req_complete == COMPLETE and not request.status_cancelled and request.status_error == 0


def _elements(request: cm_views.CmSendRequest, facts: DatatypeFacts | None) -> int:
    """Return the number of elements; the convertor of a buffered send counts the bytes of the copy."""
    if request.req_send_mode == BUFFERED and facts is not None and facts.size:
        return request.local_size // facts.size
    return request.count


def _unclear(pattern: Pattern | None) -> str | None:
    """Return what is not known of the messages that a receive asks for."""
    if pattern is None:
        return "source and tag: not known"
    texts = []
    if pattern.source is None:
        texts.append("source: not known")
    if pattern.tag is None:
        texts.append("tag: 0 or MPI_ANY_TAG")
    return "; ".join(texts)


def _send_kind(request: cm_views.CmSendRequest) -> str:
    mode = request.req_send_mode
    kind = send_kind(mode, persistent=request.req_persistent, free_called=request.free_called)
    if kind is not None:
        return kind
    fate = Fate.FREED if request.free_called else Fate.NONE
    return phrases.made_by(CALLS[mode][1], how=How.NONBLOCKING, fate=fate)


def _is_copy(request: cm_views.CmSendRequest) -> bool:
    """Tell whether a message is in the attached buffer, whole, until it is delivered (pml_cm_sendreq.h)."""
    return request.req_send_mode == BUFFERED and not request.pml_complete


def _send_progress(request: cm_views.CmSendRequest) -> str | None:
    if _is_copy(request):
        return phrases.NOT_DELIVERED(request.buffer)
    return sent_from_copy(request.heavy_addr) if request.req_send_mode == BUFFERED else None
