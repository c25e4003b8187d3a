"""The one-sided windows of a process, and what ch4 keeps of their epochs: who started, posted, locked, and waits.

Where ch4's part of MPIR_Win is differs, but it shows itself: it follows the name and four numbers, and begins with a
number made of the context id of the communicator that the window was made of. Its own members lie alike in every
release, and each target is an entry of a hash table that points at its own key. Sources: src/mpid/ch4/include/mpidpre.h
(MPIDIG_win_t), src/ch4_types.h and src/ch4_impl.c of 4.0.2 to 5.0.0, the same in all of them; of groups to 4.3,
src/include/mpir_group.h.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from mqs_dll.contract.abi import Window
from mqs_dll.contract.errors import BrokenStructureError, MqsError
from mqs_dll.library.memory import WORD
from mqs_dll.library.mpi.mpich import handles, views
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.groups import MAX_GROUP_SIZE
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import values_of

DEVICE = 128 + 4 * 4
"""From the name to ch4's part: MPI_MAX_OBJECT_NAME, the flavor, the model, and copies of both."""

PLACES = 2
"""Words of ch4's part of which one is the window's number (win_id): attributes may come first."""

MAX_INSTANCES = 1 << 16
"""Windows that are made of one communicator."""

NONE, LOCK, START, POST, LOCK_ALL = 0, 1, 2, 3, 6
LAST_EPOCH = LOCK_ALL
"""MPIDIG_EPOTYPE_*."""

EXCLUSIVE, SHARED = 234, 235
"""MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED (mpi.h)."""

PROCESS_WORDS = 2
"""Of each process in the array of a group to 4.3 (MPII_Group_pmap_t): its rank in MPI_COMM_WORLD, and a link."""

UNDEFINED = -32766
"""MPI_UNDEFINED: the rank of a process that isn't in a group."""


class WindowEpochs(NamedTuple):
    """The members of ``Window`` that tell its epochs; None where nothing is known of one."""

    started: tuple[int, ...] | None = None
    posted: tuple[int, ...] | None = None
    locked: tuple[int, ...] | None = None
    queued: tuple[int, ...] | None = None


class MpichWindows:
    """Reads the windows of one process."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        self._memory = mpi.memory
        self._pools = mpi.pools
        self._ranks = mpi.ranks
        self._is_ch4 = mpi.release.device.startswith("ch4")
        self._window = views.MpirWin.bind(mpi.layouts)
        self._sync = views.WindowSync.bind(mpi.layouts)
        self._target = views.WindowTarget.bind(mpi.layouts)
        self._waiting = views.WindowLock.bind(mpi.layouts)
        self._old_group = views.OldGroup.bind(mpi.layouts)
        self._sync_from_number = views.Ch4Window.bind(mpi.layouts).constant("sync")
        self._handles_are_addresses = values_of(mpi.layouts).handles_are_addresses

    def live(self) -> list[views.MpirWin]:
        """Return the windows that are alive.

        Raises:
            BrokenStructureError, TargetReadError: the pool can't be read.
        """
        return [self._window.at(self._memory, address) for address in self._pools.not_free(handles.WIN)]

    def read(self, communicators: Sequence[MpichEntry], own: int) -> list[Window]:
        """Return the windows that are alive, with what is known of their epochs.

        Args:
            communicators: those of the process.
            own: the process's rank in MPI_COMM_WORLD.

        Raises:
            BrokenStructureError, TargetReadError: the pool can't be read.
        """
        by_address = {entry.view.address: entry for entry in communicators}
        return [self._record(window, by_address, own) for window in self.live()]

    def _record(self, window: views.MpirWin, communicators: Mapping[int, MpichEntry], own: int) -> Window:
        name = window.name.partition(b"\0")[0]
        number = int.from_bytes(self._memory.read(window.address, 4), "little")
        handle = window.address if self._handles_are_addresses else number
        entry = communicators.get(window.comm_ptr)
        if entry is None:
            return Window(name, -1, window.address, handle=handle)
        contexts = {each.view.context_id for each in communicators.values()}
        try:
            ranks = tuple(entry.world_ranks())
            epochs = self._epochs(window, contexts, ranks, own) if self._is_ch4 else WindowEpochs()
        except MqsError:
            ranks, epochs = (), WindowEpochs()
        return Window(name, entry.size, window.address, entry.unique_id, ranks, *epochs, handle=handle)

    # ------------------------------------------------------------ epochs

    def _epochs(
        self, window: views.MpirWin, contexts: Container[int], ranks: tuple[int, ...], own: int
    ) -> WindowEpochs:
        """Return what is known of a window's epochs.

        MPIR_Win   name | DEVICE | 0 to 1 words | win_id | ... | MPIDIG_win_sync_t | ..., targets
        """
        first = self._window.offsets["name"] + DEVICE
        words = self._memory.pointers(window.address, self._pools.size_of(handles.WIN) // WORD)
        numbers = [at for at in range(first, first + PLACES * WORD, WORD) if _is_number(words[at // WORD], contexts)]
        places = [at + self._sync_from_number for at in numbers]
        syncs = {at: self._sync.at(self._memory, window.address + at) for at in places}
        plausible = [(at, sync) for at, sync in syncs.items() if _is_plausible(sync, len(ranks))]
        if len(plausible) != 1:
            return WindowEpochs()
        ((at, sync),) = plausible
        return WindowEpochs(
            started=self._group(sync.started, own) if sync.started else (),
            posted=self._group(sync.posted, own) if sync.posted else (),
            locked=self._locked(sync, words[-(-(at + self._sync.end) // WORD) :], ranks),
            queued=self._queue(sync.queue_head, ranks) if sync.queue_head else None,
        )

    def _locked(self, sync: views.WindowSync, words: Sequence[int], ranks: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the processes that this one has locked; None where they aren't as many as it counts."""
        if sync.access == LOCK_ALL:
            return ranks
        locked = self._locked_targets(words, ranks)
        is_whole = sync.access != LOCK or (locked is not None and len(locked) == sync.locks)
        return locked if is_whole else None

    def _locked_targets(self, words: Sequence[int], ranks: Sequence[int]) -> tuple[int, ...] | None:
        """Return the processes that this one has locked, by the first of some words that points at a target."""
        targets = (self._target_at(word, len(ranks)) for word in words)
        target = next((each for each in targets if each is not None), None)
        locked: list[int] = []
        seen: set[int] = set()
        while target is not None:
            if (target.epoch, target.locked) == (LOCK, 1):
                locked.append(ranks[target.rank])
            seen.add(target.address)
            if not target.next or target.next in seen:
                break
            target = self._target_at(target.next, len(ranks))
            if target is None:
                return None
        return tuple(sorted(locked))

    def _target_at(self, address: int, size: int) -> views.WindowTarget | None:
        """Return the target at an address; None for what is none: its entry in the hash table points at its key."""
        try:
            target = self._target.at(self._memory, address)
        except MqsError:
            return None
        is_entry = (target.key, target.keylen) == (address + target.key_at, 4)
        is_target = 0 <= target.rank < size and target.epoch in (NONE, LOCK) and target.locked <= 1
        return target if is_entry and is_target else None

    def _queue(self, head: int, ranks: Sequence[int]) -> tuple[int, ...]:
        """Return who waits for the lock of this process's part, in their order.

        Raises:
            BrokenStructureError, TargetReadError: it is no queue.
        """
        found: list[int] = []
        while head and len(found) <= len(ranks):
            lock = self._waiting.at(self._memory, head)
            if not 0 <= lock.rank < len(ranks) or lock.type not in (EXCLUSIVE, SHARED):
                raise BrokenStructureError("there is no queue of locks")
            found.append(ranks[lock.rank])
            head = lock.next
        return tuple(found)

    # ------------------------------------------------------------ groups

    def _group(self, address: int, own: int) -> tuple[int, ...] | None:
        """Return the MPI_COMM_WORLD ranks of a group, None where they can't be told."""
        if self._ranks.knows_groups:
            return self._ranks.of_group(address)
        group = self._old_group.at(self._memory, address)
        if not 0 < group.count <= MAX_GROUP_SIZE:
            return None
        words = self._memory.pointers(group.processes, group.count * PROCESS_WORDS)
        self._memory.charge_objects(group.count)
        ranks = words[::PROCESS_WORDS]
        in_group = group.rank == UNDEFINED if own not in ranks else group.rank == ranks.index(own)
        return ranks if in_group and max(ranks) < MAX_GROUP_SIZE and len({*ranks}) == len(ranks) else None


def _is_plausible(sync: views.WindowSync, size: int) -> bool:
    """Tell whether what may be the epochs of a window of some size agree with each other."""
    return (
        NONE <= sync.access <= LAST_EPOCH
        and NONE <= sync.exposure <= LAST_EPOCH
        and (sync.access == START) == (sync.started != 0)
        and (sync.exposure == POST) == (sync.posted != 0)
        and sync.all_locked <= size
        and (sync.queue_head == 0) == (sync.queue_tail == 0)
        and sync.lock_type in (0, EXCLUSIVE, SHARED)
    )


def _is_number(word: int, contexts: Container[int]) -> bool:
    """Tell whether a word can be a window's number (win_id), made of a communicator with one of some context ids."""
    return word != 0 and (word - 1) & 0xFFFFFFFF in contexts and word >> 32 < MAX_INSTANCES
