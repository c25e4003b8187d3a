"""What the test programs wrote down, and the comparison of what a library shows with it.

A comparison returns its differences as sentences; an empty list is agreement. Nothing is compared by way of libmqs's
own code: names, order and marks are worked out here once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mqs_dll.abi import Operation, Queue, Status
from mqs_dll.debugger.collect import CommunicatorSnapshot, Hidden, QueueSnapshot
from mqs_dll.errors import TargetReadError

Fetch = Callable[[int, int], bytes]
"""Reads memory of the process: address and size to bytes."""

STATUS = {"pending": Status.PENDING, "matched": Status.MATCHED, "complete": Status.COMPLETE}
FIELD_BYTES = 63
LOWEST_NAMED_TAG = -1
"""Tags below it are the MPI's own."""

LINEAGE = re.compile(rb"MPI[ _]COMM(?:UNICATOR)? (\d+)(?: (?:DUP|SPLIT|SPLIT_TYPE|CREATE|GROUP) FROM \d+)?")
"""How Open MPI describes a communicator without a name: by its number, how it was made, and its parent's number."""

PIECES = {
    "MPI_Allgather": {"MPI_Allgather", "MPI_Gather", "MPI_Bcast"},
    "MPI_Allreduce": {"MPI_Allreduce", "MPI_Reduce", "MPI_Bcast"},
    "MPI_Barrier": {"MPI_Barrier", "MPI_Allreduce", "MPI_Reduce", "MPI_Bcast"},
    "MPI_Reduce_scatter": {"MPI_Reduce_scatter", "MPI_Reduce", "MPI_Scatterv"},
}
"""Collectives that MPIs make of others; the traffic then belongs to one of those."""


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

    def may_be_shown_as(self, name: bytes, unique_id: int) -> bool:
        """Tell whether the 64-byte field may hold this name."""
        marks = []
        if self.remote_group is not None:
            marks.append(b"inter, %d remote" % len(self.remote_group))
        if self.freed:
            marks.append(b"freed")
        suffix = b" [" + b", ".join(marks) + b"]" if marks else b""
        if self.name or self.name_set:
            return name == (fitting(self.name, FIELD_BYTES - len(suffix)) + suffix).lstrip(b"" if self.name else b" ")
        if name == suffix.lstrip():
            return True
        lineage = LINEAGE.fullmatch(name.removesuffix(suffix))
        return name.endswith(suffix) and lineage is not None and lineage.group(1) == b"%d" % unique_id


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
    peer: int
    world_peer: int
    tag: int
    length: int
    buffer: int
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

    def is_named_by(self, text: bytes) -> bool:
        """Tell whether a line of an operation's text says that it belongs to this collective."""
        if not self.blocking:
            return b"nonblocking collective" in text
        if self.call.startswith("MPI_Neighbor"):
            return b"neighborhood collective" in text
        return any(mentions(text, piece) for piece in PIECES.get(self.call, {self.call}))


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

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Truth:
        """Build it from a truth file."""
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
        )

    def communicator(self, key: str) -> TrueCommunicator:
        """Return the communicator with a key."""
        return next(each for each in self.communicators if each.key == key)


# ---------------------------------------------------------------- names


def fitting(name: bytes, limit: int) -> bytes:
    """Return what a field of ``limit`` bytes shows of a name: whole UTF-8 characters, no trailing blanks."""
    cut = name[:limit]
    if len(name) > limit or len(name) == FIELD_BYTES:  # cut here, or before by an MPI whose names have 63 bytes
        for dropped in range(4):
            part = cut[: len(cut) - dropped]
            if is_utf8(part):
                cut = part
                break
    return cut.rstrip(b" ")


def is_utf8(text: bytes) -> bool:
    """Tell whether bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def mentions(text: bytes, word: str) -> bool:
    """Tell whether a text contains a word as a whole."""
    return re.search(rb"\b%s\b" % re.escape(word.encode()), text) is not None


# ---------------------------------------------------------------- communicators


def pair(
    truth: Truth, shown: Sequence[CommunicatorSnapshot]
) -> tuple[dict[str, CommunicatorSnapshot], list[CommunicatorSnapshot], list[TrueCommunicator]]:
    """Find each true communicator among those shown, by all that is known of it.

    Returns:
        What is shown for each key; what is shown and not in the truth; what is in the truth and not shown.
    """
    found: dict[str, CommunicatorSnapshot] = {}
    left = sorted(shown, key=lambda each: each.communicator.unique_id)  # those alike: in the order of their making
    missing = []
    for true in sorted(truth.communicators, key=lambda each: not (each.name or each.name_set)):
        for each in left:
            record = each.communicator
            alike = (record.local_rank, record.size, each.group) == (true.rank, len(true.group), true.group)
            if alike and true.may_be_shown_as(record.name, record.unique_id):
                found[true.key] = each
                left.remove(each)
                break
        else:
            missing.append(true)
    return found, left, missing


def describe(shown: Iterable[CommunicatorSnapshot]) -> str:
    """Return communicators in a few words, for a difference's text."""
    return "; ".join(f"{each.communicator} {each.group}" for each in shown)


def compare_communicators(
    truth: Truth, shown: Sequence[CommunicatorSnapshot], *, freed_may_be_gone: bool = False
) -> list[str]:
    """Compare the communicators of a process: every field, their groups, and that there are no others.

    Args:
        truth: what the process wrote down.
        shown: what a library shows.
        freed_may_be_gone: whether this transport lets the MPI forget a freed communicator that requests refer to.
    """
    _, others, missing = pair(truth, shown)
    differences = [f"{each} is not shown" for each in missing if not (each.freed and freed_may_be_gone)]
    internal = [each for each in others if b"internal]" in each.communicator.name]
    made_up = [each for each in others if each not in internal]
    if made_up:
        differences.append(f"shown, but not there: {describe(made_up)}")
    if bool(internal) != bool(truth.internal_traffic):
        differences.append(f"internal communicators: {describe(internal)}; true traffic: {truth.internal_traffic!r}")
    ids = [each.communicator.unique_id for each in shown]
    if len(set(ids)) < len(ids):
        differences.append(f"two communicators of a process have the same id: {sorted(ids)}")
    return differences


def compare_ids(seen: Sequence[tuple[Truth, Sequence[CommunicatorSnapshot]]]) -> list[str]:
    """Compare the ids of each communicator in all its processes."""
    ids: dict[str, dict[int, list[int]]] = {}
    for truth, shown in seen:
        found, _, _ = pair(truth, shown)
        for key, each in found.items():
            ids.setdefault(key, {}).setdefault(each.communicator.unique_id, []).append(truth.world_rank)
    return [f"{key} has the ids {ranks}" for key, ranks in ids.items() if len(ranks) > 1 and key != "self"]


# ---------------------------------------------------------------- operations


def compare_operations(truth: Truth, shown: Sequence[CommunicatorSnapshot], fetch: Fetch) -> list[str]:
    """Compare every operation of a process where all of it can be seen: each field, the order, and no others."""
    found, others, _ = pair(truth, shown)
    differences = []
    for key, each in found.items():
        for queue in each.queues:
            differences += [f"{key}: {text}" for text in compare_queue(truth, key, queue, fetch)]
    for each in others:
        differences += compare_internal(truth, each)
    return differences


def compare_queue(truth: Truth, key: str, queue: QueueSnapshot, fetch: Fetch) -> list[str]:
    """Compare one queue of one communicator."""
    if queue.hidden is not None or queue.broken is not None:
        return [f"{queue.queue.name} can't be seen: {queue.hidden or queue.broken}"]
    communicator = truth.communicator(key)
    shown = [each for each in queue.operations if not is_internal(each)]
    traffic = [each for each in queue.operations if is_internal(each)]
    differences = compare_collectives(truth, communicator, traffic)
    true = expected_operations(truth, communicator, queue.queue)
    true = [each for each in true if not each.optional or any(is_same(each, one) for one in shown)]
    if len(true) != len(shown):
        differences.append(f"{len(shown)} {queue.queue.name} instead of {len(true)}: {shown}, not {true}")
        return differences
    compare = compare_unexpected if queue.queue is Queue.UNEXPECTED else compare_request
    for index, (one, other) in enumerate(zip(true, shown, strict=True)):
        differences += [f"{queue.queue.name} {index} ({one}): {text}" for text in compare(one, other, fetch)]
    return differences


def expected_operations(truth: Truth, communicator: TrueCommunicator, queue: Queue) -> list[TrueOperation]:
    """Return the true operations of a queue in the order in which they must be shown."""
    true = [each for each in truth.operations if each.communicator == communicator.key and each.queue is queue]
    if queue is Queue.SENDS:
        return sorted(true, key=lambda each: each.peer)
    if queue is Queue.UNEXPECTED:  # the order in which MPI_ANY_SOURCE looks at the sources
        first = max(communicator.last_probed, 0) + 1
        size = len(communicator.peers)
        return sorted(true, key=lambda each: (each.peer - first) % size)
    return true


def is_same(true: TrueOperation, shown: Operation) -> bool:
    """Tell whether an operation that may leave no trace is the one shown."""
    return (true.buffer, true.peer, true.tag) == (shown.buffer, shown.desired_local_rank, shown.desired_tag)


def is_internal(operation: Operation) -> bool:
    """Tell whether the operation is the MPI's own."""
    return operation.desired_tag < LOWEST_NAMED_TAG


def differing(shown: Operation, **wanted: Any) -> list[str]:
    """Return a sentence for each field that is not as wanted."""
    return [
        f"{field} is {getattr(shown, field)!r} instead of {value!r}"
        for field, value in wanted.items()
        if getattr(shown, field) != value
    ]


def compare_request(true: TrueOperation, shown: Operation, fetch: Fetch) -> list[str]:
    """Compare a send or a receive in every field."""
    sent = true.queue is Queue.SENDS
    differences = differing(
        shown,
        status=true.status,
        desired_local_rank=true.peer,
        desired_global_rank=true.world_peer,
        tag_wild=true.tag == -1,
        desired_tag=true.tag,
        desired_length=true.length,
        system_buffer=False,
        buffer=true.buffer,
        actual_local_rank=true.peer if sent else true.actual_peer,
        actual_global_rank=true.world_peer if sent else true.actual_world_peer,
        actual_tag=true.tag if sent else true.actual_tag,
        actual_length=true.length if sent else true.actual_length,
    )
    if true.done is not None and true.done != (true.status is Status.COMPLETE):
        differences.append(f"the program itself is wrong: MPI says done={true.done}, not {true.status}")
    return differences + compare_text(true, b"\n".join(shown.extra_text))


def compare_text(true: TrueOperation, text: bytes) -> list[str]:
    """Compare what extra_text says: the call, the datatype with its count, the request's handle."""
    wanted = [re.escape(true.call.encode()) + rb"\b"]
    if true.count >= 0:
        wanted.append(re.escape(true.datatype) + rb".* x %d, %d bytes" % (true.count, true.length))
    if true.request:
        wanted.append(rb"\b0x%x\b" % true.request)
    if "init" in true.call:
        wanted.append(rb"\bpersistent\b")
    return [f"the text has no {each!r}: {text!r}" for each in wanted if not re.search(each, text)]


def compare_unexpected(true: TrueOperation, shown: Operation, fetch: Fetch) -> list[str]:
    """Compare an unexpected message in every field, and what lies where its payload should lie."""
    differences = differing(
        shown,
        status=true.status if true.status is not None else shown.status,
        desired_local_rank=true.peer,
        desired_global_rank=true.world_peer,
        tag_wild=False,
        desired_tag=true.tag,
        desired_length=true.length,
        system_buffer=True,
        actual_local_rank=true.peer,
        actual_global_rank=true.world_peer,
        actual_tag=true.tag,
        actual_length=true.length,
    )
    return differences + compare_payload(true, shown, fetch)


def compare_payload(true: TrueOperation, shown: Operation, fetch: Fetch) -> list[str]:
    """Compare the bytes of a message that are here, where they are known: all of a complete one, else the first."""
    if shown.status is Status.COMPLETE and bool(true.length) != bool(shown.buffer):
        return [f"the message of {true.length} bytes is complete, and its buffer is {shown.buffer:#x}"]
    if not shown.buffer or true.pattern < 0:
        return []
    size = true.length if shown.status is Status.COMPLETE else 1
    wanted = bytes((true.pattern + index) % 256 for index in range(size))
    try:
        lies_there = fetch(shown.buffer, size)
    except TargetReadError as error:
        return [str(error)]
    return [] if lies_there == wanted else [f"at {shown.buffer:#x} lies {lies_there[:16]!r}, not {wanted[:16]!r}"]


# ---------------------------------------------------------------- collectives


def compare_collectives(truth: Truth, communicator: TrueCommunicator, traffic: Sequence[Operation]) -> list[str]:
    """Compare the MPI's own traffic on a communicator with the collectives that are pending on it."""
    collectives = [each for each in truth.collectives if each.communicator == communicator.key]
    differences = []
    for operation in traffic:
        text = b"\n".join(operation.extra_text)
        if not any(each.is_named_by(text) for each in collectives):
            differences.append(f"traffic of no pending collective {[each.call for each in collectives]}: {operation}")
        differences += compare_peer(operation, communicator.peers)
    return differences


def compare_peer(operation: Operation, peers: Sequence[int]) -> list[str]:
    """Compare the ranks of an operation with each other."""
    rank = operation.desired_local_rank
    if rank == -1 or (0 <= rank < len(peers) and operation.desired_global_rank == peers[rank]):
        return []
    return [f"rank {rank} is not {operation.desired_global_rank} of MPI_COMM_WORLD: {operation}"]


def missing_collectives(truth: Truth, shown: Sequence[CommunicatorSnapshot]) -> list[str]:
    """Return the collectives that this process has entered and of which nothing is shown."""
    found, _, _ = pair(truth, shown)
    missing = []
    for collective in truth.collectives:
        if collective.entered and not any(
            collective.is_named_by(b"\n".join(operation.extra_text))
            for queue in found[collective.communicator].queues
            for operation in queue.operations
        ):
            missing.append(f"nothing is shown of {collective.call} on {collective.communicator}")
    return missing


def compare_internal(truth: Truth, shown: CommunicatorSnapshot) -> list[str]:
    """Compare what goes on on a communicator that the MPI keeps for itself: it is shown for a collective's sake."""
    collective = TrueCollective("", truth.internal_traffic, entered=True, blocking=True)
    operations = [operation for queue in shown.queues for operation in queue.operations]
    wrong = [each for each in operations if not collective.is_named_by(b"\n".join(each.extra_text))]
    if wrong or not operations:
        return [f"{shown.communicator.name!r} is shown with {operations}, not with {collective.call}"]
    return []


# ---------------------------------------------------------------- transports that hide a part


def compare_partly(truth: Truth, shown: Sequence[CommunicatorSnapshot]) -> list[str]:
    """Compare sends and receives where the transport keeps only a part: what is shown is true or -1, none made up."""
    found, _, _ = pair(truth, shown)
    differences = []
    for key, each in found.items():
        communicator = truth.communicator(key)
        for queue in each.queues:
            if queue.queue is Queue.UNEXPECTED:
                continue
            true = expected_operations(truth, communicator, queue.queue)
            differences += [f"{key}: {text}" for text in compare_known(true, queue)]
    return differences


def compare_known(true: Sequence[TrueOperation], queue: QueueSnapshot) -> list[str]:
    """Compare what is shown of a queue: each operation is one of the true ones, found by its request's handle."""
    if queue.broken is not None:
        return [f"{queue.queue.name} breaks off: {queue.broken}"]
    differences = []
    left = list(true)
    for shown in queue.operations:
        text = b"\n".join(shown.extra_text)
        same = [each for each in left if is_request_in(each, text) or (not each.request and is_buffer(each, shown))]
        if not same:
            differences.append(f"{queue.queue.name}: made up: {shown}")
            continue
        best = min(same, key=lambda each: len(wrong_fields(each, shown)))
        left.remove(best)
        differences += [f"{queue.queue.name} ({best}): {text}" for text in wrong_fields(best, shown)]
    kept = [each for each in left if each.request and each.count >= 0 and not each.optional and not each.freed]
    if kept:
        differences.append(f"{queue.queue.name}: not shown: {[str(each) for each in kept]}")
    return differences


def is_request_in(true: TrueOperation, text: bytes) -> bool:
    """Tell whether a text names the operation's request."""
    return true.request != 0 and re.search(rb"\b0x%x\b" % true.request, text) is not None


def is_buffer(true: TrueOperation, shown: Operation) -> bool:
    """Tell whether an operation without a handle has the buffer that is shown."""
    return true.buffer == shown.buffer


def wrong_fields(true: TrueOperation, shown: Operation) -> list[str]:
    """Return the fields that are neither true nor said to be unknown."""
    sent = true.queue is Queue.SENDS
    wanted = {
        "desired_local_rank": true.peer,
        "desired_global_rank": true.world_peer,
        "desired_tag": true.tag,
        "desired_length": true.length,
        "buffer": true.buffer,
        "actual_local_rank": true.peer if sent else true.actual_peer,
        "actual_global_rank": true.world_peer if sent else true.actual_world_peer,
        "actual_tag": true.tag if sent else true.actual_tag,
        "actual_length": true.length if sent else true.actual_length,
    }
    differences = differing(shown, **{field: value for field, value in wanted.items() if getattr(shown, field) != -1})
    if shown.tag_wild and true.tag != -1:
        differences.append("tag_wild is set")
    if true.done is not None and true.done != (shown.status is Status.COMPLETE):
        differences.append(f"the status is {shown.status!r}, but MPI says done={true.done}")
    return differences


def compare_hidden(shown: Sequence[CommunicatorSnapshot], queues: Iterable[Queue], words: Sequence[str]) -> list[str]:
    """Compare queues that can't be seen: each says so, with a reason that contains these words."""
    wanted = set(queues)
    differences = []
    for each in shown:
        for queue in each.queues:
            if queue.queue not in wanted:
                continue
            reason = queue.hidden
            if not isinstance(reason, Hidden) or not all(word in reason.reason for word in words):
                differences.append(f"{each.communicator.name!r}: {queue.queue.name}: {reason} does not say {words}")
    return differences
