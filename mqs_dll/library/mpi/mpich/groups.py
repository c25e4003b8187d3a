"""From ranks of a communicator to ranks of MPI_COMM_WORLD, through every way in which MPICH stores that.

ch4 keeps a rank map in the communicator to 4.3, groups know their processes since 5.0, and ch3 has a table of virtual
connections. A process that is not in this process's MPI_COMM_WORLD is -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mqs_dll.contract.abi import INVALID_RANK
from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.bounds import RANKS_OF_A_STEP
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory, cached_per_sweep, kept_while_unchanged
from mqs_dll.library.mpi.mpich import views

MAX_GROUP_SIZE = 1 << 24

# modes of a rank map (src/mpid/ch4/include/mpidpre.h of 3.4.3 to 4.3.2); the odd ones of the regular ones imply that
# all processes are of this MPI_COMM_WORLD
DIRECT = (0, 1)
OFFSET = (2, 3)
STRIDE = (4, 5)
STRIDE_BLOCK = (6, 7)
TABLE = (8, 9)
TABLE_OF_PAIRS = 10

WORLD_SHIFT = 32
"""A process's number since 5.0 is its world's index, in the upper half, and its rank there."""


class Members(NamedTuple):
    """The processes of a group."""

    ranks: tuple[int, ...]
    """In MPI_COMM_WORLD; -1 for one of another world."""
    lowest: int
    """Of these, -1 where a process is of another world."""


class RankMapNumbers(NamedTuple):
    """What a rank map says, wherever it lies."""

    mode: int
    avtid: int
    offset: int
    stride: int
    block: int
    lut: int


class RankDecoder:
    """Decodes the processes of communicators, each group once until it changes."""

    def __init__(self, memory: Memory, layouts: Layouts) -> None:
        self._memory = memory
        self._map = views.RankMap.bind(layouts) if views.RankMap.struct in layouts else None
        self._vcrt = views.Vcrt.bind(layouts) if views.Vcrt.struct in layouts else None
        self._vc = views.VirtualConnection.bind(layouts) if self._vcrt else None
        self._group = self._strided = None
        if layouts.offset(views.MpirGroup.struct, "pmap.use_map") is not None:
            self._group = views.MpirGroup.bind(layouts)
            self._strided = views.StridedGroup.bind(layouts)
        self._own_group: int | None = None

    def know_world(self, world: views.Comm) -> None:
        """Learn from MPI_COMM_WORLD which processes are its own (ch3: the process group of its first one)."""
        if world.vcrt and self._vc is not None:
            self._own_group = next(self._connections(world.vcrt, 1)).pg

    def local(self, comm: views.Comm) -> tuple[int, ...]:
        """Return the MPI_COMM_WORLD rank of each process of a communicator's local group.

        Raises:
            BrokenStructureError, TargetReadError: it can't be decoded.
        """
        return self._of(comm, False).ranks

    def peers(self, comm: views.Comm) -> tuple[int, ...]:
        """Return the same for the group that messages go to: the remote one of an inter-communicator."""
        return self._of(comm, bool(comm.comm_kind)).ranks

    def lowest(self, comm: views.Comm) -> int:
        """Return the lowest of these ranks, those of a remote group too: -1 where a process is of another world."""
        return min(self._of(comm, remote).lowest for remote in {False, bool(comm.comm_kind)})

    @kept_while_unchanged
    def _of(self, comm: views.Comm, remote: bool) -> Members:
        count = comm.remote_size if remote else comm.local_size
        if not 0 <= count <= MAX_GROUP_SIZE:
            raise BrokenStructureError(f"communicator {comm.handle:#x} says that it has {count} processes")
        members = self._decode(comm, count, other_half=bool(comm.comm_kind) and not remote)
        if len(members.ranks) != count:
            raise BrokenStructureError(f"the processes of communicator {comm.handle:#x} can't be decoded")
        return members

    def _decode(self, comm: views.Comm, count: int, *, other_half: bool) -> Members:
        """Return the processes of one group of a communicator; the other half is an inter-communicator's local one."""
        if comm.map is not None and comm.local_map is not None and self._map is not None:
            return self._from_map(comm.address + (comm.local_map if other_half else comm.map), count)
        if comm.vcrt is not None:
            return self._from_table((comm.local_vcrt if other_half else comm.vcrt) or 0, count)
        return self._from_group(comm.remote_group if comm.comm_kind and not other_half else comm.local_group, count)

    # ------------------------------------------------------------ ch4 to 4.3

    def _from_map(self, address: int, count: int) -> Members:
        assert self._map is not None
        found = self._map.at(self._memory, address)
        if found.size != count:
            raise BrokenStructureError(f"the rank map at {address:#x} has {found.size} ranks instead of {count}")
        numbers = RankMapNumbers(found.mode, found.avtid, found.offset, found.stride, found.blocksize, found.lut)
        if not 0 <= found.mode <= TABLE_OF_PAIRS or (found.mode in STRIDE_BLOCK and found.blocksize <= 0):
            raise BrokenStructureError(f"the rank map at {address:#x} is of unknown mode {found.mode}")
        return self._mapped(numbers, count)

    @kept_while_unchanged
    def _mapped(self, map: RankMapNumbers, count: int) -> Members:
        self._memory.charge(count // RANKS_OF_A_STEP)
        self._memory.charge_objects(count)
        if map.mode == TABLE_OF_PAIRS:
            pairs = self._memory.words(map.lut, 2 * count, "i")
            return _members(
                rank if table == 0 else INVALID_RANK for table, rank in zip(pairs[::2], pairs[1::2], strict=True)
            )
        return _members((INVALID_RANK,) * count if map.avtid else self._regular(map, count))

    def _regular(self, map: RankMapNumbers, count: int) -> Sequence[int]:
        mode, _, offset, stride, block, lut = map
        if mode in DIRECT:
            return range(count)
        if mode in OFFSET:
            return range(offset, offset + count)
        if mode in STRIDE:
            return range(offset, offset + stride * count, stride) if stride else (offset,) * count
        if mode in STRIDE_BLOCK:
            return tuple(rank // block * (stride - block) + rank + offset for rank in range(count))
        return self._memory.words(lut, count, "i")

    # ------------------------------------------------------------ since 5.0

    @property
    def knows_groups(self) -> bool:
        """Whether groups know their processes, so that of_group can be asked."""
        return self._group is not None

    def of_group(self, address: int) -> tuple[int, ...]:
        """Return the MPI_COMM_WORLD rank of each process of a group.

        Raises:
            BrokenStructureError, TargetReadError: it can't be decoded.
        """
        if self._group is None:
            raise BrokenStructureError("groups of this MPICH don't have their processes")
        return self._from_group(address, self._group.at(self._memory, address).size).ranks

    @kept_while_unchanged
    def _from_group(self, address: int, count: int) -> Members:
        if self._group is None or self._strided is None:
            raise BrokenStructureError("it isn't known how this MPICH keeps the processes of a communicator")
        group = self._group.at(self._memory, address)
        if group.size != count:
            raise BrokenStructureError(f"the group at {address:#x} has {group.size} processes instead of {count}")
        self._memory.charge(count // RANKS_OF_A_STEP)
        self._memory.charge_objects(count)
        if group.use_map:
            numbers: Iterable[int] = self._memory.words(group.map, count, "q")
        else:
            strided = self._strided.at(self._memory, address)
            offset, stride = _signed(strided.offset), _signed(strided.stride)
            numbers = (offset + rank * stride for rank in range(count))
        return _members(number if number >> WORLD_SHIFT == 0 else INVALID_RANK for number in numbers)

    # ------------------------------------------------------------ ch3

    @cached_per_sweep  # as which processes are its own isn't noted
    def _from_table(self, address: int, count: int) -> Members:
        self._memory.charge(count // RANKS_OF_A_STEP)
        self._memory.charge_objects(count)
        connections = self._connections(address, count)
        return _members(vc.pg_rank if vc.pg == self._own_group else INVALID_RANK for vc in connections)

    def _connections(self, address: int, count: int) -> Iterator[views.VirtualConnection]:
        """Yield the first processes of a table; communicators may share one that is longer."""
        assert self._vcrt is not None
        assert self._vc is not None
        table = self._vcrt.at(self._memory, address)
        if not count <= table.size <= MAX_GROUP_SIZE:
            raise BrokenStructureError(f"the table of processes at {address:#x} has {table.size} instead of {count}")
        for pointer in self._memory.words(address + self._vcrt.constant("vcr_table"), count):
            yield self._vc.at(self._memory, pointer)


def _members(found: Iterable[int]) -> Members:
    ranks = tuple(found)
    return Members(ranks, min(ranks, default=INVALID_RANK))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
