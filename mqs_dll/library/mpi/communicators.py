"""A communicator as all MPIs have it: what is known of it, and what its numbers mean in MPI_COMM_WORLD."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from mqs_dll.contract.abi import INVALID_RANK, NUMBER_BITS, SEVERAL_WORLDS, Communicator, Label
from mqs_dll.contract.names import marked


class CommunicatorEntry(ABC):
    """One communicator of a process, as the adapter found it at the last update."""

    def __init__(self, label: Label) -> None:
        """Keep what it is called."""
        self.label = label
        self._record: Communicator | None = None
        self.internal = False
        """The MPI keeps it for itself: no handle of it was ever given to the program."""

    def relabel(self, **more: Any) -> None:
        """Add to the label: fields by their names."""
        self.label = self.label._replace(**more)
        self._record = None

    @property
    def record(self) -> Communicator:
        """Its fields in the interface, made when they are asked for: most communicators are the MPI's own."""
        if self._record is None:
            self._record = Communicator(self.unique_id, self.local_rank, self.size, marked(self.label))
        return self._record

    @property
    @abstractmethod
    def unique_id(self) -> int:
        """The number that is the same in all processes of the communicator, and in no other one's."""

    @property
    @abstractmethod
    def local_rank(self) -> int:
        """The rank of this process."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Processes of the local group."""

    @abstractmethod
    def world_ranks(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD rank of each process of the local group, -1 for one of another job.

        Raises:
            BrokenStructureError, TargetReadError: the group can't be decoded.
        """

    @abstractmethod
    def peers(self) -> Sequence[int]:
        """Return the same of the group that messages go to: the remote one of an inter-communicator."""

    @abstractmethod
    def is_held_only_by(self, requests: int) -> bool:
        """Tell whether nothing but that many requests refers to the communicator: the program has freed it."""


def join_id(number: int, lowest: int) -> int:
    """Return a unique_id: disjoint communicators may have one number, but then not one process in common.

    Args:
        number: the MPI's own for the communicator, the same in all its processes.
        lowest: of the MPI_COMM_WORLD ranks of all its processes, those of a remote group too; -1 where some aren't
            known, or are of another world.
    """
    return (lowest if 0 <= lowest < SEVERAL_WORLDS else SEVERAL_WORLDS) << NUMBER_BITS | number % (1 << NUMBER_BITS)


def world_rank(world: Sequence[int], rank: int) -> int:
    """Return the MPI_COMM_WORLD rank of a rank of a group; -1 for what is no rank of it, like MPI_ANY_SOURCE."""
    return world[rank] if 0 <= rank < len(world) else INVALID_RANK
