"""Requests: what all of them have, whatever the device."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.ledger import Place, Row, number
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.calibrate.mpich.program import SURPRISES
from mqs_dll.calibrate.solver import Sighting, Unsolved, solve
from mqs_dll.errors import CalibrationError
from mqs_dll.mpi.mpich import handles

REQUEST = "MPIR_Request"
SEND, RECEIVE = 1, 2
KINDS = {"send": SEND, "receive": RECEIVE, "persistent send": 3, "persistent receive": 4}
"""MPIR_Request_kind_t: what all releases number alike."""

Requests = list[Place]


def requests_of(ledger: PoolLedger, mode: str = "plain", /, **where: object) -> Requests:
    """Return the program's requests that have an object: a send that is over at once has none."""
    return ledger.requests(mode, **where)


def posted(ledger: PoolLedger, mode: str = "plain") -> Requests:
    """Return the receives that nothing has matched."""
    return requests_of(ledger, mode, label="posted", state="pending")


def source_of(dump: Dump, entry: dict[str, Any]) -> int:
    """Return the source of a receive as MPICH stores it."""
    return int(dump.truth["any_source"] if entry["peer"] == "any" else entry["peer"])


def tag_of(dump: Dump, entry: dict[str, Any]) -> int:
    """Return the tag of a receive as MPICH stores it."""
    return int(dump.truth["any_tag"] if entry["tag"] == "any" else entry["tag"])


def comm_of(ledger: PoolLedger, dump: Dump, label: str) -> int:
    """Return the address of a communicator of a process, by its label."""
    return ledger.address(dump, dump.of("comms", label=label)[0]["handle"])


def find_request(ledger: PoolLedger) -> None:
    """Find what tells a request's kind and whether it is complete."""
    ledger.inherit_head(REQUEST)
    everything = requests_of(ledger)
    inactive = requests_of(ledger, label="inactive")
    ledger.pin_rows(
        REQUEST,
        everything,
        Row("kind", "the kind of request", lambda _, entry: KINDS.get(entry["kind"])),
        Row("cc", "what is left to be done", _is_left),
    )
    count = ledger.offset(REQUEST, "cc")
    own = [(dump, at, at + count) for dump, at, entry in everything if entry["label"] in ("posted", "inactive")]
    ledger.pin_numbers(REQUEST, "cc_ptr", "the address of what is left to be done", own)
    # the requests of some networks have no communicator, inactive ones always do
    comm = Row("comm", "the communicator", lambda dump, entry: comm_of(ledger, dump, entry["comm"]))
    ledger.first_that_works(
        lambda: ledger.pin_rows(REQUEST, [*requests_of(ledger, label="posted"), *inactive], comm),
        lambda: ledger.pin_rows(REQUEST, inactive, comm),
    )


def _is_left(_: Dump, entry: dict[str, Any]) -> bool | None:
    if entry["kind"] == "receive" and entry["label"] not in ("self", "stalled"):  # those are at what nobody looked at
        return bool(entry["state"] == "pending")
    return False if entry["label"] == "inactive" else None


def find_status(ledger: PoolLedger) -> None:
    """Find the parts of the status of complete receives.

    Those over a network count too: over shared memory some releases have source and tag twice.
    """
    received = [
        each for mode in ("plain", "cliques") for each in requests_of(ledger, mode, kind="receive", state="complete")
    ]

    ledger.pin_rows(
        REQUEST,
        received,
        Row("status.MPI_SOURCE", "the source of a message that came", lambda _, entry: entry["status"]["source"]),
        Row("status.MPI_TAG", "the tag of a message that came", lambda _, entry: entry["status"]["tag"]),
    )
    before, size = ledger.dumps[0].truth["status"]  # as the MPI's own mpi.h has it
    begin = ledger.offset(REQUEST, "status.MPI_SOURCE") - before
    what = "the bytes of a message that came, within the status"
    count = Row("status.count_lo", what, lambda _, entry: entry["status"]["bytes"])
    ledger.pin_rows(REQUEST, received, count, among=range(begin, begin + size, 4))
    what = "whether it was cancelled, behind the low half of the count"
    cancelled = Row("status.count_hi_and_cancelled", what, lambda _, entry: entry["state"] == "cancelled")
    requests = [*requests_of(ledger, state="cancelled"), *received]
    ledger.pin_rows(REQUEST, requests, cancelled, among=[ledger.offset(REQUEST, "status.count_lo") + 4])


def find_persistent(ledger: PoolLedger) -> None:
    """Find the request behind a persistent one that was started: what is left of the one is left of the other."""
    count, pointer = ledger.offset(REQUEST, "cc"), ledger.offset(REQUEST, "cc_ptr")
    started = [
        each for each in requests_of(ledger, label="started") if each[0].word(each[1] + pointer) != each[1] + count
    ]
    behind = [(dump, at, dump.word(at + pointer) - count) for dump, at, _ in started]
    none = [(dump, at, 0) for dump, at, _ in requests_of(ledger, label="inactive")]
    ledger.pin_numbers(REQUEST, "u.persist.real_request", "the request behind, none while inactive", [*behind, *none])


def find_links(ledger: PoolLedger) -> None:
    """Find the link from a receive to the one that was posted after it.

    To 3.4 they belong to the device; the name says so.
    """
    room = ledger.room(REQUEST, "Q")
    try:
        solved = solve(f"{REQUEST}.next", _links(ledger, ("posted", "self")), room)
    except Unsolved:  # a network keeps its receives to itself, but for those of a process from itself
        solved = solve(f"{REQUEST}.next", _links(ledger, ("self",)), room)
    of_device = ledger.offsets[REQUEST].get("dev.match.parts.tag", solved.offset) < solved.offset
    ledger.remember(REQUEST, "dev.next" if of_device else "next", solved)


def _links(ledger: PoolLedger, labels: Sequence[str]) -> list[Sighting]:
    """Sight the link to the next receive."""
    return [
        number("the receive that was posted after it", dump, one, "Q", other)
        for dump in ledger.dumps
        for label in labels
        for one, other in pairwise(
            at for other, at, _ in requests_of(ledger, label=label, kind="receive") if other is dump
        )
    ]


def surprises(ledger: PoolLedger, mode: str = "plain") -> Iterator[tuple[Dump, Dump, int, dict[str, Any]]]:
    """Yield the messages that nobody receives: the receiver, the sender, the sender's request (or 0), the entry."""
    for dump in ledger.of_mode(mode):
        for label in SURPRISES:
            for entry in dump.of("requests", label=label):
                comm = dump.of("comms", label=entry["comm"])[0]
                address = ledger.find(dump, entry["handle"])
                yield ledger.rank_of_run(dump, comm["peers"][entry["peer"]]), dump, address, entry


def unexpected(
    ledger: PoolLedger, tag_at: int, mode: str = "plain"
) -> Iterator[tuple[Dump, int, Dump, int, dict[str, Any]]]:
    """Yield the requests that MPICH made for messages that nobody receives, found by their tags.

    Args:
        ledger: what is known so far.
        tag_at: where such a request has its tag.
        mode: of the run.

    Yields:
        The receiver, the address of MPICH's request there, the sender, its request (or 0), its entry in the truth.
    """
    found: dict[tuple[int, int], int] = {}
    for dump in ledger.of_mode(mode):
        for address in ledger.objects(dump, handles.REQUEST):
            if ledger.member(dump, address, REQUEST, "comm") == 0:
                found[id(dump), dump.scalar(address + tag_at, "i")] = address
    for receiver, sender, request, entry in surprises(ledger, mode):
        if (id(receiver), entry["tag"]) in found:
            yield receiver, found[id(receiver), entry["tag"]], sender, request, entry


def _is_local(dump: Dump, entry: dict[str, Any]) -> bool | None:
    if entry["kind"].startswith("partitioned"):  # these tell it from the type of a message
        return True
    peers = dump.of("comms", label=entry["comm"])[0]["peers"]
    return None if entry["peer"] == "any" else bool(peers[entry["peer"]] % 2 == dump.truth["rank"] % 2)


def find_locality(ledger: PoolLedger) -> None:
    """Find whether a message stays within a node, and the other half of a receive from anywhere."""
    partitioned = [each for kind in ("send", "receive") for each in requests_of(ledger, kind=f"partitioned {kind}")]
    local = Row("dev.is_local", "whether the peer is on the same node", _is_local)
    ledger.optionally(REQUEST, [*posted(ledger, "cliques"), *partitioned], local)

    def pin_partner(*modes: str) -> None:
        receives = [each for mode in modes for each in posted(ledger, mode)]
        halves = [_half(ledger, dump, at, entry["peer"] == "any") for dump, at, entry in receives]
        ledger.pin(REQUEST, "dev.anysrc_partner", halves)

    with suppress(CalibrationError):  # not every release has it, nor a job that can't use a network
        ledger.first_that_works(lambda: pin_partner("plain", "cliques"), lambda: pin_partner("cliques"))


def _half(ledger: PoolLedger, dump: Dump, address: int, from_anywhere: bool) -> Sighting:
    """Sight a pointer to another request that points back, of a receive from anywhere."""

    def seen(offset: int) -> Hashable:
        other = dump.word(address + offset)
        if other == 0:
            return False
        is_request = ledger.is_object(dump, handles.REQUEST, other) and other != address
        return True if is_request and dump.word(other + offset) == address else None

    return Sighting("a request that points back, of a receive from anywhere", from_anywhere, seen)
