"""Datatypes and windows."""

from __future__ import annotations

from collections.abc import Hashable

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.calibrate.solver import Sighting
from mqs_dll.mpi.mpich import handles

DATATYPE = "MPIR_Datatype"
WIN = "MPIR_Win"
COMM = "MPIR_Comm"
NAME_BYTES = 128


def find_datatype(ledger: PoolLedger) -> None:
    """Find what the program knows of its datatypes."""
    ledger.inherit_head(DATATYPE)
    datatypes = ledger.places("datatypes")
    sizes = [(dump, at, entry["size"]) for dump, at, entry in datatypes]
    ledger.pin_numbers(DATATYPE, "size", "the bytes of a datatype", sizes)
    names = [_name(dump, at, entry["name"]) for dump, at, entry in datatypes]
    ledger.pin(DATATYPE, "name", names, _places_of_names(ledger, DATATYPE))


def find_window(ledger: PoolLedger) -> None:
    """Find a window's name, and its own communicator, which is like the one that it was made on but not the same."""
    windows = ledger.places("windows")
    names = [_name(dump, at, entry["name"]) for dump, at, entry in windows]
    ledger.pin(WIN, "name", names, _places_of_names(ledger, WIN))
    sightings = []
    for dump, at, entry in windows:
        of = next(each for each in dump.of("comms") if each["label"] == entry["comm"])
        sightings.append(_own_comm(ledger, dump, at, (of["rank"], len(of["members"]))))
    ledger.pin(WIN, "comm_ptr", sightings)


def _own_comm(ledger: PoolLedger, dump: Dump, address: int, shape: tuple[int, int]) -> Sighting:
    own = {ledger.address(dump, entry["handle"]) for entry in dump.of("comms")}

    def seen(offset: int) -> Hashable:
        target = dump.word(address + offset)
        if target in own or not ledger.is_object(dump, handles.COMM, target):
            return None
        return ledger.member(dump, target, COMM, "rank", "i"), ledger.member(dump, target, COMM, "local_size", "i")

    return Sighting("a communicator of the window's processes, not the program's", shape, seen)


def _places_of_names(ledger: PoolLedger, struct: str) -> range:
    return range(0, ledger.size(struct) - NAME_BYTES + 1, 4)


def _name(dump: Dump, address: int, name: str) -> Sighting:
    def seen(offset: int) -> Hashable:
        return dump.read(address + offset, NAME_BYTES).partition(b"\0")[0].decode("utf-8", "replace")

    return Sighting("the name", name, seen)
