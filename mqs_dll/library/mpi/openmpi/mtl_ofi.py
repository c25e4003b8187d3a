"""mtl/ofi, which carries the messages of pml/cm over libfabric: how it uses libfabric, and what it keeps itself.

Of a receive mtl/ofi keeps the tag, but not which of its bits count; and since 4.1 a send leaves nothing at all.
Source: ompi/mca/mtl/ofi of 4.1.0 to 4.1.8 and 5.0.0 to 5.0.11.
"""

from __future__ import annotations

from typing import NamedTuple

from mqs_dll.contract.errors import LayoutError, MqsError, TargetReadError
from mqs_dll.library.fabric import ANY
from mqs_dll.library.fabric.ofi import find_endpoint
from mqs_dll.library.fabric.ofi.endpoint import Endpoint
from mqs_dll.library.fabric.ofi.libfabric import FidClass, Libfabric
from mqs_dll.library.memory import WORD, cached_per_sweep
from mqs_dll.library.mpi.openmpi import cm_views, views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.groups import ProcName
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.processes import OmpiProcList
from mqs_dll.library.mpi.openmpi.tag_codecs import FULL_TAG_BITS, mtl_ofi
from mqs_dll.library.mpi.openmpi.tags import ANY_TAG

ANY_SOURCE = -1

MTL_REQUEST_BYTES = 2 * WORD
"""sizeof(mca_mtl_request_t), two pointers, which pml/cm's own structs include (ompi/mca/mtl/mtl.h)."""

CONTEXT = 3 * WORD
"""Of what libfabric gets, in mtl/ofi's request: behind mca_mtl_request_t and the type."""

MODULE_BYTES = 512
"""More than ompi_mtl_ofi has (400 in 4.1, 416 in 5.0): its endpoint is told by what it points at."""

MAX_NAME_LENGTH = 64


class Pattern(NamedTuple):
    """Which messages a receive asks for; None is what can't be known."""

    source: int | None
    tag: int | None


class MtlOfi:
    """mtl/ofi in one process."""

    def __init__(self, mpi: OmpiProcessContext) -> None:
        """Find out how this process's messages carry their tags.

        Raises:
            LayoutError: the layouts of mtl/ofi's structs are missing, or don't hold here.
        """
        memory, symbols, layouts = mpi.memory, mpi.symbols, mpi.layouts
        self._memory = memory
        self._request = cm_views.OfiRequest.bind(layouts)
        self._endpoint = cm_views.OfiEndpoint.bind(layouts)
        self._endpoint_class = symbols.need("mca_mtl_ofi_endpoint_t_class")
        self._processes = OmpiProcList(mpi)
        _check_request_size(mpi)
        module = cm_views.OfiModule.bind(layouts).at(memory, symbols.need("ompi_mtl_ofi"))
        directed = bool(module.fi_cq_data)
        tag_bits = FULL_TAG_BITS if directed else module.num_bits_mpi_tag
        rank_bits = 0 if directed else module.num_bits_source_rank
        if module.any_addr != ANY or not 0 <= rank_bits < tag_bits <= FULL_TAG_BITS:
            raise LayoutError("mca_mtl_ofi_module_t is laid out in another way")
        self.codec = mtl_ofi(tag_bits, rank_bits)
        self._address_mask = ANY >> module.rx_ctx_bits if 0 <= module.rx_ctx_bits < 64 else ANY

    def pattern(self, request: cm_views.CmRecvRequest, entry: OmpiEntry) -> Pattern | None:
        """Return what a thin receive that is not complete asks for; None where mtl/ofi keeps nothing of it.

        That is so for MPI_Imrecv, which leaves in place what the last user of the request wrote.
        """
        record = self._record(request, entry)
        if record is None or record.req_started:
            return None
        return Pattern(self._source(record, entry), self._asked_tag(record))

    def pattern_of_complete(self, request: cm_views.CmRecvRequest, entry: OmpiEntry) -> Pattern | None:
        """Return what a thin receive asked for that has got its message; None where that is not known.

        What it got tells whether a field was left open. The address of the source is overwritten with that of the
        message's sender if the send was synchronous.
        """
        record = self._record(request, entry)
        if record is None:
            return None
        tag, source = self._asked_tag(record), self._source(record, entry)
        arrived = self.codec.read(request.status_tag).tag
        if tag is None and arrived != 0:
            tag = ANY_TAG
        if not self.codec.has_rank:
            source = source if source == ANY_SOURCE else None
        elif source is None and request.status_source != 0:
            source = ANY_SOURCE
        if tag not in (None, ANY_TAG, arrived) or source not in (None, ANY_SOURCE, request.status_source):
            return None
        return Pattern(source, tag)

    def _record(self, request: cm_views.CmRecvRequest, entry: OmpiEntry) -> cm_views.OfiRequest | None:
        """Return what mtl/ofi keeps of a thin receive, if it is of this request, this buffer and this communicator."""
        record = self._request.at(self._memory, request.address + request.thin_mtl)
        mine = (
            record.convertor == request.address + request.convertor
            and record.length == request.local_size
            and record.comm == entry.view.address
            and self.codec.read(record.match_bits).context == entry.slot
        )
        return record if mine else None

    def _asked_tag(self, record: cm_views.OfiRequest) -> int | None:
        """Return the tag of a receive; None for 0, which MPI_ANY_TAG leaves there too."""
        return self.codec.read(record.match_bits).tag or None

    def _source(self, record: cm_views.OfiRequest, entry: OmpiEntry) -> int | None:
        """Return the rank of the source; it is a part of the pattern, or named by its address."""
        if self.codec.has_rank:
            rank = self.codec.read(record.match_bits).rank
            return rank if 0 < rank < len(entry.peers()) else None
        return ANY_SOURCE if record.remote_addr == ANY else self.rank(record.remote_addr, entry)

    def rank(self, address: int, entry: OmpiEntry) -> int | None:
        """Return the rank in a communicator of the process with an address of libfabric's; None for none, or several.

        Args:
            address: in libfabric's table of addresses.
            entry: the communicator.
        """
        procs = self._names().get(address & self._address_mask, [])
        ranks = [rank for rank, name in enumerate(entry.peer_names()) if name in procs]
        return ranks[0] if len(ranks) == 1 == len(procs) else None

    @cached_per_sweep
    def _names(self) -> dict[int, list[ProcName]]:
        """Return the names of the processes that have an address, as far as their list can be read."""
        found: dict[int, list[ProcName]] = {}
        for name, pointers in self._processes.endpoints():
            address = self._address(pointers)
            if address is not None:
                found.setdefault(address, []).append(name)
        return found

    def _address(self, pointers: tuple[int, ...]) -> int | None:
        """Return the address of a process; mtl/ofi's endpoint is one of those that the transports keep of it."""
        for pointer in pointers:
            try:
                endpoint = self._endpoint.at(self._memory, pointer)
            except MqsError:
                continue
            if endpoint.obj_class == self._endpoint_class:
                return endpoint.peer_fiaddr
        return None


def _check_request_size(mpi: OmpiProcessContext) -> None:
    """Compare the size of mtl/ofi's request with the room that pml/cm leaves for it (4.1.2 made it larger)."""
    address = mpi.symbols.need("mca_pml_base_recv_requests")
    pool = views.OpalFreeList.bind(mpi.layouts).at(mpi.memory, address)
    heavy = mpi.class_size("mca_pml_cm_hvy_recv_request_t")
    size = mpi.layouts.struct("ompi_mtl_ofi_request_t").size
    if not heavy or size is None or pool.fl_frag_size != heavy + size - MTL_REQUEST_BYTES:
        raise LayoutError(f"ompi_mtl_ofi_request_t has another size than {size}")


def find_own_endpoint(mpi: OmpiProcessContext) -> Endpoint:
    """Return the endpoint of libfabric's through which ompi_mtl_ofi sends and receives.

    Raises:
        LayoutError: there is none or more than one, or its provider's queues can't be read; the text says which it is.
    """
    memory, address = mpi.memory, mpi.symbols.need("ompi_mtl_ofi")
    library = Libfabric(mpi.symbols.image, memory)
    module = cm_views.OfiModule.bind(mpi.layouts).at(memory, address)
    if module.rx_ctx_bits:
        raise LayoutError("mtl/ofi uses several contexts of libfabric's")
    try:
        provider = memory.text(module.provider_name, MAX_NAME_LENGTH).decode("ascii", "replace")
        words = memory.pointers(address, MODULE_BYTES // WORD)
        kinds = [library.kind(word) for word in words]
        domain = words[kinds.index(FidClass.DOMAIN)]
        place = next(place for place, kind in enumerate(kinds) if kind in (FidClass.EP, FidClass.SEP))
        _, receives, completions = memory.pointers(words[place + 1], 3)
    except (TargetReadError, ValueError, StopIteration, IndexError):
        raise LayoutError("ompi_mtl_ofi has no endpoint of libfabric's") from None
    if library.kind(receives) not in (FidClass.EP, FidClass.RX_CTX) or library.kind(completions) != FidClass.CQ:
        raise LayoutError("ompi_mtl_ofi's first context is none")
    return find_endpoint(library, words[place], receives, domain, "openmpi", provider)
