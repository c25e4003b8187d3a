"""What the point-to-point layers of Open MPI (its "pml" components) have in common for a reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NoReturn

from mqs_dll.abi import Operation
from mqs_dll.errors import NoInformation
from mqs_dll.mpi.openmpi.communicators import Entry


class Pml(ABC):
    """One point-to-point layer in one process."""

    name: str
    """As Open MPI calls it: "pml/ob1"."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all that was read of the process."""

    @abstractmethod
    def sends(self, entry: Entry) -> Iterator[Operation]:
        """Yield the sends on a communicator, by destination and then in the order of sending."""

    @abstractmethod
    def receives(self, entry: Entry) -> Iterator[Operation]:
        """Yield the receives on a communicator in matching order."""

    @abstractmethod
    def unexpected(self, entry: Entry) -> Iterator[Operation]:
        """Yield the messages that no receive has matched, in the order in which a receive would find them."""

    @abstractmethod
    def requests_of(self, entry: Entry) -> int:
        """Return how many requests refer to a communicator, started or not; 0 where they can't be seen."""

    @abstractmethod
    def datatypes_in_use(self) -> list[int]:
        """Return the address of the datatype of each pending operation, one for each operation."""


def hidden(what: str, transport: str, why: str) -> NoInformation:
    """Return the refusal to list a queue that a transport hides, with the way out."""
    return NoInformation(
        f"{what} can't be seen: Open MPI's transport {transport} {why}", "run the job with --mca pml ob1 to see them"
    )


class HiddenPml(Pml):
    """A layer that keeps its operations where they can't be read."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    def forget(self) -> None:
        """Nothing is kept."""

    def sends(self, entry: Entry) -> NoReturn:
        """Refuse."""
        self._refuse("sends")

    def receives(self, entry: Entry) -> NoReturn:
        """Refuse."""
        self._refuse("receives")

    def unexpected(self, entry: Entry) -> NoReturn:
        """Refuse."""
        self._refuse("unexpected messages")

    def requests_of(self, entry: Entry) -> int:
        """Return 0."""
        return 0

    def datatypes_in_use(self) -> list[int]:
        """Refuse."""
        self._refuse("the datatypes in use")

    def _refuse(self, what: str) -> NoReturn:
        raise hidden(what, self.name, self._why)
