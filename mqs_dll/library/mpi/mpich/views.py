"""The members of MPICH's structs that the walkers read, under MPICH's names (3.4 to 5.0, and Intel MPI).

A name with dots is a designator of C: ``status.MPI_SOURCE`` lies inside the member ``status``. Offsets are those in the
outer struct, since a calibration from outside sees no seams between nested structs. Arms of a union are views of
their own. Members that only some releases have are optional; the comment names the release that changed them.

Source: src/include/mpir_objects.h, mpir_comm.h, mpir_request.h, mpir_process.h, src/mpid/ch3/include/mpidpre.h and
src/mpid/ch4/include/mpidpre.h of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

from typing import TypeVar

from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import View, chars, inside, int32, pointer, uint8, uint16, uint32, uint64

CONTEXT_ID = "MPIR_Context_id_t"
"""A typedef, in the layouts as a struct without members: its size tells how wide context ids are."""

CANCELLED = 1
"""In the second word of a status: whether MPI_Cancel ended the request (src/binding/c/mpi.h.in of 5.0.1)."""

ViewT = TypeVar("ViewT", bound=View)


def by_context_id(wide: type[ViewT], narrow: type[ViewT], layouts: Layouts) -> type[ViewT]:
    """Return the view for 4-byte or for 2-byte context ids; they are int since 5.0, and with more bits asked for."""
    return narrow if layouts.struct(CONTEXT_ID).size == 2 else wide


# ---------------------------------------------------------------- objects and their pools


class ObjectAlloc(View):
    """The record of one pool of objects (MPIR_Comm_mem, MPIR_Request_mem[], ...)."""

    struct = "MPIR_Object_alloc_t"
    avail: int = pointer()
    initialized: int = int32()
    indirect: int = pointer()
    indirect_size: int = int32()
    indirect_block_size: int | None = int32(optional=True)  # since 4.3
    num_allocated: int | None = int32(optional=True)  # since 4.0
    num_avail: int | None = int32(optional=True)
    """How many of those that are allocated nobody uses."""
    kind: int = int32()
    size: int = int32()
    direct: int = pointer()
    direct_size: int = int32()


class ObjectHead(View):
    """The head of every object; ``next`` is there only while the object is free."""

    struct = "MPIR_Handle_common"
    handle: int = uint32()
    ref_count: int = int32()
    next: int = pointer()


# ---------------------------------------------------------------- the process


class MpirProcess(View):
    """The variable MPIR_Process."""

    struct = "MPIR_Process_t"
    rank: int = int32()
    size: int = int32()
    comm_world: int = pointer()


# ---------------------------------------------------------------- communicators, groups


class Comm(View):
    """A communicator, with context ids of 4 bytes."""

    struct = "MPIR_Comm"
    handle: int = uint32()
    ref_count: int = int32()
    context_id: int = uint32()
    recvcontext_id: int = uint32()
    remote_size: int = int32()
    rank: int = int32()
    local_size: int = int32()
    local_group: int = pointer()
    remote_group: int = pointer()
    comm_kind: int = int32()
    name: bytes = chars(128)
    local_comm: int = pointer()
    attributes: int = pointer()
    node_comm: int | None = pointer(optional=True)  # not where MPICH takes each process for a node
    node_roots_comm: int | None = pointer(optional=True)
    map: int | None = inside(name="dev.ch4.map", optional=True)  # ch4 to 4.3
    local_map: int | None = inside(name="dev.ch4.local_map", optional=True)
    vcrt: int | None = pointer(name="dev.vcrt", optional=True)  # ch3
    local_vcrt: int | None = pointer(name="dev.local_vcrt", optional=True)


class NarrowComm(Comm):
    """The same with context ids of 2 bytes."""

    context_id: int = uint16()
    recvcontext_id: int = uint16()


class RankMap(View):
    """From ranks to processes, ch4 to 4.3 (MPIDI_rank_map_t)."""

    struct = "MPIDI_rank_map_t"
    mode: int = int32()
    avtid: int = int32()
    size: int = int32()
    offset: int = int32(name="reg.stride.offset")
    stride: int = int32(name="reg.stride.stride")
    blocksize: int = int32(name="reg.stride.blocksize")
    lut: int = pointer(name="irreg.lut.lpid")


class MpirGroup(View):
    """From ranks to processes, since 5.0."""

    struct = "MPIR_Group"
    size: int = int32()
    use_map: int = uint8(name="pmap.use_map")
    map: int = pointer(name="pmap.u.map")


class StridedGroup(View):
    """The other arm of a group's map."""

    struct = "MPIR_Group"
    offset: int = uint64(name="pmap.u.stride.offset")
    stride: int = uint64(name="pmap.u.stride.stride")


class Vcrt(View):
    """From ranks to processes, ch3: a table of virtual connections (MPIDI_VCRT)."""

    struct = "MPIDI_VCRT"
    size: int = int32()
    vcr_table: int = inside()


class VirtualConnection(View):
    """One process, ch3 (MPIDI_VC)."""

    struct = "MPIDI_VC"
    pg: int = pointer()
    pg_rank: int = int32()


# ---------------------------------------------------------------- datatypes, windows


class MpirDatatype(View):
    """A datatype that isn't predefined, or a predefined pair."""

    struct = "MPIR_Datatype"
    handle: int = uint32()
    ref_count: int = int32()
    size: int = uint64()
    name: bytes = chars(128)


class MpirWin(View):
    """A window."""

    struct = "MPIR_Win"
    comm_ptr: int = pointer()
    name: bytes = chars(128)


# ---------------------------------------------------------------- requests


class MpirRequest(View):
    """What all requests have."""

    struct = "MPIR_Request"
    handle: int = uint32()
    ref_count: int = int32()
    kind: int = int32()
    cc_ptr: int = pointer()
    cc: int = int32()
    comm: int = pointer()
    status_count_lo: int = uint32(name="status.count_lo")
    status_count_hi_and_cancelled: int = uint32(name="status.count_hi_and_cancelled")
    status_source: int = int32(name="status.MPI_SOURCE")
    status_tag: int = int32(name="status.MPI_TAG")
    status_error: int = int32(name="status.MPI_ERROR")
    real_request: int = pointer(name="u.persist.real_request")
    next: int | None = pointer(optional=True)  # since 4.0
    is_local: int | None = int32(name="dev.is_local", optional=True)  # ch4 with shared memory
    anysrc_partner: int | None = pointer(name="dev.anysrc_partner", optional=True)
    type: int | None = int32(name="dev.type", optional=True)  # ch4 since 4.1: 1 is an active message

    @property
    def cancelled(self) -> bool:
        """Whether MPI_Cancel has ended it: the status of a complete request tells."""
        return self.cc == 0 and bool(self.status_count_hi_and_cancelled & CANCELLED)

    @property
    def length(self) -> int:
        """Bytes of the message that its status tells of."""
        return self.status_count_hi_and_cancelled >> 1 << 32 | self.status_count_lo


class AmRequest(View):
    """ch4, a message over shared memory (MPIDIG_req_t), with context ids of 4 bytes."""

    struct = "MPIR_Request"
    req: int = pointer(name="dev.ch4.am.req")
    buffer: int = pointer(name="dev.ch4.am.buffer")
    count: int = uint64(name="dev.ch4.am.count")
    datatype: int = uint32(name="dev.ch4.am.datatype")
    source: int | None = int32(name="dev.ch4.am.u.recv.source", optional=True)  # to 4.2; later in status
    context_id: int = uint32(name="dev.ch4.am.u.recv.context_id")
    tag: int | None = int32(name="dev.ch4.am.u.recv.tag", optional=True)


class NarrowAmRequest(AmRequest):
    """The same with context ids of 2 bytes."""

    context_id: int = uint16(name="dev.ch4.am.u.recv.context_id")


class AmSendRequest(View):
    """ch4, where a message over shared memory goes, of a rendezvous."""

    struct = "MPIR_Request"
    dest: int = int32(name="dev.ch4.am.u.send.dest")


class AmExtension(View):
    """ch4, the part of a message's request that lies outside of it (MPIDIG_req_ext_t), 4.0 to 5.0."""

    struct = "MPIDIG_req_ext_t"
    match_req: int | None = pointer(name="rreq.match_req", optional=True)  # since 4.1
    in_data_sz: int = uint64(name="recv_async.in_data_sz")  # less by what has come
    came: int = uint64(name="recv_async.offset")  # of an earlier message, until the first of this one's data come
    data_sz_left: int = uint64(name="send_async.data_sz_left")
    offset: int = uint64(name="send_async.offset")
    seg_issued: int = int32(name="send_async.seg_issued")
    status: int = uint64()


class LinkedExtension(View):
    """The same in Intel MPI, where it has the links of the list of posted receives (as in 3.4), and lies inside."""

    struct = "MPIDIG_req_ext_t"
    peer_req_ptr: int = pointer(name="rreq.peer_req_ptr")
    next: int = pointer(name="rreq.next")
    seq_no: int = uint64()
    status: int = uint64()


class IntelReceive(View):
    """What Intel MPI has besides, under a name of ours: the process that a receive asked for when it had to wait."""

    struct = "MPIR_Request"
    asked_process: int = int32(name="dev.intel.process")


class PersistentRequest(View):
    """ch4, the arguments of MPI_Send_init, MPI_Recv_init (MPIDI_prequest_t)."""

    struct = "MPIR_Request"
    p_type: int = int32(name="dev.ch4.preq.p_type")
    buffer: int = pointer(name="dev.ch4.preq.buffer")
    count: int = uint64(name="dev.ch4.preq.count")
    rank: int = int32(name="dev.ch4.preq.rank")
    tag: int = int32(name="dev.ch4.preq.tag")
    datatype: int = uint32(name="dev.ch4.preq.datatype")


class PartitionedRequest(View):
    """ch4, partitioned communication (MPIDI_part_request_t), since 4.0."""

    struct = "MPIR_Request"
    partitions: int = int32(name="u.part.partitions")
    active_flag: int = int32(name="u.part.active_flag")
    peer_req_ptr: int = pointer(name="dev.ch4.part_req.am.peer_req_ptr")
    buffer: int = pointer(name="dev.ch4.part_req.buffer")
    count: int = uint64(name="dev.ch4.part_req.count")
    datatype: int = uint32(name="dev.ch4.part_req.datatype")
    dest: int = int32(name="dev.ch4.part_req.u.send.dest")  # and to 4.2 the source of a receive, in the other arm
    tag: int | None = int32(name="dev.ch4.part_req.u.recv.tag", optional=True)  # to 4.2; later in status, with source


class SelfRequest(View):
    """ch4, a message on a communicator of one process (MPIDI_self_request_t), since 4.0."""

    struct = "MPIR_Request"
    buf: int = pointer(name="dev.ch4.self.buf")
    count: int = uint64(name="dev.ch4.self.count")
    datatype: int = uint32(name="dev.ch4.self.datatype")
    tag: int = int32(name="dev.ch4.self.tag")
    match_req: int = pointer(name="dev.ch4.self.match_req")


class MessageHeader(View):
    """ch4, what precedes a message in a cell of shared memory (MPIDIG_hdr_t), with context ids of 4 bytes."""

    struct = "MPIDIG_hdr_t"
    src_rank: int = int32()
    tag: int = int32()
    context_id: int = uint32()
    flags: int = uint32()
    sreq_ptr: int = pointer()
    data_sz: int = uint64()


class NarrowMessageHeader(MessageHeader):
    """The same with context ids of 2 bytes."""

    context_id: int = uint16()


class Ch3Request(View):
    """ch3 (MPIDI_Request)."""

    struct = "MPIR_Request"
    match_tag: int = int32(name="dev.match.parts.tag")
    match_rank: int = uint16(name="dev.match.parts.rank")
    match_context_id: int = uint16(name="dev.match.parts.context_id")
    user_buf: int = pointer(name="dev.user_buf")
    user_count: int = uint64(name="dev.user_count")
    datatype: int = uint32(name="dev.datatype")
    msg_offset: int = uint64(name="dev.msg_offset")
    tmpbuf: int = pointer(name="dev.tmpbuf")
    state: int = uint32(name="dev.state")
    next: int | None = pointer(name="dev.next", optional=True)  # before 4.0


# ---------------------------------------------------------------- shared memory of ch4: cells, and what waits for one


class CellTransport(View):
    """What ch4 knows of its cells."""

    struct = "MPIDI_POSIX_eager_iqueue_transport_t"
    terminals: int = pointer()
    my_terminal: int = pointer()
    cell_pool: int = pointer()


class CellHeader(View):
    """What is before a cell: how far it lies from the first one plus 1, the number of its free queue, the next cell."""

    struct = "MPIDU_genqi_shmem_cell_header"
    handle: int = uint64()
    block_idx: int = int32()
    next: int = uint64()


class Cell(View):
    """The start of a cell."""

    struct = "MPIDI_POSIX_eager_iqueue_cell"
    type: int = uint16()
    payload_size: int = uint32()
    """Bytes of it that are used."""
    handler_id: int = uint8(name="am_header.handler_id")
    am_hdr_sz: int = uint16(name="am_header.am_hdr_sz")


class CellQueue(View):
    """A queue of cells; head and tail have a cache line each."""

    struct = "MPIDU_genq_shmem_queue"
    head: int = uint64()
    tail: int = uint64()
    flags: int = uint32()


class PosixRecord(View):
    """The start of what ch4 keeps of a message that found no free cell: where two headers are, mostly in itself."""

    struct = "MPIDI_POSIX_am_request_header_t"
    am_hdr: int = pointer()
    msg_hdr: int = pointer()
    msg_hdr_buf: int = inside()
    handler_id: int = uint8(name="msg_hdr_buf.handler_id")
    am_hdr_buf: int = inside()


class PosixArguments(View):
    """The end of it, behind the space for the header."""

    struct = "MPIDI_POSIX_am_request_header_t"
    dst_grank: int = int32()
    datatype: int = uint32()
    buf: int = pointer()
    count: int = uint64()
    request: int = pointer()
    prev: int = pointer()
    next: int = pointer()


# ---------------------------------------------------------------- ch4's netmods: requests from libfabric's context on


class OfiEvent(View):
    """What is done when libfabric is done with a request."""

    struct = "MPIDI_OFI_request_t"
    event_id: int = uint32()


class OfiReceive(View):
    """A receive since 4.3, with the program's arguments."""

    struct = "MPIDI_OFI_request_t"
    buf: int = pointer()
    count: int = uint64()
    datatype: int = uint32()
    context_id: int = uint16()


class OldOfiReceive(View):
    """A receive to 4.2, with the datatype; behind it the arguments of one that MPICH unpacks, and where it comes to."""

    struct = "MPIDI_OFI_request_t_to_4_2"
    context_id: int = uint16()
    datatype: int = uint32()
    buf: int = pointer(name="noncontig.pack.buf")
    count: int = uint64(name="noncontig.pack.count")
    unpacked_as: int = uint32(name="noncontig.pack.datatype")
    comes_to: int = pointer(name="noncontig.pack.pack_buffer")


class IntelOfiReceive(OldOfiReceive):
    """The same of Intel MPI."""

    struct = "MPIDI_OFI_request_t_of_intel"


class OfiAnswer(View):
    """The answer to a synchronous send."""

    struct = "MPIDI_OFI_ssendack_request_t"
    signal_req: int = pointer()
    """The send that waits for it."""


class OfiAddress(View):
    """By which addresses of libfabric's the VCIs reach a process, since 5.0."""

    struct = "MPIDI_OFI_addr_t"
    dest: int = uint64()
    all_dest: int = pointer()
    """Those of all VCIs but the first."""


UCX_CONTEXT = "MPIDI_UCX_context_t"
"""A VCI's record, of which the size counts: they are an array."""


# ---------------------------------------------------------------- groups to 4.3, and windows of ch4


class OldGroup(View):
    """A group to 4.3: its processes lie in an array of their own."""

    struct = "MPIR_Group_to_4_3"
    count: int = int32(name="size")
    rank: int = int32()
    processes: int = pointer(name="lrank_to_lpid")


class Ch4Window(View):
    """ch4's part of a window, from its number on (win_id)."""

    struct = "MPIDIG_win_t"
    sync: int = inside()


class WindowSync(View):
    """A window's epochs; left out are assertions and counts of those that are done."""

    struct = "MPIDIG_win_sync_t"
    access: int = int32(name="access_epoch_type")
    exposure: int = int32(name="exposure_epoch_type")
    started: int = pointer(name="sc.group")
    """The group of MPI_Win_start."""
    all_locked: int = uint32(name="lockall.allLocked")
    """How many MPI_Win_lock_all has locked so far."""
    locks: int = uint32(name="lock.count")
    """How many MPI_Win_lock has locked."""
    posted: int = pointer(name="pw.group")
    """The group of MPI_Win_post."""
    queue_head: int = pointer(name="lock_recvd.head")
    """Who waits for the lock of this process's part."""
    queue_tail: int = pointer(name="lock_recvd.tail")
    lock_type: int = int32(name="lock_recvd.type")
    """Of the lock that it has given."""


class WindowTarget(View):
    """What a process keeps of another one's part of a window, an entry of a hash table."""

    struct = "MPIDIG_win_target_t"
    epoch: int = int32(name="sync.access_epoch_type")
    locked: int = uint32(name="sync.lock.locked")
    rank: int = int32()
    key_at: int = inside(name="rank")
    next: int = pointer("MPIDIG_win_target_t", "hash_handle", "UT_hash_handle")
    key: int = pointer("MPIDIG_win_target_t", "hash_handle", "UT_hash_handle")
    keylen: int = uint32("MPIDIG_win_target_t", "hash_handle", "UT_hash_handle")


class WindowLock(View):
    """Who waits for the lock of this process's part."""

    struct = "MPIDIG_win_lock"
    next: int = pointer()
    rank: int = int32()
    type: int = uint16()


COMMON: tuple[type[View], ...] = (ObjectAlloc, ObjectHead, MpirProcess, Comm, MpirDatatype, MpirWin, MpirRequest)
"""What every MPICH has."""

CH3: tuple[type[View], ...] = (Vcrt, VirtualConnection, Ch3Request)
CH4: tuple[type[View], ...] = (
    AmRequest,
    AmSendRequest,
    AmExtension,
    PersistentRequest,
    PartitionedRequest,
    SelfRequest,
    MessageHeader,
)
INTEL: tuple[type[View], ...] = (AmRequest, LinkedExtension, IntelReceive, PersistentRequest)
MAPS: tuple[type[View], ...] = (RankMap, MpirGroup, StridedGroup)
ALL: tuple[type[View], ...] = (*COMMON, *CH3, *CH4, *INTEL, *MAPS)
