"""Datatypes and windows."""

from __future__ import annotations

from collections.abc import Hashable

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.mpich.findings import MpichFindings
from mqs_dll.calibrate.solver import Sighting
from mqs_dll.mpi.mpich import handles

DATATYPE = "MPIR_Datatype"
WIN = "MPIR_Win"
COMM = "MPIR_Comm"
NAME_BYTES = 128


def find_datatype(findings: MpichFindings) -> None:
    """Find what the program knows of its datatypes."""
    findings.inherit_head(DATATYPE)
    datatypes = findings.places("datatypes")
    sizes = [(dump, at, entry["size"]) for dump, at, entry in datatypes]
    findings.pin_numbers(DATATYPE, "size", "the bytes of a datatype", sizes)
    names = [_name(dump, at, entry["name"]) for dump, at, entry in datatypes]
    findings.pin(DATATYPE, "name", names, _places_of_names(findings, DATATYPE))


def find_window(findings: MpichFindings) -> None:
    """Find a window's name, and its own communicator, which is like the one that it was made on but not the same."""
    findings.inherit_head(WIN)
    del findings.offsets[WIN]["ref_count"], findings.evidence[WIN]["ref_count"]  # ch4 leaves it 0
    windows = findings.places("windows")
    names = [_name(dump, at, entry["name"]) for dump, at, entry in windows]
    findings.pin(WIN, "name", names, _places_of_names(findings, WIN))
    sightings = []
    for dump, at, entry in windows:
        of = next(each for each in dump.of("comms") if each["label"] == entry["comm"])
        sightings.append(_own_comm(findings, dump, at, (of["rank"], len(of["members"]))))
    findings.pin_sightings(WIN, "comm_ptr", sightings)


def _own_comm(findings: MpichFindings, dump: Dump, address: int, shape: tuple[int, int]) -> Sighting:
    own = {findings.address(dump, entry["handle"]) for entry in dump.of("comms")}

    def seen(offset: int) -> Hashable:
        target = dump.word(address + offset)
        if target in own or not findings.is_object(dump, handles.COMM, target):
            return None
        return findings.member(dump, target, COMM, "rank", "i"), findings.member(dump, target, COMM, "local_size", "i")

    return Sighting("a communicator of the window's processes, not the program's", shape, seen)


def _places_of_names(findings: MpichFindings, struct: str) -> range:
    return range(0, findings.size(struct) - NAME_BYTES + 1, 4)


def _name(dump: Dump, address: int, name: str) -> Sighting:
    def seen(offset: int) -> Hashable:
        return dump.read(address + offset, NAME_BYTES).partition(b"\0")[0].decode("utf-8", "replace")

    return Sighting("the name", name, seen)
