"""The provider lnx, which links endpoints of others ("shm+tcp"), and matches for all of them.

Receives and messages are in lists of its own, in order over all sources. Sends are with the linked endpoint that
carries them: to processes of the same machine shm, if that is linked.
Source: prov/lnx/include/lnx.h, lnx_ops.c, lnx_ep.c, lnx_av.c of 2.3.0 and 2.5.1, lnx_srx.c of 2.6.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from mqs_dll.contract.errors import BrokenStructureError, LayoutError, NoInformation
from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi import lists
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent, UtilEndpoint
from mqs_dll.library.fabric.ofi.libfabric import FidClass, Libfabric
from mqs_dll.library.fabric.ofi.rxm import RxmBuffers, RxmSendPool
from mqs_dll.library.fabric.ofi.shm import ShmSendPool
from mqs_dll.library.fabric.ofi.srx import REMOTE_CQ_DATA
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, inside, pointer, uint32, uint64

MAX_LINKED = 16
"""LNX_MAX_LOCAL_EPS."""

MAX_PIECES = 4
"""LNX_IOV_LIMIT."""

LINKED_BYTES = 216
"""sizeof(struct lnx_core_ep)."""

SUB_ID_BITS = 8
"""Of an address, which of its process's endpoints it is; above them is the process's place in the MPI's table."""

MAX_NAME_LENGTH = 64


class LnxEndpoint(View):
    """lnx's endpoint; what the MPI knows lies in it."""

    struct = "lnx_ep"
    le_ep: int = inside()
    core_eps: int = pointer(name="le_core_eps")
    domain: int = pointer(name="le_domain")
    recvq: int = inside(name="le_srq.lps_trecv.lqp_recvq.lq_queue")
    unexq: int = inside(name="le_srq.lps_trecv.lqp_unexq.lq_queue")


class LnxDomain(View):
    """lnx's domain."""

    struct = "lnx_domain"
    linked: int = uint32(name="ld_num_doms")


class LnxLinked(View):
    """An endpoint that lnx links."""

    struct = "lnx_core_ep"
    endpoint: int = pointer(name="cep_ep")
    domain: int = pointer(name="cep_domain")
    parent: int = pointer(name="cep_parent")


class LnxLinkedDomain(View):
    """The domain of such a one, with what libfabric said of it."""

    struct = "lnx_core_domain"
    info: int = pointer(name="cd_info")


class FiInfo(View):
    """What libfabric says of an endpoint to come."""

    struct = "fi_info"
    fabric: int = pointer(name="fabric_attr")


class FiFabric(View):
    """Of a fabric."""

    struct = "fi_fabric_attr"
    provider: int = pointer(name="prov_name")


class LnxEntry(View):
    """A receive or a message."""

    struct = "lnx_rx_entry"
    peer_entry: int = inside(name="rx_entry")
    addr: int = uint64("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    msg_size: int = uint64("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    tag: int = uint64("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    cq_data: int = uint64("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    flags: int = uint64("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    context: int = pointer("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    count: int = uint64("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    peer_context: int = pointer("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    iov: int = pointer("lnx_rx_entry", "rx_entry", "fi_peer_rx_entry")
    linked: int = pointer(name="rx_cep")
    ignore: int = uint64(name="rx_ignore")


class Linked(NamedTuple):
    """An endpoint that lnx links: of which provider it is, and its sends where that is known of it."""

    provider: str
    sends: ShmSendPool | RxmSendPool | None


class Lnx(Endpoint):
    """An endpoint of lnx."""

    provider = "lnx"
    checks = (
        "the endpoint is of the MPI's domain, which is lnx's, and each that it links refers to it",
        "the ends of its lists refer to the lists",
    )
    orders_sources = True
    numbers_receives = False

    def __init__(self, library: Libfabric, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare what an endpoint shows of itself.

        Raises:
            LayoutError: it isn't one of lnx, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        self._memory = memory = library.memory
        self.release = library.name
        self._entry = LnxEntry.bind(layouts)
        view = LnxEndpoint.bind(layouts)
        found = view.at(memory, endpoint - view.constant("le_ep"))
        if not UtilEndpoint.bind(layouts).at(memory, endpoint).domain == found.domain == domain:
            raise LayoutError("it is of another domain")
        self._receives, self._messages = found.address + found.recvq, found.address + found.unexq
        if not all(lists.is_dlist(memory, each) for each in (self._receives, self._messages)):
            raise LayoutError("its lists have no heads where they should")
        number = LnxDomain.bind(layouts).at(memory, domain).linked
        if not 0 < number <= MAX_LINKED:
            raise LayoutError(f"it is said to link {number} endpoints")
        linked = LnxLinked.bind(layouts)
        each = [linked.at(memory, found.core_eps + LINKED_BYTES * index) for index in range(number)]
        if not all(one.parent == found.address and library.kind(one.endpoint) is FidClass.EP for one in each):
            raise LayoutError("what it links doesn't lead back to it")
        self._linked = {one.address: self._one(one, layouts) for one in each}
        self._rxm = RxmBuffers(memory, layouts)

    def _one(self, linked: LnxLinked, layouts: Layouts) -> Linked:
        """Return what an endpoint is that lnx links, by the name that its provider gave for it."""
        memory = self._memory
        info = LnxLinkedDomain.bind(layouts).at(memory, linked.domain).info
        fabric = FiInfo.bind(layouts).at(memory, info).fabric
        name = FiFabric.bind(layouts).at(memory, fabric).provider
        provider = memory.text(name, MAX_NAME_LENGTH).decode("ascii", "replace")
        if provider == "shm":
            return Linked(provider, ShmSendPool(memory, layouts, linked.endpoint))
        if provider.endswith(";ofi_rxm"):
            return Linked(provider, RxmSendPool(memory, layouts, linked.endpoint))
        return Linked(provider, None)

    def posted(self) -> list[Posted]:
        """Return the receives that wait, as they stand in their list: in the order of posting."""
        found = []
        for number, link in enumerate(lists.dlist(self._memory, self._receives, "lnx's list of receives")):
            entry = self._entry.at(self._memory, link)
            if not 0 < entry.count <= MAX_PIECES:
                raise BrokenStructureError(f"there is no receive of lnx's at {link:#x}")
            words = self._memory.pointers(entry.iov, 2 * entry.count)
            length, source = sum(words[1::2]), _process(entry.addr)
            found.append(Posted(link, entry.tag, entry.ignore, number, words[0], length, entry.context, source))
        return found

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages as they came; where the bytes of one are is known of those over rxm."""
        for link in lists.dlist(self._memory, self._messages, "lnx's list of messages"):
            entry = self._entry.at(self._memory, link)
            linked = self._linked.get(entry.linked)
            if linked is None or entry.count:
                raise BrokenStructureError(f"there is no message of lnx's at {link:#x}")
            here, payload = 0, 0
            if isinstance(linked.sends, RxmSendPool):
                here, payload = self._rxm.payload(entry.peer_context, link + entry.peer_entry, entry.msg_size)
            yield Arrived(
                entry.tag,
                entry.msg_size,
                here,
                payload,
                rendezvous=False,
                source=_process(entry.addr),
                data=entry.cq_data if entry.flags & REMOTE_CQ_DATA else None,
            )

    def sends(self) -> list[OfiSent]:
        """Return the sends of all that are linked.

        Raises:
            NoInformation: one of them is of a provider whose sends are not known.
        """
        pools = []
        for provider, pool in self._linked.values():
            if pool is None:
                raise NoInformation(f"how lnx's {provider} keeps its sends is not known")
            pools.append(pool.read())
        return [replace(sent, destination=_process(sent.destination)) for sent in chain(*pools)]


def _process(address: int) -> int:
    """Return the place in the MPI's table of the process with an address of lnx's."""
    return address if address == ANY else address >> SUB_ID_BITS
