"""Open MPI's exported symbols, and its class descriptors, which are such symbols too.

Every class X has an exported descriptor ``X_class`` with the class's name and the sizeof of its objects, and every
object starts with the descriptor's address (opal/class/opal_object.h, the same in 4.1 and 5.0).
"""

from __future__ import annotations

from collections.abc import Iterable

from mqs_dll.contract.errors import LayoutError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import WORD, Memory
from mqs_dll.library.mpi.openmpi import views

MAX_CLASS_NAME_LENGTH = 80


ROOTS = (
    "__libc_stack_end",
    "mca_pml_base_recv_requests",
    "mca_pml_base_selected_component",
    "mca_pml_base_send_requests",
    "mca_pml_ob1",
    "mca_pml_ob1_recvreq",
    "mca_pml_ob1_sendreq",
    "ompi_file_f_to_c_table",
    "ompi_instance_count",
    "ompi_mpi_communicators",
    "ompi_mpi_state",
    "ompi_mpi_thread_provided",
    "ompi_mpi_windows",
    "ompi_mtl_base_selected_component",
    "ompi_mtl_ofi",
    "ompi_part_persist",
    "ompi_pml_ucx",
    "ompi_proc_list",
    "ompi_proc_local_proc",
    "ompi_version_string",
)
"""The variables that the walkers start at."""

NEEDED = (
    "mca_pml_base_recv_requests",
    "mca_pml_base_selected_component",
    "mca_pml_base_send_requests",
    "ompi_communicator_t_class",
    "ompi_datatype_t_class",
    "ompi_group_t_class",
    "ompi_mpi_communicators",
    "ompi_mpi_state",
    "ompi_proc_local_proc",
    "ompi_version_string",
    "opal_datatype_t_class",
)
"""Those that every build exports, and without which nothing can be read."""

CLASSES = (
    "mca_pml_ucx_persistent_request_t",
    "opal_datatype_t",
    "opal_free_list_item_t",
    "ompi_file_t",
    "ompi_osc_rdma_sync_t",
)
"""Classes whose descriptors are needed, besides those of the views' own structs."""


class Symbols:
    """Open MPI's exported symbols in one process; each is asked for once."""

    def __init__(self, image: TargetImage, structs: Iterable[str]) -> None:
        """Look up those that are known to be needed, as the image has them for the process at hand.

        Args:
            image: which the process runs; another process of it has its libraries elsewhere.
            structs: whose class descriptors are needed.
        """
        self.image = image
        self._found: dict[str, int | None] = {}
        for name in (*ROOTS, *(f"{struct}_class" for struct in (*structs, *CLASSES))):
            self.get(name)

    def get(self, name: str) -> int | None:
        """Return a symbol's address, or None."""
        if name not in self._found:
            self._found[name] = self.image.find_symbol(name)
        return self._found[name]

    def need(self, name: str) -> int:
        """Return a symbol's address.

        Raises:
            LayoutError: there is no such symbol.
        """
        address = self.get(name)
        if address is None:
            raise missing(name)
        return address


def missing(name: str) -> LayoutError:
    """Return the error that says that a symbol is not there."""
    return LayoutError(f"Open MPI's symbol {name} is missing: its libraries may be linked with hidden symbols")


def class_size(memory: Memory, symbols: Symbols, layouts: Layouts, name: str) -> int | None:
    """Return the bytes of an object of a class in this process, None for what is no class."""
    address = symbols.get(f"{name}_class")
    return None if address is None else views.OpalClass.bind(layouts).at(memory, address).cls_sizeof


def class_name(memory: Memory, layouts: Layouts, descriptor: int) -> str:
    """Return the name of the class with this descriptor, as its sources spell it; "" for none.

    Raises:
        TargetReadError: it is not a descriptor.
    """
    if descriptor < WORD:
        return ""
    name = memory.text(views.OpalClass.bind(layouts).at(memory, descriptor).cls_name, MAX_CLASS_NAME_LENGTH)
    return name.decode("ascii", "replace")
