"""The communicators of a process: which are live, what they are called, which MPICH keeps for itself."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property

from mqs_dll.contract.abi import INVALID_RANK, Label
from mqs_dll.contract.errors import MqsError
from mqs_dll.contract.names import fit
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.view import Reader
from mqs_dll.library.memory import Memory, cached_per_sweep, kept_while_unchanged
from mqs_dll.library.mpi.communicators import CommunicatorEntry, join_id
from mqs_dll.library.mpi.mpich import contexts, handles, views
from mqs_dll.library.mpi.mpich.groups import RankDecoder
from mqs_dll.library.mpi.mpich.handles import BUILTIN_COMMS
from mqs_dll.library.mpi.mpich.pools import Pools
from mqs_dll.library.mpi.mpich.requests import values_of

INTER = 1
"""comm_kind of an inter-communicator (src/include/mpir_comm.h)."""

WORLD = 0
SELF = 1
"""Places of MPI_COMM_WORLD and MPI_COMM_SELF among the predefined ones."""

WORLD_OF_ABI = 0x101
"""MPI_COMM_WORLD in the standard's binary interface, where MPI_COMM_SELF is the next (MPI 5.0, section 20.3)."""

ICOMM_WORLD = 0x44000002
"""A predefined communicator that MPICH keeps for itself, before 5.0."""


class MpichEntry(CommunicatorEntry):
    """A communicator as it was read."""

    def __init__(self, view: views.Comm, ranks: RankDecoder, handle: int = 0) -> None:
        self.view = view
        self._ranks = ranks
        label = Label(fit(self.name), b"", view.remote_size if self.inter else None, handle=handle)
        super().__init__(label)
        self.internal = contexts.is_internal(view.recvcontext_id) or view.handle == ICOMM_WORLD

    @property
    def inter(self) -> bool:
        """Whether it is an inter-communicator."""
        return self.view.comm_kind == INTER

    @property
    def name(self) -> bytes:
        """The name that the program or the standard gave it, empty where there is none."""
        return self.view.name.partition(b"\0")[0]

    @property
    def is_predefined(self) -> bool:
        """Whether it is MPI_COMM_WORLD, MPI_COMM_SELF, or one of MPICH's own of that kind, under whatever name."""
        return handles.kind_of(self.view.handle) == handles.BUILTIN

    @property
    def has_size_1(self) -> bool:
        """Whether it has one process, whose messages to itself ch4 treats separately."""
        return not self.inter and self.view.remote_size == 1

    @property
    def receives_in(self) -> int:
        """The context id of messages that come in on it, without the bit of collectives."""
        return contexts.communicator_of(self.view.recvcontext_id)

    @property
    def sends_in(self) -> int:
        """The context id of messages that go out on it; another one on an inter-communicator."""
        return contexts.communicator_of(self.view.context_id)

    def world_ranks(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD ranks of the local group."""
        return self._ranks.local(self.view)

    def peers(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD ranks of the group that messages go to: the remote one of an inter-communicator."""
        return self._ranks.peers(self.view)

    def is_held_only_by(self, requests: int) -> bool:
        """Return whether nothing but that many requests refers to the communicator: the program has freed it."""
        return not self.internal and 0 < self.view.ref_count <= requests

    @property
    def local_rank(self) -> int:
        """The rank of this process."""
        return self.view.rank

    @property
    def size(self) -> int:
        """Processes of the local group."""
        return self.view.local_size

    @cached_property
    def unique_id(self) -> int:
        """The number that is the same in all processes of a communicator, and in no other one's.

        The two sides of an inter-communicator receive in different contexts, and agree on the pair of them. Disjoint
        communicators may have the same: their lowest processes distinguish them, but only within one MPI_COMM_WORLD,
        since nothing names the process of another one alike in all processes.
        """
        low, high = sorted((self.receives_in, self.sends_in))
        try:
            lowest = self._ranks.lowest(self.view)
        except MqsError:
            lowest = INVALID_RANK
        return join_id(low if low == high else high << contexts.ID_BITS | low, lowest)


class MpichCommunicators:
    """Reads the pool of communicators."""

    def __init__(self, memory: Memory, layouts: Layouts, pools: Pools, builtin: int | None, ranks: RankDecoder) -> None:
        self._memory = memory
        self._pools = pools
        self._builtin = builtin
        self._ranks = ranks
        self._reader: Reader[views.Comm] = views.by_context_id(views.Comm, views.NarrowComm, layouts).bind(layouts)
        self._size = pools.size_of(handles.COMM)
        self._handles_are_addresses = values_of(layouts).handles_are_addresses

    def predefined(self, index: int) -> views.Comm | None:
        """Return a predefined communicator (WORLD, SELF), alive or not; None where a session does without them."""
        if self._builtin is None:
            return None
        return self._reader.at(self._memory, self._builtin + index * self._size)

    def _handle(self, comm: views.Comm) -> int:
        """Return the MPI_Comm that the program has."""
        if not self._handles_are_addresses:
            return comm.handle
        is_builtin = handles.kind_of(comm.handle) == handles.BUILTIN
        return WORLD_OF_ABI + handles.index_of(comm.handle) if is_builtin else comm.address

    @cached_per_sweep
    def read(self) -> list[MpichEntry]:
        """Return the live communicators, predefined ones first; the same ones to all who ask in a sweep.

        Raises:
            BrokenStructureError, TargetReadError: the pool can't be read.
        """
        world = self.predefined(WORLD)
        if world is not None:
            self._ranks.know_world(world)
        first = self._builtin
        predefined = () if first is None else (first + index * self._size for index in range(BUILTIN_COMMS))
        read = self._kept if self._memory.is_noting else self._entry
        entries = map(read, (*predefined, *self._pools.live(handles.COMM)))
        return [entry for entry in entries if entry is not None]

    def _kept(self, address: int) -> MpichEntry | None:
        """Return the same as ``_entry``, a copy: those that use it mark it."""
        return copy(self._unmarked(address))

    @kept_while_unchanged
    def _unmarked(self, address: int) -> MpichEntry | None:
        return self._entry(address)

    def _entry(self, address: int) -> MpichEntry | None:
        """Return the communicator at an address, None where it isn't alive."""
        comm = self._reader.at(self._memory, address)
        if handles.class_of(comm.handle) != handles.COMM or comm.ref_count <= 0 or comm.local_size <= 0:
            return None
        return MpichEntry(comm, self._ranks, self._handle(comm))
