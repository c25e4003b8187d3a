"""util_srx, by which several providers match: shm, sm2, and since 2.0 rxm over any other one.

Receives from one process hang in a queue of it, those from anybody in one queue; all have numbers in the order of
posting. Messages hang in a queue of their sender.
Source: prov/util/src/util_srx.c, include/ofi_util.h, include/rdma/providers/fi_peer.h of 1.22.0 and 2.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from mqs_dll.contract.errors import BrokenStructureError, LayoutError, NoInformation
from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi import lists
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent, UtilEndpoint, check_order
from mqs_dll.library.fabric.ofi.libfabric import FidClass, Libfabric
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, inside, pointer, uint64

PEER_BYTES = 56
"""sizeof(struct util_unexp_peer)."""

MAX_PIECES = 64

REMOTE_CQ_DATA = 1 << 17
"""FI_REMOTE_CQ_DATA, in the flags of a message."""


class WithSrx(View):
    """An endpoint that has its receives in a util_srx_ctx."""

    srx: int = pointer()


class UtilSrx(View):
    """What util_srx matches."""

    struct = "util_srx_ctx"
    rx_seq_no: int = uint64()
    tag_queue: int = inside()
    src_trecv_queues: int = inside()
    unspec_unexp_tag_queue: int = inside()
    unexp_peers: int = inside()
    src_unexp_peers: int = inside()


class UtilPeer(View):
    """The messages of one process."""

    struct = "util_unexp_peer"
    tag_queue: int = inside()


class UtilEntry(View):
    """A receive or a message; those of a receive that are the message's may be stale."""

    struct = "util_rx_entry"
    peer_entry: int = inside()
    addr: int = uint64("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    msg_size: int = uint64("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    tag: int = uint64("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    cq_data: int = uint64("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    flags: int = uint64("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    context: int = pointer("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    count: int = uint64("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    peer_context: int = pointer("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    iov: int = pointer("util_rx_entry", "peer_entry", "fi_peer_rx_entry")
    seq_no: int = uint64()
    ignore: int = uint64()


class SharedReceives(Endpoint):
    """An endpoint that keeps its queues so."""

    checks = (
        "the endpoint is of the MPI's domain, and its queues are shared receives",
        "the arrays of its queues and of its messages have items of 16 and 56 bytes",
        "the ends of its lists refer to the lists",
    )
    orders_sources = False
    numbers_receives = True
    view: ClassVar[type[WithSrx]]
    """Where the endpoint names its queues."""

    def __init__(self, library: Libfabric, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare what an endpoint shows of itself.

        Raises:
            LayoutError: it isn't one of this provider, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        self._memory = memory = library.memory
        self.release = library.name
        self._endpoint = endpoint
        self._srx_of = self.view.bind(layouts)
        self._receives = UtilSrx.bind(layouts)
        self._peer_of = UtilPeer.bind(layouts)
        self._entry = UtilEntry.bind(layouts)
        if UtilEndpoint.bind(layouts).at(memory, endpoint).domain != domain:
            raise LayoutError("it is of another domain")
        if library.kind(self._srx_of.at(memory, endpoint).srx) is not FidClass.SRX_CTX:
            raise LayoutError("it has no shared receives")
        srx = self._srx()
        arrays = (srx.src_trecv_queues, lists.SLIST_BYTES), (srx.src_unexp_peers, PEER_BYTES)
        if any(lists.item_size(memory, srx.address + array) != size for array, size in arrays):
            raise LayoutError("its queues have items of other sizes")
        if not all(
            lists.is_dlist(memory, srx.address + each) for each in (srx.unspec_unexp_tag_queue, srx.unexp_peers)
        ):
            raise LayoutError("its lists have no heads where they should")

    def _srx(self) -> UtilSrx:
        return self._receives.at(self._memory, self._srx_of.at(self._memory, self._endpoint).srx)

    def posted(self) -> list[Posted]:
        """Return the receives that wait by their numbers."""
        memory = self._memory
        srx = self._srx()
        what = f"a queue of {self.provider}'s receives"
        found = [self._posted(link, ANY) for link in lists.slist(memory, srx.address + srx.tag_queue, what)]
        for source, queue in lists.items(memory, srx.address + srx.src_trecv_queues, lists.SLIST_BYTES, 0):
            for link in lists.slist(memory, queue, what):
                found.append(self._posted(link, source))
        return check_order(found, srx.rx_seq_no)

    def _posted(self, address: int, source: int) -> Posted:
        entry = self._entry.at(self._memory, address)
        if (source not in (ANY, entry.addr)) or entry.count > MAX_PIECES:
            raise BrokenStructureError(f"there is no receive of {self.provider}'s at {address:#x}")
        words = self._memory.pointers(entry.iov, 2 * entry.count)
        return Posted(
            address,
            entry.tag,
            entry.ignore,
            entry.seq_no,
            words[0] if words else 0,
            sum(words[1::2]),
            entry.context,
            source,
        )

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages of one peer after the other, first those of the one whose first message came first.

        So a receive from anybody finds them. Before them come those whose sender isn't known.
        """
        memory = self._memory
        srx = self._srx()
        unspecified = f"{self.provider}'s messages of unknown senders"
        for link in lists.dlist(memory, srx.address + srx.unspec_unexp_tag_queue, unspecified):
            yield self._arrived(link, ANY)
        queue = self._peer_of.constant("tag_queue")
        peers = {
            address: source
            for source, address in lists.items(memory, srx.address + srx.src_unexp_peers, PEER_BYTES, queue)
        }
        what = f"the list of processes whose messages {self.provider} has"
        reached = 0
        for address in lists.dlist(memory, srx.address + srx.unexp_peers, what):
            if address in peers:  # else it has messages without a tag
                reached += 1
                for link in lists.slist(memory, address + queue, f"a list of {self.provider}'s messages"):
                    yield self._arrived(link, peers[address])
        if reached != len(peers):
            raise BrokenStructureError(f"{what} has {reached} of {len(peers)}")

    def _arrived(self, address: int, source: int) -> Arrived:
        entry = self._entry.at(self._memory, address)
        if entry.addr != source:
            raise BrokenStructureError(f"there is no message of {self.provider}'s at {address:#x}")
        here, payload = self._payload(entry)
        return Arrived(
            entry.tag,
            entry.msg_size,
            here,
            payload,
            rendezvous=False,
            source=source,
            data=entry.cq_data if entry.flags & REMOTE_CQ_DATA else None,
        )

    def _payload(self, entry: UtilEntry) -> tuple[int, int]:
        """Return how many bytes of a message are known to be here, and their address."""
        return 0, 0

    def sends(self) -> list[OfiSent]:
        """Refuse."""
        raise NoInformation(f"how {self.provider} keeps its sends is not known")
