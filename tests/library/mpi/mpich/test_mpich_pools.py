"""MPICH's pools of objects and the processes of its communicators, on memory made for the purpose."""

from __future__ import annotations

import struct
from typing import cast

import pytest

from mqs_dll.contract.errors import BrokenStructureError, TargetReadError
from mqs_dll.library.layouts.layout import Layouts, StructLayout
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary, LoadedSegment
from mqs_dll.library.mpi.mpich import handles, pools, views
from mqs_dll.library.mpi.mpich.groups import RankDecoder
from tests.support.memory_image import MemoryImage

DATA = 0x7F0000000000
DATA_BYTES = 4 * PAGE
HEAP = 0x550000000000
RECORD = DATA + 64
DIRECT = DATA + PAGE
SIZE = 64
"""Bytes of an object."""

ALLOC = StructLayout(
    "MPIR_Object_alloc_t",
    64,
    {
        "avail": 0,
        "initialized": 8,
        "indirect": 16,
        "indirect_size": 24,
        "kind": 28,
        "size": 32,
        "direct": 40,
        "direct_size": 48,
    },
    "made up",
)
HEAD = StructLayout("MPIR_Handle_common", 16, {"handle": 0, "ref_count": 4, "next": 8}, "made up")
LAYOUTS = Layouts([ALLOC, HEAD, StructLayout("MPIR_Comm", SIZE, {}, "made up")])
LIBRARY = LoadedLibrary(DATA, (LoadedSegment(DATA, DATA_BYTES, PAGE, writable=True, executable=False),), "")


class Process:
    """A library's variables and a heap, written word by word."""

    def __init__(self) -> None:
        self.data = bytearray(DATA_BYTES)
        self.heap = bytearray(64 * PAGE)

    def write(self, address: int, form: str, *values: int) -> None:
        """Put values, in a form of the struct module, at an address."""
        place, base = (self.heap, HEAP) if HEAP <= address < HEAP + len(self.heap) else (self.data, DATA)
        struct.pack_into("<" + form, place, address - base, *values)

    def record(self, *, initialized: int = 1, blocks: int = 0, direct: int = 4, kind: int = handles.COMM) -> None:
        """Put a pool's record: its free chain starts with the direct object 2."""
        self.write(RECORD, "QiiQiiiiQi", DIRECT + 2 * SIZE, initialized, 0, HEAP, blocks, kind, SIZE, 0, DIRECT, direct)

    def object(self, address: int, handle: int, references: int, following: int = 0) -> None:
        """Put an object's head."""
        self.write(address, "IiQ", handle, references, following)

    def memory(self) -> Memory:
        """Return the process."""
        return Memory(MemoryImage({DATA: bytes(self.data), HEAP: bytes(self.heap)}))

    def pools(self) -> pools.Pools:
        """Return what is found in the process."""
        return pools.find(self.memory(), LAYOUTS, LIBRARY, {})


@pytest.fixture
def process() -> Process:
    """Return a process with 4 direct communicators, 0 and 1 in use, and a block of 1024, the last one in use."""
    process = Process()
    process.record(blocks=1)
    process.write(HEAP, "Q", HEAP + PAGE)
    for index, references in enumerate((1, 3, 0, 0)):
        process.object(DIRECT + index * SIZE, 0x84000000 + index, references, DIRECT + 3 * SIZE if index == 2 else 0)
    for index in range(1024):
        process.object(HEAP + PAGE + index * SIZE, 0xC4000000 + index, int(index == 1023))
    return process


def test_objects_in_use_are_those_with_references(process: Process) -> None:
    """Direct and added objects in use are found by the record in a stripped library's variables."""
    assert process.pools().live(handles.COMM) == [DIRECT, DIRECT + SIZE, HEAP + PAGE + 1023 * SIZE]


def test_a_communicator_that_was_freed_with_its_reference_is_not_in_use(process: Process) -> None:
    """MPICH 5.0 leaves a communicator of the node one reference when it frees it: the chain of free ones tells."""
    block = HEAP + PAGE
    process.write(RECORD, "Q", block + 5 * SIZE)
    process.object(block + 5 * SIZE, 0xC4000005, 1, DIRECT + SIZE)
    process.object(DIRECT + SIZE, 0x84000001, 1, DIRECT + 2 * SIZE)
    process.object(DIRECT + 3 * SIZE, 0x84000003, 1)
    for live, handle in ((DIRECT, 0x84000000), (block + 1023 * SIZE, 0xC4000000 + 1023)):
        process.object(live, handle, 1, 0x1234 << 32)
    layouts = Layouts([ALLOC, HEAD, StructLayout("MPIR_Comm", SIZE, {"context_id": 12}, "made up")])
    found = pools.find(process.memory(), layouts, LIBRARY, {})
    assert found.live(handles.COMM) == [DIRECT, block + 1023 * SIZE]


@pytest.mark.parametrize("index", [0, 1, 2, 500])
def test_an_object_that_has_lost_its_handle_is_one_of_its_pool(process: Process, index: int) -> None:
    """MPICH 4.1 overwrites the handle of a request that it frees with the null handle: one in use, free, the first."""
    found = [DIRECT, DIRECT + SIZE, HEAP + PAGE + 1023 * SIZE]
    address = DIRECT + index * SIZE if index < 4 else HEAP + PAGE + index * SIZE
    process.object(address, 0x04000000, int(index < 2))
    assert process.pools().live(handles.COMM) == found


def test_no_more_objects_are_searched_for_than_asked_for(process: Process) -> None:
    """The first ones, by their handles."""
    assert process.pools().live(handles.COMM, 2) == [DIRECT, DIRECT + SIZE]


def test_objects_without_references_are_known_by_the_free_chain(process: Process) -> None:
    """Where reference counts say nothing, an object in use is one that is not on the chain of free ones."""
    found = process.pools().not_free(handles.COMM)
    assert found[:3] == [DIRECT, DIRECT + SIZE, HEAP + PAGE]
    assert len(found) == 2 + 1024


def test_a_free_chain_that_is_a_loop_is_broken(process: Process) -> None:
    """A chain of free objects that comes back to itself ends with a sentence."""
    process.object(DIRECT + 3 * SIZE, 0x84000003, 0, DIRECT + 2 * SIZE)
    with pytest.raises(BrokenStructureError, match="chain of free objects is broken"):
        process.pools().not_free(handles.COMM)


def test_a_record_is_found_by_its_symbol(process: Process) -> None:
    """With a symbol for the record, no variables are searched."""
    image = MemoryImage({DATA: bytes(process.data), HEAP: bytes(process.heap)})
    nowhere = LoadedLibrary(DATA, (LoadedSegment(DATA, DATA_BYTES, 0, writable=False, executable=False),), "")
    found = pools.find(Memory(image), LAYOUTS, nowhere, {"MPIR_Comm_mem": RECORD})
    assert len(found.by_class[handles.COMM]) == 1


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [(8, "i", 2), (24, "i", -1), (24, "i", 1 << 20), (40, "Q", HEAP), (48, "i", 5000), (48, "i", 0)],
    ids=["initialized", "negative blocks", "blocks", "direct elsewhere", "direct objects", "no direct objects"],
)
def test_a_record_that_contradicts_itself_is_none(process: Process, offset: int, form: str, value: int) -> None:
    """What resembles a record except for one member is not believed."""
    process.write(RECORD + offset, form, value)
    assert process.pools().by_class[handles.COMM] == []


@pytest.mark.parametrize("index", [0, 1])
def test_a_record_whose_objects_have_other_handles_is_none(process: Process, index: int) -> None:
    """The first two objects must carry the handles of their class and place."""
    process.object(DIRECT + index * SIZE, 0x88000000 + index, 1)
    assert process.pools().by_class[handles.COMM] == []


@pytest.mark.parametrize(
    ("handle", "references"), [(0x84000002, 1), (0x88000002, 0), (0x44000002, 0)], ids=["in use", "class", "builtin"]
)
def test_a_record_whose_first_free_object_is_not_free_is_none(process: Process, handle: int, references: int) -> None:
    """The chain of free objects must start with a free object of the class."""
    process.object(DIRECT + 2 * SIZE, handle, references)
    assert process.pools().by_class[handles.COMM] == []


@pytest.mark.parametrize("stride", [-64, 64])
def test_a_pool_that_contradicts_itself_is_not_overlooked_beside_another(process: Process, stride: int) -> None:
    """Requests have an array of pools: without one of them the others might be taken for all, and hold nothing."""
    process.record(kind=handles.REQUEST)
    for index in range(4):
        process.object(DIRECT + index * SIZE, 0x88000000 + index, 0)
    process.write(RECORD + stride, "QiiQiiii", 0, 0, 0, 0, 0, handles.REQUEST, SIZE, 0)
    layouts = Layouts([ALLOC, HEAD, StructLayout("MPIR_Request", SIZE, {}, "made up")])
    with pytest.raises(BrokenStructureError, match="doesn't fit the objects"):
        pools.find(process.memory(), layouts, LIBRARY, {})


def test_an_unused_record_gives_way_to_one_in_use(process: Process) -> None:
    """A look-alike without objects is dropped where there is a pool with some."""
    process.write(RECORD - 64, "QiiQiiii", 0, 0, 0, 0, 0, handles.COMM, SIZE, 0)
    assert [pool.record for pool in process.pools().by_class[handles.COMM]] == [RECORD]


def test_a_process_of_a_build_that_was_seen_is_not_searched() -> None:
    """Its pool is where it was in the other process; where it isn't, it is searched for nevertheless."""
    unused = struct.pack("<QiiQiiii", 0, 0, 0, 0, 0, handles.COMM, SIZE, 0)
    library = LIBRARY._replace(build="seen")

    def records(place: int, size: int) -> list[int]:
        data = bytes(place - DATA) + unused + bytes(DATA_BYTES)
        found = pools.find(Memory(MemoryImage({DATA: data[:size]})), LAYOUTS, library, {})
        return [pool.record for pool in found.by_class[handles.COMM]]

    assert records(RECORD, DATA_BYTES) == [RECORD]
    assert records(RECORD, PAGE) == [RECORD], "it was searched: the rest can't be read"
    assert records(RECORD + STRIDE, DATA_BYTES) == [RECORD + STRIDE]


STRIDE = 64
"""Bytes of a record."""


@pytest.mark.parametrize(
    ("record", "lost"),
    [
        (RECORD, DATA + 2 * PAGE),
        (RECORD, HEAP),
        (RECORD, DATA),
        (DATA + PAGE - STRIDE, DATA),
    ],
    ids=["the library's objects", "a block", "all records", "the first record"],
)
def test_one_of_several_pools_is_not_overlooked(record: int, lost: int) -> None:
    """What says that it is a pool, or lies beside one of its kind, isn't passed over for what else can be read."""
    process, direct = Process(), DATA + 2 * PAGE
    process.write(record, "QiiQiiiiQi", 0, 1, 0, 0, 0, handles.REQUEST, SIZE, 0, direct, 4)
    process.write(record + STRIDE, "QiiQiiiiQi", 0, 1, 0, HEAP, 1, handles.REQUEST, SIZE, 0, 0, 0)
    process.write(HEAP, "Q", HEAP + PAGE)
    for index in (0, 1):
        process.object(direct + index * SIZE, 0xAC000000 + index, 1)
        process.object(HEAP + PAGE + index * SIZE, 0xEC000000 + index, 1)
    pages = {
        base + start: bytes(data[start : start + PAGE])
        for base, data in ((DATA, process.data), (HEAP, process.heap))
        for start in range(0, len(data), PAGE)
    }
    layouts = Layouts([ALLOC, HEAD, StructLayout("MPIR_Request", SIZE, {}, "made up")])
    library = LoadedLibrary(
        DATA, tuple(LoadedSegment(DATA + n * PAGE, PAGE, PAGE, writable=n < 2, executable=False) for n in range(3)), ""
    )
    found = pools.find(Memory(MemoryImage(pages)), layouts, library, {}).by_class[handles.REQUEST]
    assert [pool.record for pool in found] == [record, record + STRIDE]
    del pages[lost]
    with pytest.raises(TargetReadError):
        pools.find(Memory(MemoryImage(pages)), layouts, library, {})


def test_a_pool_whose_objects_cannot_be_read_is_not_overlooked(process: Process) -> None:
    """A record whose objects lie in the library, but can't be read, doesn't count as what resembles one by chance."""
    searched, objects = (
        LoadedSegment(DATA + start, PAGE, PAGE, writable=start == 0, executable=False) for start in (0, PAGE)
    )
    memory = Memory(MemoryImage({DATA: bytes(process.data[:PAGE]), HEAP: bytes(process.heap)}))
    with pytest.raises(TargetReadError):
        pools.find(memory, LAYOUTS, LoadedLibrary(DATA, (searched, objects), ""), {})


def test_a_block_with_other_objects_is_broken(process: Process) -> None:
    """A block whose objects are of another class breaks the pool off."""
    process.object(HEAP + PAGE + 500 * SIZE, 0xCC000000, 1)
    with pytest.raises(BrokenStructureError, match="objects of another class"):
        process.pools().live(handles.COMM)


@pytest.mark.parametrize(
    ("blocks", "direct", "what"),
    [(-1, 4, "blocks"), (1 << 14, 4, "blocks"), (0, -1, "objects"), (0, 1 << 30, "objects")],
)
def test_an_absurd_number_of_blocks_or_objects_is_broken(process: Process, blocks: int, direct: int, what: str) -> None:
    """A count of blocks that no handle has bits for, or of objects that no release has, is not walked."""
    found = process.pools()
    process.record(blocks=blocks, direct=direct)
    found.memory = process.memory()
    with pytest.raises(BrokenStructureError, match=what):
        found.live(handles.COMM)


# ---------------------------------------------------------------- the processes of communicators

MAP = StructLayout(
    "MPIDI_rank_map_t",
    40,
    {
        "mode": 0,
        "avtid": 4,
        "size": 8,
        "reg.stride.offset": 12,
        "reg.stride.stride": 16,
        "reg.stride.blocksize": 20,
        "irreg.lut.lpid": 32,
    },
    "made up",
)
GROUP = StructLayout(
    "MPIR_Group",
    48,
    {
        "handle": 0,
        "ref_count": 4,
        "size": 8,
        "rank": 12,
        "pmap.use_map": 16,
        "pmap.u.map": 24,
        "pmap.u.stride.offset": 24,
        "pmap.u.stride.stride": 32,
    },
    "made up",
)
TABLE = HEAP + PAGE


def comm(**members: object) -> views.Comm:
    """Return a communicator that lies at the start of the heap, with these members."""
    values = dict.fromkeys(["address", *views.Comm.members], 0) | {"map": None, "local_map": None, "vcrt": None}
    made = type("Comm", (views.Comm, tuple), {**values, "address": HEAP, **members})
    return cast(views.Comm, made())


def ranks_by_map(mode: int, *regular: int, avtid: int = 0, table: bytes = b"") -> tuple[int, ...]:
    """Return the ranks of a communicator of 4 by a rank map."""
    process = Process()
    offset, stride, block = (*regular, 0, 0, 0)[:3]
    process.write(HEAP + 64, "6iQQ", mode, avtid, 4, offset, stride, block, 0, TABLE)
    process.heap[PAGE : PAGE + len(table)] = table
    ranks = RankDecoder(process.memory(), Layouts([MAP, StructLayout("MPIR_Group", 40, {}, "made up")]))
    return ranks.local(comm(local_size=4, remote_size=4, map=64, local_map=104))


@pytest.mark.parametrize(
    ("mode", "regular", "expected"),
    [
        (0, (), (0, 1, 2, 3)),
        (1, (), (0, 1, 2, 3)),
        (2, (5,), (5, 6, 7, 8)),
        (3, (5,), (5, 6, 7, 8)),
        (4, (1, 3), (1, 4, 7, 10)),
        (5, (9, -2), (9, 7, 5, 3)),
        (6, (10, 8, 2), (10, 11, 18, 19)),
        (7, (10, 8, 2), (10, 11, 18, 19)),
    ],
)
def test_regular_rank_maps_are_computed(mode: int, regular: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Ranks of MPI_COMM_WORLD follow from offset, stride and block size, in each mode with and without them."""
    assert ranks_by_map(mode, *regular) == expected


@pytest.mark.parametrize("mode", [8, 9])
def test_a_rank_map_may_be_a_table(mode: int) -> None:
    """Irregular communicators have a table of ranks."""
    assert ranks_by_map(mode, table=struct.pack("<4i", 3, 1, 0, 7)) == (3, 1, 0, 7)


def test_processes_of_another_job_have_no_rank() -> None:
    """A process of another address table is -1, also within a table of pairs."""
    assert ranks_by_map(2, 5, avtid=1) == (-1, -1, -1, -1)
    assert ranks_by_map(10, table=struct.pack("<8i", 0, 3, 1, 0, 0, 2, 2, 2)) == (3, -1, 2, -1)


@pytest.mark.parametrize(("mode", "regular"), [(11, ()), (-1, ()), (6, (0, 4, 0))], ids=["none", "-1", "block 0"])
def test_a_rank_map_of_no_known_mode_is_broken(mode: int, regular: tuple[int, ...]) -> None:
    """A mode that no release has, or a block size of 0, is not computed with."""
    with pytest.raises(BrokenStructureError, match="unknown mode"):
        ranks_by_map(mode, *regular)


def ranks_by_group(use_map: int, first: int, second: int = 0, table: bytes = b"", size: int = 4) -> tuple[int, ...]:
    """Return the ranks of a communicator of 4 by its group."""
    process = Process()
    process.write(HEAP, "IiiiQQQ", 0x48000001, 1, size, 0, use_map, first, second & (1 << 64) - 1)
    process.heap[PAGE : PAGE + len(table)] = table
    return RankDecoder(process.memory(), Layouts([GROUP])).local(comm(local_size=4, remote_size=4, local_group=HEAP))


def test_groups_with_a_stride_are_computed() -> None:
    """Since 5.0 a group has offset and stride, which may be negative."""
    assert ranks_by_group(0, 7, -2) == (7, 5, 3, 1)


def test_groups_with_a_map_are_read() -> None:
    """A process's number is its rank when it is of the own MPI_COMM_WORLD; others, and temporary numbers, are -1."""
    numbers = struct.pack("<4q", 3, 1 << 32 | 2, 1 << 62, 0)
    assert ranks_by_group(1, TABLE, table=numbers) == (3, -1, -1, 0)


def test_a_group_of_another_size_is_broken() -> None:
    """A group that has not as many processes as its communicator is not decoded."""
    with pytest.raises(BrokenStructureError, match="has 5 processes instead of 4"):
        ranks_by_group(0, 0, 1, size=5)


def test_communicators_of_the_same_processes_are_decoded_once() -> None:
    """A duplicate refers to the group of its parent, or has a rank map with the same numbers."""
    process = Process()
    process.write(HEAP, "IiiiQQQ", 0x48000001, 1, 4, 0, 0, 1, 1)
    ranks = RankDecoder(process.memory(), Layouts([GROUP]))
    by_group = [comm(address=HEAP + each, local_size=4, remote_size=4, local_group=HEAP) for each in (64, 128)]
    assert ranks.local(by_group[0]) is ranks.local(by_group[1]) is ranks.peers(by_group[1])
    assert [ranks.lowest(each) for each in by_group] == [1, 1]
    process = Process()
    for place in (64, 128):
        process.write(HEAP + place, "6iQQ", 2, 0, 4, 5, 0, 0, 0, TABLE)
    ranks = RankDecoder(process.memory(), Layouts([MAP, StructLayout("MPIR_Group", 40, {}, "made up")]))
    by_map = [comm(local_size=4, remote_size=4, map=each, local_map=0) for each in (64, 128)]
    assert ranks.local(by_map[0]) is ranks.local(by_map[1])
    assert ranks.lowest(by_map[1]) == 5


def test_an_absurd_communicator_is_broken() -> None:
    """A communicator that says that it has a billion processes is refused before anything is read for it."""
    ranks = RankDecoder(Process().memory(), Layouts([GROUP]))
    with pytest.raises(BrokenStructureError, match="says that it has 1000000000"):
        ranks.local(comm(local_size=10**9, handle=0x84000000))


def test_a_block_that_goes_on_is_a_large_one(process: Process) -> None:
    """Where the record doesn't say how many objects a block has, the handles behind the usual end do."""
    process.heap += bytes(64 * PAGE)
    for index in range(1024, 4096):
        process.object(HEAP + PAGE + index * SIZE, 0xC4000000 + index, int(index == 4095))
    found = process.pools().live(handles.COMM)
    assert found[-2:] == [HEAP + PAGE + 1023 * SIZE, HEAP + PAGE + 4095 * SIZE]
