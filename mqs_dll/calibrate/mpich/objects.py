"""Datatypes and windows."""

from __future__ import annotations

from mqs_dll.calibrate.ledger import Row, text
from mqs_dll.calibrate.mpich.communicators import pin_hidden
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger, comm_of

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
    what = "a communicator of the window's processes, not the program's"
    groups = [(dump, at, comm_of(dump, entry["comm"])["members"]) for dump, at, entry in windows]
    pin_hidden(ledger, WIN, "comm_ptr", what, groups)
