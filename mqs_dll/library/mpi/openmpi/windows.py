"""The one-sided windows of a process, and what osc/rdma keeps of their epochs: who started, posted and locked what.

No profile knows osc/rdma's structs. What is needed of them shows itself: the module holds an object of the class
ompi_osc_rdma_sync_t that points back at the module; right behind it is the group of MPI_Win_post; and each lock is an
object of the same class, in an array at the place of its target, whose number is in it too. Sources: osc_rdma.h,
osc_rdma_sync.h, osc_rdma_active_target.c and osc_rdma_passive_target.c of ompi/mca/osc/rdma in 4.1.4 and 5.0.7. Of
windows of other components nothing is told but what every window has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mqs_dll.contract.abi import Window
from mqs_dll.contract.errors import BrokenStructureError, MqsError, TargetReadError
from mqs_dll.library.memory import WORD
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.containers import heap_bytes, name_at
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext

FREED = 0x1
INVALID = 0x2

MODULE_BYTES = 4096
"""No module of a window is larger."""

SYNC_BYTES = 1024

# ompi_osc_rdma_sync_type_t
LOCK = 1
PSCW = 3
"""MPI_Win_start."""

MAX_IN_ARRAY = 256
"""Processes of a window, up to which its locks are in an array; beyond, they are in a hash table."""

_Epochs = tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None]
"""Window.started, posted, locked."""
_UNKNOWN: _Epochs = (None, None, None)


class OmpiWindows:
    """Reads the windows of one process."""

    def __init__(self, mpi: OmpiProcessContext) -> None:
        self._memory = mpi.memory
        self._symbols = mpi.symbols
        self._containers = mpi.containers
        self._groups = mpi.groups
        self._window = views.OmpiWin.bind(mpi.layouts)
        self._group_at = self._window.offsets["w_group"]
        self._sync_size = mpi.class_size("ompi_osc_rdma_sync_t")
        self._header = mpi.class_size("opal_object_t")
        if self._sync_size % WORD or not 0 < self._header < self._sync_size <= SYNC_BYTES:
            self._sync_size = 0

    def table(self) -> Iterator[views.OmpiWin]:
        """Yield what is in the table of windows, those that are being freed too.

        Raises:
            BrokenStructureError, TargetReadError: the table, or a window, can't be read.
        """
        for slot, address in self._containers.pointer_array(self._symbols.need("ompi_mpi_windows")):
            if slot > 0:  # slot 0 holds MPI_WIN_NULL
                yield self._window.at(self._memory, address)

    def name(self, window: views.OmpiWin) -> bytes:
        """Return a window's name.

        Raises:
            TargetReadError: it can't be read.
        """
        return name_at(self._memory, window.address + window.w_name, self._group_at - window.w_name)

    def read(self, communicators: Iterable[OmpiEntry]) -> list[Window]:
        """Return the windows that are alive.

        Args:
            communicators: those of the process, the internal ones too.

        Raises:
            BrokenStructureError, TargetReadError: the table of windows can't be read.
        """
        win_class = self._symbols.need("ompi_win_t_class")
        numbers = {entry.view.address: entry.unique_id for entry in communicators}
        found = []
        for window in self.table():
            if window.obj_class != win_class or window.w_flags & (FREED | INVALID):
                continue
            ranks = self._groups.world_ranks(window.w_group)
            words = self._module(window.w_osc_module)
            known = {numbers[word] for word in words if word in numbers}
            started, posted, locked = self._epochs(window.w_osc_module, words, ranks)
            found.append(
                Window(
                    self.name(window),
                    len(ranks),
                    window.address,
                    communicator=known.pop() if len(known) == 1 else None,
                    ranks=ranks,
                    started=started,
                    posted=posted,
                    locked=locked,
                    handle=window.address,
                )
            )
        return found

    def _module(self, address: int) -> tuple[int, ...]:
        try:
            return self._memory.pointers(address, heap_bytes(self._memory, address, MODULE_BYTES) // WORD)
        except TargetReadError:
            return ()

    def _epochs(self, module: int, words: Sequence[int], ranks: Sequence[int]) -> _Epochs:
        """Return ``started``, ``posted`` and ``locked`` of a window; nothing for one that isn't osc/rdma's."""
        sync_class = self._symbols.get("ompi_osc_rdma_sync_t_class")
        ends = self._sync_size // WORD
        if sync_class is None or not ends:
            return _UNKNOWN
        places = [
            place
            for place, word in enumerate(words)
            if word == sync_class and place + ends < len(words) and words[place + self._header // WORD] == module
        ]
        if len(places) != 1:
            return _UNKNOWN
        (place,) = places
        try:
            kind, target = self._sync(module + place * WORD)
            group = words[place + self._header // WORD + 2]
            return (
                self._groups.world_ranks(group) if kind == PSCW else (),
                self._groups.world_ranks(words[place + ends]) if words[place + ends] else (),
                tuple(ranks) if (kind, target) == (LOCK, -1) else self._locks(module, words, ranks),
            )
        except MqsError:
            return _UNKNOWN

    def _sync(self, address: int) -> tuple[int, int]:
        """Return the type of an ompi_osc_rdma_sync_t and, for a lock, the target's rank in the window; -1 for all.

        Raises:
            BrokenStructureError: it is of no type.
        """
        kind = int.from_bytes(self._memory.read(address + self._header + WORD, 4), "little")
        if kind > PSCW:
            raise BrokenStructureError(f"there is no ompi_osc_rdma_sync_t at {address:#x}")
        target = self._memory.read(address + self._header + 2 * WORD, 4)
        return kind, int.from_bytes(target, "little", signed=True)

    def _locks(self, module: int, words: Sequence[int], ranks: Sequence[int]) -> tuple[int, ...] | None:
        """Return whom this process has locked: an array that a module points at has the locks in their places."""
        if len(ranks) > MAX_IN_ARRAY:
            return None
        for word in words:
            if heap_bytes(self._memory, word, MODULE_BYTES) < len(ranks) * WORD:
                continue
            slots = self._memory.pointers(word, len(ranks))
            used = [(place, slot) for place, slot in enumerate(slots) if slot]
            if used and all(self._is_lock(slot, place, module) for place, slot in used):
                return tuple(ranks[place] for place, _ in used)
        return ()

    def _is_lock(self, address: int, target: int, module: int) -> bool:
        try:
            if self._memory.pointer(address) != self._symbols.get("ompi_osc_rdma_sync_t_class"):
                return False
            return self._memory.pointer(address + self._header) == module and self._sync(address) == (LOCK, target)
        except MqsError:
            return False
