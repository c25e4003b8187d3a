"""mtl/ofi, which carries the messages of pml/cm over libfabric: what it keeps of the receives that it posted.

It keeps the pattern of bits that a message has to have, but not which of them count; and since 4.1 a send leaves
nothing at all. Source: ompi/mca/mtl/ofi of 4.1.0 to 4.1.8 and 5.0.0 to 5.0.10.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from mqs_dll.errors import LayoutError, MqsError
from mqs_dll.memory import WORD, remembered
from mqs_dll.mpi.openmpi import cm_views, views
from mqs_dll.mpi.openmpi.communicators import Entry
from mqs_dll.mpi.openmpi.groups import ProcName
from mqs_dll.mpi.openmpi.parts import Parts
from mqs_dll.mpi.openmpi.tags import ANY_TAG

ANY_SOURCE = -1
ANY_ADDRESS = (1 << 64) - 1
"""FI_ADDR_UNSPEC of libfabric."""

MTL_REQUEST_BYTES = 2 * WORD
"""sizeof(mca_mtl_request_t), two pointers, which pml/cm's own structs include (ompi/mca/mtl/mtl.h)."""

PROTOCOL_BITS = 2
FULL_TAG_BITS = 32
"""Bits of a tag where libfabric carries the source beside it; the module's own count is not set then."""


class Pattern(NamedTuple):
    """Which messages a receive asks for; None is what can't be known."""

    source: int | None
    tag: int | None


class Ofi:
    """mtl/ofi in one process."""

    def __init__(self, parts: Parts) -> None:
        """Find out how this process's messages carry their tags.

        Raises:
            LayoutError: the layouts of mtl/ofi's structs are missing, or don't hold here.
        """
        memory, symbols, layouts = parts.memory, parts.symbols, parts.layouts
        self._memory = memory
        self._containers = parts.containers
        self._request = cm_views.OfiRequest.bind(layouts)
        self._endpoint = cm_views.OfiEndpoint.bind(layouts)
        self._proc = views.Proc.bind(layouts)
        self._endpoint_class = symbols.need("mca_mtl_ofi_endpoint_t_class")
        self._procs = symbols.need("ompi_proc_list")
        self._endpoints = cm_views.Endpoints.bind(layouts).constant("proc_endpoints")
        self._endpoint_slots = max(0, parts.class_size("ompi_proc_t") - self._endpoints) // WORD
        _check_request_size(parts)
        module = cm_views.OfiModule.bind(layouts).at(memory, symbols.need("ompi_mtl_ofi"))
        directed = bool(module.fi_cq_data)
        self._tag_bits = FULL_TAG_BITS if directed else module.num_bits_mpi_tag
        self._source_bits = 0 if directed else module.num_bits_source_rank
        if module.any_addr != ANY_ADDRESS or not 0 <= self._source_bits < self._tag_bits <= FULL_TAG_BITS:
            raise LayoutError("mca_mtl_ofi_module_t is laid out in another way")
        self._address_mask = ANY_ADDRESS >> module.rx_ctx_bits if 0 <= module.rx_ctx_bits < 64 else ANY_ADDRESS

    def pattern(self, request: cm_views.CmRecvRequest, entry: Entry) -> Pattern | None:
        """Return what a thin receive that is not complete asks for; None where mtl/ofi keeps nothing of it.

        That is so for MPI_Imrecv, which leaves in place what the last user of the request wrote.
        """
        record = self._record(request, entry)
        if record is None or record.req_started:
            return None
        return Pattern(self._source(record, entry), self._asked_tag(record))

    def pattern_of_complete(self, request: cm_views.CmRecvRequest, entry: Entry) -> Pattern | None:
        """Return what a thin receive asked for that has got its message; None where that is not known.

        What it got tells whether a field was left open. The address of the source is overwritten with that of the
        message's sender if the send was synchronous.
        """
        record = self._record(request, entry)
        if record is None:
            return None
        tag, source, arrived = self._asked_tag(record), self._source(record, entry), self.tag(request.status_tag)
        if tag is None and arrived != 0:
            tag = ANY_TAG
        if self._source_bits == 0:
            source = source if source == ANY_SOURCE else None
        elif source is None and request.status_source != 0:
            source = ANY_SOURCE
        if tag not in (None, ANY_TAG, arrived) or source not in (None, ANY_SOURCE, request.status_source):
            return None
        return Pattern(source, tag)

    def _record(self, request: cm_views.CmRecvRequest, entry: Entry) -> cm_views.OfiRequest | None:
        """Return what mtl/ofi keeps of a thin receive, if it is of this request, this buffer and this communicator."""
        record = self._request.at(self._memory, request.address + request.thin_mtl)
        mine = (
            record.convertor == request.address + request.convertor
            and record.length == request.local_size
            and record.comm == entry.view.address
            and record.match_bits >> self._tag_bits + PROTOCOL_BITS + self._source_bits == entry.slot
        )
        return record if mine else None

    def tag(self, bits: int) -> int:
        """Return the tag that a number carries: tags of fewer than 32 bits have lost their sign in it."""
        tag = bits & (1 << self._tag_bits) - 1
        return tag - (1 << self._tag_bits) if tag >> self._tag_bits - 1 else tag

    def _asked_tag(self, record: cm_views.OfiRequest) -> int | None:
        """Return the tag of a receive; None for 0, which MPI_ANY_TAG leaves there too."""
        return self.tag(record.match_bits) or None

    def _source(self, record: cm_views.OfiRequest, entry: Entry) -> int | None:
        """Return the rank of the source; it is a part of the pattern, or named by its address."""
        if self._source_bits:
            rank = record.match_bits >> self._tag_bits + PROTOCOL_BITS & (1 << self._source_bits) - 1
            return rank if 0 < rank < len(entry.peers()) else None
        if record.remote_addr == ANY_ADDRESS:
            return ANY_SOURCE
        procs = self._processes().get(record.remote_addr & self._address_mask, [])
        ranks = [rank for rank, name in enumerate(entry.peer_names()) if name in procs]
        return ranks[0] if len(ranks) == 1 == len(procs) else None

    @remembered
    def _processes(self) -> dict[int, list[ProcName]]:
        """Return the names of the processes that have an address, as far as their list can be read."""
        found: dict[int, list[ProcName]] = {}
        with suppress(MqsError):
            for address in self._containers.list_items(self._procs, "the list of processes"):
                fabric_address = self._address(address)
                if fabric_address is not None:
                    proc = self._proc.at(self._memory, address)
                    found.setdefault(fabric_address, []).append(ProcName(proc.jobid, proc.vpid))
        return found

    def _address(self, proc: int) -> int | None:
        """Return the address of a process; mtl/ofi's endpoint is one of those that the transports keep of it."""
        for pointer in self._memory.pointers(proc + self._endpoints, self._endpoint_slots):
            try:
                endpoint = self._endpoint.at(self._memory, pointer)
            except MqsError:
                continue
            if endpoint.obj_class == self._endpoint_class:
                return endpoint.peer_fiaddr
        return None


def _check_request_size(parts: Parts) -> None:
    """Compare the size of mtl/ofi's request with the room that pml/cm leaves for it (4.1.2 made it larger)."""
    address = parts.symbols.need("mca_pml_base_recv_requests")
    pool = views.OpalFreeList.bind(parts.layouts).at(parts.memory, address)
    heavy = parts.class_size("mca_pml_cm_hvy_recv_request_t")
    size = parts.layouts.struct("ompi_mtl_ofi_request_t").size
    if not heavy or size is None or pool.fl_frag_size != heavy + size - MTL_REQUEST_BYTES:
        raise LayoutError(f"ompi_mtl_ofi_request_t has another size than {size}")
