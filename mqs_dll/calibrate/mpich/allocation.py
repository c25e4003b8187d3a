"""The pools: the arrays of objects, found by the handles in them, and the records that describe them.

A record is known by two of its members: it points at an array of objects, and has that array's class and stride near
by. From there on each member is pinned by its values in the records of several classes.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from mqs_dll.calibrate.dump import WORD, Dump, UnreadableError
from mqs_dll.calibrate.ledger import Place, Row, number
from mqs_dll.calibrate.mpich.pool_ledger import COMMS, INDEX_BITS, Array, PoolLedger
from mqs_dll.calibrate.solver import Sighting, Solved, solve
from mqs_dll.errors import CalibrationError
from mqs_dll.mpi.mpich import handles

RECORD = "MPIR_Object_alloc_t"
HEAD = "MPIR_Handle_common"
OP = 6
"""The class of reduction operations; its pool has another number of direct objects than most."""

SIZES = range(16, 8200, 8)
LEAST = 3
"""Consecutive handles at equal distances that make an array of objects."""

NEAR = range(-128, 128, 4)
"""Where the members of a record lie, counted from its pointer to the array."""

MOST_OBJECTS = 1 << INDEX_BITS
MOST_BLOCKS = 64


@dataclass(frozen=True)
class Record:
    """A pool's record in a process."""

    dump: Dump
    cls: int
    place: int
    """Where its pointer to the direct objects lies."""
    direct: Array


def find_pools(ledger: PoolLedger) -> None:
    """Find the records and with them all objects of all processes."""
    strides: dict[int, int] = {}
    records: list[Record] = []
    for cls in (*handles.CLASSES, OP):
        for dump in ledger.dumps:
            firsts, seconds = (ledger.variables(dump, _word32(handles.first(handles.DIRECT, cls) + n)) for n in (0, 1))
            arrays = list(_arrays(dump, firsts, seconds, handles.first(handles.DIRECT, cls), strides.get(cls)))
            if arrays:  # a few handles that stand somewhere at equal distances look like objects, too
                strides[cls] = max(arrays, key=lambda array: array.count).stride
            for array in (each for each in arrays if each.stride == strides[cls]):
                pointers = ledger.variables(dump, array.address.to_bytes(WORD, "little"), WORD)
                records += [Record(dump, cls, place, array) for place in pointers]
    _find_members(ledger, _find_kind_and_size(ledger, records))
    for cls, name in handles.CLASSES.items():
        stride = strides.get(cls) or _stride_of_blocks(ledger, cls)
        if stride is not None:
            ledger.sizes[name] = stride
            for dump in ledger.all_dumps:
                ledger.keep_arrays(dump, cls, _objects(ledger, dump, cls, stride))


def _stride_of_blocks(ledger: PoolLedger, cls: int) -> int | None:
    """Return the size of the objects of a class that has no direct ones, as 5.0 has no direct datatypes."""
    handle = handles.first(handles.INDIRECT, cls)
    dump = ledger.dumps[0]
    firsts, seconds = (dump.find_bytes(_word32(handle + number), 4) for number in (0, 1))
    strides = {array.stride for array in _arrays(dump, firsts, seconds, handle, None)}
    return strides.pop() if len(strides) == 1 else None


# ---------------------------------------------------------------- arrays


def _arrays(
    dump: Dump, firsts: Sequence[int], seconds: Sequence[int], handle: int, stride: int | None
) -> Iterator[Array]:
    """Yield the arrays whose objects begin with consecutive handles, at most one for each begin.

    Args:
        dump: of the process.
        firsts: where the first handle stands.
        seconds: where the second one stands.
        handle: the first one.
        stride: the distance of the objects, None for any.
    """
    others = set(seconds)
    for first in firsts:
        for distance in SIZES if stride is None else (stride,):
            if first + distance not in others or first % WORD:
                continue
            count = _count(dump, first, distance, handle)
            if count >= LEAST:
                yield Array(first, count, handle, distance)
                break


def _word32(value: int) -> bytes:
    return struct.pack("<I", value)


def _count(dump: Dump, first: int, stride: int, handle: int) -> int:
    """Return how many consecutive handles there are from an address on."""
    count = 0
    try:
        while count < MOST_OBJECTS and dump.scalar(first + count * stride, "I") == handle + count:
            count += 1
    except UnreadableError:
        pass
    return count


# ---------------------------------------------------------------- the record


def _find_kind_and_size(ledger: PoolLedger, records: Sequence[Record]) -> list[Record]:
    """Find where a record has its class and its stride, counted from its pointer; return the true records.

    Raises:
        CalibrationError: there is not exactly one such pair of places.
    """
    by_pool: dict[tuple[str, int, int], list[Record]] = defaultdict(list)
    for record in records:
        by_pool[record.dump.run, record.dump.truth["rank"], record.cls].append(record)

    def fitting(pool: Sequence[Record], kind: int, size: int) -> list[Record]:
        return [
            record for record in pool if _reads(record, kind, record.cls) and _reads(record, size, record.direct.stride)
        ]

    pairs = [
        (kind, size)
        for kind, size in product(NEAR, NEAR)
        if all(fitting(pool, kind, size) for pool in by_pool.values())
    ]
    if len(pairs) != 1 or len({record.cls for record in records}) < 2:
        raise CalibrationError(f"{RECORD}: class and size of objects are at {pairs} from a pointer to the objects")
    kind, size = pairs[0]
    true = [record for pool in by_pool.values() for record in fitting(pool, kind, size)]
    if len(true) != len(by_pool):
        raise CalibrationError(f"{RECORD}: {len(true)} records for {len(by_pool)} pools")
    for member, offset, what in (("kind", kind, "the class of objects"), ("size", size, "the bytes of an object")):
        values = {record.cls if member == "kind" else record.direct.stride for record in true}
        ledger.remember(RECORD, member, Solved(offset, f"{what}: {len(true)} places, {len(values)} values"))
    places = {record.direct.address for record in true}
    evidence = f"the address of the objects: {len(true)} places, {len(places)} values"
    ledger.remember(RECORD, "direct", Solved(0, evidence))
    return true


def _reads(record: Record, offset: int, value: int) -> bool:
    try:
        return record.dump.scalar(record.place + offset, "I") == value
    except UnreadableError:
        return False


def _find_members(ledger: PoolLedger, records: Sequence[Record]) -> None:
    """Find the other members, counted from the pointer to the direct objects, then from the record's begin."""
    stride = _find_request_records(ledger, records)
    _find_indirect(ledger, records)
    blocks = [(record, _blocks(ledger, record)) for record in records]
    used: list[Place] = [(record.dump, record.place, {"record": record, "blocks": found}) for record, found in blocks]
    requests = [each for each in used if each[2]["record"].cls == handles.REQUEST]
    unused: list[Place] = [(dump, at + stride, {"record": None}) for dump, at, _ in requests]
    free = [offset for offset in NEAR if offset not in ledger.offsets[RECORD].values()]
    for places, row in (
        (used, Row("indirect_size", "the number of blocks", lambda _, each: len(each["blocks"]))),
        ([*used, *unused], Row("initialized", "whether the pool was used", lambda _, each: bool(each["record"]))),
        (used, Row("direct_size", "the number of direct objects", lambda _, each: each["record"].direct.count)),
    ):
        ledger.pin_rows(RECORD, places, row, among=free)
        free.remove(ledger.offset(RECORD, row.member))
    what = "the objects of a block"
    size = Row("indirect_block_size", what, lambda _, each: each["blocks"][0].count if each["blocks"] else None)
    ledger.optionally(RECORD, used, size, among=free)
    _find_chain(ledger, blocks)
    begin = ledger.offset(RECORD, "avail")
    if begin != min(ledger.offsets[RECORD].values()):
        raise CalibrationError(f"{RECORD} does not begin with the chain of free objects")
    ledger.offsets[RECORD] = {member: offset - begin for member, offset in ledger.offsets[RECORD].items()}


def _find_request_records(ledger: PoolLedger, records: Sequence[Record]) -> int:
    """Find the size of a record by those of requests: they are an array, one for each virtual interface."""
    kind, size = ledger.offset(RECORD, "kind"), ledger.offset(RECORD, "size")
    requests = [record for record in records if record.cls == handles.REQUEST]

    def fits(record: Record, stride: int) -> bool:
        return all(
            _reads(record, kind + stride * index, record.cls)
            and _reads(record, size + stride * index, record.direct.stride)
            for index in (1, 2, 3)
        )

    strides = [stride for stride in range(WORD, 512, WORD) if all(fits(record, stride) for record in requests)]
    if not strides or any(stride % strides[0] for stride in strides):
        raise CalibrationError(f"{RECORD}: the records of requests are {strides} bytes apart")
    ledger.sizes[RECORD] = strides[0]
    return strides[0]


def _find_indirect(ledger: PoolLedger, records: Sequence[Record]) -> None:
    """Find the table of the blocks by the handles that the first block begins with."""
    sightings = [
        _first_block(record, handles.first(handles.INDIRECT, record.cls))
        for record in records
        if record.cls in (handles.COMM, handles.REQUEST)
    ]
    what = "no table of blocks"
    sightings += [number(what, record.dump, record.place, "Q", 0) for record in records if record.cls == handles.WIN]
    taken = set(ledger.offsets[RECORD].values())
    solved = solve(
        f"{RECORD}.indirect", sightings, [offset for offset in NEAR if offset % 8 == 0 and offset not in taken]
    )
    ledger.remember(RECORD, "indirect", solved)


def _first_block(record: Record, handle: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        block = record.dump.word(record.dump.word(record.place + offset))
        return handle if _count(record.dump, block, record.direct.stride, handle) >= LEAST else None

    return Sighting("a table of blocks of objects", handle, seen)


def _blocks(ledger: PoolLedger, record: Record) -> list[Array]:
    """Return the blocks that a record's table leads to, as far as they hold the handles that they should."""
    table = record.dump.word(record.place + ledger.offset(RECORD, "indirect"))
    return _blocks_of_table(record.dump, table, record.cls, record.direct.stride) if table else []


def _blocks_of_table(dump: Dump, table: int, cls: int, stride: int) -> list[Array]:
    found = []
    for index in range(MOST_BLOCKS):
        handle = handles.first(handles.INDIRECT, cls) + (index << INDEX_BITS)
        try:
            block = dump.word(table + index * WORD)
            count = _count(dump, block, stride, handle) if block else 0
        except UnreadableError:
            break
        if count < LEAST:
            break
        found.append(Array(block, count, handle, stride))
    return found


Blocks = Sequence[tuple[Record, list[Array]]]


def _find_chain(ledger: PoolLedger, pools: Blocks) -> None:
    """Find the chain of free objects, where it begins and how it goes on, and what tells a free object.

    Raises:
        CalibrationError: there is not exactly one way through all free objects of all pools.
    """
    ways = []
    for avail, link in product((offset for offset in NEAR if offset % 8 == 0), range(8, 64, 8)):
        chains = [_chain(record, blocks, avail, link) for record, blocks in pools]
        if all(_is_plausible(record, chain) for (record, _), chain in zip(pools, chains, strict=True)):
            ways.append((avail, link, chains))
    if len(ways) != 1:
        found = [(avail, link) for avail, link, _ in ways]
        raise CalibrationError(f"{RECORD}: {len(found)} ways through the free objects: {found}")
    avail, link, chains = ways[0]
    lengths = [len(chain or ()) for chain in chains]
    evidence = f"a chain through objects of the pool: {len(lengths)} places, {len(set(lengths))} lengths"
    ledger.remember(RECORD, "avail", Solved(avail, evidence))
    ledger.remember(HEAD, "next", Solved(link, f"{evidence}, {sum(lengths)} links"))
    ledger.sizes[HEAD] = link + WORD
    _find_head(ledger, pools, chains)


def _is_plausible(record: Record, chain: list[int] | None) -> bool:
    """Tell whether a chain stays in its pool, and has the length that it must where only the program takes objects."""
    own = {handles.WIN: "windows", OP: "operations"}.get(record.cls)
    return chain is not None and (own is None or len(chain) == record.direct.count - len(record.dump.truth[own]))


def _chain(record: Record, blocks: Sequence[Array], avail: int, link: int) -> list[int] | None:
    """Return the objects on a chain that begins and goes on at some offsets; None where it leaves the pool."""
    arrays = [record.direct, *blocks]
    found: dict[int, None] = {}
    try:
        address = record.dump.word(record.place + avail)
        while address:
            if address in found or not any(address in array.addresses() for array in arrays):
                return None
            found[address] = None
            address = record.dump.word(address + link)
    except UnreadableError:
        return None
    return list(found)


def _find_head(ledger: PoolLedger, pools: Blocks, chains: Sequence[list[int] | None]) -> None:
    """Find the handle, and the count of references, which is 0 in free objects alone.

    Windows are left out: ch4 does not count references to them.
    """
    heads, counts = [], []
    for (record, blocks), chain in zip(pools, chains, strict=True):
        free = set(chain or ())
        for array in (record.direct, *blocks):
            for index, address in enumerate(array.addresses()[:200]):
                heads.append(number("the handle", record.dump, address, "I", array.first_handle + index))
                if record.cls in (handles.COMM, handles.REQUEST, handles.DATATYPE):
                    counts.append(_is_referred_to(record.dump, address, address not in free))
    ledger.pin(HEAD, "handle", heads, range(0, ledger.size(HEAD), 4))
    taken = {ledger.offset(HEAD, "handle"), *range(ledger.offset(HEAD, "next"), ledger.size(HEAD), 4)}
    ledger.pin(HEAD, "ref_count", counts, [offset for offset in range(0, ledger.size(HEAD), 4) if offset not in taken])


def _is_referred_to(dump: Dump, address: int, expected: bool) -> Sighting:
    return Sighting(
        "whether an object is on the chain of free ones",
        expected,
        lambda offset: (
            0 < dump.scalar(address + offset, "i") < 1 << 16 if expected else bool(dump.scalar(address + offset, "i"))
        ),
    )


# ---------------------------------------------------------------- all objects


def _objects(ledger: PoolLedger, dump: Dump, cls: int, stride: int) -> Iterator[Array]:
    """Yield the arrays of a class in one process, by the records, whose layout is known."""
    if cls == handles.COMM:
        yield from _builtin(ledger, dump, stride)
    for place in ledger.variables(dump, _word32(stride)):
        base = place - ledger.offset(RECORD, "size")
        try:
            if base % WORD == 0 and dump.scalar(base + ledger.offset(RECORD, "kind"), "I") == cls:
                yield from _arrays_of_record(ledger, dump, base, cls, stride)
        except UnreadableError:
            continue


def _arrays_of_record(ledger: PoolLedger, dump: Dump, base: int, cls: int, stride: int) -> Iterator[Array]:
    direct = dump.word(base + ledger.offset(RECORD, "direct"))
    direct_size = dump.scalar(base + ledger.offset(RECORD, "direct_size"), "I")
    handle = handles.first(handles.DIRECT, cls)
    if direct and direct_size and _count(dump, direct, stride, handle) == direct_size:
        yield Array(direct, direct_size, handle, stride)
    table = dump.word(base + ledger.offset(RECORD, "indirect"))
    if table:
        yield from _blocks_of_table(dump, table, cls, stride)


def _builtin(ledger: PoolLedger, dump: Dump, stride: int) -> Iterator[Array]:
    """Yield the predefined communicators, which no record points at."""
    worlds, selves = (ledger.variables(dump, _word32(handle)) for handle in COMMS)
    found = [place for place in worlds if place % WORD == 0 and place + stride in selves]
    if len(found) == 1:
        yield Array(found[0], len(COMMS), COMMS[0], stride)
