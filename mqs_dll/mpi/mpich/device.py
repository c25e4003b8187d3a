"""What MPICH's devices (ch3, ch4) have in common for a reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from mqs_dll.abi import Operation
from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory
from mqs_dll.mpi.elf import LoadedLibrary
from mqs_dll.mpi.mpich.communicators import Communicators, Entry
from mqs_dll.mpi.mpich.datatypes import Datatypes
from mqs_dll.mpi.mpich.release import Release
from mqs_dll.mpi.mpich.requests import Requests


@dataclass(frozen=True)
class Parts:
    """What every device reads from, in one process."""

    memory: Memory
    library: LoadedLibrary
    layouts: Layouts
    release: Release
    requests: Requests
    datatypes: Datatypes
    communicators: Communicators


class Device(ABC):
    """One device in one process."""

    name: str
    """As MPICH calls it: "ch3:nemesis"."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all that was read of the process, but for what ``Parts`` have."""

    @abstractmethod
    def sends(self, entry: Entry) -> Iterator[Operation]:
        """Yield the sends on a communicator, by destination and then in the order of the pool."""

    @abstractmethod
    def receives(self, entry: Entry) -> Iterator[Operation]:
        """Yield the receives on a communicator in matching order."""

    @abstractmethod
    def unexpected(self, entry: Entry) -> Iterator[Operation]:
        """Yield the messages that no receive has matched, in the order in which a receive would find them."""

    @abstractmethod
    def datatypes_in_use(self) -> list[int]:
        """Return the handle of the datatype of each pending operation, one for each operation."""

    def more_references(self, entry: Entry) -> int:
        """Return how many requests refer to a communicator without pointing at it."""
        return 0
