"""rxm, which makes an endpoint of another provider's connections ("tcp;ofi_rxm"): its sends, and before 2.0 its lists.

Since 2.0 it matches by util_srx (``srx``), as other providers do.

Source: prov/rxm/src/rxm.h, rxm_tagged.c, rxm_cq.c, include/ofi_proto.h of 1.17.0 and 1.22.0; of sends live processes,
also of 2.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.contract.errors import BrokenStructureError, LayoutError, MqsError, TargetReadError
from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi import lists
from mqs_dll.library.fabric.ofi.buffers import Buffers
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent, UtilEndpoint
from mqs_dll.library.fabric.ofi.libfabric import Libfabric
from mqs_dll.library.fabric.ofi.srx import REMOTE_CQ_DATA, SharedReceives, UtilEntry, WithSrx
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, inside, pointer, uint8, uint32, uint64
from mqs_dll.library.memory import Memory, cached_per_sweep

TAGGED = 2
"""RXM_RECV_QUEUE_TAGGED."""

MAX_PIECES = 4
"""RXM_IOV_LIMIT."""

# op of a header
TAGGED_MESSAGE = 1

# type of the header before that one
EAGER, SEGMENT, RENDEZVOUS = 0, 1, 2


class RxmEndpoint(WithSrx):
    """rxm's endpoint since 2.0."""

    struct = "rxm_ep"
    srx: int = pointer()


class RxmBuffer(View):
    """What rxm has of a message that util_srx keeps."""

    struct = "rxm_rx_buf"
    peer_entry: int = pointer()
    data: int = pointer()
    kind: int = uint8("rxm_rx_buf", "pkt", "rxm_pkt", name="ctrl_hdr.type")
    size: int = uint64("rxm_rx_buf", "pkt", "rxm_pkt", name="hdr.size")


class RxmSends(View):
    """Where rxm's endpoint has its sends."""

    struct = "rxm_ep"
    tx_pool: int = pointer()


class RxmSend(View):
    """A send of rxm's that is not done, with the packet that tells of it."""

    struct = "rxm_tx_buf"
    context: int = pointer(name="app_context")
    op: int = uint8("rxm_tx_buf", "pkt", "rxm_pkt", name="hdr.op")
    flags: int = uint32("rxm_tx_buf", "pkt", "rxm_pkt", name="hdr.flags")
    size: int = uint64("rxm_tx_buf", "pkt", "rxm_pkt", name="hdr.size")
    data: int = uint64("rxm_tx_buf", "pkt", "rxm_pkt", name="hdr.data")
    tag: int = uint64("rxm_tx_buf", "pkt", "rxm_pkt", name="hdr.tag")


class OldRxmEndpoint(View):
    """rxm's endpoint before 2.0."""

    struct = "rxm_ep"
    trecv_queue: int = inside()


class RxmQueue(View):
    """What rxm matches."""

    struct = "rxm_recv_queue"
    rxm_ep: int = pointer()
    type: int = uint32()
    recv_list: int = inside()
    unexp_msg_list: int = inside()


class RxmEntry(View):
    """A receive."""

    struct = "rxm_recv_entry"
    iov: int = inside(name="rxm_iov")
    pieces: int = uint8("rxm_recv_entry", "rxm_iov", "rxm_iov", name="count")
    addr: int = uint64()
    context: int = pointer()
    tag: int = uint64()
    ignore: int = uint64()
    recv_queue: int = pointer()


class RxmMessage(View):
    """A message, with the packet that it came in."""

    struct = "rxm_rx_buf"
    unexp_msg: int = inside()
    addr: int = uint64("rxm_rx_buf", "unexp_msg", "rxm_unexp_msg")
    tag: int = uint64("rxm_rx_buf", "unexp_msg", "rxm_unexp_msg")
    payload: int = pointer(name="data")
    kind: int = uint8("rxm_rx_buf", "pkt", "rxm_pkt", name="ctrl_hdr.type")
    segment: int = uint32("rxm_rx_buf", "pkt", "rxm_pkt", name="ctrl_hdr.seg_no")
    op: int = uint8("rxm_rx_buf", "pkt", "rxm_pkt", name="hdr.op")
    flags: int = uint32("rxm_rx_buf", "pkt", "rxm_pkt", name="hdr.flags")
    size: int = uint64("rxm_rx_buf", "pkt", "rxm_pkt", name="hdr.size")
    data: int = uint64("rxm_rx_buf", "pkt", "rxm_pkt", name="hdr.data")
    header_tag: int = uint64("rxm_rx_buf", "pkt", "rxm_pkt", name="hdr.tag")


class RxmSendPool:
    """The sends of an endpoint of rxm, of any release: those that it copies at once leave no trace.

    The others are in a pool until the receiver has fetched them; to whom they go isn't kept beside them.
    """

    def __init__(self, memory: Memory, layouts: Layouts, endpoint: int) -> None:
        self._memory = memory
        self._endpoint = endpoint
        self._sends_of = RxmSends.bind(layouts)
        self._send = RxmSend.bind(layouts)
        self._buffers = Buffers(memory, layouts)

    def read(self) -> list[OfiSent]:
        """Return the sends that are not done; of one that goes in several packets the first.

        Raises:
            BrokenStructureError, TargetReadError: the pool contradicts itself, or can't be read.
        """
        found = self._found()
        if isinstance(found, MqsError):
            raise found
        return found

    @cached_per_sweep
    def _found(self) -> list[OfiSent] | BrokenStructureError | TargetReadError:
        """Return them, or why they aren't known: the pool takes a thousand fetches, which one failure is enough for."""
        try:
            return self._read()
        except (BrokenStructureError, TargetReadError) as error:
            return error

    def _read(self) -> list[OfiSent]:
        pool = self._sends_of.at(self._memory, self._endpoint).tx_pool
        found: dict[int, OfiSent] = {}
        for address in self._buffers.used(pool, "rxm's pool of sends"):
            send = self._send.at(self._memory, address)
            if send.op == TAGGED_MESSAGE:
                data = send.data if send.flags & REMOTE_CQ_DATA else None
                sent = OfiSent(address, send.tag, ANY, send.size, 0, False, data, send.context)
                found.setdefault(send.context, sent)
        return list(found.values())


class RxmBuffers:
    """The payload of messages that somebody else matches, since 2.0."""

    def __init__(self, memory: Memory, layouts: Layouts) -> None:
        self._memory = memory
        self._buffer = RxmBuffer.bind(layouts)

    def payload(self, address: int, entry: int, size: int) -> tuple[int, int]:
        """Return how many bytes of a message are known to be here, and their address: those of an eager one.

        Args:
            address: of what rxm has of the message.
            entry: of the record (fi_peer_rx_entry) of who matches it, which rxm's refers to.
            size: of the message.

        Raises:
            BrokenStructureError: rxm has no such message there.
        """
        buffer = self._buffer.at(self._memory, address)
        if buffer.peer_entry != entry or buffer.size != size:
            raise BrokenStructureError(f"there is no message of rxm's at {address:#x}")
        return (size, buffer.data) if buffer.kind == EAGER and size else (0, 0)


class Rxm(SharedReceives):
    """An endpoint of rxm, over an endpoint of connections, since 2.0."""

    provider = "ofi_rxm"
    view = RxmEndpoint

    def __init__(self, library: Libfabric, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare, as any other."""
        super().__init__(library, layouts, endpoint, domain)
        self._buffers = RxmBuffers(library.memory, layouts)
        self._sends = RxmSendPool(library.memory, layouts, endpoint)

    def sends(self) -> list[OfiSent]:
        """Return the sends in the pool."""
        return self._sends.read()

    def _payload(self, entry: UtilEntry) -> tuple[int, int]:
        """Return what is known of an eager message."""
        return self._buffers.payload(entry.peer_context, entry.address + entry.peer_entry, entry.msg_size)


class OldRxm(Endpoint):
    """An endpoint of rxm before 2.0, which matches by itself."""

    provider = "ofi_rxm"
    checks = (
        "the endpoint is of the MPI's domain, and its queue of tagged messages refers to it",
        "the ends of its lists refer to the lists",
    )
    orders_sources = True
    numbers_receives = False

    def __init__(self, library: Libfabric, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare what an endpoint shows of itself.

        Raises:
            LayoutError: it isn't one of rxm, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        self._memory = memory = library.memory
        self.release = library.name
        self._queue_of = RxmQueue.bind(layouts)
        self._entry = RxmEntry.bind(layouts)
        self._message = RxmMessage.bind(layouts)
        self._sends = RxmSendPool(memory, layouts, endpoint)
        self._queue = endpoint + OldRxmEndpoint.bind(layouts).constant("trecv_queue")
        if UtilEndpoint.bind(layouts).at(memory, endpoint).domain != domain:
            raise LayoutError("it is of another domain")
        queue = self._queue_of.at(memory, self._queue)
        if queue.rxm_ep != endpoint or queue.type != TAGGED:
            raise LayoutError("it has no queue of tagged receives")
        if not all(lists.is_dlist(memory, self._queue + each) for each in (queue.recv_list, queue.unexp_msg_list)):
            raise LayoutError("its lists have no heads where they should")

    def posted(self) -> list[Posted]:
        """Return the receives that wait, as they stand in their list: in the order of posting."""
        memory = self._memory
        queue = self._queue_of.at(memory, self._queue)
        found: list[Posted] = []
        for address in lists.dlist(memory, self._queue + queue.recv_list, "rxm's list of receives"):
            entry = self._entry.at(memory, address)
            if entry.recv_queue != self._queue or entry.pieces > MAX_PIECES:
                raise BrokenStructureError(f"there is no receive of rxm's at {address:#x}")
            words = memory.pointers(address + entry.iov, 2 * entry.pieces)
            found.append(
                Posted(
                    address,
                    entry.tag,
                    entry.ignore,
                    len(found),
                    words[0] if words else 0,
                    sum(words[1::2]),
                    entry.context,
                    entry.addr,
                )
            )
        return found

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages as they came; of one that comes in several packets the first stands for it."""
        memory = self._memory
        queue = self._queue_of.at(memory, self._queue)
        link = self._message.constant("unexp_msg")
        for each in lists.dlist(memory, self._queue + queue.unexp_msg_list, "rxm's list of messages"):
            message = self._message.at(memory, each - link)
            if message.header_tag != message.tag or message.op != TAGGED_MESSAGE:
                raise BrokenStructureError(f"there is no message of rxm's at {message.address:#x}")
            if message.kind == SEGMENT and message.segment:
                continue
            here = message.size if message.kind == EAGER else 0
            yield Arrived(
                message.tag,
                message.size,
                here,
                message.payload if here else 0,
                rendezvous=message.kind == RENDEZVOUS,
                source=message.addr,
                data=message.data if message.flags & REMOTE_CQ_DATA else None,
            )

    def sends(self) -> list[OfiSent]:
        """Return the sends in the pool."""
        return self._sends.read()
