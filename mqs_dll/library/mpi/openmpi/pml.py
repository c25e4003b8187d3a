"""The point-to-point layers of Open MPI (its "pml" components): what they have in common, and which one a process uses.

Only the one in use is imported, since a debugger's user waits for it. Datatypes' handles are their addresses.
"""

from __future__ import annotations

from typing import TypeAlias

from mqs_dll.contract import phrases
from mqs_dll.contract.errors import LayoutError, NoInformation
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.symbols import class_name
from mqs_dll.library.mpi.transport import HiddenTransport, Transport

Pml: TypeAlias = Transport[OmpiEntry]
"""One point-to-point layer in one process."""


def hidden(what: str, transport: str, why: str) -> NoInformation:
    """Return the refusal to list a queue that a transport hides, with the remedy."""
    return NoInformation(
        phrases.unseen(what, f"Open MPI's transport {transport} {why}"), "run the job with --mca pml ob1 to see them"
    )


def hidden_pml(name: str, why: str) -> Pml:
    """Return a layer that keeps its operations where they can't be read."""
    return HiddenTransport(name, lambda what: hidden(what, name, why))


def select(mpi: OmpiProcessContext) -> Pml:
    """Return the layer of this process.

    pml/monitoring and pml/v wrap another layer and put themselves in Open MPI's own record of the selected one, so
    the pools are asked first: each layer that uses them makes them of its own class.
    """
    pool = mpi.containers.pool_class(mpi.symbols.need("mca_pml_base_recv_requests"))
    kind = class_name(mpi.memory, mpi.layouts, pool)
    if kind == "mca_pml_ob1_recv_request_t":
        from mqs_dll.library.mpi.openmpi.ob1 import PmlOb1

        return PmlOb1(mpi)
    if kind == "mca_pml_cm_hvy_recv_request_t":
        return _cm(mpi)
    name = f"pml/{_component(mpi, mpi.symbols.need('mca_pml_base_selected_component'))}"
    if name == "pml/ucx":
        from mqs_dll.library.mpi.openmpi.ucx import PmlUcx

        try:
            return PmlUcx(mpi)
        except LayoutError as error:
            return hidden_pml(name, f"keeps them in UCX's own memory, in a way that isn't known here ({error})")
    return hidden_pml(name, "keeps them in its own library")


def _cm(mpi: OmpiProcessContext) -> Pml:
    """Return pml/cm with as much as the layouts allow: its requests, and what the layer below keeps of them."""
    from mqs_dll.library.mpi.openmpi.cm import Cm
    from mqs_dll.library.mpi.openmpi.cm_mtl_ofi import CmOverOfi
    from mqs_dll.library.mpi.openmpi.mtl_ofi import MtlOfi, find_own_endpoint

    pointer = mpi.symbols.need("ompi_mtl_base_selected_component")
    mtl = f"mtl/{_component(mpi, mpi.memory.pointer(pointer))}"
    ofi, why = None, ""
    try:
        if mtl == "mtl/ofi":
            try:
                ofi = MtlOfi(mpi)
                return CmOverOfi(ofi, find_own_endpoint(mpi), mpi)
            except LayoutError as error:  # pml/cm's own part is worth showing
                why = str(error)
        return Cm(mtl, ofi, mpi, why)
    except LayoutError as error:
        return hidden_pml(f"pml/cm over {mtl}", f"keeps them in a way that isn't known here ({error})")


def _component(mpi: OmpiProcessContext, address: int) -> str:
    """Return the name of a component."""
    name = views.Component.bind(mpi.layouts).at(mpi.memory, address).mca_component_name.partition(b"\0")[0]
    return name.decode("ascii", "replace")
