"""The members of pml/cm's requests that the walkers read, and of mtl/ofi below it (4.1.0 to 6.0.0rc2).

Processes that use another transport do without these; so may one that uses pml/cm, which then hides more.
"""

from __future__ import annotations

from mqs_dll.library.layouts.view import View, inside, int32, pointer, uint8, uint32, uint64
from mqs_dll.library.mpi.openmpi.views import OmpiRequest


class CmRequest(OmpiRequest):
    """What pml/cm keeps of every request; the convertor describes its buffer."""

    status_error: int = int32("ompi_request_t", "req_status", "ompi_status_public_t", name="MPI_ERROR")
    free_called: int = uint8("mca_pml_cm_request_t", name="req_free_called")
    pml_complete: int = uint8("mca_pml_cm_request_t", name="req_pml_complete")
    pml_type: int = uint32("mca_pml_cm_request_t", name="req_pml_type")
    req_comm: int = pointer("mca_pml_cm_request_t")
    req_datatype: int = pointer("mca_pml_cm_request_t")
    convertor: int = inside("mca_pml_cm_request_t", name="req_convertor")
    convertor_flags: int = uint32("mca_pml_cm_request_t", "req_convertor", "opal_convertor_t", name="flags")
    local_size: int = uint64("mca_pml_cm_request_t", "req_convertor", "opal_convertor_t")
    count: int = uint64("mca_pml_cm_request_t", "req_convertor", "opal_convertor_t")
    buffer: int = pointer("mca_pml_cm_request_t", "req_convertor", "opal_convertor_t", name="pBaseBuf")


class CmRecvRequest(CmRequest):
    """A receive; what is only there in a heavy one has a name that begins so."""

    heavy_peer: int = int32("mca_pml_cm_hvy_recv_request_t", name="req_peer")
    heavy_tag: int = int32("mca_pml_cm_hvy_recv_request_t", name="req_tag")
    thin_mtl: int = inside("mca_pml_cm_thin_recv_request_t", name="req_mtl")


class CmSendRequest(CmRequest):
    """A send; what is only there in a heavy one has a name that begins so."""

    req_send_mode: int = uint32("mca_pml_cm_send_request_t")
    heavy_addr: int = pointer("mca_pml_cm_hvy_send_request_t", name="req_addr")
    heavy_peer: int = int32("mca_pml_cm_hvy_send_request_t", name="req_peer")
    heavy_tag: int = int32("mca_pml_cm_hvy_send_request_t", name="req_tag")


class LowerBound(View):
    """Where the data of a datatype begins, counted from the address that the program gives."""

    struct = "opal_datatype_t"
    true_lb: int = uint64()


class OfiRequest(View):
    """What mtl/ofi keeps of a receive, inside pml/cm's request, on the stack of a blocking call, or in the heap."""

    struct = "ompi_mtl_ofi_request_t"
    comm: int = pointer()
    completion_count: int = int32()
    length: int = uint64()
    packed: int = pointer(name="buffer")
    convertor: int = pointer()
    req_started: int = uint8()
    match_bits: int = uint64()
    remote_addr: int = uint64()
    parent: int = pointer()


class Convertor(View):
    """What describes a buffer of the program."""

    struct = "opal_convertor_t"
    flags: int = uint32()
    local_size: int = uint64()
    count: int = uint64()
    datatype: int = pointer(name="pDesc")
    buffer: int = pointer(name="pBaseBuf")


class OfiModule(View):
    """How mtl/ofi uses libfabric in this process."""

    struct = "mca_mtl_ofi_module_t"
    rx_ctx_bits: int = int32()
    any_addr: int = uint64()
    provider_name: int = pointer()
    fi_cq_data: int = uint8()
    num_bits_source_rank: int = int32()
    num_bits_mpi_tag: int = int32()


class OfiEndpoint(View):
    """The address under which libfabric knows a process."""

    struct = "mca_mtl_ofi_endpoint_t"
    obj_class: int = pointer("opal_object_t")
    peer_fiaddr: int = uint64()


class Endpoints(View):
    """What the transports keep of a process."""

    struct = "ompi_proc_t"
    proc_endpoints: int = inside()


PML: tuple[type[View], ...] = (CmRecvRequest, CmSendRequest, LowerBound)
"""The views of pml/cm itself."""

MTL_OFI: tuple[type[View], ...] = (OfiRequest, Convertor, OfiModule, OfiEndpoint, Endpoints)
"""The views of mtl/ofi."""

ALL = (*PML, *MTL_OFI)
"""Every view, for the sources of layouts."""
