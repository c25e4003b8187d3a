"""The members of UCX's structs that are read, under UCX's names (1.13 to 1.20).

Members with dots lie in structs or unions inside. Source: src/ucp/core/ucp_worker.h, ucp_request.h, ucp_ep.h,
src/ucp/tag/tag_match.h, src/ucs/datastruct/mpool.h, queue_types.h of 1.13.1, 1.18.1 and 1.20.1.
"""

from __future__ import annotations

from mqs_dll.library.layouts.view import View, inside, pointer, uint8, uint16, uint32, uint64

MAX_NAME = 32
"""Bytes of a worker's name that are read: its address, unless somebody gave it one."""


class UcpWorker(View):
    """A worker: the queues of one thread of communication."""

    struct = "ucp_worker"
    req_mp: int = inside()
    name: int = inside()
    tm: int = inside()


class TagMatch(View):
    """What a worker has posted, and what has come unasked."""

    struct = "ucp_tag_match"
    wildcard: int = inside(name="expected.wildcard")
    hash: int = pointer(name="expected.hash")
    sw_all_count: int | None = uint32(name="expected.sw_all_count", optional=True)
    """A check alone; a layout that was made may lack it, since where all have wildcards their queue counts as many."""
    unexpected: int = inside(name="unexpected.all")
    last: int = pointer("ucp_tag_match", "unexpected.all", "ucs_list_link", name="prev")
    first: int = pointer("ucp_tag_match", "unexpected.all", "ucs_list_link", name="next")


class UcsMpool(View):
    """A pool of objects of one size."""

    struct = "ucs_mpool"
    data: int = pointer()


class UcsMpoolData(View):
    """What doesn't change when objects of a pool come and go."""

    struct = "ucs_mpool_data"
    elem_size: int = uint32()
    alignment: int = uint32()
    chunks: int = pointer()
    ops: int = pointer()


class UcsMpoolChunk(View):
    """A piece of a pool."""

    struct = "ucs_mpool_chunk"
    next: int = pointer()
    elems: int = pointer()
    num_elems: int = uint32()


class UcpRequest(View):
    """A send or a receive, or something of UCX's own; the arms of its unions are read as its flags say."""

    struct = "ucp_request"
    flags: int = uint32()
    id: int = uint64()
    user_data: int | None = pointer(optional=True)
    """Of a request that MPICH has made."""
    recv_buffer: int = pointer(name="recv.buffer")
    recv_length: int = uint64(name="recv.length")
    recv_worker: int = pointer(name="recv.worker")
    recv_tag: int = uint64(name="recv.tag.tag")
    recv_tag_mask: int = uint64(name="recv.tag.tag_mask")
    recv_sn: int = uint64(name="recv.tag.sn")


class Info(View):
    """What is read of a receive that has got its message and is not done."""

    struct = "ucp_request"
    dt: int = uint32(name="recv.dt")  # a class since 1.16, before it the lower half of a datatype
    sender_tag: int = uint64("ucp_request", "recv.tag.info", "ucp_tag_recv_info")
    length: int = uint64("ucp_request", "recv.tag.info", "ucp_tag_recv_info")


class UcpSend(View):
    """The same as a send; what it sends is told by the next two."""

    struct = "ucp_request"
    flags: int = uint32()
    id: int = uint64()
    ep: int = pointer(name="send.ep")
    tag: int = uint64(name="send.msg_proto.tag")


class OldSend(View):
    """What is sent by the old protocols."""

    struct = "ucp_request"
    buffer: int = pointer(name="send.buffer")
    length: int = uint64(name="send.length")


class NewSend(View):
    """What is sent by the new protocols."""

    struct = "ucp_request"
    proto_config: int = pointer(name="send.proto_config")
    length: int = uint64(name="send.state.dt_iter.length")
    buffer: int = pointer(name="send.state.dt_iter.type.contig.buffer")


class SendFunction(View):
    """What moves a send on."""

    struct = "ucp_request"
    func: int = pointer(name="send.uct.func")


class ProtoConfig(View):
    """Which operation a send of the new protocols is."""

    struct = "ucp_proto_config"
    op: int = uint8(name="select_param.op_id_flags")


class Descriptor(View):
    """A message that nobody has asked for, with the header that it came with."""

    struct = "ucp_recv_desc"
    length: int = uint32()
    payload_offset: int = uint32()
    flags: int = uint16()
    tag: int = uint64("ucp_recv_desc", "header", "ucp_tag_hdr")
    total_len: int = uint64("ucp_recv_desc", "header", "ucp_eager_first_hdr")
    """Of a first fragment, or of a synchronous message by the new protocols."""
    request: int = uint64("ucp_recv_desc", "header", "ucp_rndv_rts_hdr", name="sreq.req_id")
    """The sender's, of a rendezvous and of a whole synchronous message by the old protocols."""
    size: int = uint64("ucp_recv_desc", "header", "ucp_rndv_rts_hdr")
    """Of a rendezvous; of another synchronous message it is the sender's request."""
