"""From ranks to processes: the maps of ch4 to 4.3, the groups of 5.0, and ch3's tables of virtual connections.

Only one of these is in an MPI; a step that finds none says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import SIZES, Place, Row, number
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.calibrate.solver import Sighting, Solved, Unsolved, solve

COMM = "MPIR_Comm"
MAP = "MPIDI_rank_map_t"
GROUP = "MPIR_Group"
VCRT = "MPIDI_VCRT"
VC = "MPIDI_VC"

DIRECT, OFFSET, STRIDE, STRIDE_BLOCK, LUT = range(5)
"""Kinds of maps; MPIDI_rank_map_mode has two modes of each, whether all are of one table of processes or not."""

NONE = 11
"""MPIDI_RANK_MAP_NONE."""

LARGEST_MAP = 64
POINTER = 0x10000

Comms = list[Place]


@dataclass(frozen=True)
class Regular:
    """How ch4 stores ranks that follow a rule."""

    kind: int
    offset: int = 0
    blocksize: int = 0
    stride: int = 0


def regular(ranks: Sequence[int]) -> Regular:
    """Return how ch4 stores some ranks (src/mpid/ch4/src/ch4i_comm.c: detect_regular_model)."""
    first = ranks[0]
    block = next((index for index, rank in enumerate(ranks) if rank != first + index), len(ranks))
    if block == len(ranks):
        return Regular(OFFSET if first else DIRECT, first, block)
    stride = ranks[block] - first
    rule = [index // block * (stride - block) + index + first for index in range(len(ranks))]
    if stride <= block or rule != list(ranks):
        return Regular(LUT)
    return Regular(STRIDE if block == 1 else STRIDE_BLOCK, first, block, stride)


# ---------------------------------------------------------------- ch4 to 4.3


def find_maps(ledger: PoolLedger) -> None:
    """Find the map of a communicator's ranks, and of the own group's of an inter-communicator."""
    comms = [each for each in ledger.places("comms") if len(each[2]["peers"]) > 1 or each[2]["inter"]]
    rules = [(dump, at, {"rule": regular(entry["peers"]), "ranks": entry["peers"]}) for dump, at, entry in comms]
    found: dict[str, Solved] = {}

    def solved(member: str, sightings: list[Sighting], among: Sequence[int]) -> int:
        found[member] = solve(f"{MAP}.{member}", sightings, among)
        return found[member].offset

    tables = [_table(dump, at, each["ranks"], "i") for dump, at, each in rules if each["rule"].kind == LUT]
    lut = solved("irreg.lut.lpid", tables, ledger.room(COMM, "Q"))
    near = [offset for offset in ledger.room(COMM, "i") if lut - LARGEST_MAP < offset < lut]
    begin = solved("mode", [_mode(dump, at, each["rule"].kind) for dump, at, each in rules], near)
    inside = [offset for offset in near if offset > begin]
    strided = (STRIDE, STRIDE_BLOCK)
    for member, what, kinds, value in (
        ("reg.stride.offset", "the first process", (OFFSET, *strided), lambda each: each["rule"].offset),
        ("reg.stride.stride", "the stride", strided, lambda each: each["rule"].stride),
        ("reg.stride.blocksize", "the processes of a block", strided, lambda each: each["rule"].blocksize),
        ("size", "the number of processes", range(LUT + 1), lambda each: len(each["ranks"])),
    ):
        known = [(dump, at, value(each)) for dump, at, each in rules if each["rule"].kind in kinds]
        inside.remove(solved(member, [number(what, dump, at, "i", expected) for dump, at, expected in known], inside))
    _remember_map(ledger, found, begin)
    _find_tables_number(ledger, begin, inside)
    _find_local_map(ledger, begin)


def _table(dump: Dump, address: int, ranks: Sequence[int], code: str) -> Sighting:
    """Sight a pointer to numbers of a type: the processes one by one."""
    expected, step = tuple(ranks), SIZES[code]

    def seen(offset: int) -> Hashable:
        table = dump.word(address + offset)
        return tuple(dump.scalar(table + step * rank, code) for rank in range(len(expected)))

    return Sighting("the processes one by one", expected, seen)


def _mode(dump: Dump, address: int, kind: int) -> Sighting:
    return Sighting("the kind of map", kind, lambda offset: dump.scalar(address + offset, "I") // 2)


def _remember_map(ledger: PoolLedger, found: dict[str, Solved], begin: int) -> None:
    for member, each in found.items():
        ledger.remember(MAP, member, Solved(each.offset - begin, each.evidence))
    ledger.remember(COMM, "dev.ch4.map", Solved(begin, found["mode"].evidence))
    end = found["irreg.lut.lpid"].offset + WORD
    ledger.of_maps |= set(range(begin, end))
    ledger.sizes[MAP] = end - begin


def _find_tables_number(ledger: PoolLedger, begin: int, inside: Sequence[int]) -> None:
    """Find the number of the table of processes: 0 for those of MPI_COMM_WORLD, another for spawned ones."""
    sightings = [number("the table of the own processes", dump, at, "i", 0) for dump, at, _ in ledger.places("comms")]
    spawned = [each for mode in ("spawn", "spawned") for each in ledger.places_in(mode, "comms") if each[2]["inter"]]
    sightings += [Sighting("another table for other jobs", True, _is_number(dump, at)) for dump, at, _ in spawned]
    solved = solve(f"{MAP}.avtid", sightings, inside, constant=not spawned)
    ledger.remember(MAP, "avtid", Solved(solved.offset - begin, solved.evidence))


def _is_number(dump: Dump, address: int) -> Any:
    return lambda offset: 0 < abs(dump.scalar(address + offset, "i")) < 1 << 16


def _find_local_map(ledger: PoolLedger, begin: int) -> None:
    sightings = [
        _local_map(ledger, dump, at, tuple(entry["members"]) if entry["inter"] else None)
        for dump, at, entry in ledger.places("comms")
    ]
    among = [offset for offset in ledger.room(COMM, "Q") if offset != begin]
    local = ledger.pin(COMM, "dev.ch4.local_map", sightings, among)
    ledger.of_maps |= set(range(local, local + ledger.size(MAP)))


def _local_map(ledger: PoolLedger, dump: Dump, address: int, ranks: tuple[int, ...] | None) -> Sighting:
    def seen(offset: int) -> Hashable:
        mode = ledger.member(dump, address + offset, MAP, "mode", "I")
        return None if mode == NONE else _decode(ledger, dump, address + offset, mode)

    return Sighting("the processes of the own group", ranks, seen)


def _decode(ledger: PoolLedger, dump: Dump, address: int, mode: int) -> Hashable:
    def member(name: str) -> int:
        return ledger.member(dump, address, MAP, name, "i")

    count = member("size")
    if not 0 < count < 1 << 10 or mode // 2 > LUT:
        return "no map"
    if mode // 2 == LUT:
        table = ledger.member(dump, address, MAP, "irreg.lut.lpid")
        return tuple(dump.scalar(table + 4 * rank, "i") for rank in range(count))
    first = 0 if mode // 2 == DIRECT else member("reg.stride.offset")
    if mode // 2 in (DIRECT, OFFSET):
        return tuple(range(first, first + count))
    stride, block = member("reg.stride.stride"), member("reg.stride.blocksize") if mode // 2 == STRIDE_BLOCK else 1
    return tuple(rank // block * (stride - block) + rank + first for rank in range(count)) if block > 0 else "no map"


# ---------------------------------------------------------------- 5.0


def find_groups(ledger: PoolLedger) -> None:
    """Find the map of a group: a first process and a stride, or the processes one by one."""
    groups: list[tuple[Dump, int, list[int]]] = []
    for dump, _, entry in ledger.places("comms"):
        for key, ranks in (("group", "members"), ("remote_group", "peers")):
            if entry[key]:
                groups.append((dump, ledger.address(dump, entry[key]), entry[ranks]))
    ledger.pin_numbers(GROUP, "size", "the number of processes", [(d, at, len(ranks)) for d, at, ranks in groups])
    several: list[Place] = [
        (dump, at, {"ranks": ranks, "stride": _stride(ranks)}) for dump, at, ranks in groups if len(ranks) > 1
    ]
    strided = [each for each in several if each[2]["stride"]]
    tables = [_table(dump, at, each["ranks"], "q") for dump, at, each in several if not each["stride"]]
    ledger.pin(GROUP, "pmap.u.map", tables)
    ledger.pin_rows(
        GROUP,
        strided,
        Row("pmap.u.stride.offset", "the first process", lambda _, each: each["ranks"][0]),
        Row("pmap.u.stride.stride", "the stride", lambda _, each: each["stride"] % (1 << 64)),
    )
    table = Row("pmap.use_map", "whether there is a table", lambda _, each: not each["stride"])
    ledger.pin_rows(GROUP, several, table)


def _stride(ranks: Sequence[int]) -> int:
    """Return the distance between neighbours, 0 where it varies."""
    distances = {other - one for one, other in pairwise(ranks)}
    return distances.pop() if len(distances) == 1 else 0


# ---------------------------------------------------------------- ch3


def find_connections(ledger: PoolLedger) -> None:
    """Find a communicator's table of virtual connections, and in a connection the process that it leads to.

    Raises:
        Unsolved: there is not exactly one way from ranks to processes.
    """
    comms = ledger.places("comms")
    intra = [(dump, at, entry["members"]) for dump, at, entry in comms if not entry["inter"]]
    ways = [
        (vcrt, table)
        for vcrt, table in product(ledger.room(COMM, "Q"), range(0, 64, WORD))
        if all(_leads_to_distinct(dump, at, ranks, vcrt, table) for dump, at, ranks in intra)
    ]
    pins = {way: _process_numbers(ledger, intra, *way) for way in ways}
    good = [way for way in ways if pins[way]]
    if len(good) != 1:
        raise Unsolved(f"{COMM}.dev.vcrt: {len(good)} ways lead from ranks to processes: {good}")
    vcrt, table = good[0]
    values = {tuple(members) for *_, members in intra}
    text = f"a table that leads to the process of each rank: {len(intra)} places, {len(values)} values"
    ledger.remember(COMM, "dev.vcrt", Solved(vcrt, text))
    ledger.remember(VCRT, "vcr_table", Solved(table, text))
    tables = [(dump, dump.word(at + vcrt), len(entry["peers"])) for dump, at, entry in comms if _is_own(entry)]
    sizes = [number("the number of processes", dump, at, "i", count) for dump, at, count in tables]
    ledger.pin(VCRT, "size", sizes, range(0, table, 4))
    _find_local_vcrt(ledger, pins[good[0]][0])
    _find_processes(ledger, pins[good[0]])


def _is_own(entry: dict[str, Any]) -> bool:
    """Tell whether a communicator has a table of its own: MPI_Comm_split makes one."""
    return bool(entry["label"].startswith("shape"))


def _connection(dump: Dump, address: int, vcrt: int, table: int, rank: int) -> int:
    return dump.word(dump.word(address + vcrt) + table + WORD * rank)


def _leads_to_distinct(dump: Dump, address: int, ranks: Sequence[int], vcrt: int, table: int) -> bool:
    try:
        found = [_connection(dump, address, vcrt, table, rank) for rank in range(len(ranks))]
    except LookupError:
        return False
    return min(found) > POINTER and len(set(found)) == len(found)


def _process_numbers(
    ledger: PoolLedger, intra: Sequence[tuple[Dump, int, list[int]]], vcrt: int, table: int
) -> list[int]:
    """Return the offsets in a connection of what is the process's rank in MPI_COMM_WORLD."""
    sightings = [
        number("", dump, _connection(dump, at, vcrt, table, rank), "i", process)
        for dump, at, ranks in intra
        for rank, process in enumerate(ranks)
    ]
    return [offset for offset in range(0, 128, 4) if all(sighting.fits(offset) for sighting in sightings)]


def _find_local_vcrt(ledger: PoolLedger, process: int) -> None:
    table = ledger.offset(VCRT, "vcr_table")

    def sighting(dump: Dump, address: int, ranks: tuple[int, ...] | None) -> Sighting:
        def seen(offset: int) -> Hashable:
            if dump.word(address + offset) == 0:
                return None
            found = (_connection(dump, address, offset, table, rank) for rank in range(len(ranks or ())))
            return tuple(dump.scalar(connection + process, "i") for connection in found)

        return Sighting("the processes of the own group", ranks, seen)

    sightings = [
        sighting(dump, at, tuple(entry["members"]) if entry["inter"] else None)
        for dump, at, entry in ledger.places("comms")
    ]
    among = [offset for offset in ledger.room(COMM, "Q") if offset != ledger.offset(COMM, "dev.vcrt")]
    ledger.pin(COMM, "dev.local_vcrt", sightings, among)


def _find_processes(ledger: PoolLedger, numbers: Sequence[int]) -> None:
    """Find rank and group of a connection's process."""
    vcrt, table = ledger.offset(COMM, "dev.vcrt"), ledger.offset(VCRT, "vcr_table")
    own: list[tuple[Dump, int, int]] = []
    others: list[tuple[Dump, int, int]] = []
    for mode in ("spawn", "spawned"):
        for dump, at, entry in ledger.places_in(mode, "comms"):
            found = [
                (dump, _connection(dump, at, vcrt, table, rank), process) for rank, process in enumerate(entry["peers"])
            ]
            (others if entry["inter"] else own).extend(found)
    ranks = [number("the rank in its MPI_COMM_WORLD", dump, at, "i", process) for dump, at, process in [*own, *others]]
    ledger.pin(VC, "pg_rank", ranks, numbers)
    groups = list(_groups(own, others))
    ledger.pin(VC, "pg", groups, range(0, 128, WORD))


Connections = Sequence[tuple[Dump, int, int]]


def _groups(own: Connections, others: Connections) -> Iterator[Sighting]:
    """Sight a pointer that all processes of a job have in common, and that differs between jobs."""
    for dump, at, _ in [*own, *others]:
        for other, there, _ in own:
            if dump is other and at != there:
                same = (dump, at, 0) in [(d, a, 0) for d, a, _ in own]
                yield _same_pointer(dump, at, there, same)


def _same_pointer(dump: Dump, one: int, other: int, expected: bool) -> Sighting:
    def seen(offset: int) -> Hashable:
        first, second = dump.word(one + offset), dump.word(other + offset)
        return first == second if min(first, second) > POINTER else "no pointer"

    return Sighting("the same job", expected, seen)
