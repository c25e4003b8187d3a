"""What the point-to-point layers of Open MPI (its "pml" components) have in common for a reader."""

from __future__ import annotations

from abc import abstractmethod

from mqs_dll.errors import NoInformation
from mqs_dll.mpi.openmpi.communicators import Entry
from mqs_dll.mpi.transport import HiddenTransport, Transport


class Pml(Transport[Entry]):
    """One point-to-point layer in one process; datatypes' handles are their addresses."""

    @abstractmethod
    def requests_of(self, entry: Entry) -> int:
        """Return how many requests refer to a communicator, started or not; 0 where they can't be seen."""


def hidden(what: str, transport: str, why: str) -> NoInformation:
    """Return the refusal to list a queue that a transport hides, with the way out."""
    return NoInformation(
        f"{what} can't be seen: Open MPI's transport {transport} {why}", "run the job with --mca pml ob1 to see them"
    )


class HiddenPml(HiddenTransport[Entry], Pml):
    """A layer that keeps its operations where they can't be read."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, lambda what: hidden(what, name, why))

    def requests_of(self, entry: Entry) -> int:
        """Return 0."""
        return 0
