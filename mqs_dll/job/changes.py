"""What differs between two jobs: frozen records, which compare.py makes and reports show."""

from __future__ import annotations

from dataclasses import dataclass

from mqs_dll.contract.abi import Operation, Queue
from mqs_dll.job.records import RankState


@dataclass(frozen=True, slots=True, order=True)
class RankName:
    """What a rank is called in both jobs."""

    world: int
    rank: int


@dataclass(frozen=True, slots=True)
class FactChange:
    """Something about the whole job."""

    what: str
    """ "the command line", "the MPI", "the size of MPI_COMM_WORLD no. 0"."""
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class StateChange:
    """A rank that came, went, or became another state."""

    rank: RankName
    before: RankState | None
    """None where the job doesn't have the rank."""
    after: RankState | None


@dataclass(frozen=True, slots=True)
class CallChange:
    """A rank that is somewhere else in the program."""

    rank: RankName
    before: str
    """ "MPI_Recv, called at ring.c:12", "outside MPI at ring.c:30"."""
    after: str


@dataclass(frozen=True, slots=True)
class CommunicatorChange:
    """A communicator that one rank got, lost or renamed."""

    rank: RankName
    unique_id: int
    before: bytes | None
    """Its name; None where it wasn't there."""
    after: bytes | None


@dataclass(frozen=True, slots=True)
class OperationChange:
    """An operation, or a message, that one rank got, that ended, or that is as it was except for its progress."""

    rank: RankName
    communicator: bytes
    """Its name, in the second job where it is in both."""
    queue: Queue
    before: Operation | None
    """None where it wasn't there."""
    after: Operation | None


@dataclass(frozen=True, slots=True)
class VisibilityChange:
    """A queue, or a stack, that can be seen in one of the jobs only, or whose list breaks off."""

    rank: RankName
    what: str
    """ "the call stacks", "sends", "receives" or "unexpected messages"."""
    communicator: bytes | None
    """Of the queue."""
    before: str | None
    """What was in the way; None where nothing was."""
    after: str | None


@dataclass(frozen=True, slots=True)
class JobDiff:
    """All differences, by rank; all empty when there are none."""

    facts: tuple[FactChange, ...]
    states: tuple[StateChange, ...]
    calls: tuple[CallChange, ...]
    communicators: tuple[CommunicatorChange, ...]
    operations: tuple[OperationChange, ...]
    visibility: tuple[VisibilityChange, ...]
    compared: tuple[RankName, ...]
    """The ranks that were read in both."""
    restarted: tuple[RankName, ...]
    """Those of them that are other processes in the second job; no difference by itself."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.facts or self.states or self.calls or self.communicators or self.operations or self.visibility)
