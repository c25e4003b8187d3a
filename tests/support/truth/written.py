"""What a process wrote down of what MPI told it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mqs_dll.contract.abi import Queue, Status
from tests.support.rules import Rules, rules_of

STATUS = {"pending": Status.PENDING, "matched": Status.MATCHED, "complete": Status.COMPLETE}


@dataclass(frozen=True)
class TrueCommunicator:
    """A communicator as MPI describes it to the program."""

    key: str
    name: bytes
    name_set: bool
    """Whether the program set a name; an MPI may describe a communicator without one in words of its own."""
    group: tuple[int, ...]
    remote_group: tuple[int, ...] | None
    freed: bool
    rank: int
    last_probed: int
    """The source that the last successful wildcard probe found, -1 when there was none."""
    handle: int

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TrueCommunicator:
        """Build it from its part of a truth file."""
        remote = document.get("remote_group")
        return cls(
            key=document["key"],
            name=bytes.fromhex(document["name"]),
            name_set=document["name_set"],
            group=tuple(document["group"]),
            remote_group=None if remote is None else tuple(remote),
            freed=document["freed"],
            rank=document["rank"],
            last_probed=document["last_probed"],
            handle=document["handle"],
        )

    @property
    def peers(self) -> tuple[int, ...]:
        """The group that messages go to."""
        return self.group if self.remote_group is None else self.remote_group

    @property
    def alone(self) -> bool:
        """Whether it has this process only."""
        return self.remote_group is None and len(self.group) == 1

    @property
    def has_strangers(self) -> bool:
        """Whether it has processes of another job."""
        return -1 in (*self.group, *(self.remote_group or ()))


@dataclass(frozen=True)
class TrueOperation:
    """An operation as the program made it."""

    communicator: str
    queue: Queue
    call: str
    status: Status | None
    """None where MPI leaves it open."""
    done: bool | None
    """What MPI_Request_get_status answered; None when MPI was not asked."""
    optional: bool
    freed: bool
    """Whether the program freed the request; its handle may then be that of another one, once this one is done."""
    late: bool
    """Of a receive: whether its message was there before it was posted."""
    overwritten: bool
    """Whether the transport has had such a transfer since that it need not keep anything of this send."""
    peer: int
    world_peer: int
    tag: int
    length: int
    buffer: int
    gap: int
    """Bytes from there to the first of the data."""
    datatype: bytes
    datatype_size: int
    count: int
    request: int
    pattern: int
    actual_peer: int
    actual_world_peer: int
    actual_tag: int
    actual_length: int

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TrueOperation:
        """Build it from its part of a truth file."""
        fields = dict(document)
        fields["queue"] = Queue[fields["queue"].upper()]
        fields["status"] = STATUS.get(fields["status"])
        fields["done"] = None if fields["done"] < 0 else bool(fields["done"])
        fields["datatype"] = bytes.fromhex(fields["datatype"])
        return cls(**fields)

    def __str__(self) -> str:
        return f"{self.call or 'message'} peer {self.peer} tag {self.tag} {self.length} bytes on {self.communicator}"


@dataclass(frozen=True)
class TrueCollective:
    """A collective operation that not all ranks have entered."""

    communicator: str
    call: str
    entered: bool
    blocking: bool


@dataclass(frozen=True)
class TrueWindow:
    """A window as MPI describes it."""

    key: str
    name: bytes
    size: int
    handle: int


@dataclass(frozen=True)
class Truth:
    """What one process wrote down."""

    pid: int
    world_rank: int
    world_size: int
    library_version: str
    internal_traffic: str
    communicators: tuple[TrueCommunicator, ...]
    operations: tuple[TrueOperation, ...]
    collectives: tuple[TrueCollective, ...]
    windows: tuple[TrueWindow, ...]
    in_turn: bool = False
    """Whether the unexpected messages arrived in the order of the truth, whoever sent them."""
    transport: str = ""
    """As tests.support.mpis calls it."""

    @classmethod
    def from_json(cls, document: dict[str, Any], transport: str = "") -> Truth:
        """Build it from a truth file, of a job whose messages travel by a transport."""
        return cls(
            pid=document["pid"],
            world_rank=document["world_rank"],
            world_size=document["world_size"],
            library_version=document["library_version"],
            internal_traffic=document["internal_traffic"],
            communicators=tuple(TrueCommunicator.from_json(each) for each in document["communicators"]),
            operations=tuple(TrueOperation.from_json(each) for each in document["operations"]),
            collectives=tuple(TrueCollective(**each) for each in document["collectives"]),
            windows=tuple(
                TrueWindow(each["key"], bytes.fromhex(each["name"]), each["size"], each["handle"])
                for each in document["windows"]
            ),
            in_turn=document["in_turn"],
            transport=transport,
        )

    @property
    def rules(self) -> Rules:
        """What this process's MPI leaves open."""
        return rules_of(self.library_version, self.transport)

    def communicator(self, key: str) -> TrueCommunicator:
        """Return the communicator with a key."""
        return next(each for each in self.communicators if each.key == key)
