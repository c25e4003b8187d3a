"""Sightings of datatypes, windows and components."""

from __future__ import annotations

from collections.abc import Hashable

from mqs_dll.calibrate.dump import WORD, Dump, UnreadableError
from mqs_dll.calibrate.ledger import number
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


def _text(what: str, dump: Dump, address: int, text: str) -> Sighting:
    return Sighting(what, text, lambda offset: dump.text(address + offset, 64))


def find_datatype(ledger: OpalLedger) -> None:
    """Find names, sizes and flags of datatypes."""
    struct, parent = "ompi_datatype_t", "opal_datatype_t"
    names, sizes, flags, bounds = [], [], [], []
    for dump, entry in ledger.each("datatypes"):
        address = entry["address"]
        names.append(_text("the name of a datatype", dump, address, entry["name"]))
        sizes.append(number("the size of a datatype", dump, address, "Q", entry["size"]))
        bounds.append(number("the true lower bound", dump, address, "q", entry["true_lower_bound"]))
        expected = PREDEFINED * entry["predefined"] | COMMITTED * entry["committed"]
        flags.append(_flags("the flags predefined and committed of a datatype", dump, address, expected))
    ledger.pin(struct, "name", names, ledger.own_offsets(struct))
    ledger.pin(parent, "size", sizes, ledger.own_offsets(parent, WORD))
    ledger.pin(parent, "true_lb", bounds, ledger.own_offsets(parent, WORD))
    ledger.pin(parent, "flags", flags, ledger.own_offsets(parent, 2))
    if ledger.parents[struct] == parent:
        ledger.remember(struct, "super", Solved(0, f"the class's descriptor: its parent is {parent}"))


def _flags(what: str, dump: Dump, address: int, expected: int, known: int = PREDEFINED | COMMITTED) -> Sighting:
    return Sighting(what, expected, lambda offset: dump.scalar(address + offset, "H") & known)


def find_window(ledger: OpalLedger) -> None:
    """Find names, groups, flags and modules of windows."""
    struct = "ompi_win_t"
    windows = list(ledger.each("windows"))
    instances = [(dump, entry["address"]) for dump, entry in windows]
    names, groups, flags, modules = [], [], [], []
    for dump, entry in windows:
        address = entry["address"]
        names.append(_text("the name of a window", dump, address, entry["name"]))
        groups.append(number("the group of a window", dump, address, "Q", entry["group"]))
        what = "whether a window refuses locks"
        flags.append(_flags(what, dump, address, NO_LOCKS * entry["no_locks"], NO_LOCKS))
        modules.append(_module(ledger, dump, address, entry["name"]))
    words = ledger.own_offsets(struct, WORD, instances)
    ledger.pin(struct, "w_name", names, ledger.own_offsets(struct, 1, instances))
    ledger.pin(struct, "w_group", groups, words)
    ledger.pin(struct, "w_flags", flags, ledger.own_offsets(struct, 2, instances))
    ledger.pin(struct, "w_osc_module", modules, words)


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
        _text("the name of a component", dump, dump.symbols[symbol].address, name)
        for dump in ledger.dumps
        for symbol, name in COMPONENTS.items()
        if symbol in dump.symbols
    ]
    size = min(dump.symbols[symbol].size for dump in ledger.dumps for symbol in COMPONENTS if symbol in dump.symbols)
    ledger.pin("mca_base_component_t", "mca_component_name", sightings, range(size))
