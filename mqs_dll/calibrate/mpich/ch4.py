"""Requests of ch4: messages over shared memory, persistent and partitioned ones, those of one process with itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import Observation, Place, Row, number
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger, find_number
from mqs_dll.calibrate.mpich.requests import (
    REQUEST,
    comm_of,
    posted,
    requests_of,
    source_of,
    surprises,
    tag_of,
    unexpected,
)
from mqs_dll.calibrate.solver import Sighting, Solved, Unsolved, solve
from mqs_dll.mpi.mpich import handles
from mqs_dll.mpi.mpich.views import CONTEXT_ID

COMM = "MPIR_Comm"
EXTENSION = "MPIDIG_req_ext_t"
HEADER = "MPIDIG_hdr_t"
LARGEST_EXTENSION = 512
NEAR = range(-64, 128)
"""Where the parts of a message's header lie, counted from the address of the send's request in it."""

POSTED, EAGER, SYNCHRONOUS, RENDEZVOUS = 0, 0x104, 0x106, 0x184
"""MPIDIG_REQ_*: unexpected and in progress, of a synchronous send, ready to send."""

STATES = {"posted": POSTED, "eager": EAGER, "synchronous": SYNCHRONOUS, "rendezvous": RENDEZVOUS}
"""What requests of each label are."""

FLAGS = {"synchronous": 1, "rendezvous": 2}
"""MPIDIG_AM_SEND_FLAGS_SYNC and _RTS; bits above 8 name a rendezvous's protocol, which may leave out the first."""

GONE = {"synchronous": 1, "rendezvous": 0}
"""Segments of the data of a send that have flowed: a small one's whole data go with its header."""

OTHERS = ("self", "inactive", "partitioned", "lonely")
"""Labels of requests that are no messages over shared memory."""

PERSISTENT_TYPES = {"Recv_init": 0, "Send_init": 1, "Bsend_init": 2, "Ssend_init": 3}
"""MPIDI_ptype."""

Requests = list[Place]


def _context_code(ledger: PoolLedger) -> str:
    return "H" if ledger.size(CONTEXT_ID) == 2 else "I"


def _context(ledger: PoolLedger, dump: Dump, label: str, member: str = "recvcontext_id") -> int:
    """Return a context id of a communicator."""
    return ledger.member(dump, comm_of(ledger, dump, label), COMM, member, _context_code(ledger))


def _free(ledger: PoolLedger, *taken: str) -> list[int]:
    """Return the offsets of numbers in a request that some members don't have."""
    used = {ledger.offsets[REQUEST][member] for member in taken if member in ledger.offsets[REQUEST]}
    return [offset for offset in ledger.room(REQUEST, "i") if offset not in used]


# ---------------------------------------------------------------- active messages


def find_receive(ledger: PoolLedger) -> None:
    """Find what a receive was posted with; since 4.3 source and tag are in its status and nowhere else."""
    receives = posted(ledger)
    prefix = "dev.ch4.am."
    pin_arguments(ledger, prefix, receives)
    what, code = "the context id of receiving", _context_code(ledger)
    contexts = [number(what, dump, at, code, _context(ledger, dump, entry["comm"])) for dump, at, entry in receives]
    ledger.pin(REQUEST, prefix + "u.recv.context_id", contexts, ledger.room(REQUEST, code))
    free = _free(ledger, "status.MPI_SOURCE", "status.MPI_TAG")
    for name, value in (("source", source_of), ("tag", tag_of)):
        what, status = f"the {name} that was named", f"status.MPI_{name.upper()}"
        own = Row(f"{prefix}u.recv.{name}", what, value)
        if not ledger.optionally(REQUEST, receives, own, among=free):
            ledger.pin_rows(REQUEST, receives, Row(status, what, value), among=[ledger.offset(REQUEST, status)])


def pin_arguments(
    ledger: PoolLedger, prefix: str, requests: Requests, names: Sequence[str] = ("buffer", "count", "datatype")
) -> None:
    """Find what all operations have: buffer, count and datatype, which a device has its own names for."""
    buffer, count, datatype = (prefix + name for name in names)
    ledger.pin_rows(
        REQUEST,
        requests,
        Row(datatype, "the datatype", lambda dump, entry: ledger.handle_inside(dump, entry["datatype"])),
        Row(buffer, "the program's buffer", "buffer"),
        Row(count, "the count", "count"),
    )


def tag_at(ledger: PoolLedger) -> int:
    """Return where a request over shared memory has its tag."""
    members = ledger.offsets[REQUEST]
    return members.get("dev.ch4.am.u.recv.tag", members.get("status.MPI_TAG", -1))


def find_extension(ledger: PoolLedger) -> None:
    """Find a request's extension, by the send that a synchronous message has there; complete requests have none.

    Raises:
        Unsolved: not exactly one place leads to the sends' addresses.
    """
    surprised = list(unexpected(ledger, tag_at(ledger)))
    answers = [(dump, at, request) for dump, at, _, request, entry in surprised if entry["label"] == "synchronous"]
    complete = [(dump, at) for dump, at, _ in requests_of(ledger, label="received", kind="receive")]
    ways = [
        (member, inside)
        for member, inside in product(ledger.room(REQUEST, "Q"), range(0, LARGEST_EXTENSION, WORD))
        if all(dump.word(at + member) == 0 for dump, at in complete) and _all_lead_to(answers, member, inside)
    ]
    if len(ways) != 1 or len({value for *_, value in answers}) < 2:
        raise Unsolved(f"{EXTENSION}: {len(ways)} ways lead to the sends of {len(answers)} messages: {ways}")
    member, inside = ways[0]
    text = f"what leads to the send of a synchronous message: {len(answers)} places, {len(answers)} values"
    ledger.remember(REQUEST, "dev.ch4.am.req", Solved(member, text))
    ledger.remember(EXTENSION, "rreq.peer_req_ptr", Solved(inside, text))
    ledger.rooms[EXTENSION] = min(_distance(ledger, member), LARGEST_EXTENSION)


def _all_lead_to(answers: Sequence[Observation], member: int, inside: int) -> bool:
    try:
        return bool(answers) and all(dump.word(dump.word(at + member) + inside) == value for dump, at, value in answers)
    except LookupError:
        return False


def _distance(ledger: PoolLedger, member: int) -> int:
    """Return the distance of the extensions, which come from a pool of their own: more than their size."""
    places = sorted((id(dump), dump.word(at + member)) for dump, at, _ in posted(ledger))
    distances = [other[1] - one[1] for one, other in pairwise(places) if one[0] == other[0] != one[1]]
    return min(distances)


def find_progress(ledger: PoolLedger) -> None:
    """Find what the extension tells of a message: what it is, and how long."""
    member = ledger.offset(REQUEST, "dev.ch4.am.req")
    came = [(dump, dump.word(at + member), entry) for dump, at, _, _, entry in unexpected(ledger, tag_at(ledger))]
    waiting = [(dump, dump.word(at + member), entry) for dump, at, entry in posted(ledger)]
    status = Row("status", "how far a message is", lambda _, entry: STATES.get(entry["label"]))
    ledger.pin_rows(EXTENSION, [*came, *waiting], status)
    whole = [each for each in came if "rend" not in each[2]["label"]]
    ledger.pin_rows(EXTENSION, whole, Row("recv_async.in_data_sz", "the bytes of a message", "bytes"))


def find_flow(ledger: PoolLedger) -> None:
    """Find how much of a message's data has flowed, and the receive that took a message that was there before it.

    The data of some messages was left half-way, with more to come than the shared memory can hold.
    """
    member = ledger.offset(REQUEST, "dev.ch4.am.req")
    sends = [
        (d, d.word(at + member), entry["bytes"]) for d, at, entry in requests_of(ledger, label="stalled", kind="send")
    ]
    ways = [
        (rest, flowed)
        for rest, flowed in product(ledger.room(EXTENSION, "Q"), repeat=2)
        if all(_are_parts(dump, at, total, rest, flowed) for dump, at, total in sends)
    ]
    if len(ways) != 1 or len({total for *_, total in sends}) < 2:
        raise Unsolved(f"{EXTENSION}.send_async: {len(ways)} places have the parts of {len(sends)} messages: {ways}")
    text = (
        f"what is left of a message's data, with what has flowed its length: {len(sends)} places, {len(sends)} values"
    )
    ledger.remember(EXTENSION, "send_async.data_sz_left", Solved(ways[0][0], text))
    done = [
        (dump, dump.word(at + member), entry)
        for label in GONE
        for dump, at, entry in requests_of(ledger, label=label)
        if dump.word(at + member)
    ]
    what = "what has flowed of a message's data"
    gone = Row("send_async.offset", what, lambda _, entry: entry["bytes"] * GONE[entry["label"]])
    ledger.pin_rows(EXTENSION, done, gone, among=[ways[0][1]])
    _find_segments(ledger, done)
    _find_received(ledger, member)
    _find_match(ledger, member)


def _find_received(ledger: PoolLedger, member: int) -> None:
    """Find how much of a message's data has come, by what is still to come of it."""
    rest = ledger.offset(EXTENSION, "recv_async.in_data_sz")
    totals = {
        entry["tag"]: entry["bytes"] for _, entry in ledger.each("requests", label="stalled") if entry["kind"] == "send"
    }
    parts = [
        _parts(dump, extension + rest, extension, totals[entry["tag"]])
        for dump, _, entry in requests_of(ledger, label="stalled", kind="receive")
        for _, extension in _with_tag(ledger, dump, member, entry["tag"])
        if 0 < dump.word(extension + rest) < totals[entry["tag"]]
    ]
    ledger.pin(EXTENSION, "recv_async.offset", parts)


def _parts(dump: Dump, rest: int, extension: int, total: int) -> Sighting:
    what = "what has come of a message's data, with what is to come its length"
    return Sighting(what, total, lambda offset: dump.word(extension + offset) + dump.word(rest))


def _with_tag(ledger: PoolLedger, dump: Dump, member: int, tag: int) -> Iterator[tuple[int, int]]:
    """Yield the messages of a process that have a tag: the request and its extension."""
    for address in ledger.objects(dump, handles.REQUEST):
        extension = dump.word(address + member)
        if extension and dump.scalar(address + tag_at(ledger), "i") == tag:
            yield address, extension


def _find_segments(ledger: PoolLedger, done: Requests) -> None:
    """Find the number of a message's segments: those given to the transport, and behind it those that it is done with.

    Shared memory is done with a segment at once: the two are equal whenever a program is outside MPI. The order is that
    of the declaration (src/mpid/ch4/include/mpidpre.h).
    """
    what = "the segments of a message's data, the first of two equal numbers"
    sightings = [number(what, dump, at, "i", GONE[entry["label"]]) for dump, at, entry in done]
    room = ledger.room(EXTENSION, "i")
    fitting = [offset for offset in room if all(each.fits(offset) and each.fits(offset + 4) for each in sightings)]
    ledger.pin(EXTENSION, "send_async.seg_issued", sightings, fitting)


def _are_parts(dump: Dump, address: int, total: int, rest: int, flowed: int) -> bool:
    try:
        left, gone = dump.word(address + rest), dump.word(address + flowed)
    except LookupError:
        return False
    return left + gone == total and 0 < gone < left


def _find_match(ledger: PoolLedger, member: int) -> None:
    """Find the receive that a message has: only one from anywhere keeps a request of its own beside the message's."""
    matched = [
        (dump, extension, {"receive": receive})
        for dump, receive, entry in requests_of(ledger, label="stalled", kind="receive", peer="any")
        for address, extension in _with_tag(ledger, dump, member, entry["tag"])
        if address != receive
    ]
    none = [
        (dump, dump.word(at + member), {"receive": 0})
        for dump, at, _, _, entry in unexpected(ledger, tag_at(ledger))
        if entry["label"] in ("eager", "synchronous")
    ]
    row = Row("rreq.match_req", "the receive that took the message", "receive")
    ledger.optionally(EXTENSION, [*matched, *none], row)


def find_destination(ledger: PoolLedger) -> None:
    """Find where a rendezvous goes, within a node."""
    sends = [each for each in requests_of(ledger, "cliques", label="rendezvous") if _is_near(each[0], each[2])]
    ledger.pin_rows(REQUEST, sends, Row("dev.ch4.am.u.send.dest", "the destination of a rendezvous", "peer"))


def _is_near(dump: Dump, entry: dict[str, Any]) -> bool:
    peers = dump.of("comms", label=entry["comm"])[0]["peers"]
    return bool(peers[entry["peer"]] % 2 == dump.truth["rank"] % 2)


def find_type(ledger: PoolLedger) -> None:
    """Find what tells messages over shared memory from all other requests, since 4.1."""
    requests = [*posted(ledger), *(each for label in OTHERS for each in requests_of(ledger, label=label))]
    shared = Row("dev.type", "whether it is a message over shared memory", lambda _, each: each["label"] == "posted")
    ledger.optionally(REQUEST, requests, shared)


# ---------------------------------------------------------------- headers of messages


def find_header(ledger: PoolLedger) -> None:
    """Find the parts of a message's header, counted from the address of the send's request that it has."""
    sent = [
        (sender, request, entry)
        for _, sender, request, entry in surprises(ledger)
        if request and entry["label"] != "eager" and _is_kept(sender)
    ]
    places = {(sender, request): find_number(sender, request, WORD, "shared") for sender, request, _ in sent}
    found: dict[str, Solved] = {
        "sreq_ptr": Solved(0, f"the address of the send: {len(places)} places, {len(places)} values")
    }

    def find(member: str, code: str, what: str, value: Callable[[Dump, dict[str, Any]], int], mask: int = -1) -> int:
        size = {"i": 4, "I": 4, "H": 2, "Q": 8}[code]
        sightings = [
            _in_header(what, dump, code, places[dump, request], value(dump, entry), mask)
            for dump, request, entry in sent
        ]
        among = [offset for offset in NEAR if offset % size == 0 and offset not in taken]
        found[member] = solve(f"{HEADER}.{member}", sightings, among)
        taken.update(range(found[member].offset, found[member].offset + size))
        return found[member].offset

    taken: set[int] = set(range(WORD))
    tag = find("tag", "i", "the tag", lambda _, entry: entry["tag"])
    for sender, request, entry in sent:
        at = places[sender, request]
        places[sender, request] = [place for place in at if sender.scalar(place + tag, "i") == entry["tag"]]
    find("data_sz", "Q", "the bytes of the message", lambda _, entry: entry["bytes"])
    find("src_rank", "i", "the sender's rank", lambda dump, entry: dump.of("comms", label=entry["comm"])[0]["rank"])
    code = _context_code(ledger)
    find(
        "context_id",
        code,
        "the context id of sending",
        lambda dump, entry: _context(ledger, dump, entry["comm"], "context_id"),
    )
    sent = [each for each in sent if each[2]["label"] in FLAGS]
    find("flags", "I", "synchronous or rendezvous", lambda _, entry: FLAGS[entry["label"]], 0xFF)
    begin = min(each.offset for each in found.values())
    for member, each in found.items():
        ledger.remember(HEADER, member, Solved(each.offset - begin, each.evidence))


def _is_kept(dump: Dump) -> bool:
    """Tell whether a process left its cells of shared memory alone after its sends: data didn't flow through them."""
    return not dump.of("requests", label="stalled", kind="send")


def _in_header(what: str, dump: Dump, code: str, places: Sequence[int], expected: int, mask: int) -> Sighting:
    """Sight a number at one of the places that may be a header: old ones are left in cells that were used again."""

    def seen(offset: int) -> Hashable:
        values = [dump.scalar(place + offset, code) & mask for place in places]
        return expected if expected in values else None

    return Sighting(what, expected, seen)


# ---------------------------------------------------------------- other arms


def find_inactive(ledger: PoolLedger) -> None:
    """Find the arguments of a persistent operation."""
    prefix = "dev.ch4.preq."
    requests = requests_of(ledger, label="inactive")
    pin_arguments(ledger, prefix, requests)
    ledger.pin_rows(
        REQUEST,
        requests,
        Row(f"{prefix}rank", "the peer that was named", "peer"),
        Row(f"{prefix}tag", "the tag that was named", "tag"),
        Row(
            f"{prefix}p_type",
            "the kind of persistent operation",
            lambda _, entry: PERSISTENT_TYPES.get(entry["function"]),
        ),
    )


def find_partitioned(ledger: PoolLedger) -> None:
    """Find the arguments of a partitioned operation, its state and its partner in the other process."""
    sends, receives = (requests_of(ledger, kind=f"partitioned {kind}") for kind in ("send", "receive"))
    requests = [*sends, *receives]
    prefix = "dev.ch4.part_req."
    pin_arguments(ledger, prefix, requests)
    ledger.pin_rows(REQUEST, requests, Row("u.part.partitions", "the number of partitions", "partitions"))
    ledger.pin_rows(REQUEST, sends, Row(f"{prefix}u.send.dest", "the destination", "peer"))
    free = _free(ledger, "status.MPI_SOURCE", "status.MPI_TAG")
    ledger.optionally(REQUEST, receives, Row(f"{prefix}u.recv.tag", "the tag", tag_of), among=free)
    started = Row("u.part.active_flag", "whether it was started", lambda _, entry: entry["state"] == "started")
    ledger.pin_rows(REQUEST, requests, started, among=_free(ledger, "cc"))
    known = [each for each in requests if _knows_partner(each[2])]
    what = "the partner's request"
    partner = Row(f"{prefix}am.peer_req_ptr", what, lambda dump, entry: _partner(ledger, dump, entry))
    ledger.pin_rows(REQUEST, known, partner)


def _knows_partner(entry: dict[str, Any]) -> bool:
    """Tell whether it is known what a request knows: a send learns of its receive when it is started."""
    return bool(entry["kind"] == "partitioned receive" or entry["state"] == "started")


def _partner(ledger: PoolLedger, dump: Dump, entry: dict[str, Any]) -> int:
    """Return the address of the other half in its process, 0 where there is none."""
    if entry["label"] == "lonely":
        return 0
    peer = ledger.rank_of_run(dump, entry["peer"])
    other = "receive" if entry["kind"].endswith("send") else "send"
    found = peer.of("requests", kind=f"partitioned {other}", label=entry["label"], tag=entry["tag"])
    return ledger.address(peer, found[0]["handle"])


def find_self(ledger: PoolLedger) -> None:
    """Find what a message of a process to itself has."""
    prefix = "dev.ch4.self."
    requests = requests_of(ledger, label="self")
    pin_arguments(ledger, prefix, requests, ("buf", "count", "datatype"))
    ledger.pin_rows(REQUEST, requests, Row(f"{prefix}tag", "the tag", "tag"))

    def send_of(dump: Dump, entry: dict[str, Any]) -> int:
        return ledger.address(dump, dump.of("requests", label="probed", tag=entry["tag"])[0]["handle"])

    taken = Row(f"{prefix}match_req", "the send of a message that was taken", send_of)
    ledger.pin_rows(REQUEST, ledger.places("messages"), taken)
