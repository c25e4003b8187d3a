"""cxi's structs without a NIC: what an endpoint of another provider holds, as cxi would have it."""

from __future__ import annotations

import re

from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi import cxi
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent
from mqs_dll.library.fabric.ofi.libfabric import VERSION_FUNCTION, FidClass, Libfabric
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import of_fabric
from mqs_dll.library.mpi.mpich.ch4.tag_codecs import BESIDE
from tests.support.tampered import Tampered

PARTS = re.compile("cxip_|c_event_")
ROOM, FAR = 1 << 18, 1 << 16
"""Bytes that an endpoint takes at most, and from fi_version to where it is laid, over code of libfabric's."""
PROCESSES = 4
ROW, LARGE = 512, 1 << 14
"""More bytes than any struct of cxi's has, but for two that have less than these."""


def offsets(layouts: Layouts) -> dict[str, int]:
    """Return the offsets of the members of cxi's structs, as the program names them."""
    known = (each for each in layouts if PARTS.match(each.name))
    return {f"{each.name}__{name}".replace(".", "_"): at for each in known for name, at in each.offsets.items()}


class LaidOut:
    """What an endpoint of another provider holds, as cxi would have it, laid over the memory of its process."""

    def __init__(
        self, target: Tampered, library: Libfabric, endpoint: Endpoint, domain: int, state: int, *, narrow: bool
    ) -> None:
        function = target.image.find_function(VERSION_FUNCTION)
        assert function is not None
        self._at = offsets(next(of_fabric("libfabric", "", library.release)))
        self._base = self._end = function + FAR
        self._bytes = bytearray(ROOM)
        self._functions = function
        self._narrow = narrow
        self._object, self._rxc, self._txc = self._take(ROW), self._take(LARGE), self._take(LARGE)
        completions, table = self._identified(FidClass.CQ), self._identified(FidClass.AV)
        self._make(domain, completions, table, state)
        for each in endpoint.posted():
            self._receive(each)
        for send in endpoint.sends():
            self._send(send)
        for message in endpoint.arrived():
            self._message(message)
        assert target.can_fetch(self._base, ROOM)
        target.overlay[self._base] = bytes(self._bytes)

    def _take(self, size: int) -> int:
        self._end += size
        return self._end - size

    def _put(self, where: int, member: str, value: int, size: int = 8) -> None:
        at = where - self._base + (self._at[member] if member else 0)
        self._bytes[at : at + size] = value.to_bytes(size, "little")

    def _identified(self, kind: FidClass) -> int:
        where = self._take(ROW)
        self._put(where, "", kind)
        self._put(where + 16, "", self._functions)
        return where

    def _make(self, domain: int, completions: int, table: int, state: int) -> None:
        at = self._at
        self.endpoint = self._identified(FidClass.EP)
        self._put(self.endpoint, "cxip_ep__ep_obj", self._object)
        for member, value in (("domain", domain), ("av", table), ("txc", self._txc), ("rxc", self._rxc)):
            self._put(self._object, f"cxip_ep_obj__{member}", value)
        self._put(self._object, "cxip_ep_obj__protocol", cxi.PROTOCOL, 4)
        self._incoming, self._outgoing = self._rxc + at["cxip_rxc__rx_evtq"], self._txc + at["cxip_txc__tx_evtq"]
        for where, struct, queue, events in (
            (self._rxc, "cxip_rxc", "recv_cq", self._incoming),
            (self._txc, "cxip_txc", "send_cq", self._outgoing),
        ):
            self._put(where, f"{struct}__protocol", cxi.PROTOCOL, 4)
            self._put(where, f"{struct}__ep_obj", self._object)
            self._put(where, f"{struct}__{queue}", completions)
            self._put(events, "cxip_evtq__cq", completions)
            self._begin_list(events + at["cxip_evtq__req_list"])
        self._put(self._rxc, "cxip_rxc__domain", domain)
        self._put(self._rxc, "cxip_rxc__pid_bits", 9, 1)
        self._put(self._rxc, "cxip_rxc__state", state, 4)
        for member in ("fc_drops", "replay_queue", "sw_ux_list", "sw_pending_ux_list"):
            self._begin_list(self._rxc + at[f"cxip_rxc_hpc__{member}"])
        entries = [self._take(ROW) for _ in range(PROCESSES)]
        self._put(table, "cxip_av__av_entry_hash", entries[0])
        self._put(table, "cxip_av__av_entry_cnt", PROCESSES, 4)
        for address, entry in enumerate(entries):
            self._put(entry, "cxip_av_entry__hh_prev", entries[address - 1] if address else 0)
            self._put(entry, "cxip_av_entry__hh_next", [*entries, 0][address + 1])
            self._put(entry, "cxip_av_entry__addr", 0x20 | 0x300 + address << 9, 4)
            self._put(entry, "cxip_av_entry__fi_addr", address)

    def _begin_list(self, head: int) -> None:
        self._put(head, "", head)
        self._put(head + 8, "", head)

    def _append(self, head: int, link: int) -> None:
        last = int.from_bytes(self._bytes[head + 8 - self._base : head + 16 - self._base], "little")
        for where, value in ((link, head), (link + 8, last), (last, link), (head + 8, link)):
            self._put(where, "", value)

    def _tag(self, bits: int) -> int:
        if not self._narrow:
            return bits
        parts = BESIDE.read(bits)
        return parts.protocol << 40 | parts.context << 20 | parts.tag & 0xFFFFF

    @staticmethod
    def _name(address: int) -> int:
        return 0xFFFFFFFF if address == ANY else 0x20 << 23 | 0x300 + address

    def _request(self, events: int, kind: int, context: int) -> int:
        request = self._take(ROW)
        self._append(events + self._at["cxip_evtq__req_list"], request)
        for member, value, size in (("evtq", events, 8), ("type", kind, 4), ("context", context, 8)):
            self._put(request, f"cxip_req__{member}", value, size)
        return request

    def _receive(self, posted: Posted) -> None:
        part = self._request(self._incoming, cxi.RECEIVE, posted.context) + self._at["cxip_req__recv"]
        for member, value, size in (
            ("rxc", self._rxc, 8),
            ("recv_buf", posted.buffer, 8),
            ("ulen", posted.length, 4),
            ("tagged", 1, 1),
            ("tag", self._tag(posted.tag), 8),
            ("ignore", self._tag(posted.ignore), 8),
            ("match_id", self._name(posted.source), 4),
        ):
            self._put(part, f"cxip_req_recv__{member}", value, size)

    def _send(self, sent: OfiSent) -> None:
        part = self._request(self._outgoing, cxi.SEND, sent.context) + self._at["cxip_req__send"]
        for member, value, size in (
            ("txc", self._txc, 8),
            ("buf", sent.buffer, 8),
            ("len", sent.length, 8),
            ("dest_addr", sent.destination, 8),
            ("tagged", 1, 1),
            ("tag", self._tag(sent.tag), 8),
            ("data", sent.data or 0, 8),
            ("flags", 0 if sent.data is None else cxi.REMOTE_CQ_DATA, 8),
        ):
            self._put(part, f"cxip_req_send__{member}", value, size)

    def _message(self, message: Arrived) -> None:
        where = self._take(ROW)
        self._append(self._rxc + self._at["cxip_rxc_hpc__sw_ux_list"], where)
        bits = self._tag(message.tag) | cxi.TAGGED | (0 if message.data is None else cxi.HAS_DATA)
        for member, value, size in (
            ("header_data", message.data or 0, 8),
            ("initiator", self._name(message.source), 4),
            ("event_size", cxi.LONG_EVENT, 1),
            ("match_bits", bits, 8),
            ("mlength", message.here, 4),
            ("rlength", message.length, 4),
        ):
            self._put(where + self._at["cxip_ux_send__put_ev"], f"c_event_target_long__{member}", value, size)
