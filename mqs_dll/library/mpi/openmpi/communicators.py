"""The communicators of a process: which are live, what they are called, which Open MPI keeps for itself."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from copy import copy

from mqs_dll.contract.abi import SEVERAL_WORLDS, Label
from mqs_dll.contract.errors import MqsError
from mqs_dll.contract.interface import has_standard_handles
from mqs_dll.contract.names import fit
from mqs_dll.library.memory import Memory, kept_while_unchanged
from mqs_dll.library.mpi.communicators import CommunicatorEntry, join_id
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.containers import NAME_BYTES, name_at
from mqs_dll.library.mpi.openmpi.groups import Groups, ProcName
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext

# c_flags (ompi/communicator/communicator.h)
INTER = 0x1
NAME_IS_SET = 0x2
INTRINSIC = 0x4
INVALID = 0x20
PML_ADDED = 0x1000
EXTRA_RETAIN = 0x4000
GLOBAL_INDEX = 0x10000

STANDARD_HANDLES = {0: 0x101, 1: 0x102}
"""Of MPI_COMM_WORLD and MPI_COMM_SELF, by slot, in the MPI standard's binary interface; other handles are addresses."""

WORLD_FLAGS = INTRINSIC | NAME_IS_SET
"""MPI_COMM_WORLD has these from MPI_Init to MPI_Finalize."""

RESERVED_SLOT = 1
"""In the table instead of an address while a number is being agreed on (since 5.0.4)."""

FOLDED = 1 << 63
"""Set in the unique_id of a communicator with an extended id, so that it never equals a global index."""

SLOT_BITS, JOB_BITS = 25, 15
"""In the number within a unique_id."""

FIRST_JOB = 1
"""The lower half of a job's id: mpirun's own job is 1, those that are spawned are the next."""

FOLD_FACTOR = 0x9E3779B97F4A7C15
"""Odd, so that two extended ids that differ in one half never fold to the same number."""


def number_of(memory: Memory, view: views.OmpiCommunicator) -> int:
    """Return a communicator's own number, which is its slot in the table."""
    if view.c_index is not None:
        return view.c_index
    return int.from_bytes(memory.read(view.address + view.c_contextid, 4), "little")


def text_of(memory: Memory, view: views.OmpiCommunicator) -> bytes:
    """Return a communicator's name, or what Open MPI wrote in its place (lineage.py).

    It is an array in the struct in 4.1, behind a pointer since 5.0.0, which made c_index.
    """
    return name_at(memory, view.address + view.c_name, NAME_BYTES if view.c_index is None else 0)


def extended_id(memory: Memory, view: views.OmpiCommunicator) -> tuple[int, int] | None:
    """Return the extended id of a communicator, base and sub; None of one that has none: in 4.1, and most of 5.0."""
    if view.c_index is None or view.c_flags & GLOBAL_INDEX:
        return None
    base, sub = struct.unpack("<2Q", memory.read(view.address + view.c_contextid, 16))
    return base, sub


class OmpiEntry(CommunicatorEntry):
    """A communicator as it was read."""

    def __init__(
        self, memory: Memory, slot: int, view: views.OmpiCommunicator, groups: Groups, handles: Mapping[int, int]
    ) -> None:
        """Take it from its struct; its address is its handle, unless ``handles`` has one of its slot.

        Raises:
            BrokenStructureError, TargetReadError: its groups or its name can't be read.
        """
        self.slot = slot
        self.view = view
        self.extended_id = extended_id(memory, view)
        self.text = text_of(memory, view)
        """Its name, or what Open MPI wrote in its place."""
        self._groups = groups
        self._size = groups.at(view.c_local_group).grp_proc_count
        remote = groups.at(view.c_remote_group).grp_proc_count if self.inter else None
        label = Label(fit(self.text) if self.is_named else b"", b"", remote, handle=handles.get(slot, view.address))
        super().__init__(label)
        self._unique_id = self._make_id()

    @property
    def unique_id(self) -> int:
        """The number that is the same in all its processes."""
        return self._unique_id

    @property
    def local_rank(self) -> int:
        """The rank of this process."""
        return self.view.c_my_rank

    @property
    def size(self) -> int:
        """Processes of the local group."""
        return self._size

    @property
    def inter(self) -> bool:
        """Whether it is an inter-communicator."""
        return bool(self.view.c_flags & INTER)

    @property
    def is_named(self) -> bool:
        """Whether MPI_Comm_set_name was called, or Open MPI gave it one of the standard's names."""
        return bool(self.view.c_flags & NAME_IS_SET)

    @property
    def is_world(self) -> bool:
        """Whether it is MPI_COMM_WORLD, under whatever name: the first of the communicators that MPI_Init made."""
        return self.slot == 0

    @property
    def number_text(self) -> bytes:
        """Its number as Open MPI's texts have it (ompi_comm_print_cid, which is cut to 19 characters)."""
        return b"%d" % self.slot if self.extended_id is None else (b"0x%x%08x" % self.extended_id)[:19]

    def _make_id(self) -> int:
        """Return the number that is the same in all processes of a communicator, and in no other one's.

        Its processes have agreed on a slot: always in 4.1, with GLOBAL_INDEX since 5.0.0. Others of 5.0 have an
        extended id of 16 bytes, folded here. Disjoint ones may have the same: the name of the lowest process
        distinguishes them, in which jobs count up from 1 (what distinguishes one launcher's jobs from another's is left
        out).
        """
        try:
            first = min(map(self._groups.first, {self.view.c_local_group, self.view.c_remote_group}))
        except MqsError:
            first = ProcName(FIRST_JOB, SEVERAL_WORLDS)
        if self.extended_id is None:
            job = (first.jobid - FIRST_JOB) % (1 << JOB_BITS)
            return join_id(job << SLOT_BITS | self.slot % (1 << SLOT_BITS), first.vpid)
        base, sub = self.extended_id
        return ((base * FOLD_FACTOR + sub) * FOLD_FACTOR + (first.jobid << 32) + first.vpid) % FOLDED | FOLDED

    def world_ranks(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD ranks of the local group."""
        return self._groups.world_ranks(self.view.c_local_group)

    def peers(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD ranks of the group that messages go to: the remote one of an inter-communicator."""
        return self._groups.world_ranks(self.view.c_remote_group)

    def members(self) -> Iterator[ProcName]:
        """Yield the names of its processes, those of the remote group too."""
        for group in {self.view.c_local_group, self.view.c_remote_group}:
            yield from self._groups.names(group)

    def peer_names(self) -> Sequence[ProcName]:
        """Return the names of the processes that messages go to."""
        return self._groups.names(self.view.c_remote_group)

    def is_held_only_by(self, requests: int) -> bool:
        """Return whether nothing but that many requests refers to the communicator: the program has freed it.

        Each request holds a reference, and the program's handle holds one; some communicators are retained once more.
        (The flag OMPI_COMM_ISFREED exists in 4.1 and 5.0, but nothing sets it.)
        """
        extra = 1 if self.view.c_flags & EXTRA_RETAIN else 0
        return self.view.obj_reference_count - extra <= requests and requests > 0


class OmpiCommunicators:
    """Reads the table of communicators."""

    def __init__(self, mpi: OmpiProcessContext) -> None:
        self._memory = mpi.memory
        self._containers = mpi.containers
        self._groups = mpi.groups
        self._table = mpi.symbols.need("ompi_mpi_communicators")
        self._class = mpi.symbols.need("ompi_communicator_t_class")
        self._communicator = views.OmpiCommunicator.bind(mpi.layouts)
        self._handles = STANDARD_HANDLES if has_standard_handles(mpi.symbols.image) else {}

    def read(self) -> list[OmpiEntry]:
        """Return the live communicators in the order of their numbers.

        A slot may hold something else while a number is being agreed on: the parent (before 5.0.4) or the number 1.

        Raises:
            BrokenStructureError, TargetReadError: the table can't be read.
        """
        entries = []
        for slot, address in self._containers.pointer_array(self._table):
            if address == RESERVED_SLOT:
                continue
            entry = self._kept(slot, address) if self._memory.is_noting else self._entry(slot, address)
            if entry is not None:
                entries.append(entry)
        return entries

    def _kept(self, slot: int, address: int) -> OmpiEntry | None:
        """Return the same as ``_entry``, a copy: those that use it mark it."""
        return copy(self._unmarked(slot, address))

    @kept_while_unchanged
    def _unmarked(self, slot: int, address: int) -> OmpiEntry | None:
        return self._entry(slot, address)

    def _entry(self, slot: int, address: int) -> OmpiEntry | None:
        """Return the communicator in a slot, None where that holds something else, or one that isn't alive."""
        view = self._communicator.at(self._memory, address)
        if view.obj_class != self._class or number_of(self._memory, view) != slot:
            return None
        if view.c_flags & INVALID or not view.c_flags & PML_ADDED:
            return None
        return OmpiEntry(self._memory, slot, view, self._groups, self._handles)
