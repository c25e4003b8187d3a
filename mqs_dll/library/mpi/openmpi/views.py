"""The members of Open MPI's structs that the walkers read, under Open MPI's names (4.1.0 to 6.0.0rc2).

Members that only some releases have are optional; the comment names the release that changed them.
"""

from __future__ import annotations

from typing import cast

from mqs_dll.library.layouts.view import View, chars, inside, int32, pointer, uint8, uint16, uint32, uint64

# ---------------------------------------------------------------- opal: objects and containers


class OpalClass(View):
    """The static descriptor of a class of objects: what every object's first word points at."""

    struct = "opal_class_t"
    cls_name: int = pointer()
    cls_sizeof: int = uint64()


class OpalObject(View):
    """The head of every object."""

    struct = "opal_object_t"
    obj_class: int = pointer()
    obj_reference_count: int = int32()


class OpalListItem(View):
    """A link of a list; the list's own sentinel is one too."""

    struct = "opal_list_item_t"
    opal_list_next: int = pointer()


class OpalList(View):
    """A circular, doubly linked list."""

    struct = "opal_list_t"
    obj_class: int = pointer("opal_object_t")
    opal_list_sentinel: int = inside()
    first: int = pointer("opal_list_t", "opal_list_sentinel", "opal_list_item_t", name="opal_list_next")
    opal_list_length: int = uint64()


def first_item(struct: str, member: str) -> int:
    """Declare the first link of a list inside a struct; it is the list's own sentinel where the list is empty."""
    path = (struct, member, "opal_list_t", "opal_list_sentinel", "opal_list_item_t")
    return cast(int, pointer(*path, name="opal_list_next"))


class OpalPointerArray(View):
    """A table of pointers with holes (0)."""

    struct = "opal_pointer_array_t"
    number_free: int = int32()
    size: int = int32()
    addr: int = pointer()


class OpalFreeList(View):
    """A pool of objects, allocated in chunks that are never given back."""

    struct = "opal_free_list_t"
    fl_num_allocated: int = uint64()
    fl_num_per_alloc: int = uint64()
    fl_frag_size: int = uint64()
    fl_frag_alignment: int = uint64()
    fl_frag_class: int = pointer()
    fl_allocations: int = inside()


class OpalInfoSubscriber(View):
    """The head of communicators: their info keys."""

    struct = "opal_infosubscriber_t"
    s_info: int = pointer()


# ---------------------------------------------------------------- communicators, groups, processes


class OmpiCommunicator(View):
    """MPI_Comm is the address of one."""

    struct = "ompi_communicator_t"
    obj_class: int = pointer("opal_object_t")
    obj_reference_count: int = int32("opal_object_t")
    c_name: int = inside()  # char[64] in 4.1, char * since 5.0.0
    c_contextid: int = inside()  # uint32 in 4.1, 16 bytes since 5.0.0
    c_index: int | None = uint32(optional=True)  # since 5.0.0: the slot, which was c_contextid before
    c_my_rank: int = int32()
    c_flags: int = uint32()
    c_local_group: int = pointer()
    c_remote_group: int = pointer()
    c_local_comm: int = pointer()
    c_pml_comm: int = pointer()


class OmpiGroup(View):
    """MPI_Group is the address of one."""

    struct = "ompi_group_t"
    obj_class: int = pointer("opal_object_t")
    grp_proc_count: int = int32()
    grp_my_rank: int = int32()
    grp_proc_pointers: int = pointer()
    grp_flags: int = uint32()
    grp_parent_group_ptr: int = pointer()
    sparse_data: bytes = chars(16)


class Proc(View):
    """A process that somebody has talked to."""

    struct = "opal_proc_t"
    jobid: int = uint32("opal_proc_t", "proc_name", "opal_process_name_t")
    vpid: int = uint32("opal_proc_t", "proc_name", "opal_process_name_t")


# ---------------------------------------------------------------- requests


class OmpiRequest(View):
    """MPI_Request is the address of one."""

    struct = "ompi_request_t"
    obj_class: int = pointer("opal_object_t")
    status_source: int = int32("ompi_request_t", "req_status", "ompi_status_public_t", name="MPI_SOURCE")
    status_tag: int = int32("ompi_request_t", "req_status", "ompi_status_public_t", name="MPI_TAG")
    status_cancelled: int = int32("ompi_request_t", "req_status", "ompi_status_public_t", name="_cancelled")
    status_ucount: int = uint64("ompi_request_t", "req_status", "ompi_status_public_t", name="_ucount")
    req_complete: int = uint64()
    req_state: int = int32()
    req_persistent: int = uint8()


class PmlRequest(OmpiRequest):
    """A point-to-point request of pml/ob1, up to what sends and receives share."""

    pml_complete: int = uint8("mca_pml_base_request_t", name="req_pml_complete")
    free_called: int = uint8("mca_pml_base_request_t", name="req_free_called")
    pml_type: int = uint32("mca_pml_base_request_t", name="req_type")
    req_comm: int = pointer("mca_pml_base_request_t")
    req_datatype: int = pointer("mca_pml_base_request_t")
    req_addr: int = pointer("mca_pml_base_request_t")
    req_count: int = uint64("mca_pml_base_request_t")
    req_peer: int = int32("mca_pml_base_request_t")
    req_tag: int = int32("mca_pml_base_request_t")
    req_sequence: int = uint64("mca_pml_base_request_t")


class RecvRequest(PmlRequest):
    """A receive of pml/ob1."""

    item_next: int = pointer("opal_list_item_t", name="opal_list_next")  # in the list of the receives that wait
    req_bytes_packed: int = uint64("mca_pml_base_recv_request_t")
    req_bytes_received: int = uint64("mca_pml_ob1_recv_request_t")
    req_match_received: int = uint8("mca_pml_ob1_recv_request_t")


class SendRequest(PmlRequest):
    """A send of pml/ob1."""

    send_addr: int = pointer("mca_pml_base_send_request_t", name="req_addr")
    req_bytes_packed: int = uint64("mca_pml_base_send_request_t")
    req_send_mode: int = uint32("mca_pml_base_send_request_t")
    req_recv: int = pointer("mca_pml_ob1_send_request_t")
    req_bytes_delivered: int = uint64("mca_pml_ob1_send_request_t")


# ---------------------------------------------------------------- pml/ob1


class Ob1Comm(View):
    """What pml/ob1 keeps of a communicator: its receives from anywhere, and a table of its peers."""

    struct = "mca_pml_ob1_comm_t"
    obj_class: int = pointer("opal_object_t")
    wild_receives: int = inside()
    first_wild_receive: int = first_item("mca_pml_ob1_comm_t", "wild_receives")
    procs: int = pointer()
    num_procs: int = uint64()
    last_probed: int = uint64()


class Ob1Proc(View):
    """What pml/ob1 keeps of one peer in a communicator."""

    struct = "mca_pml_ob1_comm_proc_t"
    obj_class: int = pointer("opal_object_t")
    expected_sequence: int = uint16()
    send_sequence: int = int32()
    """The number of the last message to the peer."""
    frags_cant_match: int = pointer()
    specific_receives: int = inside()
    first_specific_receive: int = first_item("mca_pml_ob1_comm_proc_t", "specific_receives")
    unexpected_frags: int = inside()
    first_unexpected_frag: int = first_item("mca_pml_ob1_comm_proc_t", "unexpected_frags")


_FRAG_HDR = ("mca_pml_ob1_recv_frag_t", "hdr")


class Ob1RecvFrag(View):
    """A message, or the head of one, that no receive has matched, with its header as Ob1Header has it."""

    struct = "mca_pml_ob1_recv_frag_t"
    obj_class: int = pointer("opal_object_t")
    opal_list_next: int = pointer("opal_list_item_t")
    hdr: int = inside()
    type: int = uint8(*_FRAG_HDR, "mca_pml_ob1_match_hdr_t", name="hdr_common")
    hdr_ctx: int = uint16(*_FRAG_HDR, "mca_pml_ob1_match_hdr_t")
    hdr_src: int = int32(*_FRAG_HDR, "mca_pml_ob1_match_hdr_t")
    hdr_tag: int = int32(*_FRAG_HDR, "mca_pml_ob1_match_hdr_t")
    hdr_msg_length: int = uint64(*_FRAG_HDR, "mca_pml_ob1_rendezvous_hdr_t")
    num_segments: int = uint64()
    range: int = pointer()
    segment_address: int = pointer("mca_pml_ob1_recv_frag_t", "segments", "mca_btl_base_segment_t", name="seg_addr")
    segment_length: int = uint64("mca_pml_ob1_recv_frag_t", "segments", "mca_btl_base_segment_t", name="seg_len")


class Ob1Header(View):
    """A header that came with a message."""

    struct = "mca_pml_ob1_match_hdr_t"
    type: int = uint8(name="hdr_common")
    hdr_ctx: int = uint16()
    hdr_src: int = int32()
    hdr_tag: int = int32()
    hdr_padding: bytes | None = chars(2, optional=True)  # builds for heterogeneous clusters, and debug builds of 5.0
    hdr_msg_length: int = uint64("mca_pml_ob1_rendezvous_hdr_t")


class Ob1Component(View):
    """The component's own struct."""

    struct = "mca_pml_ob1_t"
    non_existing_communicator_pending: int = inside()


# ---------------------------------------------------------------- datatypes, windows, components


class OmpiDatatype(View):
    """MPI_Datatype is the address of one."""

    struct = "ompi_datatype_t"
    obj_class: int = pointer("opal_object_t")
    flags: int = uint16("ompi_datatype_t", "super", "opal_datatype_t")
    size: int = uint64("ompi_datatype_t", "super", "opal_datatype_t")
    name: int = inside()  # char[64], char * since 6.0.0


class OmpiWin(View):
    """MPI_Win is the address of one."""

    struct = "ompi_win_t"
    obj_class: int = pointer("opal_object_t")
    w_name: int = inside()  # char[64] in front of w_group, char * since 6.0.0
    w_group: int = pointer()
    w_flags: int = uint16()
    w_osc_module: int = pointer()


class UcxPersistent(View):
    """What pml/ucx has of a persistent request behind its ompi_request_t, the same in every release."""

    struct = "mca_pml_ucx_persistent_request_t"
    work: int = pointer(name="tmp_req")
    """The request that does its work, 0 for none: that is given back as soon as it is done."""
    flags: int = uint32()
    buffer: int = pointer()
    count: int = uint64()
    datatype: int = pointer(name="ompi_datatype")
    tag: int = uint64()
    """UCX's."""
    mode: int = uint32(name="send.mode")
    endpoint: int = pointer(name="send.ep")
    mask: int = uint64(name="recv.tag_mask")


class Component(View):
    """The head of every component: what it is called."""

    struct = "mca_base_component_t"
    mca_component_name: bytes = chars(64)


ALL: tuple[type[View], ...] = (
    OpalClass,
    OpalObject,
    OpalListItem,
    OpalList,
    OpalPointerArray,
    OpalFreeList,
    OpalInfoSubscriber,
    OmpiCommunicator,
    OmpiGroup,
    Proc,
    RecvRequest,
    SendRequest,
    Ob1Comm,
    Ob1Proc,
    Ob1RecvFrag,
    Ob1Header,
    Ob1Component,
    OmpiDatatype,
    OmpiWin,
    Component,
)
"""Every view, for the sources of layouts."""
