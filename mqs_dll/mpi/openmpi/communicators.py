"""The communicators of a process: which are live, what they are called, which Open MPI keeps for itself."""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.abi import Communicator
from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory
from mqs_dll.mpi.base import CommunicatorEntry
from mqs_dll.mpi.openmpi import views
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.groups import Groups, ProcName
from mqs_dll.mpi.openmpi.symbols import Symbols
from mqs_dll.names import marked

NAME_BYTES = 64
"""MPI_MAX_OBJECT_NAME of Open MPI, and what its c_name holds at most, NUL included."""

INTERNAL = b"internal"
FREED = b"freed"

# c_flags (ompi/communicator/communicator.h)
INTER = 0x1
NAME_IS_SET = 0x2
INTRINSIC = 0x4
INVALID = 0x20
PML_ADDED = 0x1000
EXTRA_RETAIN = 0x4000
GLOBAL_INDEX = 0x10000

WORLD_FLAGS = INTRINSIC | NAME_IS_SET
"""MPI_COMM_WORLD has these from MPI_Init to MPI_Finalize."""

RESERVED_SLOT = 1
"""In the table instead of an address while a number is being agreed on (since 5.0.4)."""

FOLDED = 1 << 63
"""Set in the unique_id of a communicator with an extended id, so that it never equals a global index."""

FOLD_FACTOR = 0x9E3779B97F4A7C15
"""Odd, so that two extended ids that differ in one half never fold to the same number."""


def number_of(memory: Memory, view: views.Communicator) -> int:
    """Return a communicator's own number, which is its slot in the table."""
    if view.c_index is not None:
        return view.c_index
    return int.from_bytes(memory.read(view.address + view.c_contextid, 4), "little")


def name_of(memory: Memory, view: views.Communicator) -> bytes:
    """Return a communicator's name: an array in the struct in 4.1, behind a pointer since 5.0.0, which made c_index."""
    address = view.address + view.c_name
    if view.c_index is not None:
        address = memory.pointer(address)
        if address == 0:
            return b""
    return memory.text(address, NAME_BYTES)


class Entry(CommunicatorEntry):
    """A communicator as it was read."""

    def __init__(self, slot: int, view: views.Communicator, record: Communicator, groups: Groups) -> None:
        self.slot = slot
        self.view = view
        self.record = record
        self.internal = False
        self._groups = groups

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

    def world_ranks(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD ranks of the local group."""
        return self._groups.world_ranks(self.view.c_local_group)

    def peers(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD ranks of the group that messages go to: the remote one of an inter-communicator."""
        return self._groups.world_ranks(self.view.c_remote_group)

    def peer_names(self) -> Sequence[ProcName]:
        """Return the names of the processes that messages go to."""
        return self._groups.names(self.view.c_remote_group)

    def is_held_only_by(self, requests: int) -> bool:
        """Tell whether nothing but that many requests refers to the communicator: the program has freed it.

        Each request holds a reference, and the program's handle holds one; some communicators are retained once more.
        (The flag OMPI_COMM_ISFREED exists in 4.1 and 5.0, but nothing sets it.)
        """
        extra = 1 if self.view.c_flags & EXTRA_RETAIN else 0
        return self.view.obj_reference_count - extra <= requests and requests > 0

    def mark(self, mark: bytes) -> None:
        """Put one more mark behind the name."""
        name, marks = self.name_and_marks
        self.name_and_marks = (name, [*marks, mark])
        self.record = self.record._replace(name=marked(*self.name_and_marks))

    name_and_marks: tuple[bytes, list[bytes]] = (b"", [])


class Communicators:
    """Reads the table of communicators."""

    def __init__(self, memory: Memory, symbols: Symbols, layouts: Layouts, containers: Containers, groups: Groups):
        self._memory = memory
        self._containers = containers
        self._groups = groups
        self._table = symbols.need("ompi_mpi_communicators")
        self._class = symbols.need("ompi_communicator_t_class")
        self._communicator = views.Communicator.bind(layouts)

    def read(self) -> list[Entry]:
        """Return the live communicators in the order of their numbers.

        A slot may hold something else while a number is being agreed on: the parent (before 5.0.4) or the number 1.

        Raises:
            BrokenStructureError, TargetReadError: the table can't be read.
        """
        entries = []
        for slot, address in self._containers.pointer_array(self._table):
            if address == RESERVED_SLOT:
                continue
            view = self._communicator.at(self._memory, address)
            if view.obj_class != self._class or number_of(self._memory, view) != slot:
                continue
            if view.c_flags & INVALID or not view.c_flags & PML_ADDED:
                continue
            entries.append(self._entry(slot, view))
        return entries

    def _entry(self, slot: int, view: views.Communicator) -> Entry:
        group = self._groups.at(view.c_local_group)
        record = Communicator(self._unique_id(view), view.c_my_rank, group.grp_proc_count, b"")
        entry = Entry(slot, view, record, self._groups)
        entry.name_and_marks = (name_of(self._memory, view), self._marks(view))
        entry.record = record._replace(name=marked(*entry.name_and_marks))
        return entry

    def _unique_id(self, view: views.Communicator) -> int:
        """Return the number that is the same in all processes of a communicator.

        That is the slot where all have agreed on it: always in 4.1, with GLOBAL_INDEX since 5.0.0. Others of 5.0 have
        an extended id of 16 bytes, folded here.
        """
        if view.c_index is None or view.c_flags & GLOBAL_INDEX:
            return number_of(self._memory, view)
        extended = self._memory.read(view.address + view.c_contextid, 16)
        base, sub = int.from_bytes(extended[:8], "little"), int.from_bytes(extended[8:], "little")
        return (base * FOLD_FACTOR + sub) % FOLDED | FOLDED

    def _marks(self, view: views.Communicator) -> list[bytes]:
        marks = []
        if view.c_flags & INTER:
            remote = self._groups.at(view.c_remote_group).grp_proc_count
            marks.append(b"inter, %d remote" % remote)
        return marks
