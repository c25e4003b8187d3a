"""What the test programs wrote down, and the comparison of what a library shows with it.

A comparison returns its differences as sentences; an empty list is agreement. Nothing is compared by way of libmqs's
own code: names, order and marks are worked out here once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mqs_dll.abi import Label, Operation, Queue, Status
from mqs_dll.debugger.snapshot import CommunicatorSnapshot, QueueSnapshot
from mqs_dll.errors import TargetReadError
from tests.support.rules import BUFFERED, SAYS_UNKNOWN, Rules, rules_of

Fetch = Callable[[int, int], bytes]
"""Reads memory of the process: address and size to bytes."""

STATUS = {"pending": Status.PENDING, "matched": Status.MATCHED, "complete": Status.COMPLETE}
FIELD_BYTES = 63
UNKNOWN = {"buffer": 0}
"""What a field is when nobody knows it; -1 where it isn't here."""

HANDLE = re.compile(rb"\brequest (0x[0-9a-f]+)\b")
"""How a line of text names the handle of a request."""

LINEAGE = re.compile(rb"(?:dup|split|split by type|group|(?:cartesian|graph|distributed graph) topology)(?: of .+)?")
"""How a communicator without a name is described: how it was made, and its parent."""

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

    @property
    def alone(self) -> bool:
        """Whether it has this process only."""
        return self.remote_group is None and len(self.group) == 1

    @property
    def has_strangers(self) -> bool:
        """Whether it has processes of another job."""
        return -1 in (*self.group, *(self.remote_group or ()))

    def may_be_shown_as(self, shown: CommunicatorSnapshot, *, lineage: bool) -> bool:
        """Tell whether name, marks and the 64-byte field may be these; with lineage, words for what has none, too."""
        name, label = fitting(self.name), shown.label
        remote = None if self.remote_group is None else len(self.remote_group)
        if label._replace(description=b"") != Label(name, b"", remote, self.freed):
            return False
        may_be_described = lineage and not name and not self.name_set
        if label.description and not (may_be_described and LINEAGE.fullmatch(label.description)):
            return False
        return shown.communicator.name == self._field(name, label.description)

    def _field(self, name: bytes, description: bytes) -> bytes:
        """Return what the 64-byte field must hold."""
        marks = [] if self.remote_group is None else [b"inter, %d remote" % len(self.remote_group)]
        marks += [b"freed"] if self.freed else []
        suffix = b"[" + b", ".join(marks) + b"]" if marks else b""
        if name:
            choices = (marks, *([each] for each in marks))
            fields = (name + b" [" + b", ".join(each) + b"]" for each in choices if each)
            return next((each for each in fields if len(each) <= FIELD_BYTES), name)
        return b" ".join(filter(None, (b"[" + description + b"]" if description else b"", suffix)))


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
    overwritten: bool
    """Whether the transport has had such a transfer since that it need not keep anything of this send."""
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
        if self.call.startswith("MPI_Neighbor"):  # MPICH makes it of the nonblocking one
            return b"neighborhood collective" in text or b"nonblocking collective" in text
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


# ---------------------------------------------------------------- names


def fitting(name: bytes) -> bytes:
    """Return what the field shows of a name: whole UTF-8 characters, no trailing blanks.

    An MPI whose names have 63 bytes may have cut one within a character; that shows only by others like it before.
    """
    cut = name[:FIELD_BYTES]
    parts = [cut[: len(cut) - dropped] for dropped in range(4)]
    whole = next((part for part in parts if is_utf8(part)), cut)
    was_cut = is_utf8(name) if len(name) > FIELD_BYTES else len(name) == FIELD_BYTES and not whole.isascii()
    return (whole if was_cut else cut).rstrip(b" ")


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
            if alike and true.may_be_shown_as(each, lineage=truth.rules.describes_unnamed):
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
    others = [each for each in others if not took_a_number(truth, each)]
    differences = [f"{each} is not shown" for each in missing if not (each.freed and freed_may_be_gone)]
    internal = [each for each in others if each.label.internal]
    made_up = [each for each in others if each not in internal]
    if made_up:
        differences.append(f"shown, but not there: {describe(made_up)}")
    may_be = bool(truth.internal_traffic) or (truth.rules.hidden_traffic and bool(truth.collectives))
    must_be = bool(truth.internal_traffic) and truth.rules.collectives_are_messages
    if (internal and not may_be) or (must_be and not internal):
        differences.append(f"internal communicators: {describe(internal)}; true traffic: {truth.internal_traffic!r}")
    ids = [each.communicator.unique_id for each in shown]
    if len(set(ids)) < len(ids):
        differences.append(f"two communicators of a process have the same id: {sorted(ids)}")
    return differences


def compare_ids(seen: Sequence[tuple[Truth, Sequence[CommunicatorSnapshot]]]) -> list[str]:
    """Compare the ids of each communicator in all its processes, and with those of all others of the job.

    One of a single process is another in each process. Of a job with spawned processes MPI_COMM_WORLD is left out:
    there are two with that key.
    """
    ids: dict[object, dict[int, list[int]]] = {}
    keys: dict[int, set[object]] = {}
    several = any(each.has_strangers for truth, _ in seen for each in truth.communicators)
    for truth, shown in seen:
        found, _, _ = pair(truth, shown)
        for key, each in found.items():
            if several and key in ("world", "self"):
                continue
            communicator = truth.communicator(key)
            alone = len(communicator.group) == 1 and communicator.remote_group is None
            one = (key, truth.pid) if alone else key
            ids.setdefault(one, {}).setdefault(each.communicator.unique_id, []).append(truth.world_rank)
            keys.setdefault(each.communicator.unique_id, set()).add(one)
    differences = [f"{key} has the ids {ranks}" for key, ranks in ids.items() if len(ranks) > 1]
    return differences + [f"{one:#x} is the id of {same}" for one, same in keys.items() if len(same) > 1]


def ids_of_worlds(seen: Sequence[tuple[Truth, Sequence[CommunicatorSnapshot]]]) -> set[int]:
    """Return the ids of the MPI_COMM_WORLDs of a job."""
    return {pair(truth, shown)[0]["world"].communicator.unique_id for truth, shown in seen}


# ---------------------------------------------------------------- operations


def compare_operations(truth: Truth, shown: Sequence[CommunicatorSnapshot], fetch: Fetch) -> list[str]:
    """Compare every operation of a process where all of it can be seen: each field, the order, and no others."""
    found, others, _ = pair(truth, shown)
    differences = []
    for key, each in found.items():
        for queue in each.queues:
            differences += [f"{key}: {text}" for text in compare_queue(truth, key, queue, fetch)]
    for each in others:
        if not took_a_number(truth, each):
            differences += compare_internal(truth, each)
    return differences


def took_a_number(truth: Truth, shown: CommunicatorSnapshot) -> bool:
    """Tell whether a communicator is that of a window, which has the number of a freed one."""
    return truth.rules.numbers_are_reused and shown.label.internal and b"[window" in shown.communicator.name


def compare_queue(truth: Truth, key: str, queue: QueueSnapshot, fetch: Fetch) -> list[str]:
    """Compare one queue of one communicator."""
    communicator = truth.communicator(key)
    refused = queue.hidden is not None or queue.broken is not None
    if refused and not truth.rules.may_refuse(queue.queue, communicator):
        return [f"{queue.queue.name} can't be seen: {queue.hidden or queue.broken}"]
    own = [each for each in queue.operations if not truth.rules.is_internal(each)]
    if not any(each.queue is Queue.SENDS for each in truth.operations):
        own = [each for each in own if not truth.rules.may_be_internal(each)]
    shown = [each for each in own if not truth.rules.is_of_any(each)]
    traffic = [each for each in queue.operations if truth.rules.is_internal(each)]
    differences = compare_collectives(truth, communicator, traffic)
    differences += [text for each in own if truth.rules.is_of_any(each) for text in compare_done(truth, each)]
    true = expected_operations(truth, communicator, queue.queue)
    if refused:
        true = [replace(each, optional=True) for each in true]
    compare = Comparison(truth.rules, communicator, fetch)
    if truth.rules.ordered:
        return differences + compare_in_order(queue.queue, true, shown, compare)
    return differences + compare_paired(queue.queue, true, shown, compare, in_turn=truth.in_turn)


def compare_done(truth: Truth, shown: Operation) -> list[str]:
    """Compare a send that is done, and of which only the request is left, with those of all communicators."""
    sends = [each for each in truth.operations if each.queue is Queue.SENDS]
    done = {each.request for each in sends if each.done}
    is_one = key_of_shown(Queue.SENDS, shown) in done or any(each.call in BUFFERED for each in sends)
    return [] if is_one and shown.status is Status.COMPLETE else [f"no send is done that has {shown}"]


@dataclass(frozen=True)
class Comparison:
    """Compares one operation of a communicator with the truth."""

    rules: Rules
    communicator: TrueCommunicator
    fetch: Fetch

    def __call__(self, true: TrueOperation, shown: Operation) -> list[str]:
        """Return what is wrong with an operation."""
        if true.queue is Queue.UNEXPECTED:
            return compare_unexpected(true, shown, self.fetch)
        unknown = self.rules.may_be_unknown(true, self.communicator)
        return compare_request(true, shown, self.rules, unknown)


def compare_in_order(
    queue: Queue, true: Sequence[TrueOperation], shown: Sequence[Operation], compare: Comparison
) -> list[str]:
    """Compare operations that have an order."""
    true = [each for each in true if not each.optional or any(is_same(each, one) for one in shown)]
    if len(true) != len(shown):
        return [f"{len(shown)} {queue.name} instead of {len(true)}: {shown}, not {true}"]
    return [
        f"{queue.name} {index} ({one}): {text}"
        for index, (one, other) in enumerate(zip(true, shown, strict=True))
        for text in compare(one, other)
    ]


def compare_paired(
    queue: Queue,
    true: Sequence[TrueOperation],
    shown: Sequence[Operation],
    compare: Comparison,
    *,
    in_turn: bool,
) -> list[str]:
    """Compare operations each with its own, and then their order, as far as MPI defines one.

    Receives that wait are matched in the order of their posting; sends to one rank are in that of sending, or say that
    they aren't; messages of one sender, or of senders that took turns, come in the order of their sending; a probe for
    any message finds the first.
    """
    pairs, missing, made_up = pair_operations(queue, true, shown, compare)
    differences = [f"{queue.name} ({true[one]}): {text}" for one, at in pairs for text in compare(true[one], shown[at])]
    differences += [f"{queue.name} ({true[one]}): not shown" for one in missing if not true[one].optional]
    differences += [f"{queue.name}: made up: {shown[at]}" for at in made_up]
    lines: dict[int, list[int]] = {}
    for one, at in sorted(pairs, key=lambda pair: pair[1]):
        if queue is Queue.SENDS and tells_order(shown[at]):
            lines.setdefault(true[one].peer, []).append(one)
        elif queue is Queue.UNEXPECTED:
            lines.setdefault(0 if in_turn else true[one].peer, []).append(one)
        elif queue is Queue.RECEIVES and true[one].status is Status.PENDING:
            for source in may_match(true[one], true, one_order=compare.rules.one_order):
                lines.setdefault(source, []).append(one)
    differences += [f"{queue.name} in the order {line}" for line in lines.values() if line != sorted(line)]
    last_probed = compare.communicator.last_probed
    if queue is Queue.UNEXPECTED and shown and last_probed not in (-1, shown[0].desired_local_rank):
        differences.append(f"the first message is not that of {last_probed}: {shown[0]}")
    return differences


def may_match(receive: TrueOperation, others: Sequence[TrueOperation], *, one_order: bool) -> set[int]:
    """Return the sources of messages that a receive may match; with one order one number stands for all."""
    if one_order:
        return {0}
    return {each.peer for each in others} if receive.peer == -1 else {receive.peer}


def tells_order(shown: Operation) -> bool:
    """Tell whether a send is in the order of sending to its rank: it says so where it isn't."""
    return shown.desired_local_rank >= 0 and b"order" not in b"\n".join(shown.extra_text)


def pair_operations(
    queue: Queue, true: Sequence[TrueOperation], shown: Sequence[Operation], compare: Comparison
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Find each true operation among those shown: by its key, or as the one that it differs from least.

    Returns:
        Pairs of their positions; positions of true operations that are not shown; of shown ones that are not true.
    """
    by_key: dict[object, list[int]] = {}
    for index in reversed(range(len(shown))):
        by_key.setdefault(key_of_shown(queue, shown[index]), []).append(index)
    pairs: list[tuple[int, int]] = []
    missing = []
    for index, one in enumerate(true):
        found = by_key.get(key_of(one))
        if found:
            pairs.append((index, found.pop()))
        else:
            missing.append(index)
    left = sorted(index for found in by_key.values() for index in found)
    for index in list(missing):
        if left and not (true[index].optional and true[index].request and not true[index].freed):
            best = min(left, key=lambda other: len(compare(true[index], shown[other])))
            pairs.append((index, best))
            left.remove(best)
            missing.remove(index)
    return pairs, missing, left


def key_of(true: TrueOperation) -> object:
    """Return what tells an operation from the others of its queue, None for a request without a handle."""
    if true.queue is Queue.UNEXPECTED:
        return true.peer, true.tag
    return true.request if true.request and not true.freed else None


def key_of_shown(queue: Queue, shown: Operation) -> object:
    """Return the same of an operation as it is shown."""
    if queue is Queue.UNEXPECTED:
        return shown.desired_local_rank, shown.desired_tag
    handle = HANDLE.search(b"\n".join(shown.extra_text))
    return int(handle.group(1), 16) if handle else None


def expected_operations(truth: Truth, communicator: TrueCommunicator, queue: Queue) -> list[TrueOperation]:
    """Return the true operations of a queue in the order in which they must be shown."""
    mine = [each for each in truth.operations if each.communicator == communicator.key and each.queue is queue]
    true = [each for one in mine if (each := truth.rules.as_it_is(one, communicator)) is not None]
    if not truth.rules.ordered:
        return true
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


def differing(shown: Operation, **wanted: Any) -> list[str]:
    """Return a sentence for each field that is not as wanted."""
    return [
        f"{field} is {getattr(shown, field)!r} instead of {value!r}"
        for field, value in wanted.items()
        if getattr(shown, field) != value
    ]


def compare_request(true: TrueOperation, shown: Operation, rules: Rules, unknown: frozenset[str]) -> list[str]:
    """Compare a send or a receive in every field; some may be unknown, which the text then says."""
    sent = true.queue is Queue.SENDS
    wanted = {
        "status": true.status if true.status is not None else shown.status,
        "desired_local_rank": true.peer,
        "desired_global_rank": true.world_peer,
        "tag_wild": true.tag == -1,
        "desired_tag": true.tag,
        "desired_length": true.length,
        "system_buffer": False,
        "buffer": true.buffer,
        "actual_local_rank": true.peer if sent else true.actual_peer,
        "actual_global_rank": true.world_peer if sent else true.actual_world_peer,
        "actual_tag": true.tag if sent else true.actual_tag,
        "actual_length": true.length if sent else true.actual_length,
    }
    if true.buffer == -1:  # it is not the program's
        del wanted["buffer"], wanted["system_buffer"]
    if "desired_tag" in unknown and not shown.tag_wild:
        del wanted["tag_wild"]
    left_open = {
        field for field in unknown & wanted.keys() if getattr(shown, field) == UNKNOWN.get(field, -1) != wanted[field]
    }
    differences = differing(shown, **{each: value for each, value in wanted.items() if each not in left_open})
    if true.done is not None and true.status is not None and true.done != (true.status is Status.COMPLETE):
        differences.append(f"the program itself is wrong: MPI says done={true.done}, not {true.status}")
    text = b"\n".join(shown.extra_text)
    if left_open and not SAYS_UNKNOWN.search(text):
        differences.append(f"the text does not say that {sorted(left_open)} are unknown: {text!r}")
    return differences + compare_text(true, text, rules, left_open)


def compare_text(true: TrueOperation, text: bytes, rules: Rules, left_open: set[str]) -> list[str]:
    """Compare what extra_text says: the call, the datatype with its count, the request's handle."""
    known = replace(true, count=-1) if left_open & {"buffer", "desired_length"} else true
    return [f"the text has no {each!r}: {text!r}" for each in rules.texts(known) if not re.search(each, text)]


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
    found, others, _ = pair(truth, shown)
    internal = others if truth.rules.hidden_traffic else []
    return [
        f"nothing is shown of {collective.call} on {collective.communicator}"
        for collective in truth.collectives
        if collective.entered
        and truth.rules.collectives_are_messages
        and not any(
            collective.is_named_by(b"\n".join(operation.extra_text))
            for each in (found[collective.communicator], *internal)
            for queue in each.queues
            for operation in queue.operations
        )
    ]


def compare_internal(truth: Truth, shown: CommunicatorSnapshot) -> list[str]:
    """Compare what goes on on a communicator that the MPI keeps for itself: it is shown for a collective's sake."""
    collectives = list(truth.collectives) if truth.rules.hidden_traffic else []
    if truth.internal_traffic:
        collectives.append(TrueCollective("", truth.internal_traffic, entered=True, blocking=True))
    operations = [operation for queue in shown.queues for operation in queue.operations]
    texts = [b"\n".join(each.extra_text) for each in operations if not truth.rules.may_be_internal(each)]
    if truth.rules.collectives_are_messages:
        wrong = [text for text in texts if not any(one.is_named_by(text) for one in collectives)]
    else:  # it may be any step of them
        wrong = [text for text in texts if b"collective" not in text or not collectives]
    if wrong or not operations:
        return [f"{shown.communicator.name!r} is shown with {texts}, not with {[each.call for each in collectives]}"]
    return []


def queues_in_part(truth: Truth, shown: Sequence[CommunicatorSnapshot]) -> set[Queue]:
    """Return the queues of which a part is refused, or in which a text says that a field is not known.

    Communicators with processes of another job don't count: their messages go another way.
    """
    found, _, _ = pair(truth, shown)
    return {
        queue.queue
        for key, each in found.items()
        if not truth.communicator(key).has_strangers
        for queue in each.queues
        if queue.hidden is not None
        or queue.broken is not None
        or any(SAYS_UNKNOWN.search(b"\n".join(operation.extra_text)) for operation in queue.operations)
    }


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


def compare_native(
    truth: Truth, shown: Sequence[CommunicatorSnapshot], words: Sequence[str], fetch: Fetch
) -> list[str]:
    """Compare queues that a network's library keeps: what is shown is true or said to be unknown, the rest hidden.

    Messages to oneself are the MPI's own affair and can be seen.
    """
    found, _, _ = pair(truth, shown)
    differences = []
    for key, each in found.items():
        communicator = truth.communicator(key)
        for queue in each.queues:
            if queue.hidden is not None or queue.broken is not None:
                differences += says(queue, words)
            if queue.hidden is not None:
                continue
            if communicator.alone:
                differences += [f"{key}: {text}" for text in compare_queue(truth, key, queue, fetch)]
                continue
            true = expected_operations(truth, communicator, queue.queue)
            if queue.broken is not None:
                true = [replace(each, optional=True) for each in true]
            if queue.queue is Queue.UNEXPECTED:
                compare = Comparison(truth.rules, communicator, fetch)
                found_wrong = compare_paired(queue.queue, true, queue.operations, compare, in_turn=truth.in_turn)
            else:
                found_wrong = compare_known(true, replace(queue, broken=None))
            differences += [f"{key}: {text}" for text in found_wrong]
    return differences


def says(queue: QueueSnapshot, words: Sequence[str]) -> list[str]:
    """Return a difference unless a queue is hidden, or breaks off, for a reason that contains these words."""
    reason = queue.hidden.reason if queue.hidden is not None else queue.broken
    if reason is not None and all(word in reason for word in words):
        return []
    return [f"{queue.queue.name}: {reason} does not say {words}"]


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
    return true.tag == shown.desired_tag if true.buffer == -1 else true.buffer == shown.buffer


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
    known = {field: value for field, value in wanted.items() if getattr(shown, field) != -1}
    if true.buffer == -1:  # it is not the program's
        del known["buffer"]
    if not shown.buffer and SAYS_UNKNOWN.search(b"\n".join(shown.extra_text)):
        del known["buffer"]
    differences = differing(shown, **known)
    if shown.tag_wild and true.tag != -1:
        differences.append("tag_wild is set")
    if true.done is not None and true.done != (shown.status is Status.COMPLETE):
        differences.append(f"the status is {shown.status!r}, but MPI says done={true.done}")
    return differences


def compare_hidden(shown: Sequence[CommunicatorSnapshot], queues: Iterable[Queue], words: Sequence[str]) -> list[str]:
    """Compare queues that can't be seen: each says so, with a reason that contains these words."""
    wanted = set(queues)
    return [
        f"{each.communicator.name!r}: {text}"
        for each in shown
        for queue in each.queues
        if queue.queue in wanted
        for text in says(queue, words)
    ]
