"""Datatypes and windows."""

from __future__ import annotations

from mqs_dll.calibrate.ledger import Row
from mqs_dll.calibrate.mpich.communicators import pin_hidden
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger, comm_of

DATATYPE = "MPIR_Datatype"
WIN = "MPIR_Win"
NAME = Row("name", "the name", "name")


def find_datatype(ledger: PoolLedger) -> None:
    """Find what the program knows of its datatypes."""
    ledger.inherit_head(DATATYPE)
    ledger.pin_rows(DATATYPE, ledger.places("datatypes"), Row("size", "the bytes of a datatype", "size"), NAME)


def find_window(ledger: PoolLedger) -> None:
    """Find a window's name, and its own communicator, which is like the one that it was made on but not the same."""
    windows = ledger.places("windows")
    ledger.pin_rows(WIN, windows, NAME)
    what = "a communicator of the window's processes, not the program's"
    groups = [(dump, at, comm_of(dump, entry["comm"])["members"]) for dump, at, entry in windows]
    pin_hidden(ledger, WIN, "comm_ptr", what, groups)
