"""From ranks of a group to ranks of MPI_COMM_WORLD, through every way in which Open MPI stores a group.

Processes are told apart by their names (job, rank in the job), never by address: a process that nobody has talked
to is a number in the group (a sentinel, bit 0 set), and the same process may be a pointer in another group.
Source: ompi/group/group.h, ompi/proc/proc.h, the same in 4.1 and 5.0.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mqs_dll.abi import INVALID_RANK
from mqs_dll.errors import BrokenStructureError
from mqs_dll.layout import Layouts
from mqs_dll.memory import RANKS_OF_A_STEP, Memory
from mqs_dll.mpi.openmpi import views
from mqs_dll.mpi.openmpi.symbols import Symbols

LARGEST_GROUP = 1 << 24
DEEPEST_PARENT = 64

# grp_flags
SPORADIC = 0x8
STRIDED = 0x10
BITMAP = 0x20


_BITS = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]
"""The bits that are set in each byte."""


class ProcName(NamedTuple):
    """A process's name in Open MPI's run-time system."""

    jobid: int
    vpid: int
    """Rank in its job's MPI_COMM_WORLD."""


class Groups:
    """The groups of one process, each decoded once until ``forget``."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
        self._memory = memory
        self._group = views.Group.bind(layouts)
        self._proc = views.Proc.bind(layouts)
        self._class = symbols.need("ompi_group_t_class")
        self._local_proc = symbols.need("ompi_proc_local_proc")
        self._groups: dict[int, views.Group] = {}
        self._world_ranks: dict[int, tuple[int, ...]] = {}
        self._names: dict[int, tuple[ProcName, ...]] = {}
        self._first: dict[int, ProcName] = {}
        self._procs: dict[int, ProcName] = {}
        self._own: ProcName | None = None

    def forget(self) -> None:
        """Drop all that was read."""
        self._groups.clear()
        self._world_ranks.clear()
        self._names.clear()
        self._first.clear()
        self._procs.clear()
        self._own = None

    def own(self) -> ProcName:
        """Return this process's name."""
        if self._own is None:
            self._own = self._name(self._memory.pointer(self._local_proc))
        return self._own

    def at(self, address: int) -> views.Group:
        """Read a group.

        Raises:
            BrokenStructureError: there is no group at that address.
        """
        group = self._groups.get(address)
        if group is None:
            group = self._group.at(self._memory, address)
            if group.obj_class != self._class or not 0 <= group.grp_proc_count <= LARGEST_GROUP:
                raise BrokenStructureError(f"there is no group at {address:#x}")
            self._groups[address] = group
        return group

    def world_ranks(self, address: int) -> tuple[int, ...]:
        """Return the MPI_COMM_WORLD rank of each process of a group, -1 for a process of another job."""
        ranks = self._world_ranks.get(address)
        if ranks is None:
            job = self.own().jobid
            names = self.names(address)
            ranks = tuple(name.vpid if name.jobid == job else INVALID_RANK for name in names)
            self._world_ranks[address] = ranks
        return ranks

    def names(self, address: int) -> tuple[ProcName, ...]:
        """Return the name of each process of a group."""
        return self._group_names(address, DEEPEST_PARENT)

    def first(self, address: int) -> ProcName:
        """Return the lowest name of a group: that of its first process in the first of its jobs.

        Raises:
            BrokenStructureError, TargetReadError: the group is empty, or can't be decoded.
        """
        first = self._first.get(address)
        if first is None:
            names = self.names(address)
            if not names:
                raise BrokenStructureError(f"the group at {address:#x} is empty")
            first = self._first[address] = min(names)
        return first

    def _group_names(self, address: int, depth: int) -> tuple[ProcName, ...]:
        names = self._names.get(address)
        if names is None:
            names = self._names[address] = self._decode(self.at(address), depth)
        return names

    def _decode(self, group: views.Group, depth: int) -> tuple[ProcName, ...]:
        """Return the names of a dense group from its entries, of a sparse one through its parent."""
        if not group.grp_flags & (SPORADIC | STRIDED | BITMAP):
            return tuple(map(self._name, self._memory.pointers(group.grp_proc_pointers, group.grp_proc_count)))
        if depth == 0:
            raise BrokenStructureError(f"the group at {group.address:#x} has more than {DEEPEST_PARENT} ancestors")
        self._memory.spend(group.grp_proc_count // RANKS_OF_A_STEP)
        parents = self._group_names(group.grp_parent_group_ptr, depth - 1)
        ranks = self._ranks_in_parent(group, len(parents))
        if ranks and not 0 <= min(ranks) <= max(ranks) < len(parents):
            raise _misfit(group)
        return tuple([parents[rank] for rank in ranks])

    def _ranks_in_parent(self, group: views.Group, parents: int) -> list[int]:
        """Return the ranks that a sparse group's processes have in its parent.

        A table that doesn't say as many as the group has is refused before it is followed: its numbers may be absurd.
        """
        count = group.grp_proc_count
        if group.grp_flags & STRIDED:
            offset, stride, _last = struct.unpack_from("<3i", group.sparse_data)
            return [offset + stride * rank for rank in range(count)]
        table, length = struct.unpack_from("<Qi", group.sparse_data)
        if group.grp_flags & SPORADIC:
            if not 0 <= length <= count:  # no range is empty
                raise _misfit(group)
            ranges = list(struct.iter_unpack("<ii", self._memory.read(table, 8 * length)))
            if any(size < 0 for _, size in ranges) or sum(size for _, size in ranges) != count:
                raise _misfit(group)
            return [rank for first, size in ranges for rank in range(first, first + size)]
        if not 0 <= length <= parents // 8 + 1:
            raise _misfit(group)
        bits = self._memory.read(table, length)
        if int.from_bytes(bits, "little").bit_count() != count:
            raise _misfit(group)
        return [8 * place + bit for place, byte in enumerate(bits) if byte for bit in _BITS[byte]]

    def _name(self, entry: int) -> ProcName:
        """Return the name in a group's entry: a sentinel, or the address of an ompi_proc_t."""
        if entry & 1:
            return ProcName((entry & 0xFFFF0000) | (entry >> 1 & 0x7FFF), entry >> 32)
        name = self._procs.get(entry)
        if name is None:
            proc = self._proc.at(self._memory, entry)
            name = self._procs[entry] = ProcName(proc.jobid, proc.vpid)
        return name


def _misfit(group: views.Group) -> BrokenStructureError:
    return BrokenStructureError(f"the sparse group at {group.address:#x} doesn't fit its parent")
