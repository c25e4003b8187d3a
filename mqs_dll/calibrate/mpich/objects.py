"""Datatypes and windows."""

from __future__ import annotations

from collections.abc import Hashable

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.ledger import Row, text
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.calibrate.solver import Sighting
from mqs_dll.mpi.mpich import handles

DATATYPE = "MPIR_Datatype"
WIN = "MPIR_Win"


def find_datatype(ledger: PoolLedger) -> None:
    """Find what the program knows of its datatypes."""
    ledger.inherit_head(DATATYPE)
    datatypes = ledger.places("datatypes")
    ledger.pin_rows(DATATYPE, datatypes, Row("size", "the bytes of a datatype", "size"))
    ledger.pin(DATATYPE, "name", [text("the name", dump, at, entry["name"]) for dump, at, entry in datatypes])


def find_window(ledger: PoolLedger) -> None:
    """Find a window's name, and its own communicator, which is like the one that it was made on but not the same."""
    windows = ledger.places("windows")
    ledger.pin(WIN, "name", [text("the name", dump, at, entry["name"]) for dump, at, entry in windows])
    sightings = []
    for dump, at, entry in windows:
        of = dump.of("comms", label=entry["comm"])[0]
        sightings.append(_own_comm(ledger, dump, at, (of["rank"], len(of["members"]))))
    ledger.pin(WIN, "comm_ptr", sightings)


def _own_comm(ledger: PoolLedger, dump: Dump, address: int, shape: tuple[int, int]) -> Sighting:
    own = {ledger.address(dump, entry["handle"]) for entry in dump.of("comms")}

    def seen(offset: int) -> Hashable:
        target = dump.word(address + offset)
        if target in own or not ledger.is_object(dump, handles.COMM, target):
            return None
        return ledger.shape(dump, target)

    return Sighting("a communicator of the window's processes, not the program's", shape, seen)
