"""From ranks of a group to ranks of MPI_COMM_WORLD, through every way in which Open MPI stores a group.

Processes are told apart by their names (job, rank in the job), never by address: a process that nobody has talked
to is a number in the group (a sentinel, bit 0 set), and the same process may be a pointer in another group.
Source: ompi/group/group.h, ompi/proc/proc.h, the same in 4.1 and 5.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from mqs_dll.abi import INVALID_RANK
from mqs_dll.errors import BrokenStructureError
from mqs_dll.layout import Layouts
from mqs_dll.memory import RANKS_OF_A_STEP, Memory, remembered
from mqs_dll.mpi.openmpi import views
from mqs_dll.mpi.openmpi.symbols import Symbols

LARGEST_GROUP = 1 << 24
DEEPEST_PARENT = 64

# grp_flags
SPORADIC = 0x8
STRIDED = 0x10
BITMAP = 0x20
SPARSE = SPORADIC | STRIDED | BITMAP

_BITS = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]
"""The bits that are set in each byte."""


class ProcName(NamedTuple):
    """A process's name in Open MPI's run-time system."""

    jobid: int
    vpid: int
    """Rank in its job's MPI_COMM_WORLD."""


class Groups:
    """The groups of one process, each decoded once in a sweep."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
        self._memory = memory
        self._group = views.Group.bind(layouts)
        self._proc = views.Proc.bind(layouts)
        self._class = symbols.need("ompi_group_t_class")
        self._local_proc = symbols.need("ompi_proc_local_proc")

    @remembered
    def own(self) -> ProcName:
        """Return this process's name."""
        (name,) = self._named((self._memory.pointer(self._local_proc),))
        return name

    @remembered
    def at(self, address: int) -> views.Group:
        """Read a group.

        Raises:
            BrokenStructureError: there is no group at that address.
        """
        group = self._group.at(self._memory, address)
        if group.obj_class != self._class or not 0 <= group.grp_proc_count <= LARGEST_GROUP:
            raise BrokenStructureError(f"there is no group at {address:#x}")
        return group

    @remembered
    def world_ranks(self, address: int) -> tuple[int, ...]:
        """Return the MPI_COMM_WORLD rank of each process of a group, -1 for a process of another job."""
        job = self.own().jobid
        return tuple(name.vpid if name.jobid == job else INVALID_RANK for name in self.names(address))

    @remembered
    def names(self, address: int) -> tuple[ProcName, ...]:
        """Return the name of each process of a group.

        Raises:
            BrokenStructureError, TargetReadError: the group can't be decoded.
        """
        ancestor = group = self.at(address)
        for _ in range(DEEPEST_PARENT):
            ancestor = self.at(ancestor.grp_parent_group_ptr) if ancestor.grp_flags & SPARSE else ancestor
        if ancestor.grp_flags & SPARSE:
            raise BrokenStructureError(f"the group at {ancestor.address:#x} has more than {DEEPEST_PARENT} ancestors")
        return self._decode(group)

    @remembered
    def first(self, address: int) -> ProcName:
        """Return the lowest name of a group: that of its first process in the first of its jobs.

        Raises:
            BrokenStructureError, TargetReadError: the group is empty, or can't be decoded.
        """
        names = self.names(address)
        if not names:
            raise BrokenStructureError(f"the group at {address:#x} is empty")
        return min(names)

    @remembered
    def _decode(self, group: views.Group) -> tuple[ProcName, ...]:
        """Return the names of a dense group from its entries, of a sparse one through its parent."""
        if not group.grp_flags & SPARSE:
            return self._named(self._memory.pointers(group.grp_proc_pointers, group.grp_proc_count))
        self._memory.spend(group.grp_proc_count // RANKS_OF_A_STEP)
        parents = self._decode(self.at(group.grp_parent_group_ptr))
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

    def _named(self, entries: Iterable[int]) -> tuple[ProcName, ...]:
        """Return the names in a group's entries: each is a sentinel, or the address of an ompi_proc_t."""
        return tuple(
            [
                ProcName((entry & 0xFFFF0000) | (entry >> 1 & 0x7FFF), entry >> 32) if entry & 1 else self._name(entry)
                for entry in entries
            ]
        )

    @remembered
    def _name(self, address: int) -> ProcName:
        proc = self._proc.at(self._memory, address)
        return ProcName(proc.jobid, proc.vpid)


def _misfit(group: views.Group) -> BrokenStructureError:
    return BrokenStructureError(f"the sparse group at {group.address:#x} doesn't fit its parent")
