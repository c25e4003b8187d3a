"""The provider cxi, of HPE Slingshot: its NIC matches, or software does (FI_CXI_RX_MATCH_MODE).

Whoever matches, each request has a record until it is done, in the list of an event queue: so receives that wait and
sends are seen either way. Messages are in a list of the process's only while software matches: from the begin (mode
"software"), or since the NIC ran out of room (mode "hybrid", which then takes all of the NIC's messages over).
It was never tried on hardware: no test has a NIC. Source: prov/cxi/include/cxip.h, prov/cxi/src/cxip_evtq.c,
cxip_msg.c, cxip_msg_hpc.c, cxip_req_buf.c, cxip_av.c of 1.22.0 to 2.6.0, of HPE's 1.20.2, and of Slingshot 12.0 to
14.0; c_event_target_long and CXI_MATCH_ID in the headers of the NIC of Slingshot 12.0 to 14.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mqs_dll.contract.errors import BrokenStructureError, LayoutError, NoInformation
from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi import lists
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent
from mqs_dll.library.fabric.ofi.libfabric import FidClass, Libfabric
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, inside, pointer, uint8, uint32, uint64
from mqs_dll.library.memory import bounded, cached_per_sweep

PROTOCOL = 24
"""FI_PROTO_CXI; that of clients and servers (FI_PROTO_CXI_RNR) keeps its messages in another way."""

ENABLED, ENABLED_SOFTWARE, FLOW_CONTROL = 1, 3, 8
"""Of cxip_rxc_state: the NIC matches, software does; the last one of all."""

RECEIVE, SEND, LAST_TYPE = 3, 4, 8
"""Of cxip_req_type."""

REMOTE_CQ_DATA, PEEK, INJECT, CLAIM = 1 << 17, 1 << 19, 1 << 25, 1 << 59
"""Of libfabric's flags."""

TAG_BITS = 48
TAG = (1 << TAG_BITS) - 1

HAS_DATA, TAGGED, TYPE = 1 << 59, 1 << 60, 1 << 63
"""Of the bits that the NIC matches by (cxip_match_bits); the last one is of what is no message."""

EVENTS = (0, 4, 12)
"""Types of the events that tell of a message: C_EVENT_PUT, C_EVENT_PUT_OVERFLOW, C_EVENT_SEARCH."""
LONG_EVENT = 3
"""C_EVENT_SIZE_64_BYTE."""
RENDEZVOUS = 4

MATCH_BITS, NIC_BITS = 32, 20
ANYBODY = (1 << MATCH_BITS) - 1
"""CXI_MATCH_ID_ANY."""
MAX_PID_BITS = 9

UNKNOWN = ANY - 1
"""Of a process that isn't in the table: no address that libfabric gives."""

IN_NIC = "messages that the NIC holds can't be seen: cxi lets it match"
IN_SOFTWARE = "run the job with FI_CXI_RX_MATCH_MODE=software to see them"
MOVING = "messages may be missing: cxi is taking them over from the NIC"


class CxiEndpoint(View):
    """cxi's endpoint."""

    struct = "cxip_ep"
    ep_obj: int = pointer()


class CxiObject(View):
    """What it has."""

    struct = "cxip_ep_obj"
    domain: int = pointer()
    av: int = pointer()
    protocol: int = uint32()
    txc: int = pointer()
    rxc: int = pointer()


class CxiReceives(View):
    """What receives."""

    struct = "cxip_rxc"
    protocol: int = uint32()
    pid_bits: int = uint8()
    state: int = uint32()
    ep_obj: int = pointer()
    cq: int = pointer(name="recv_cq")
    domain: int = pointer()
    events: int = inside(name="rx_evtq")


class CxiMessages(View):
    """The lists that lie one behind the other at its end."""

    struct = "cxip_rxc_hpc"
    fc_drops: int = inside()
    replay_queue: int = inside()
    sw_ux_list: int = inside()
    sw_pending_ux_list: int = inside()


class CxiSends(View):
    """What sends."""

    struct = "cxip_txc"
    protocol: int = uint32()
    cq: int = pointer(name="send_cq")
    ep_obj: int = pointer()
    events: int = inside(name="tx_evtq")


class CxiEvents(View):
    """An event queue."""

    struct = "cxip_evtq"
    cq: int = pointer()
    req_list: int = inside()


class CxiRequest(View):
    """A request of any type."""

    struct = "cxip_req"
    link: int = inside(name="evtq_entry")
    evtq: int = pointer()
    context: int = pointer()
    type: int = uint32()
    owner_of_receive: int = pointer("cxip_req", "recv", "cxip_req_recv", name="rxc")
    buffer: int = pointer("cxip_req", "recv", "cxip_req_recv", name="recv_buf")
    length: int = uint32("cxip_req", "recv", "cxip_req_recv", name="ulen")
    tagged: int = uint8("cxip_req", "recv", "cxip_req_recv")
    tag: int = uint64("cxip_req", "recv", "cxip_req_recv")
    ignore: int = uint64("cxip_req", "recv", "cxip_req_recv")
    match_id: int = uint32("cxip_req", "recv", "cxip_req_recv")
    flags: int = uint64("cxip_req", "recv", "cxip_req_recv")
    result: int = uint32("cxip_req", "recv", "cxip_req_recv", name="rc")
    """0 until there is a message."""


class CxiSend(View):
    """A send, which is such a request too."""

    struct = "cxip_req"
    owner: int = pointer("cxip_req", "send", "cxip_req_send", name="txc")
    buffer: int = pointer("cxip_req", "send", "cxip_req_send", name="buf")
    length: int = uint64("cxip_req", "send", "cxip_req_send", name="len")
    dest_addr: int = uint64("cxip_req", "send", "cxip_req_send")
    tagged: int = uint8("cxip_req", "send", "cxip_req_send")
    tag: int = uint64("cxip_req", "send", "cxip_req_send")
    data: int = uint64("cxip_req", "send", "cxip_req_send")
    flags: int = uint64("cxip_req", "send", "cxip_req_send")


class CxiMessage(View):
    """A message, with the event by which the NIC told of it."""

    struct = "cxip_ux_send"
    link: int = inside(name="rxc_entry")
    claimed: int = uint8()
    data: int = uint64("cxip_ux_send", "put_ev", "c_event_target_long", name="header_data")
    initiator: int = uint32("cxip_ux_send", "put_ev", "c_event_target_long")
    kind: int = uint8("cxip_ux_send", "put_ev", "c_event_target_long", name="event_size")
    """2 bits with that, and 5 with the event's type."""
    how: int = uint8("cxip_ux_send", "put_ev", "c_event_target_long", name="ptl_list")
    """2 bits with that, and flags."""
    match_bits: int = uint64("cxip_ux_send", "put_ev", "c_event_target_long")
    here: int = uint32("cxip_ux_send", "put_ev", "c_event_target_long", name="mlength")
    length: int = uint32("cxip_ux_send", "put_ev", "c_event_target_long", name="rlength")


class CxiTable(View):
    """The table of addresses; a hash table of uthash's leads to its entries."""

    struct = "cxip_av"
    first: int = pointer(name="av_entry_hash")
    count: int = uint32(name="av_entry_cnt")
    symmetric: int = uint8()


class CxiAddress(View):
    """An entry of it."""

    struct = "cxip_av_entry"
    previous: int = pointer(name="hh.prev")
    following: int = pointer(name="hh.next")
    addr: int = uint32()
    """9 bits with the number of the endpoint on its NIC (pid), and 20 with that of the NIC."""
    fi_addr: int = uint64()


class Cxi(Endpoint):
    """An endpoint of cxi."""

    provider = "cxi"
    caveat = "never tried on hardware"
    tag_bits = TAG_BITS
    checks = (
        "the endpoint is of the MPI's domain, with cxi's protocol for messages",
        "what receives and what sends refer to it, and their event queues to their completion queues",
        "the ends of its lists refer to the lists",
    )
    orders_sources = True
    numbers_receives = False

    def __init__(self, library: Libfabric, layouts: Layouts, endpoint: int, domain: int) -> None:
        """Compare what an endpoint shows of itself.

        Raises:
            LayoutError: it isn't one of cxi, or has another layout.
            TargetReadError: what must be there can't be read.
        """
        self._memory = memory = library.memory
        self.release = library.name
        self._receives_of = CxiReceives.bind(layouts)
        self._request = CxiRequest.bind(layouts)
        self._send = CxiSend.bind(layouts)
        self._message = CxiMessage.bind(layouts)
        self._table_of = CxiTable.bind(layouts)
        self._address = CxiAddress.bind(layouts)
        events, queues = CxiEvents.bind(layouts), CxiMessages.bind(layouts)
        mine = CxiEndpoint.bind(layouts).at(memory, endpoint).ep_obj
        found = CxiObject.bind(layouts).at(memory, mine)
        rx, tx = self._receives_of.at(memory, found.rxc), CxiSends.bind(layouts).at(memory, found.txc)
        if not found.domain == rx.domain == domain or not found.protocol == rx.protocol == tx.protocol == PROTOCOL:
            raise LayoutError("it is of another domain, or has another protocol")
        if not rx.ep_obj == tx.ep_obj == mine or not ENABLED <= rx.state <= FLOW_CONTROL:
            raise LayoutError("what it receives and sends by is of another endpoint")
        self._incoming, self._outgoing = found.rxc + rx.events, found.txc + tx.events
        if [events.at(memory, each).cq for each in (self._incoming, self._outgoing)] != [rx.cq, tx.cq]:
            raise LayoutError("its event queues are of other completion queues")
        if library.kind(rx.cq) is not FidClass.CQ or library.kind(found.av) is not FidClass.AV:
            raise LayoutError("it has no completion queue, or no table of addresses")
        self._requests = events.constant("req_list")
        inside_rxc = ("fc_drops", "replay_queue", "sw_ux_list", "sw_pending_ux_list")
        heads = [each + self._requests for each in (self._incoming, self._outgoing)]
        heads += [found.rxc + queues.constant(each) for each in inside_rxc]
        if not all(lists.is_dlist(memory, each) for each in heads):
            raise LayoutError("its lists have no heads where they should")
        self._rxc, self._txc, self._av = found.rxc, found.txc, found.av
        self._messages = found.rxc + queues.constant("sw_ux_list")

    # ------------------------------------------------------------ addresses

    @cached_per_sweep
    def _places(self) -> Mapping[int, int]:
        """Return the address in the MPI's table of each process, by NIC and endpoint as a receive names it.

        Raises:
            BrokenStructureError: the table contradicts itself.
            TargetReadError: it can't be read.
        """
        table, pid_bits = self._table(), self._pid_bits()

        def steps() -> Iterator[int]:
            before, address = 0, table.first
            while address:
                entry = self._address.at(self._memory, address)
                if entry.previous != before:
                    raise BrokenStructureError(f"cxi's table of addresses is broken at {address:#x}")
                yield address
                before, address = address, entry.following

        found: dict[int, int] = {}
        for address in bounded(steps(), min(table.count, lists.MOST), "cxi's table of addresses"):
            entry = self._address.at(self._memory, address)
            pid, nic = entry.addr & (1 << MAX_PID_BITS) - 1, entry.addr >> MAX_PID_BITS & (1 << NIC_BITS) - 1
            name = (pid << MATCH_BITS - pid_bits | nic) & ANYBODY
            found[name] = UNKNOWN if name in found else entry.fi_addr
        return found

    def _table(self) -> CxiTable:
        return self._table_of.at(self._memory, self._av)

    def _pid_bits(self) -> int:
        bits = self._receives_of.at(self._memory, self._rxc).pid_bits
        if not 0 < bits <= MAX_PID_BITS:
            raise BrokenStructureError(f"cxi is said to number endpoints by {bits} bits")
        return bits

    def _place(self, name: int) -> int:
        """Return the address in the MPI's table of the process that a receive or a message names."""
        if name == ANYBODY:
            return ANY
        if self._table().symmetric:  # then a process is named by that
            return name & (1 << MATCH_BITS - self._pid_bits()) - 1
        return self._places().get(name, UNKNOWN)

    # ------------------------------------------------------------ requests

    def _of_type(self, events: int, kind: int, what: str) -> Iterator[CxiRequest]:
        link = self._request.constant("link")
        for each in lists.dlist(self._memory, events + self._requests, what):
            request = self._request.at(self._memory, each - link)
            if request.evtq != events or request.type > LAST_TYPE:
                raise BrokenStructureError(f"there is no request of cxi's at {request.address:#x}")
            if request.type == kind:
                yield request

    def posted(self) -> list[Posted]:
        """Return the receives that wait, as they stand in the list of requests: in the order of posting.

        The NIC may have matched one whose event the process has not read yet.
        """
        found: list[Posted] = []
        for each in self._of_type(self._incoming, RECEIVE, "cxi's list of receives"):
            if each.owner_of_receive != self._rxc or each.tagged > 1 or (each.tag | each.ignore) & ~TAG:
                raise BrokenStructureError(f"there is no receive of cxi's at {each.address:#x}")
            if each.tagged and not each.flags & (PEEK | CLAIM) and not each.result:
                source = self._place(each.match_id)
                where = len(found), each.buffer, each.length, each.context, source
                found.append(Posted(each.address, each.tag, each.ignore, *where))
        return found

    def sends(self) -> list[OfiSent]:
        """Return the sends that are not done, copies aside: by software or in the NIC, by destination."""
        found = []
        for request in self._of_type(self._outgoing, SEND, "cxi's list of sends"):
            each = self._send.at(self._memory, request.address)
            if each.owner != self._txc or each.tagged > 1 or (each.tagged and each.tag & ~TAG):
                raise BrokenStructureError(f"there is no send of cxi's at {request.address:#x}")
            if each.tagged and not each.flags & INJECT:
                data = each.data if each.flags & REMOTE_CQ_DATA else None
                place = request.address, each.tag, each.dest_addr, each.length, each.buffer
                found.append(OfiSent(*place, has_left=False, data=data, context=request.context))
        return sorted(found, key=lambda each: each.destination)

    # ------------------------------------------------------------ messages

    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages that software has.

        Raises:
            BrokenStructureError: after those that could be reached.
            NoInformation: after them, the NIC has or may have others.
        """
        link = self._message.constant("link")
        for each in lists.dlist(self._memory, self._messages, "cxi's list of messages"):
            message = self._message.at(self._memory, each - link)
            if message.kind & 3 != LONG_EVENT or message.kind >> 2 & 31 not in EVENTS or message.match_bits & TYPE:
                raise BrokenStructureError(f"there is no message of cxi's at {message.address:#x}")
            if message.claimed > 1 or message.here > message.length:
                raise BrokenStructureError(f"the message of cxi's at {message.address:#x} contradicts itself")
            if message.match_bits & TAGGED:
                yield Arrived(
                    message.match_bits & TAG,
                    message.length,
                    message.here,
                    address=0,
                    rendezvous=bool(message.how & RENDEZVOUS),
                    source=self._place(message.initiator),
                    data=message.data if message.match_bits & HAS_DATA else None,
                    claimed=bool(message.claimed),
                )
        state = self._receives_of.at(self._memory, self._rxc).state
        if state != ENABLED_SOFTWARE:
            raise NoInformation(IN_NIC, IN_SOFTWARE) if state == ENABLED else NoInformation(MOVING, "look again")
