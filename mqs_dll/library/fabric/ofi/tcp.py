"""The provider tcp ("xnet" in its sources): what its endpoint matches, and what its connections send and receive.

Receives from one process hang in a queue of it, those from anybody in one queue; all have numbers in the order of
posting. Messages are saved by their sender, up to 64 of each (FI_TCP_MAX_SAVED): the next one stays in its connection,
and what is behind it in the socket.
Source: prov/tcp/src/xnet.h, xnet_proto.h, xnet_srx.c, xnet_progress.c, xnet_rdm_cm.c of 1.22.0 and 2.5.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from mqs_dll.contract.errors import BrokenStructureError, LayoutError
from mqs_dll.library.fabric import ANY, Arrived, Posted, Received
from mqs_dll.library.fabric.ofi import lists
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent, check_order
from mqs_dll.library.fabric.ofi.libfabric import FidClass, Libfabric
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, inside, pointer, uint8, uint16, uint32, uint64
from mqs_dll.library.memory import bounded, cached_per_sweep

SAVED_BYTES = 40
"""sizeof(struct xnet_saved_msg)."""

MAX_PIECES = 5

VERSION = 3
"""Of the protocol."""

# op of a header
TAGGED = 1
TAGGED_RENDEZVOUS = 5

# flags of a header
HAS_DATA = 0x1

BASE_BYTES = 16
"""Of a header, before its up to three words."""

# ctrl_flags of an entry
INTERNAL = 0x8
FREE_BUFFER = 0x80
SAVED = 0x100

CONNECTING = (1, 3)
"""States of a connection before its peer has accepted it."""

RENDEZVOUS_ITEMS = 256
_ITEM = struct.Struct("<Qi4x")
USED = -1
"""In the second word of an item that is in use (struct ofi_idx_entry)."""


class TcpEndpoint(View):
    """tcp's endpoint; below it are connections, endpoints of their own."""

    struct = "xnet_rdm"
    srx: int = pointer()
    conn_idx_map: int = inside()
    rx_loopback: int = pointer()


class TcpReceives(View):
    """What tcp matches: receives that wait, and messages that wait for one."""

    struct = "xnet_srx"
    domain: int = pointer()
    tag_queue: int = inside()
    src_tag_queues: int = inside()
    saved_msgs: int = inside()
    tag_seq_no: int = uint64()
    rdm: int = pointer()


class TcpSaved(View):
    """The messages of one peer."""

    struct = "xnet_saved_msg"
    next: int = pointer(name="entry")
    queue: int = inside()
    cnt: int = uint32()


class TcpEntry(View):
    """A receive, a message or a send; the header is that of the message as it travels."""

    struct = "xnet_xfer_entry"
    user_buf: int = pointer()
    iov_cnt: int = uint64()
    iov: int = inside()
    saving_ep: int = pointer()
    tag_seq_no: int = uint64()
    tag: int = uint64()
    ignore: int = uint64()
    src_addr: int = uint64()
    ctrl_flags: int = uint32()
    context: int = pointer()
    hdr: int = inside()
    msg_data: int = inside()


class TcpHeader(View):
    """The header of a message as it travels, and up to three words: cq data, tag and the size of a rendezvous."""

    struct = "xnet_hdrs"
    version: int = uint8()
    op: int = uint8()
    flags: int = uint16()
    op_data: int = uint8()
    hdr_size: int = uint8()
    size: int = uint64()
    first: int = uint64(name="words[0]")
    second: int = uint64(name="words[1]")
    third: int = uint64(name="words[2]")


class TcpConn(View):
    """A connection as the endpoint knows it."""

    struct = "xnet_conn"
    ep: int = pointer()
    rdm: int = pointer()


class TcpConnection(View):
    """The endpoint of a connection: what is on its way."""

    struct = "xnet_ep"
    hdr: int = inside(name="cur_rx.hdr")
    rx_data_left: int = uint64(name="cur_rx.data_left")
    rx_entry: int = pointer(name="cur_rx.entry")
    claim_ctx: int = pointer(name="cur_rx.claim_ctx")
    tx_entry: int = pointer(name="cur_tx.entry")
    unexp_entry: int = inside()
    unexp_next: int = pointer(name="unexp_entry")
    tx_queue: int = inside()
    need_ack_queue: int = inside()
    async_queue: int = inside()
    rts_queue: int = pointer()
    state: int = uint32()
    peer: int = pointer()


class UtilPeerAddr(View):
    """A process that a connection leads to."""

    struct = "util_peer_addr"
    fi_addr: int = uint64()


class Tcp(Endpoint):
    """An endpoint of tcp."""

    provider = "tcp"
    checks = (
        "the endpoint's queues are shared receives, and refer to the endpoint and its domain",
        "the arrays of its queues and of its messages have items of 16 and 40 bytes",
    )
    orders_sources = False
    numbers_receives = True

    def __init__(self, library: Libfabric, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare what an endpoint shows of itself.

        Raises:
            LayoutError: it isn't one of tcp, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        self._memory = memory = library.memory
        self.release = library.name
        self._endpoint = endpoint
        self._rdm = TcpEndpoint.bind(layouts)
        self._receives = TcpReceives.bind(layouts)
        self._saved_of = TcpSaved.bind(layouts)
        self._entry = TcpEntry.bind(layouts)
        self._header = TcpHeader.bind(layouts)
        self._conn = TcpConn.bind(layouts)
        self._connection = TcpConnection.bind(layouts)
        self._peer = UtilPeerAddr.bind(layouts)
        rdm = self._rdm.at(memory, endpoint)
        if library.kind(rdm.srx) is not FidClass.SRX_CTX:
            raise LayoutError("it has no queues of tcp's")
        srx = self._receives.at(memory, rdm.srx)
        sizes = [lists.item_size(memory, srx.address + array) for array in (srx.src_tag_queues, srx.saved_msgs)]
        if srx.rdm != endpoint or srx.domain != domain or sizes != [lists.SLIST_BYTES, SAVED_BYTES]:
            raise LayoutError("its queues don't lead back to it")

    # ------------------------------------------------------------ receives

    def posted(self) -> list[Posted]:
        """Return the receives that wait by their numbers."""
        memory = self._memory
        srx = self._srx()
        what = "a queue of tcp's receives"
        found = [self._posted(link, ANY) for link in lists.slist(memory, srx.address + srx.tag_queue, what)]
        for source, queue in lists.items(memory, srx.address + srx.src_tag_queues, lists.SLIST_BYTES, 0):
            found += [self._posted(link, source) for link in lists.slist(memory, queue, what)]
        return check_order(found, srx.tag_seq_no)

    def _srx(self) -> TcpReceives:
        return self._receives.at(self._memory, self._rdm.at(self._memory, self._endpoint).srx)

    def _posted(self, address: int, source: int) -> Posted:
        entry = self._entry.at(self._memory, address)
        if entry.src_addr != source or entry.iov_cnt > MAX_PIECES:
            raise BrokenStructureError(f"there is no receive of tcp's at {address:#x}")
        words = self._memory.pointers(address + entry.iov, 2 * entry.iov_cnt)
        return Posted(
            address,
            entry.tag,
            entry.ignore,
            entry.tag_seq_no,
            entry.user_buf if words else 0,
            sum(words[1::2]),
            entry.context,
            source,
        )

    def filling(self) -> list[Received]:
        """Return the receives that a connection fills with a message just now."""
        found = []
        for _, connection in self._connections():
            if connection.rx_entry:
                entry, header = self._whole(connection.rx_entry)
                if header.op == TAGGED and not entry.ctrl_flags & (SAVED | INTERNAL):
                    message = self._message(header, entry.src_addr)
                    here = max(0, message.length - connection.rx_data_left)
                    found.append(Received(entry.address, entry.context, message._replace(here=here)))
        return found

    # ------------------------------------------------------------ messages

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages of one peer after the other, first those of the one whose first message came first.

        So a receive from anybody finds them. At the end come those that wait in their connections.
        """
        srx = self._srx()
        queue = self._saved_of.constant("queue")
        saved = {
            address: source
            for source, address in lists.items(self._memory, srx.address + srx.saved_msgs, SAVED_BYTES, queue)
        }
        for address in self._in_turn(saved):
            count = 0
            for link in lists.slist(self._memory, address + queue, "a list of the messages that tcp saves"):
                yield self._saved(link, saved[address])
                count += 1
            if count != self._saved_of.at(self._memory, address).cnt:
                raise BrokenStructureError(f"tcp counts other messages of a process than the {count} that it saves")
        for source, connection in self._connections():
            if self._is_held(connection):
                header = self._header.at(self._memory, connection.address + connection.hdr)
                yield self._message(header, source)._replace(claimed=bool(connection.claim_ctx))

    def _in_turn(self, saved: Mapping[int, int]) -> Sequence[int]:
        """Return the records of peers in the order of their list, whose head is the one link that is no record."""
        if not saved:
            return ()

        def steps(first: int) -> Iterator[int]:
            link = first
            while True:
                yield link
                link = self._memory.pointer(link)
                if link == first:
                    return

        what = "the list of processes whose messages tcp saves"
        ring = list(bounded(steps(next(iter(saved))), len(saved) + 1, what))
        heads = [place for place, link in enumerate(ring) if link not in saved]
        if len(heads) != 1 or len(ring) != len(saved) + 1:
            raise BrokenStructureError(f"{what} has {len(ring) - len(heads)} of {len(saved)}")
        return ring[heads[0] + 1 :] + ring[: heads[0]]

    def _saved(self, address: int, source: int) -> Arrived:
        entry, header = self._whole(address)
        message = self._message(header, source)
        if entry.src_addr != source or entry.tag != message.tag or not entry.ctrl_flags & SAVED:
            raise BrokenStructureError(f"there is no message of tcp's at {address:#x}")
        left = message.length if message.rendezvous else 0
        if entry.saving_ep and not message.rendezvous:
            connection = self._connection.at(self._memory, entry.saving_ep)
            if connection.rx_entry != address or connection.rx_data_left > message.length:
                raise BrokenStructureError(f"the message of tcp's at {address:#x} contradicts itself")
            left = connection.rx_data_left
        here = message.length - left
        data = entry.user_buf if entry.ctrl_flags & FREE_BUFFER else address + entry.msg_data
        return message._replace(here=here, address=data if here else 0, claimed=bool(entry.context))

    def _whole(self, address: int) -> tuple[TcpEntry, TcpHeader]:
        entry = self._entry.at(self._memory, address)
        return entry, self._header.at(self._memory, address + entry.hdr)

    @staticmethod
    def _message(header: TcpHeader, source: int) -> Arrived:
        """Return what the header of a tagged message says.

        Raises:
            BrokenStructureError: there is none.
        """
        has_data = bool(header.flags & HAS_DATA)
        rendezvous = header.op == TAGGED_RENDEZVOUS
        words = (header.first, header.second, header.third)[: 1 + has_data + rendezvous]
        known = header.version == VERSION and header.op in (TAGGED, TAGGED_RENDEZVOUS)
        if not known or header.hdr_size != BASE_BYTES + 8 * len(words) or header.size < header.hdr_size:
            raise BrokenStructureError(f"there is no header of a message of tcp's at {header.address:#x}")
        return Arrived(
            words[has_data],
            words[-1] if rendezvous else header.size - header.hdr_size,
            here=0,
            address=0,
            rendezvous=rendezvous,
            source=source,
            data=words[0] if has_data else None,
        )

    def _is_held(self, connection: TcpConnection) -> bool:
        """Tell whether a message waits in its connection for a receive: those of its peer that are saved are enough."""
        return connection.unexp_next != connection.address + connection.unexp_entry and not connection.rx_entry

    def full(self) -> Sequence[int]:
        """Return the peers whose next messages can't come before one that waits in its connection is received."""
        return [source for source, connection in self._connections() if self._is_held(connection)]

    # ------------------------------------------------------------ connections

    def connecting(self) -> Sequence[int]:
        """Return the peers that have not answered yet: they make no call of libfabric's."""
        return [source for source, connection in self._connections() if connection.state in CONNECTING]

    @cached_per_sweep
    def _connections(self) -> Sequence[tuple[int, TcpConnection]]:
        """Return the connections, each with the address of its peer in the table."""
        rdm = self._rdm.at(self._memory, self._endpoint)
        loopback = [rdm.rx_loopback] if rdm.rx_loopback else []
        found = []
        for address in (*lists.pointers(self._memory, self._endpoint + rdm.conn_idx_map), *loopback):
            conn = self._conn.at(self._memory, address)
            if conn.rdm != self._endpoint:
                raise BrokenStructureError(f"there is no connection of tcp's at {address:#x}")
            if conn.ep:
                connection = self._connection.at(self._memory, conn.ep)
                found.append((self._peer.at(self._memory, connection.peer).fi_addr, connection))
        return found

    # ------------------------------------------------------------ sends

    def sends(self) -> list[OfiSent]:
        """Return the sends of each connection: on their way, behind that one, and those whose receiver must answer."""
        found = []
        for destination, connection in self._connections():
            for address, has_left in self._outgoing(connection):
                entry = self._entry.at(self._memory, address)
                header = self._header.at(self._memory, address + entry.hdr)
                if not entry.ctrl_flags & INTERNAL and header.op in (TAGGED, TAGGED_RENDEZVOUS):
                    found.append(self._sent(entry, self._message(header, destination), has_left=has_left))
        return sorted(found, key=lambda each: each.destination)

    def _outgoing(self, connection: TcpConnection) -> Iterator[tuple[int, bool]]:
        """Yield the entries of a connection's sends, and whether all of each has left."""
        what = "a queue of tcp's sends"
        for queue in (connection.need_ack_queue, connection.async_queue):
            for link in lists.slist(self._memory, connection.address + queue, what):
                yield link, True
        if connection.rts_queue:
            for index in range(RENDEZVOUS_ITEMS):
                item, used = self._memory.unpack(_ITEM, connection.rts_queue + _ITEM.size * index)
                if item and used == USED:
                    yield item, True
        if connection.tx_entry:
            yield connection.tx_entry, False
        for link in lists.slist(self._memory, connection.address + connection.tx_queue, what):
            yield link, False

    @staticmethod
    def _sent(entry: TcpEntry, message: Arrived, *, has_left: bool) -> OfiSent:
        return OfiSent(
            entry.address,
            message.tag,
            message.source,
            message.length,
            0 if entry.ctrl_flags & FREE_BUFFER else entry.user_buf,
            has_left,
            message.data,
            entry.context,
        )
