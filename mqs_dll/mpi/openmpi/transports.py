"""Which point-to-point layer a process uses, told by the class of the requests in its pools."""

from __future__ import annotations

from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory
from mqs_dll.mpi.openmpi import views
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.datatypes import Datatypes
from mqs_dll.mpi.openmpi.ob1 import Ob1
from mqs_dll.mpi.openmpi.pml import HiddenPml, Pml
from mqs_dll.mpi.openmpi.symbols import Symbols, class_name


def select(memory: Memory, symbols: Symbols, layouts: Layouts, containers: Containers, datatypes: Datatypes) -> Pml:
    """Return the layer of this process.

    pml/monitoring and pml/v wrap another layer and put themselves in Open MPI's own record of the selected one, so
    the pools are asked first: each layer that uses them makes them of its own class.
    """
    pool = containers.pool_class(symbols.need("mca_pml_base_recv_requests"))
    name = class_name(memory, layouts, pool)
    if name == "mca_pml_ob1_recv_request_t":
        return Ob1(memory, symbols, layouts, containers, datatypes)
    return HiddenPml(f"pml/{_selected(memory, symbols, layouts)}", "in its own library")


def _selected(memory: Memory, symbols: Symbols, layouts: Layouts) -> str:
    """Return the name of the component that Open MPI selected."""
    address = symbols.need("mca_pml_base_selected_component")
    name = views.Component.bind(layouts).at(memory, address).mca_component_name.partition(b"\0")[0]
    return name.decode("ascii", "replace")
