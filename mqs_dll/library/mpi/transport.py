"""What the parts of an MPI that move messages have in common for a reader: Open MPI's pml, MPICH's device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, NoReturn, TypeVar

from mqs_dll.contract.abi import Operation
from mqs_dll.contract.errors import NoInformation
from mqs_dll.library.layouts.selection import Identity
from mqs_dll.library.mpi.communicators import CommunicatorEntry

EntryT = TypeVar("EntryT", bound=CommunicatorEntry)

NO_COMMUNICATOR = "a send is under way, and nothing tells on which communicator"


class Transport(ABC, Generic[EntryT]):
    """What moves the messages of one process."""

    name: str
    """As the MPI calls it: "pml/ob1", "ch3:nemesis"."""
    fabric: Identity | None = None
    """What it leaves the matching of messages to."""

    @abstractmethod
    def sends(self, entry: EntryT) -> Iterator[Operation]:
        """Yield the sends on a communicator, by destination where it is known."""

    @abstractmethod
    def receives(self, entry: EntryT) -> Iterator[Operation]:
        """Yield the receives on a communicator in matching order."""

    @abstractmethod
    def unexpected(self, entry: EntryT) -> Iterator[Operation]:
        """Yield the messages that no receive has matched, in the order in which a receive would find them."""

    @abstractmethod
    def datatypes_in_use(self) -> list[int]:
        """Return the handle of the datatype of each pending operation, one for each operation."""

    def is_empty(self, entry: EntryT) -> bool:
        """Tell whether a communicator surely has no operation, and each of its queues could be read to its end.

        For what can tell that at once: most communicators of most processes have none, and need no walk then.

        Raises:
            MqsError: it can't be told; a walk will say why.
        """
        return False

    def check_whole(self) -> None:
        """Make sure that nothing is left of a queue beyond what was listed of it.

        Raises:
            NoInformation: there is, or may be.
        """

    def requests_of(self, entry: EntryT) -> int:
        """Return how many requests refer to a communicator, started or not; 0 where they can't be seen."""
        return 0


class HiddenTransport(Transport[EntryT]):
    """One that keeps its operations where they can't be read."""

    def __init__(self, name: str, refusal: Callable[[str], NoInformation]) -> None:
        """Keep how to refuse.

        Args:
            name: of the transport.
            refusal: returns the error for what is asked for, like "sends".
        """
        self.name = name
        self._refusal = refusal

    def sends(self, entry: EntryT) -> NoReturn:
        """Refuse."""
        raise self._refusal("sends")

    def receives(self, entry: EntryT) -> NoReturn:
        """Refuse."""
        raise self._refusal("receives")

    def unexpected(self, entry: EntryT) -> NoReturn:
        """Refuse."""
        raise self._refusal("unexpected messages")

    def datatypes_in_use(self) -> NoReturn:
        """Refuse."""
        raise self._refusal("the datatypes in use")
