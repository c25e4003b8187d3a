"""Where the members of libfabric's structs lie, by release.

They are of structs that no profile of an MPI can know, since an MPI takes whatever libfabric is there. Nothing is
believed by its release alone: each provider's module compares what an endpoint shows of itself. All are of x86_64, of
builds without debugging, which adds members to tcp's entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.fabric.ofi.libfabric import Libfabric
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from mqs_dll.library.memory import Memory

Structs = Mapping[str, Mapping[str, int]]

_TCP: Structs = {
    "xnet_rdm": {"srx": 408, "conn_idx_map": 416, "rx_loopback": 12704},
    "xnet_srx": {
        "domain": 80,
        "tag_queue": 104,
        "src_tag_queues": 120,
        "saved_msgs": 8328,
        "tag_seq_no": 16544,
        "rdm": 16568,
    },
    "xnet_saved_msg": {"entry": 0, "queue": 16, "cnt": 32},
    "xnet_xfer_entry": {
        "user_buf": 8,
        "iov_cnt": 16,
        "iov": 24,
        "saving_ep": 104,
        "tag_seq_no": 128,
        "tag": 136,
        "ignore": 144,
        "src_addr": 152,
        "ctrl_flags": 168,
        "context": 176,
        "hdr": 192,
        "msg_data": 312,
    },
    "xnet_hdrs": {"version": 0, "op": 1, "flags": 2, "op_data": 4, "hdr_size": 6, "size": 8},
    "xnet_conn": {"ep": 0, "rdm": 8},
    "xnet_ep": {
        "cur_rx.hdr": 18520,
        "cur_rx.data_left": 18656,
        "cur_rx.entry": 18664,
        "cur_rx.claim_ctx": 18680,
        "cur_tx.entry": 18696,
        "unexp_entry": 18704,
        "tx_queue": 18736,
        "need_ack_queue": 18768,
        "async_queue": 18784,
        "rts_queue": 18816,
        "state": 18872,
        "peer": 18880,
    },
    "util_peer_addr": {"fi_addr": 8},
}
"""Pinned by 1,300 receives, 900 messages and 30 sends of live jobs with 1.22.0 and 2.5.1; cur_rx.data_left, msg_data
and rts_queue follow from the members around them."""

_UTIL_SRX: Structs = {
    "util_srx_ctx": {
        "rx_seq_no": 152,
        "tag_queue": 176,
        "src_trecv_queues": 8400,
        "unspec_unexp_tag_queue": 16624,
        "unexp_peers": 16640,
        "src_unexp_peers": 16656,
    },
    "util_unexp_peer": {"tag_queue": 32},
    "util_rx_entry": {"peer_entry": 16, "seq_no": 112, "ignore": 120},
    "smr_ep": {"srx": 440, "tx_fs": 472},
    "sm2_ep": {"srx": 448},
}
"""Pinned by 400 receives and messages over shm and 240 over rxm; rx_seq_no and the lists of unknown senders follow from
the members around them; sm2's is from its sources, and shows its receives and messages right. (1.22.0 counts the links
to the inner struct.)"""

_SOCKETS: Structs = {
    "sock_ep": {"attr": 224},
    "sock_ep_attr": {"fclass": 0, "domain": 56, "rx_ctx": 64, "tx_ctx": 72, "tx_array": 88, "num_tx_ctx": 100},
    "sock_domain": {"dom_fid": 120},
    "sock_rx_ctx": {"ep_attr": 224, "domain": 248, "rx_entry_list": 304, "rx_buffered_list": 320},
    "sock_rx_entry": {
        "rx_op": 0,
        "is_buffered": 8,
        "is_busy": 9,
        "is_claimed": 10,
        "is_complete": 11,
        "is_tagged": 12,
        "used": 16,
        "total_len": 24,
        "flags": 32,
        "context": 40,
        "addr": 48,
        "data": 56,
        "tag": 64,
        "ignore": 72,
        "iov": 88,
        "entry": 280,
    },
    "sock_tx_ctx": {"pe_entry_list": 352},
    "sock_pe_entry": {
        "pe.tx.tx_op": 0,
        "pe.tx.tx_iov": 32,
        "flags": 1120,
        "context": 1128,
        "addr": 1136,
        "data": 1144,
        "tag": 1152,
        "is_complete": 1169,
        "done_len": 1184,
        "total_len": 1192,
        "ctx_entry": 1264,
    },
}
"""Pinned by 400 receives and messages; the send context's by 4 large sends, the array of send contexts by its place."""

_SHM_22: Structs = {
    "smr_tx_fs": {"size": 0, "next": 8, "entry": 16},
    "smr_tx_entry": {"peer_id": 256, "context": 264, "iov": 272},
    "smr_cmd": {"op": 16, "op_flags": 22, "size": 24, "data": 40, "tag": 48},
}
"""Pinned by 5 sends."""

_SHM_25: Structs = {
    "smr_pend_entry": {"type": 40, "cmd": 48, "iov": 56, "comp_ctx": 168},
    "smr_cmd": {"size": 24, "data": 40, "tag": 48, "tx_id": 58, "op": 60, "op_flags": 62},
}
"""Pinned by 36 sends, tx_id by 20 of four ranks; op and op_flags by their places."""

_RXM_QUEUE: Structs = {
    "rxm_recv_queue": {"rxm_ep": 0, "type": 8, "recv_list": 24, "unexp_msg_list": 40},
    "rxm_recv_entry": {"rxm_iov": 16, "addr": 120, "context": 128, "tag": 144, "ignore": 152, "recv_queue": 176},
    "rxm_rx_buf": {"unexp_msg": 96, "data": 224, "pkt": 232},
}
"""Pinned by 260 receives and messages with 1.17.0, and 19 with 1.22.0."""

_COMMON: Structs = {
    "util_ep": {"domain": 80},
    "ofi_bufpool": {"free_list": 0, "entry_size": 16, "entry_cnt": 24, "region_table": 32, "region_cnt": 40},
    "ofi_bufpool_region": {"mem_region": 40, "pool": 64},
    "ofi_bufpool_hdr": {"region": 16, "index": 24},
    "rxm_tx_buf": {"app_context": 48, "pkt": 400},
}
"""Those of pools are pinned by 36 sends of shm and 30 of rxm, those of rxm's sends by the latter."""

RELEASES: Mapping[tuple[int, int], Structs] = {
    (1, 17): {**_COMMON, **_RXM_QUEUE, "rxm_ep": {"tx_pool": 12912, "trecv_queue": 13040}},
    (1, 22): {
        **_COMMON,
        **_TCP,
        **_UTIL_SRX,
        **_SHM_22,
        **_SOCKETS,
        **_RXM_QUEUE,
        "rxm_ep": {"tx_pool": 12968, "trecv_queue": 13096},
    },
    (2, 5): {
        **_COMMON,
        **_TCP,
        **_UTIL_SRX,
        **_SHM_25,
        **_SOCKETS,
        "rxm_ep": {"srx": 12848, "tx_pool": 12976},
        "rxm_rx_buf": {"peer_entry": 104, "data": 216, "pkt": 224},
    },
}
"""Seen in processes: 1.17.0 (Debian 12), 1.22.0 and 2.5.1 (wheels of Open MPI and MPICH)."""


def version_of(image: TargetImage, memory: Memory) -> str:
    """Return what libfabric's VERSION_FUNCTION returns in this process, like "1.22".

    Raises:
        LayoutError: it is missing, or isn't what it is on x86_64.
    """
    return Libfabric(image, memory).release


def nearest(version: str) -> Iterator[Layouts]:
    """Yield layouts in the order in which to try them on a version: its own first, then its neighbours'."""

    def number(major: int, minor: int) -> int:
        return 100 * major + minor

    asked = number(*map(int, version.split(".")))
    for known in sorted(RELEASES, key=lambda known: abs(number(*known) - asked)):
        origin = "layout libfabric {}.{}".format(*known)
        yield Layouts(StructLayout(name, None, members, origin) for name, members in RELEASES[known].items())
