"""Sightings of datatypes, windows and components."""

from __future__ import annotations

from collections.abc import Hashable

from mqs_dll.calibrate.dump import WORD, Dump, UnreadableError
from mqs_dll.calibrate.ledger import Row, text
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.solver import Sighting, Solved
from mqs_dll.mpi.openmpi.datatypes import PREDEFINED

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


def find_datatype(ledger: OpalLedger) -> None:
    """Find names, sizes and flags of datatypes."""
    struct, parent = "ompi_datatype_t", "opal_datatype_t"
    datatypes = ledger.places("datatypes")
    names = [text("the name of a datatype", dump, at, entry["name"]) for dump, at, entry in datatypes]
    ledger.pin(struct, "name", names)
    ledger.pin_rows(
        parent,
        datatypes,
        Row("size", "the size of a datatype", "size"),
        Row("true_lb", "the true lower bound", lambda _, entry: entry["true_lower_bound"] % (1 << 64)),
        Row(
            "flags",
            "the flags predefined and committed of a datatype",
            lambda _, entry: PREDEFINED * entry["predefined"] | COMMITTED * entry["committed"],
            PREDEFINED | COMMITTED,
        ),
    )
    if ledger.parents[struct] == parent:
        ledger.remember(struct, "super", Solved(0, f"the class's descriptor: its parent is {parent}"))


def find_window(ledger: OpalLedger) -> None:
    """Find names, groups, flags and modules of windows."""
    struct = "ompi_win_t"
    windows = ledger.places("windows")
    what = "whether a window refuses locks"
    ledger.pin_rows(
        struct,
        windows,
        Row("w_group", "the group of a window", "group"),
        Row("w_flags", what, lambda _, entry: NO_LOCKS * entry["no_locks"], NO_LOCKS),
    )
    ledger.pin(struct, "w_name", [text("the name of a window", dump, at, each["name"]) for dump, at, each in windows])
    ledger.pin(struct, "w_osc_module", [_module(ledger, dump, at, each["name"]) for dump, at, each in windows])


def _module(ledger: OpalLedger, dump: Dump, address: int, name: str) -> Sighting:
    """Sight a pointer to memory with pointers to a communicator that the program has no handle of."""
    known = {entry["address"] for entry in dump.of("communicators")}
    hidden = set(ledger.slots(dump, "ompi_mpi_communicators")) - known

    def seen(offset: int) -> Hashable:
        module = dump.word(address + offset)
        if not module or ledger.class_of(dump, module):
            return None
        words = [_word(dump, module + at) for at in range(0, MODULE_BYTES, WORD)]
        return name if hidden.intersection(words) else None

    return Sighting("a module with a communicator of its own", name, seen)


def _word(dump: Dump, address: int) -> int:
    try:
        return dump.word(address)
    except UnreadableError:
        return 0


def find_component(ledger: OpalLedger) -> None:
    """Find the name of components."""
    sightings = [
        text("the name of a component", dump, dump.symbols[symbol].address, name)
        for dump in ledger.dumps
        for symbol, name in COMPONENTS.items()
        if symbol in dump.symbols
    ]
    size = min(dump.symbols[symbol].size for dump in ledger.dumps for symbol in COMPONENTS if symbol in dump.symbols)
    ledger.pin("mca_base_component_t", "mca_component_name", sightings, range(size))
