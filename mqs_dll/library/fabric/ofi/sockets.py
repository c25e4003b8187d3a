"""The provider sockets: two lists of a receive context, one of a send context; a thread of its own moves messages.

Source: prov/sockets/include/sock.h, prov/sockets/src/sock_rx_entry.c, sock_progress.c of 1.22.0 and 2.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqs_dll.contract.errors import BrokenStructureError, LayoutError
from mqs_dll.library.fabric import Arrived, Posted
from mqs_dll.library.fabric.ofi import lists
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent
from mqs_dll.library.fabric.ofi.libfabric import FidClass, Libfabric
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, inside, pointer, uint8, uint32, uint64

MAX_PIECES = 8
"""SOCK_EP_MAX_IOV_LIMIT."""

PIECE_WORDS = 3
"""Of a piece: address, bytes, key."""

MAX_CONTEXTS = 64

TAGGED_SEND = 1
"""op of a send with a tag."""

REMOTE_CQ_DATA = 1 << 17
INJECT = 1 << 25
"""Of the flags of a send: a copy."""


class SocketsEndpoint(View):
    """sockets' endpoint."""

    struct = "sock_ep"
    attr: int = pointer()


class SocketsAttributes(View):
    """What it has."""

    struct = "sock_ep_attr"
    fclass: int = uint64()
    domain: int = pointer()
    rx_ctx: int = pointer()
    tx_ctx: int = pointer()
    tx_array: int = pointer()
    num_tx_ctx: int = uint32()


class SocketsDomain(View):
    """The domain, which doesn't begin with its fid."""

    struct = "sock_domain"
    fid: int = inside(name="dom_fid")


class SocketsReceives(View):
    """A receive context."""

    struct = "sock_rx_ctx"
    ep_attr: int = pointer()
    domain: int = pointer()
    rx_entry_list: int = inside()
    rx_buffered_list: int = inside()


class SocketsEntry(View):
    """A receive or a message."""

    struct = "sock_rx_entry"
    pieces: int = uint8("sock_rx_entry", "rx_op", "sock_op", name="dest_iov_len")
    is_buffered: int = uint8()
    is_busy: int = uint8()
    """Of a receive: its message comes in just now."""
    is_claimed: int = uint8()
    is_complete: int = uint8()
    is_tagged: int = uint8()
    used: int = uint64()
    total_len: int = uint64()
    flags: int = uint64()
    context: int = pointer()
    addr: int = uint64()
    data: int = uint64()
    tag: int = uint64()
    ignore: int = uint64()
    iov: int = inside()
    entry: int = inside()


class SocketsSends(View):
    """A send context."""

    struct = "sock_tx_ctx"
    pe_entry_list: int = inside()


class SocketsSend(View):
    """A send."""

    struct = "sock_pe_entry"
    op: int = uint8("sock_pe_entry", "pe.tx.tx_op", "sock_op")
    buffer: int = pointer("sock_pe_entry", "pe.tx.tx_iov", "sock_iov", name="src.iov.addr")
    length: int = uint64("sock_pe_entry", "pe.tx.tx_iov", "sock_iov", name="src.iov.len")
    flags: int = uint64()
    context: int = pointer()
    addr: int = uint64()
    data: int = uint64()
    tag: int = uint64()
    is_complete: int = uint8()
    done_len: int = uint64()
    total_len: int = uint64()
    ctx_entry: int = inside()


class Sockets(Endpoint):
    """An endpoint of sockets, or one receive context of a scalable one."""

    provider = "sockets"
    checks = (
        "the receive context refers to its endpoint and to the MPI's domain",
        "the ends of its lists refer to the lists",
    )
    orders_sources = True
    numbers_receives = False

    def __init__(self, library: Libfabric, layouts: Layouts, receives: int, domain: int) -> None:
        """Compare what an endpoint shows of itself.

        Raises:
            LayoutError: it isn't one of sockets, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        self._memory = memory = library.memory
        self.release = library.name
        self._attributes = SocketsAttributes.bind(layouts)
        self._entry = SocketsEntry.bind(layouts)
        self._sends_of = SocketsSends.bind(layouts)
        self._send = SocketsSend.bind(layouts)
        context = receives
        if library.kind(receives) is FidClass.EP:
            attributes = SocketsEndpoint.bind(layouts).at(memory, receives).attr
            context = self._attributes.at(memory, attributes).rx_ctx
        self._receives = SocketsReceives.bind(layouts)
        if memory.pointer(context) != FidClass.RX_CTX:  # that of a simple endpoint has no functions
            raise LayoutError("it has no receive context")
        rx = self._receives.at(memory, context)
        owner = self._attributes.at(memory, rx.ep_attr)
        if owner.fclass not in (FidClass.EP, FidClass.SEP) or owner.domain != rx.domain:
            raise LayoutError("its receive context is of another endpoint")
        if (
            library.kind(domain) is not FidClass.DOMAIN
            or rx.domain + SocketsDomain.bind(layouts).constant("fid") != domain
        ):
            raise LayoutError("it is of another domain")
        if not all(lists.is_dlist(memory, context + each) for each in (rx.rx_entry_list, rx.rx_buffered_list)):
            raise LayoutError("its lists have no heads where they should")
        self._context = context
        self._link = self._entry.constant("entry")

    # ------------------------------------------------------------ receives

    def posted(self) -> list[Posted]:
        """Return the receives that wait, as they stand in their list: in the order of posting."""
        rx = self._receives.at(self._memory, self._context)
        found: list[Posted] = []
        for link in lists.dlist(self._memory, self._context + rx.rx_entry_list, "sockets' list of receives"):
            entry = self._checked(link - self._link, buffered=False)
            if entry.is_tagged and not entry.is_busy:
                words = self._memory.pointers(entry.address + entry.iov, PIECE_WORDS * entry.pieces)
                found.append(
                    Posted(
                        entry.address,
                        entry.tag,
                        entry.ignore,
                        len(found),
                        words[0] if words else 0,
                        entry.total_len,
                        entry.context,
                        entry.addr,
                    )
                )
        return found

    def _checked(self, address: int, *, buffered: bool) -> SocketsEntry:
        entry = self._entry.at(self._memory, address)
        flags = (entry.is_buffered, entry.is_complete, entry.is_tagged, entry.is_claimed)
        if max(flags) > 1 or entry.is_buffered != buffered or entry.pieces > MAX_PIECES:
            raise BrokenStructureError(f"there is no entry of sockets' at {address:#x}")
        if entry.used > entry.total_len:
            raise BrokenStructureError(f"the entry of sockets' at {address:#x} contradicts itself")
        return entry

    # ------------------------------------------------------------ messages

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages as they came."""
        rx = self._receives.at(self._memory, self._context)
        for link in lists.dlist(self._memory, self._context + rx.rx_buffered_list, "sockets' list of messages"):
            entry = self._checked(link - self._link, buffered=True)
            if entry.is_tagged:
                here = entry.total_len if entry.is_complete else entry.used
                yield Arrived(
                    entry.tag,
                    entry.total_len,
                    here,
                    self._memory.pointer(entry.address + entry.iov) if here else 0,
                    rendezvous=False,
                    source=entry.addr,
                    data=entry.data if entry.flags & REMOTE_CQ_DATA else None,
                    claimed=bool(entry.is_claimed),
                )

    # ------------------------------------------------------------ sends

    def sends(self) -> list[OfiSent]:
        """Return the sends that are on their way, copies aside: one that has left has lost its tag."""
        found = []
        for context in self._send_contexts():
            tx = self._sends_of.at(self._memory, context)
            link = self._send.constant("ctx_entry")
            for each in lists.dlist(self._memory, context + tx.pe_entry_list, "sockets' list of sends"):
                send = self._send.at(self._memory, each - link)
                on_way = not send.is_complete and send.done_len < send.total_len
                if send.op == TAGGED_SEND and on_way and not send.flags & INJECT:
                    data = send.data if send.flags & REMOTE_CQ_DATA else None
                    place = send.address, send.tag, send.addr, send.length, send.buffer
                    found.append(OfiSent(*place, has_left=False, data=data, context=send.context))
        return sorted(found, key=lambda each: each.destination)

    def _send_contexts(self) -> Sequence[int]:
        rx = self._receives.at(self._memory, self._context)
        owner = self._attributes.at(self._memory, rx.ep_attr)
        if owner.fclass == FidClass.EP:
            return (owner.tx_ctx,)
        if owner.num_tx_ctx > MAX_CONTEXTS:
            raise BrokenStructureError(f"an endpoint of sockets is said to have {owner.num_tx_ctx} send contexts")
        return [each for each in self._memory.pointers(owner.tx_array, owner.num_tx_ctx) if each]
