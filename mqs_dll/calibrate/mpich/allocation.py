"""The pools: the arrays of objects, found by the handles in them, and the records that describe them.

A record is known by two of its members: it points at an array of objects, and has that array's class and stride near
by. From there on each member is determined by its values in the records of several classes.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from mqs_dll.calibrate.dump import EVERYWHERE, WORD, Dump, UnreadableError
from mqs_dll.calibrate.layout_solver import MemberRow, Place, number
from mqs_dll.calibrate.mpich.layout_solver import COMMS, HEAD, INDEX_BITS, Array, MpichLayoutSolver, find_number
from mqs_dll.calibrate.offset_solver import Observation, Solved
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.library.mpi.mpich import handles

RECORD = "MPIR_Object_alloc_t"
OP = 6
"""The class of reduction operations; its pool has another number of direct objects than most."""

SIZES = range(16, 8200, 8)
LEAST = 3
"""Consecutive handles at equal distances that make an array of objects."""

NEAR = range(-128, 128, 4)
"""Where the members of a record lie, counted from its pointer to the array."""

MAX_OBJECTS = 1 << INDEX_BITS
MAX_BLOCKS = 64

Records = Sequence[Place]
"""Of each: where its pointer to the direct objects lies; their class "cls", "stride", and array "direct"; "blocks"."""


def find_pools(solver: MpichLayoutSolver) -> None:
    """Find the records and with them all objects of all processes."""
    strides: dict[int, int] = {}
    records: list[Place] = []
    for cls in (*handles.CLASSES, OP):
        for dump in solver.dumps:
            first = handles.first(handles.DIRECT, cls)
            arrays = list(_arrays(dump, first, dump.truth["variables"], strides.get(cls)))
            if arrays:  # a few handles that stand somewhere at equal distances are like objects, too
                strides[cls] = max(arrays, key=lambda array: array.count).stride
            for array in arrays:
                entry = {"cls": cls, "stride": array.stride, "direct": array}
                records += [(dump, place, entry) for place in find_number(dump, array.address, WORD)]
    _find_members(solver, _find_kind_and_size(solver, records))
    for cls, name in handles.CLASSES.items():
        stride = strides.get(cls) or _stride_of_blocks(solver, cls)
        if stride is not None:
            solver.sizes[name] = stride
            for dump in solver.all_dumps:
                solver.arrays[dump, cls] = list(_objects(solver, dump, cls, stride))


def _stride_of_blocks(solver: MpichLayoutSolver, cls: int) -> int | None:
    """Return the size of the objects of a class that has no direct ones, as 5.0 has no direct datatypes."""
    arrays = _arrays(solver.dumps[0], handles.first(handles.INDIRECT, cls), EVERYWHERE, None)
    strides = {array.stride for array in arrays}
    return strides.pop() if len(strides) == 1 else None


# ---------------------------------------------------------------- arrays


def _arrays(dump: Dump, handle: int, within: Sequence[Sequence[int]], stride: int | None) -> Iterator[Array]:
    """Yield the arrays whose objects start with consecutive handles, at most one for each start.

    Args:
        dump: of the process.
        handle: the first one.
        within: ranges of memory to search.
        stride: the distance of the objects, None for any.
    """
    firsts, seconds = (dump.find_bytes(struct.pack("<I", handle + number), 4, within) for number in (0, 1))
    others = set(seconds)
    for first in firsts:
        for distance in SIZES if stride is None else (stride,):
            if first + distance not in others or first % WORD:
                continue
            count = _count(dump, first, distance, handle)
            if count >= LEAST:
                yield Array(first, count, handle, distance)
                break


def _count(dump: Dump, first: int, stride: int, handle: int) -> int:
    """Return how many consecutive handles there are from an address on."""
    count = 0
    with suppress(UnreadableError):
        while count < MAX_OBJECTS and dump.scalar(first + count * stride, "I") == handle + count:
            count += 1
    return count


# ---------------------------------------------------------------- the record


def _find_kind_and_size(solver: MpichLayoutSolver, records: Records) -> Records:
    """Find where a record has its class and its stride, counted from its pointer; return the true records.

    Raises:
        CalibrationError: there is not exactly one such pair of places.
    """
    by_pool: dict[tuple[Dump, int], list[Place]] = defaultdict(list)
    for dump, place, entry in records:
        by_pool[dump, entry["cls"]].append((dump, place, entry))

    def fitting(pool: Records, kind: int, size: int) -> Records:
        return [each for each in pool if _is_record(each, kind, size)]

    pairs = [
        (kind, size)
        for kind, size in product(NEAR, NEAR)
        if all(fitting(pool, kind, size) for pool in by_pool.values())
    ]
    if len(pairs) != 1 or len({entry["cls"] for *_, entry in records}) < 2:
        raise CalibrationError(f"{RECORD}: class and size of objects are at {pairs} from a pointer to the objects")
    true = [record for pool in by_pool.values() for record in fitting(pool, *pairs[0])]
    if len(true) != len(by_pool):
        raise CalibrationError(f"{RECORD}: {len(true)} records for {len(by_pool)} pools")
    solver.solve_members(RECORD, true, MemberRow("kind", "the class of objects", "cls"), among=pairs[0][:1])
    solver.solve_members(RECORD, true, MemberRow("size", "the bytes of an object", "stride"), among=pairs[0][1:])
    direct = MemberRow("direct", "the address of the objects", lambda _, each: each["direct"].address)
    solver.solve_members(RECORD, true, direct, among=[0])
    return true


def _is_record(record: Place, kind: int, size: int) -> bool:
    """Return whether a record has its class and its stride at some offsets."""
    dump, place, entry = record
    try:
        found = dump.scalar(place + kind, "I"), dump.scalar(place + size, "I")
    except UnreadableError:
        return False
    return found == (entry["cls"], entry["stride"])


def _find_members(solver: MpichLayoutSolver, records: Records) -> None:
    """Find the other members, counted from the pointer to the direct objects, then from the record's start."""
    stride = _find_request_records(solver, records)
    _find_indirect(solver, records)
    indirect = solver.offset(RECORD, "indirect")
    for dump, place, entry in records:
        entry["blocks"] = _blocks(dump, place + indirect, entry)
    unused: list[Place] = [(dump, at + stride, {}) for dump, at, each in records if each["cls"] == handles.REQUEST]
    free = [offset for offset in NEAR if offset not in solver.offsets[RECORD].values()]
    for places, row in (
        (records, MemberRow("indirect_size", "the number of blocks", lambda _, each: len(each["blocks"]))),
        ([*records, *unused], MemberRow("initialized", "whether the pool was used", lambda _, each: bool(each))),
        (records, MemberRow("direct_size", "the number of direct objects", lambda _, each: each["direct"].count)),
    ):
        solver.solve_members(RECORD, places, row, among=free)
        free.remove(solver.offset(RECORD, row.member))
    what = "the objects of a block"
    size = MemberRow("indirect_block_size", what, lambda _, each: each["blocks"][0].count if each["blocks"] else None)
    solver.optionally(RECORD, records, size, among=free)
    _find_chain(solver, records)
    if solver.offset(RECORD, "avail") != min(solver.offsets[RECORD].values()):
        raise CalibrationError(f"{RECORD} does not start with the chain of free objects")
    solver.count_from_first(RECORD)


def _find_request_records(solver: MpichLayoutSolver, records: Records) -> int:
    """Find the size of a record by those of requests: they are an array, one for each virtual interface."""
    kind, size = solver.offset(RECORD, "kind"), solver.offset(RECORD, "size")
    requests = [record for record in records if record[2]["cls"] == handles.REQUEST]
    strides = [
        stride
        for stride in range(WORD, 512, WORD)
        if all(
            _is_record(each, kind + stride * index, size + stride * index) for each in requests for index in (1, 2, 3)
        )
    ]
    if not strides or any(stride % strides[0] for stride in strides):
        raise CalibrationError(f"{RECORD}: the records of requests are {strides} bytes apart")
    solver.sizes[RECORD] = strides[0]
    return strides[0]


def _find_indirect(solver: MpichLayoutSolver, records: Records) -> None:
    """Find the table of the blocks by the handles that the first block starts with; there are no blocks of windows."""

    def observation(dump: Dump, place: int, entry: dict[str, Any]) -> Observation:
        def seen(offset: int) -> Hashable:
            blocks = _blocks(dump, place + offset, entry)
            return blocks[0].first_handle if blocks else bool(dump.word(place + offset))

        expected = 0 if entry["cls"] == handles.WIN else handles.first(handles.INDIRECT, entry["cls"])
        return Observation("a table of blocks of objects", expected, seen)

    observations = [
        observation(*each) for each in records if each[2]["cls"] in (handles.COMM, handles.REQUEST, handles.WIN)
    ]
    taken = solver.offsets[RECORD].values()
    among = [offset for offset in NEAR if offset % WORD == 0 and offset not in taken]
    solver.solve(RECORD, "indirect", observations, among)


def _blocks(dump: Dump, pointer: int, entry: dict[str, Any]) -> list[Array]:
    """Return the blocks that a table leads to, as far as they hold the handles that they should.

    Args:
        dump: of the process.
        pointer: where the address of the table stands.
        entry: of the record.
    """
    found: list[Array] = []
    with suppress(UnreadableError):
        table = dump.word(pointer)
        for index in range(MAX_BLOCKS):
            block = dump.word(table + index * WORD)
            handle = handles.first(handles.INDIRECT, entry["cls"]) + (index << INDEX_BITS)
            count = _count(dump, block, entry["stride"], handle)
            if count < LEAST:
                break
            found.append(Array(block, count, handle, entry["stride"]))
    return found


def _find_chain(solver: MpichLayoutSolver, records: Records) -> None:
    """Find the chain of free objects, where it starts and how it goes on, and what marks a free object.

    Raises:
        CalibrationError: there is not exactly one way through all free objects of all pools.
    """
    ways: list[tuple[int, int, list[set[int]]]] = []
    for avail, link in product((offset for offset in NEAR if offset % WORD == 0), range(8, 64, 8)):
        with suppress(LookupError):
            ways.append((avail, link, [_chain(*record, avail, link) for record in records]))
    if len(ways) != 1:
        found = [(avail, link) for avail, link, _ in ways]
        raise CalibrationError(f"{RECORD}: {len(found)} ways through the free objects: {found}")
    avail, link, chains = ways[0]
    lengths = [len(chain) for chain in chains]
    evidence = f"a chain through objects of the pool: {len(lengths)} places, {len(set(lengths))} lengths"
    solver.remember(RECORD, "avail", Solved(avail, evidence))
    solver.remember(HEAD, "next", Solved(link, f"{evidence}, {sum(lengths)} links"))
    solver.sizes[HEAD] = link + WORD
    _find_head(solver, records, chains)


def _chain(dump: Dump, place: int, entry: dict[str, Any], avail: int, link: int) -> set[int]:
    """Return the objects on a chain that starts and goes on at some offsets.

    Raises:
        LookupError: it leaves the pool, or hasn't the length that it must have where only the program takes objects.
    """
    arrays = [entry["direct"], *entry["blocks"]]
    found: set[int] = set()
    address = dump.word(place + avail)
    while address:
        if address in found or not any(address in array.addresses() for array in arrays):
            raise LookupError(address)
        found.add(address)
        address = dump.word(address + link)
    own = {handles.WIN: "windows", OP: "operations"}.get(entry["cls"])
    if own and len(found) != entry["direct"].count - len(dump.truth[own]):
        raise LookupError(own)
    return found


def _find_head(solver: MpichLayoutSolver, records: Records, chains: Sequence[set[int]]) -> None:
    """Find the handle, and the count of references, which is 0 in free objects alone.

    Windows are left out: ch4 does not count references to them.
    """
    heads, counts = [], []
    for (dump, _, entry), free in zip(records, chains, strict=True):
        for array in (entry["direct"], *entry["blocks"]):
            for index, address in enumerate(array.addresses()[:200]):
                heads.append(number("the handle", dump, address, "I", array.first_handle + index))
                if entry["cls"] in (handles.COMM, handles.REQUEST, handles.DATATYPE):
                    counts.append((dump, address, address not in free))
    solver.solve(HEAD, "handle", heads, range(0, solver.size(HEAD), 4))
    taken = {solver.offset(HEAD, "handle"), *range(solver.offset(HEAD, "next"), solver.size(HEAD), 4)}
    among = [offset for offset in range(0, solver.size(HEAD), 4) if offset not in taken]

    def is_referred_to(dump: Dump, place: int) -> bool | None:
        references = dump.scalar(place, "i")
        return bool(references) if 0 <= references < 1 << 16 else None

    solver.solve_seen(
        HEAD, "ref_count", "whether an object is on the chain of free ones", counts, is_referred_to, among
    )


# ---------------------------------------------------------------- all objects


def _objects(solver: MpichLayoutSolver, dump: Dump, cls: int, stride: int) -> Iterator[Array]:
    """Yield the arrays of a class in one process, by the records, whose layout is known."""
    if cls == handles.COMM:  # no record points at the predefined ones
        worlds, selves = (find_number(dump, handle, 4) for handle in COMMS)
        found = [place for place in worlds if place % WORD == 0 and place + stride in selves]
        if len(found) == 1:
            yield Array(found[0], len(COMMS), COMMS[0], stride)
    first = handles.first(handles.DIRECT, cls)
    for place in find_number(dump, stride, 4):
        record = place - solver.offset(RECORD, "size")
        with suppress(UnreadableError):
            if record % WORD or solver.member(dump, record, RECORD, "kind", "I") != cls:
                continue
            direct = solver.member(dump, record, RECORD, "direct")
            count = solver.member(dump, record, RECORD, "direct_size", "I")
            if direct and count and _count(dump, direct, stride, first) == count:
                yield Array(direct, count, first, stride)
            table = record + solver.offset(RECORD, "indirect")
            yield from _blocks(dump, table, {"cls": cls, "stride": stride})
