"""The members of libfabric's structs that are read, under libfabric's names (1.17 to 2.5).

Source: include/ofi_util.h, include/rdma/providers/fi_peer.h, prov/tcp/src/xnet.h, xnet_proto.h of 1.17.0, 1.22.0 and
2.5.1.
"""

from __future__ import annotations

from mqs_dll.library.layouts.view import View, inside, pointer, uint8, uint16, uint32, uint64

# ---------------------------------------------------------------- all providers but sockets


class UtilEndpoint(View):
    """What endpoints have in common."""

    struct = "util_ep"
    domain: int = pointer()


# ---------------------------------------------------------------- tcp


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


# ---------------------------------------------------------------- util_srx: shm, sm2, rxm since 2.0


class WithSrx(View):
    """An endpoint that has its receives in a util_srx_ctx."""

    srx: int = pointer()


class ShmEndpoint(WithSrx):
    """shm's endpoint."""

    struct = "smr_ep"
    srx: int = pointer()
    sends: int = pointer(name="tx_fs")
    """In 1.22; a pool of buffers since."""


class Sm2Endpoint(WithSrx):
    """sm2's endpoint."""

    struct = "sm2_ep"
    srx: int = pointer()


class RxmEndpoint(WithSrx):
    """rxm's endpoint since 2.0."""

    struct = "rxm_ep"
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


class RxmBuffer(View):
    """What rxm has of a message that util_srx keeps."""

    struct = "rxm_rx_buf"
    peer_entry: int = pointer()
    data: int = pointer()
    kind: int = uint8("rxm_rx_buf", "pkt", "rxm_pkt", name="ctrl_hdr.type")
    size: int = uint64("rxm_rx_buf", "pkt", "rxm_pkt", name="hdr.size")


class ShmStack(View):
    """The room for sends in 1.22."""

    struct = "smr_tx_fs"
    size: int = uint64()
    free: int = pointer(name="next")
    entries: int = inside(name="entry")


class ShmEntry(View):
    """A send in 1.22; its command lies at its begin."""

    struct = "smr_tx_entry"
    peer_id: int = uint64()
    context: int = pointer()
    iov: int = inside()


class ShmCommand(View):
    """What a send tells the receiver."""

    struct = "smr_cmd"
    size: int = uint64()
    data: int = uint64()
    tag: int = uint64()
    op: int = uint8()
    flags: int = uint8(name="op_flags")


class ShmReceiver(View):
    """Where that goes, which since 2.0 the command alone tells."""

    struct = "smr_cmd"
    tx_id: int = uint16()


class BufferPool(View):
    """A pool of buffers, each behind a header."""

    struct = "ofi_bufpool"
    free: int = pointer(name="free_list")
    entry_size: int = uint64()
    entry_cnt: int = uint64()
    region_table: int = pointer()
    region_cnt: int = uint64()


class BufferRegion(View):
    """A piece of a pool."""

    struct = "ofi_bufpool_region"
    mem_region: int = pointer()
    pool: int = pointer()


class BufferHeader(View):
    """What lies before each buffer of a pool; its begin is the link of a free one."""

    struct = "ofi_bufpool_hdr"
    region: int = pointer()
    index: int = uint64()


class ShmRecord(View):
    """A send since 2.0, or what comes of it at the receiver."""

    struct = "smr_pend_entry"
    type: int = uint8()
    cmd: int = pointer()
    iov: int = inside()
    comp_ctx: int = pointer()


# ---------------------------------------------------------------- rxm before 2.0


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


# ---------------------------------------------------------------- sockets


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
