"""Which point-to-point layer a process uses, told by the class of the requests in its pools."""

from __future__ import annotations

from mqs_dll.errors import LayoutError
from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory
from mqs_dll.mpi.openmpi import views
from mqs_dll.mpi.openmpi.cm import Cm
from mqs_dll.mpi.openmpi.communicators import Communicators
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.datatypes import Datatypes
from mqs_dll.mpi.openmpi.ob1 import Ob1
from mqs_dll.mpi.openmpi.ofi import Ofi
from mqs_dll.mpi.openmpi.pml import HiddenPml, Pml
from mqs_dll.mpi.openmpi.symbols import Symbols, class_name
from mqs_dll.mpi.openmpi.ucx import Ucx


def select(
    memory: Memory,
    symbols: Symbols,
    layouts: Layouts,
    containers: Containers,
    datatypes: Datatypes,
    communicators: Communicators,
) -> Pml:
    """Return the layer of this process.

    pml/monitoring and pml/v wrap another layer and put themselves in Open MPI's own record of the selected one, so
    the pools are asked first: each layer that uses them makes them of its own class.
    """
    pool = containers.pool_class(symbols.need("mca_pml_base_recv_requests"))
    kind = class_name(memory, layouts, pool)
    if kind == "mca_pml_ob1_recv_request_t":
        return Ob1(memory, symbols, layouts, containers, datatypes)
    if kind == "mca_pml_cm_hvy_recv_request_t":
        return _cm(memory, symbols, layouts, containers, datatypes)
    name = f"pml/{_component(memory, layouts, symbols.need('mca_pml_base_selected_component'))}"
    if name == Ucx.name:
        try:
            return Ucx(memory, symbols, layouts, containers, datatypes, communicators)
        except LayoutError as error:
            return HiddenPml(name, f"keeps them in UCX's own memory, in a way that isn't known here ({error})")
    return HiddenPml(name, "keeps them in its own library")


def _cm(memory: Memory, symbols: Symbols, layouts: Layouts, containers: Containers, datatypes: Datatypes) -> Pml:
    """Return pml/cm with as much as the layouts allow: its requests, and what the layer below keeps of them."""
    pointer = symbols.need("ompi_mtl_base_selected_component")
    mtl = f"mtl/{_component(memory, layouts, memory.pointer(pointer))}"
    ofi = None
    if mtl == "mtl/ofi":
        try:
            ofi = Ofi(memory, symbols, layouts, containers)
        except LayoutError:  # pml/cm's own part is worth showing
            ofi = None
    try:
        return Cm(mtl, ofi, memory, symbols, layouts, containers, datatypes)
    except LayoutError as error:
        return HiddenPml(f"pml/cm over {mtl}", f"keeps them in a way that isn't known here ({error})")


def _component(memory: Memory, layouts: Layouts, address: int) -> str:
    """Return the name of a component."""
    name = views.Component.bind(layouts).at(memory, address).mca_component_name.partition(b"\0")[0]
    return name.decode("ascii", "replace")
