"""What was seen of one process in one stop: frozen records, which reports show and verdicts are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

from mqs_dll.contract.abi import (
    UNKNOWN,
    Communicator,
    Datatype,
    Label,
    LayoutOrigin,
    MpiFacts,
    Operation,
    Queue,
    Window,
)
from mqs_dll.contract.errors import MqsError, NoInformation
from mqs_dll.contract.names import read_marks

QUEUES = {Queue.SENDS: "sends", Queue.RECEIVES: "receives", Queue.UNEXPECTED: "unexpected messages"}
"""What the queues are called in sentences."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Stands where something couldn't be read: never to be shown as empty."""

    reason: str
    remedy: str = ""
    """What to do to see it; empty where nothing helps, or where a library said it in the reason alone."""

    @classmethod
    def by(cls, error: MqsError) -> Hidden:
        """Return what an error hides."""
        return cls(str(error), error.remedy if isinstance(error, NoInformation) else error.help)


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """One queue of one communicator."""

    queue: Queue
    operations: tuple[Operation, ...]
    hidden: Hidden | None = None
    """Set when the queue can't be seen at all."""
    broken: str | None = None
    """Set when the list breaks off after ``operations``: what happened there."""
    remedy: str = ""
    """What to do to see the rest; empty where nothing helps."""


@dataclass(frozen=True, slots=True)
class CommunicatorSnapshot:
    """One communicator with its queues."""

    communicator: Communicator
    group: tuple[int, ...] | Hidden
    """The MPI_COMM_WORLD ranks of its local group."""
    queues: tuple[QueueSnapshot, ...]
    """In the order of abi.Queue: sends, receives, unexpected messages."""
    reported: Label | None = None
    """What libmqs reports of its name beyond the field; None where the field says it all, or is all there is."""
    handle: int = 0
    """Its MPI_Comm, as the program has it; 0 where it isn't known."""

    @property
    def label(self) -> Label:
        """What it is called."""
        return self.reported or read_marks(self.communicator.name)


@dataclass(frozen=True, slots=True)
class CoreView:
    """What only the Python core reports; a part that wasn't asked for is None."""

    layouts: tuple[LayoutOrigin, ...] | None = None
    windows: tuple[Window, ...] | Hidden | None = None
    datatypes: tuple[Datatype, ...] | Hidden | None = None
    mpi: MpiFacts | None = None
    checks: tuple[str, ...] | None = None
    """Sentences: what held before the layouts were believed."""
    refusals: tuple[str, ...] | None = None
    """Sentences: which nearer layouts were refused, and why."""
    refused_profiles: tuple[str, ...] | None = None
    """Sentences: which of the user's files are no profiles, and why."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that an MQS library reported about one process in one stop."""

    pid: int
    program: str
    """The process's name, as the kernel has it."""
    library: str
    """The library's version string."""
    library_path: str | None
    """Its file; None when the Python core was asked without one."""
    image_message: str
    process_message: str
    global_rank: int | None
    """The rank in MPI_COMM_WORLD, None when the library doesn't know."""
    communicators: tuple[CommunicatorSnapshot, ...]
    core: CoreView
    stop_time: float
    """Seconds for which the process stood still."""
    reads: int
    bytes_read: int
    calls_only: bool = False
    """Whether no library could read the process: what there is comes from its environment."""

    @property
    def is_broken(self) -> bool:
        """Whether a list breaks off."""
        return any(queue.broken is not None for each in self.communicators for queue in each.queues)


def is_note(queue: Queue, operation: Operation) -> bool:
    """Return whether an entry of the unexpected queue is no message, but text that counts some."""
    numbers = (operation.desired_tag, operation.desired_length, operation.actual_tag, operation.actual_length)
    return queue is Queue.UNEXPECTED and all(number == UNKNOWN for number in numbers)


def leaves_peer_open(queue: Queue, operation: Operation) -> bool:
    """Return whether a peer of -1 is MPI_ANY_SOURCE: a receive of which even the tag isn't known lost both."""
    return queue is Queue.RECEIVES and (operation.tag_wild or operation.desired_tag != UNKNOWN)
