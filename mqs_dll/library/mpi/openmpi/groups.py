"""From ranks of a group to ranks of MPI_COMM_WORLD, through every way in which Open MPI stores a group.

Processes are distinguished by their names (job, rank in the job), never by address: a process that nobody has talked
to is a number in the group (a sentinel, bit 0 set), and the same process may be a pointer in another group.
Source: ompi/group/group.h, ompi/proc/proc.h, the same in 4.1 and 5.0.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from mqs_dll.contract.abi import INVALID_RANK
from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.bounds import RANKS_OF_A_STEP
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory, kept_while_unchanged
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.symbols import Symbols

MAX_GROUP_SIZE = 1 << 24
MAX_PARENT_DEPTH = 64

# grp_flags
SPORADIC = 0x8
STRIDED = 0x10
BITMAP = 0x20
SPARSE = SPORADIC | STRIDED | BITMAP

_DIGITS = bytes.maketrans(b"01", b"\0\1")


class ProcName(NamedTuple):
    """A process's name in Open MPI's run-time system."""

    jobid: int
    vpid: int
    """Rank in its job's MPI_COMM_WORLD."""


class ProcNames(NamedTuple):
    """The parts of the names of a group's processes: a million of them are two tuples, not a million objects."""

    jobids: tuple[int, ...]
    vpids: tuple[int, ...]

    def are_of(self, jobid: int) -> bool:
        """Return whether all are of one job."""
        return self.jobids.count(jobid) == len(self.jobids)

    def at(self, ranks: Sequence[int]) -> ProcNames:
        """Return those with some ranks."""
        one_job = self.jobids[:1]
        is_one = self.jobids == one_job * len(self.jobids)
        jobids = one_job * len(ranks) if is_one else tuple(map(self.jobids.__getitem__, ranks))
        return ProcNames(jobids, tuple(map(self.vpids.__getitem__, ranks)))


class Groups:
    """The groups of one process, each decoded once until it changes."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts) -> None:
        self._memory = memory
        self._group = views.OmpiGroup.bind(layouts)
        self._proc = views.Proc.bind(layouts)
        self._class = symbols.need("ompi_group_t_class")
        self._local_proc = symbols.need("ompi_proc_local_proc")

    @kept_while_unchanged
    def own(self) -> ProcName:
        """Return this process's name."""
        (jobid,), (vpid,) = self._named(self._memory.words(self._local_proc, 2, "I"))
        return ProcName(jobid, vpid)

    @kept_while_unchanged
    def at(self, address: int) -> views.OmpiGroup:
        """Read a group.

        Raises:
            BrokenStructureError: there is no group at that address.
        """
        group = self._group.at(self._memory, address)
        if group.obj_class != self._class or not 0 <= group.grp_proc_count <= MAX_GROUP_SIZE:
            raise BrokenStructureError(f"there is no group at {address:#x}")
        return group

    @kept_while_unchanged
    def world_ranks(self, address: int) -> tuple[int, ...]:
        """Return the MPI_COMM_WORLD rank of each process of a group, -1 for a process of another job."""
        own, found = self.own().jobid, self._processes(address)
        if found.are_of(own):
            return found.vpids
        return tuple([vpid if jobid == own else INVALID_RANK for jobid, vpid in zip(*found, strict=True)])

    @kept_while_unchanged
    def names(self, address: int) -> tuple[ProcName, ...]:
        """Return the name of each process of a group.

        Raises:
            BrokenStructureError, TargetReadError: the group can't be decoded.
        """
        found = self._processes(address)
        self._memory.charge_objects(len(found.vpids))
        return tuple(map(ProcName, *found))

    @kept_while_unchanged
    def first(self, address: int) -> ProcName:
        """Return the lowest name of a group: that of its first process in the first of its jobs.

        Raises:
            BrokenStructureError, TargetReadError: the group is empty, or can't be decoded.
        """
        found = self._processes(address)
        if not found.vpids:
            raise BrokenStructureError(f"the group at {address:#x} is empty")
        jobid = min(found.jobids)
        if found.are_of(jobid):
            return ProcName(jobid, min(found.vpids))
        return ProcName(*min(zip(*found, strict=True)))

    @kept_while_unchanged
    def _processes(self, address: int) -> ProcNames:
        ancestor = group = self.at(address)
        for _ in range(MAX_PARENT_DEPTH):
            ancestor = self.at(ancestor.grp_parent_group_ptr) if ancestor.grp_flags & SPARSE else ancestor
        if ancestor.grp_flags & SPARSE:
            raise BrokenStructureError(f"the group at {ancestor.address:#x} has more than {MAX_PARENT_DEPTH} ancestors")
        return self._decode(group)

    @kept_while_unchanged
    def _decode(self, group: views.OmpiGroup) -> ProcNames:
        """Return the processes of a dense group from its entries, of a sparse one through its parent."""
        if not group.grp_flags & SPARSE:
            return self._named(self._memory.words(group.grp_proc_pointers, 2 * group.grp_proc_count, "I"))
        self._memory.charge(group.grp_proc_count // RANKS_OF_A_STEP)
        parents = self._decode(self.at(group.grp_parent_group_ptr))
        ranks = self._ranks_in_parent(group, len(parents.vpids))
        if ranks and not all(0 <= end < len(parents.vpids) for end in (ranks[0], ranks[-1])):
            raise _misfit(group)
        return parents.at(ranks)

    def _ranks_in_parent(self, group: views.OmpiGroup, parents: int) -> Sequence[int]:
        """Return the ranks that a sparse group's processes have in its parent, of which the ends may be beyond it.

        A table that doesn't say as many as the group has is refused before it is followed: its numbers may be absurd.
        """
        count = group.grp_proc_count
        self._memory.charge_objects(count)
        if group.grp_flags & STRIDED:
            offset, stride, _last = struct.unpack_from("<3i", group.sparse_data)
            return range(offset, offset + stride * count, stride) if stride else [offset] * count
        table, length = struct.unpack_from("<Qi", group.sparse_data)
        if group.grp_flags & SPORADIC:
            if not 0 <= length <= count:  # no range is empty
                raise _misfit(group)
            ends = self._memory.words(table, 2 * length, "i")
            firsts, sizes = ends[::2], ends[1::2]
            if any(first < 0 or size < 0 or first + size > parents for first, size in zip(firsts, sizes, strict=True)):
                raise _misfit(group)
            if sum(sizes) != count:
                raise _misfit(group)
            return [rank for first, size in zip(firsts, sizes, strict=True) for rank in range(first, first + size)]
        if not 0 <= length <= parents // 8 + 1:
            raise _misfit(group)
        bits = int.from_bytes(self._memory.read(table, length), "little")
        if bits.bit_count() != count:
            raise _misfit(group)
        digits = f"{bits:b}".encode().translate(_DIGITS)
        return list(compress(range(len(digits)), reversed(digits)))

    def _named(self, halves: array[int]) -> ProcNames:
        """Return the names in the halves of a group's entries: each is a sentinel, or the address of an ompi_proc_t.

        A sentinel's lower half is the job, which mostly is the same in all, and its upper half the rank in it.
        """
        lower, upper = halves[::2], halves[1::2]
        self._memory.charge_objects(len(upper))
        if lower and lower[0] & 1 and lower.count(lower[0]) == len(lower):
            return ProcNames((_job_of(lower[0]),) * len(lower), tuple(upper))
        self._memory.charge_objects(len(upper))
        names = [
            ProcName(_job_of(low), high) if low & 1 else self._name(high << 32 | low)
            for low, high in zip(lower, upper, strict=True)
        ]
        return ProcNames(tuple([name.jobid for name in names]), tuple([name.vpid for name in names]))

    @kept_while_unchanged
    def _name(self, address: int) -> ProcName:
        proc = self._proc.at(self._memory, address)
        return ProcName(proc.jobid, proc.vpid)


def _job_of(sentinel: int) -> int:
    """Return the job in the lower half of a sentinel, whose bit 0 says that it is one."""
    return (sentinel & 0xFFFF0000) | (sentinel >> 1 & 0x7FFF)


def _misfit(group: views.OmpiGroup) -> BrokenStructureError:
    return BrokenStructureError(f"the sparse group at {group.address:#x} doesn't fit its parent")
