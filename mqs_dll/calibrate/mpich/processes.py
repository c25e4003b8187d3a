"""From ranks to processes: the maps of ch4 to 4.3, the groups of 5.0, and ch3's tables of virtual connections.

Only one of these is in an MPI; a step that finds none says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.layout_solver import SIZES, KnownNumber, MemberRow, number
from mqs_dll.calibrate.mpich.communicators import COMM
from mqs_dll.calibrate.mpich.layout_solver import MpichLayoutSolver
from mqs_dll.calibrate.offset_solver import Observation, Solved, Unsolved

MAP = "MPIDI_rank_map_t"
GROUP = "MPIR_Group"
VCRT = "MPIDI_VCRT"
VC = "MPIDI_VC"

DIRECT, OFFSET, STRIDE, STRIDE_BLOCK, LUT = range(5)
"""Kinds of maps; MPIDI_rank_map_mode has two modes of each, whether all are of one table of processes or not."""

NONE = 11
"""MPIDI_RANK_MAP_NONE."""

MAX_MAP_SIZE = 64
POINTER = 0x10000


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
    if stride <= block or _strided(len(ranks), first, block, stride) != tuple(ranks):
        return Regular(LUT)
    return Regular(STRIDE if block == 1 else STRIDE_BLOCK, first, block, stride)


def _strided(count: int, first: int, block: int, stride: int) -> tuple[int, ...]:
    """Return ranks by a rule: blocks of neighbours, the first of each a stride apart."""
    return tuple(index // block * (stride - block) + index + first for index in range(count))


# ---------------------------------------------------------------- ch4 to 4.3


def find_maps(solver: MpichLayoutSolver) -> None:
    """Find the map of a communicator's ranks, and of the own group's of an inter-communicator."""
    comms = [each for each in solver.places("comms") if len(each[2]["peers"]) > 1 or each[2]["inter"]]
    rules = [(dump, at, regular(entry["peers"]), entry["peers"]) for dump, at, entry in comms]
    tables = [_table(dump, at, ranks, "i") for dump, at, rule, ranks in rules if rule.kind == LUT]
    lut = solver.solve(MAP, "irreg.lut.lpid", tables, solver.possible_offsets(COMM, "Q"))
    near = [offset for offset in solver.possible_offsets(COMM, "i") if lut - MAX_MAP_SIZE < offset < lut]
    kinds = [(dump, at, rule.kind) for dump, at, rule, _ in rules]
    start = solver.solve_seen(
        MAP, "mode", "the kind of map", kinds, lambda dump, place: dump.scalar(place, "I") // 2, near
    )
    inside = [offset for offset in near if offset > start]
    strided = (STRIDE, STRIDE_BLOCK)
    for member, what, having in (
        ("reg.stride.offset", "the first process", (OFFSET, *strided)),
        ("reg.stride.stride", "the stride", strided),
        ("reg.stride.blocksize", "the processes of a block", strided),
    ):
        attribute = member.rpartition(".")[2]
        known = [(dump, at, getattr(rule, attribute)) for dump, at, rule, _ in rules if rule.kind in having]
        inside.remove(solver.solve_number(MAP, member, what, known, among=inside))
    sizes = [(dump, at, len(ranks)) for dump, at, _, ranks in rules]
    inside.remove(solver.solve_number(MAP, "size", "the number of processes", sizes, among=inside))
    _find_tables_number(solver, inside)
    solver.remember(COMM, "dev.ch4.map", Solved(start, solver.evidence[MAP]["mode"]))
    solver.count_from_first(MAP)
    solver.sizes[MAP] = lut + WORD - start
    local = _find_local_map(solver, start)
    solver.of_maps |= {at for each in (start, local) for at in range(each, each + solver.size(MAP))}


def _table(dump: Dump, address: int, ranks: Sequence[int], code: str) -> Observation:
    """Observe a pointer to numbers of a type: the processes one by one."""
    return Observation(
        "the processes one by one",
        tuple(ranks),
        lambda offset: _numbers(dump, dump.word(address + offset), len(ranks), code),
    )


def _numbers(dump: Dump, table: int, count: int, code: str) -> tuple[int, ...]:
    return tuple(dump.scalar(table + SIZES[code] * index, code) for index in range(count))


def _find_tables_number(solver: MpichLayoutSolver, inside: Sequence[int]) -> None:
    """Find the number of the table of processes: 0 for those of MPI_COMM_WORLD, another for spawned ones."""
    own = [(dump, at, False) for dump, at, _ in solver.places("comms")]
    spawned = [
        (dump, at, True) for mode in ("spawn", "spawned") for dump, at, _ in solver.places("comms", mode, inter=True)
    ]

    def seen(dump: Dump, place: int) -> Hashable:
        table = dump.scalar(place, "i")
        if abs(table) >= 1 << 16 or dump.is_readable(dump.word(place - place % WORD)):
            return "part of an address"  # its upper half may be 0
        return bool(table)

    what = "whether the table of processes is another than the own one's"
    solver.solve_seen(MAP, "avtid", what, [*own, *spawned], seen, inside, constant=not spawned)


def _find_local_map(solver: MpichLayoutSolver, start: int) -> int:
    def seen(dump: Dump, place: int) -> Hashable:
        mode = solver.member(dump, place, MAP, "mode", "I")
        return None if mode == NONE else _decode(solver, dump, place, mode // 2)

    groups = [(dump, at, _local_group(entry)) for dump, at, entry in solver.places("comms")]
    among = [offset for offset in solver.possible_offsets(COMM, "Q") if offset != start]
    return solver.solve_seen(COMM, "dev.ch4.local_map", "the processes of the own group", groups, seen, among)


def _local_group(entry: dict[str, Any]) -> tuple[int, ...] | None:
    """Return the processes of the own group, which only an inter-communicator has beside its peers."""
    return tuple(entry["members"]) if entry["inter"] else None


def _decode(solver: MpichLayoutSolver, dump: Dump, address: int, kind: int) -> Hashable:
    """Return the processes of a map."""

    def member(name: str) -> int:
        return solver.member(dump, address, MAP, name, "i")

    count = member("size")
    if not 0 < count < 1 << 10 or kind > LUT:
        return "no map"
    if kind == LUT:
        return _numbers(dump, solver.member(dump, address, MAP, "irreg.lut.lpid"), count, "i")
    first = member("reg.stride.offset") if kind != DIRECT else 0
    block = {STRIDE: 1, STRIDE_BLOCK: member("reg.stride.blocksize")}.get(kind, count)
    return _strided(count, first, block, member("reg.stride.stride")) if block > 0 else "no map"


# ---------------------------------------------------------------- 5.0


def find_groups(solver: MpichLayoutSolver) -> None:
    """Find the map of a group: a first process and a stride, or the processes one by one."""
    groups = [
        (dump, solver.address(dump, entry[key]), {"ranks": entry[ranks], "stride": _stride(entry[ranks])})
        for dump, _, entry in solver.places("comms")
        for key, ranks in (("group", "members"), ("remote_group", "peers"))
        if entry[key]
    ]
    solver.solve_members(
        GROUP, groups, MemberRow("size", "the number of processes", lambda _, each: len(each["ranks"]))
    )
    several = [each for each in groups if len(each[2]["ranks"]) > 1]
    tables = [_table(dump, at, each["ranks"], "q") for dump, at, each in several if not each["stride"]]
    solver.solve(GROUP, "pmap.u.map", tables)
    solver.solve_members(
        GROUP,
        [each for each in several if each[2]["stride"]],
        MemberRow("pmap.u.stride.offset", "the first process", lambda _, each: each["ranks"][0]),
        MemberRow("pmap.u.stride.stride", "the stride", lambda _, each: each["stride"] % (1 << 64)),
    )
    table = MemberRow("pmap.use_map", "whether there is a table", lambda _, each: not each["stride"])
    solver.solve_members(GROUP, several, table)


def _stride(ranks: Sequence[int]) -> int:
    """Return the distance between neighbours, 0 where it varies."""
    distances = {other - one for one, other in pairwise(ranks)}
    return distances.pop() if len(distances) == 1 else 0


# ---------------------------------------------------------------- ch3


def find_connections(solver: MpichLayoutSolver) -> None:
    """Find a communicator's table of virtual connections, and in a connection the process that it leads to.

    Raises:
        Unsolved: there is not exactly one way from ranks to processes.
    """
    comms = solver.places("comms")
    intra = [(dump, at, entry["members"]) for dump, at, entry in comms if not entry["inter"]]
    ways = product(solver.possible_offsets(COMM, "Q"), range(0, 64, WORD))
    numbers_by_way = {way: _process_numbers(intra, *way) for way in ways}
    good = [way for way, numbers in numbers_by_way.items() if numbers]
    if len(good) != 1:
        raise Unsolved(f"{COMM}.dev.vcrt: {len(good)} ways lead from ranks to processes: {good}")
    vcrt, table = good[0]
    values = {tuple(members) for *_, members in intra}
    text = f"a table that leads to the process of each rank: {len(intra)} places, {len(values)} values"
    solver.remember(COMM, "dev.vcrt", Solved(vcrt, text))
    solver.remember(VCRT, "vcr_table", Solved(table, text))
    # MPI_Comm_split makes a table for each communicator; others may share a larger one's
    own = [
        (dump, dump.word(at + vcrt), len(entry["peers"]))
        for dump, at, entry in comms
        if entry["label"].startswith("shape")
    ]
    solver.solve_number(VCRT, "size", "the number of processes", own, among=range(0, table, 4))
    process = numbers_by_way[vcrt, table][0]
    groups = [(dump, at, _local_group(entry)) for dump, at, entry in comms]

    def observation(dump: Dump, address: int, ranks: tuple[int, ...] | None) -> Observation:
        def seen(offset: int) -> Hashable:
            if dump.word(address + offset) == 0:
                return None
            found = _connections(dump, address, offset, table, len(ranks or ()))
            return tuple(dump.scalar(connection + process, "i") for connection in found)

        return Observation("the processes of the own group", ranks, seen)

    among = [offset for offset in solver.possible_offsets(COMM, "Q") if offset != vcrt]
    solver.solve(COMM, "dev.local_vcrt", [observation(*each) for each in groups], among)
    _find_processes(solver, numbers_by_way[vcrt, table])


def _connections(dump: Dump, address: int, vcrt: int, table: int, count: int) -> list[int]:
    """Return the first virtual connections of a communicator's table."""
    first = dump.word(address + vcrt) + table
    return [dump.word(first + WORD * rank) for rank in range(count)]


def _process_numbers(intra: Sequence[tuple[Dump, int, list[int]]], vcrt: int, table: int) -> list[int]:
    """Return the offsets in a connection of what is the process's rank in MPI_COMM_WORLD."""
    try:
        observations = [
            number("", dump, connection, "i", process)
            for dump, at, ranks in intra
            for connection, process in zip(_connections(dump, at, vcrt, table, len(ranks)), ranks, strict=True)
        ]
    except LookupError:
        return []
    return [offset for offset in range(0, 128, 4) if all(observation.fits(offset) for observation in observations)]


def _find_processes(solver: MpichLayoutSolver, numbers: Sequence[int]) -> None:
    """Find rank and job of a connection's process: all of a job have a pointer in common, which others don't."""
    vcrt, table = solver.offset(COMM, "dev.vcrt"), solver.offset(VCRT, "vcr_table")
    own: list[KnownNumber] = []
    others: list[KnownNumber] = []
    for mode in ("spawn", "spawned"):
        for dump, at, entry in solver.places("comms", mode):
            connections = _connections(dump, at, vcrt, table, len(entry["peers"]))
            found = [(dump, each, process) for each, process in zip(connections, entry["peers"], strict=True)]
            (others if entry["inter"] else own).extend(found)
    solver.solve_number(VC, "pg_rank", "the rank in its MPI_COMM_WORLD", [*own, *others], among=numbers)
    groups = [
        _same_pointer(dump, at, there, same)
        for found, same in ((own, True), (others, False))
        for dump, at, _ in found
        for other, there, _ in own
        if dump is other and at != there
    ]
    solver.solve(VC, "pg", groups, range(0, 128, WORD))


def _same_pointer(dump: Dump, one: int, other: int, expected: bool) -> Observation:
    def seen(offset: int) -> Hashable:
        first, second = dump.word(one + offset), dump.word(other + offset)
        return first == second if min(first, second) > POINTER else "no pointer"

    return Observation("the same job", expected, seen)
