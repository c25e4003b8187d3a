"""Observations of datatypes, windows and components."""

from __future__ import annotations

from collections.abc import Hashable

from mqs_dll.calibrate.dump import WORD, Dump, Entry
from mqs_dll.calibrate.layout_solver import MemberRow, Place
from mqs_dll.calibrate.offset_solver import Solved
from mqs_dll.calibrate.openmpi.layout_solver import OpenMpiLayoutSolver
from mqs_dll.calibrate.openmpi.opal import text_here_or_behind
from mqs_dll.library.mpi.openmpi.datatypes import PREDEFINED

COMMITTED = 0x4  # OPAL_DATATYPE_FLAG_COMMITTED (opal/datatype/opal_datatype.h)

NO_LOCKS = 0x4  # OMPI_WIN_NO_LOCKS (ompi/win/win.h)

COMPONENTS = {
    "mca_pml_base_selected_component": "ob1",
    "mca_coll_libnbc_component": "libnbc",
    "mca_coll_basic_component": "basic",
    "mca_coll_tuned_component": "tuned",
    "mca_btl_self_component": "self",
    "mca_btl_tcp_component": "tcp",
}
"""Components that are exported, and what each is called."""

MODULE_BYTES = 1024


def find_datatype(solver: OpenMpiLayoutSolver) -> None:
    """Find names, sizes and flags of datatypes."""
    struct, parent = "ompi_datatype_t", "opal_datatype_t"
    datatypes = solver.places("datatypes")
    solver.solve_members(
        struct, datatypes, MemberRow("name", "the name of a datatype", "name", seen=text_here_or_behind)
    )
    solver.solve_members(
        parent,
        datatypes,
        MemberRow("size", "the size of a datatype", "size"),
        MemberRow("true_lb", "the true lower bound", lambda _, entry: entry["true_lower_bound"] % (1 << 64)),
        MemberRow(
            "flags",
            "the flags predefined and committed of a datatype",
            lambda _, entry: PREDEFINED * entry["predefined"] | COMMITTED * entry["committed"],
            PREDEFINED | COMMITTED,
        ),
    )
    if solver.parents[struct] == parent:
        solver.remember(struct, "super", Solved(0, f"the class's descriptor: its parent is {parent}"))


def find_window(solver: OpenMpiLayoutSolver) -> None:
    """Find names, groups, flags and modules of windows."""
    solver.solve_members(
        "ompi_win_t",
        solver.places("windows"),
        MemberRow("w_group", "the group of a window", "group"),
        MemberRow("w_flags", "whether a window refuses locks", lambda _, entry: NO_LOCKS * entry["no_locks"], NO_LOCKS),
        MemberRow("w_name", "the name of a window", "name", seen=text_here_or_behind),
        MemberRow("w_osc_module", "a module with a communicator of its own", "name", seen=_module),
    )


def _module(solver: OpenMpiLayoutSolver, dump: Dump, address: int, window: Entry) -> Hashable:
    """See a pointer to memory with pointers to a communicator that the program has no handle of."""
    module = dump.word(address)
    if not module or solver.class_of(dump, module):
        return None
    words = dump.words(module, MODULE_BYTES // WORD)
    return window["name"] if solver.hidden(dump).intersection(words) else None


def find_component(solver: OpenMpiLayoutSolver) -> None:
    """Find the name of components."""
    components: list[Place] = [
        (dump, dump.symbols[symbol].address, {"name": name, "size": dump.symbols[symbol].size})
        for dump in solver.dumps
        for symbol, name in COMPONENTS.items()
        if symbol in dump.symbols
    ]
    size = min((component["size"] for *_, component in components), default=0)
    name = MemberRow("mca_component_name", "the name of a component", "name")
    solver.solve_members("mca_base_component_t", components, name, among=range(size))
