"""Sightings of requests: those of every kind, and those of pml/ob1."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import Any

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.ledger import Place, Row, number, step
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.solver import Sighting, Solved

Entry = dict[str, Any]

# ompi/request/request.h and ompi/mca/pml/base/pml_base_request.h, the same in 4.1 and 5.0
PML_TYPES = {"send": 1, "receive": 2}
STATES = {"gone": 0, "inactive": 1, "pending": 2, "in progress": 2, "complete": 2}
MODES = {"synchronous": 0, "buffered": 2, "ready": 3, "standard": 4}
BEHIND_FIRST_PACKET = 500_000
"""Bytes into a large buffered message: what goes out at once isn't copied."""

SOME = "some, not all"


def messages(ledger: OpalLedger, kind: str = "") -> list[Place]:
    """Return the live requests, those of one direction or all."""
    return [each for each in ledger.places("requests") if each[2]["state"] != "gone" and kind in ("", each[2]["kind"])]


# ---------------------------------------------------------------- requests of every kind


def _is_complete(_: Dump, request: Entry) -> bool:
    return request["state"] in ("complete", "inactive")


def find_request(ledger: OpalLedger) -> None:
    """Find what all requests have, and the status, whose own layout is in the MPI's public header."""
    struct, status = "ompi_request_t", "ompi_status_public_t"
    state = Row("req_state", "the state of a request", lambda _, request: STATES[request["state"]])
    ledger.pin_rows(struct, ledger.places("requests"), state)
    ledger.pin_rows(
        struct,
        messages(ledger),
        Row("req_complete", "whether a request is complete", _is_complete),
        Row("req_persistent", "whether a request is persistent", "persistent"),
    )
    public = ledger.dumps[0].truth[status]
    ledger.sizes[status] = public["size"]
    for member, offset in public.items():
        if member != "size":
            ledger.remember(status, member, Solved(offset, "offsetof in the MPI's own mpi.h"))
    complete = [each for each in messages(ledger, "receive") if each[2]["state"] == "complete"]
    ledger.pin(struct, "req_status", [_status(ledger, *each) for each in complete])


def _status(ledger: OpalLedger, dump: Dump, address: int, request: Entry) -> Sighting:
    members = (("MPI_SOURCE", "i", "source"), ("MPI_TAG", "i", "tag"), ("_ucount", "Q", "bytes"))

    def seen(offset: int) -> Hashable:
        at = address + offset
        return tuple(ledger.member(dump, at, "ompi_status_public_t", member, code) for member, code, _ in members)

    expected = tuple(request["status"][key] for *_, key in members)
    return Sighting("source, tag and length as MPI_Request_get_status gives them", expected, seen)


# ---------------------------------------------------------------- messages of the pml base


def _is_delivered(dump: Dump, request: Entry) -> bool | None:
    """Tell whether the transport is done; a buffered send is complete for the program long before."""
    mode = request["mode"]
    if request["kind"] == "send" and request["state"] == "complete" and mode not in ("synchronous", "buffered"):
        return None  # eager: the transport may not have told yet
    return _is_complete(dump, request) and mode != "buffered"


BASE_ROWS = (
    Row("req_comm", "the communicator", "comm"),
    Row("req_datatype", "the datatype", "datatype"),
    Row("req_addr", "the program's buffer", "buffer"),
    Row("req_count", "the count", "count"),
    Row("req_peer", "the peer that was named", "peer"),
    Row("req_tag", "the tag that was named", "tag"),
    Row("req_free_called", "whether the program freed the request", "freed"),
    Row("req_type", "send or receive", lambda _, request: PML_TYPES[request["kind"]]),
    Row("req_pml_complete", "whether the transport is done with it", _is_delivered),
)
"""What sends and receives have in common."""


def find_pml_request(ledger: OpalLedger) -> None:
    """Find what sends and receives have in common, and what each has of its own, whatever the pml."""
    base, receive, send = (f"mca_pml_base_{name}request_t" for name in ("", "recv_", "send_"))
    everything, sends = messages(ledger), messages(ledger, "send")
    ledger.pin_rows(base, everything, *BASE_ROWS)
    ledger.pin(base, "req_sequence", list(_sequences(ledger)), places=everything)
    matched = [each for each in messages(ledger, "receive") if each[2]["state"] in ("complete", "in progress")]
    length = Row("req_bytes_packed", "the length of the message that a receive took", "transferred")
    ledger.pin_rows(receive, matched, length)
    ledger.pin_rows(
        send,
        sends,
        Row("req_bytes_packed", "the bytes of a message", "bytes"),
        Row("req_send_mode", "the mode of a send", lambda _, request: MODES[request["mode"]]),
    )
    ledger.pin(send, "req_addr", [_sent_from(*each) for each in sends], places=sends)


def _sequences(ledger: OpalLedger) -> Iterator[Sighting]:
    """Sight numbers that go up by one with each receive posted on a communicator, and each message sent."""
    for dump in ledger.dumps:
        for label in ("posted 0", "posted 1", "posted 2"):
            posted = dump.of("requests", kind="receive", label=label, state="pending")
            for one, other in pairwise(posted):
                yield step("one more than the receive before", dump, one["address"], other["address"], "Q", 1)
        sent = dump.of("requests", kind="send", label="surprise 0")
        for one, other in pairwise(sent):
            distance = other["tag"] - one["tag"]
            what = "as many more as messages were sent since"
            yield step(what, dump, one["address"], other["address"], "Q", distance)


def _sent_from(dump: Dump, address: int, request: Entry) -> Sighting:
    """Sight the buffer that is sent from: of a buffered send the copy in the attached buffer."""
    if request["mode"] != "buffered":
        return number("the buffer of a send", dump, address, "Q", request["buffer"])
    attached = range(dump.truth["attached"], dump.truth["attached"] + dump.truth["attached_bytes"])
    pattern = bytes((BEHIND_FIRST_PACKET + place) % 256 for place in range(64))

    def seen(offset: int) -> Hashable:
        copy = dump.word(address + offset)
        if copy not in attached or dump.read(copy + BEHIND_FIRST_PACKET, len(pattern)) != pattern:
            return None
        return int(request["bytes"])

    return Sighting("the copy of a message in the attached buffer", request["bytes"], seen)


# ---------------------------------------------------------------- pml/ob1


def find_ob1_requests(ledger: OpalLedger) -> None:
    """Find the progress of sends and receives in pml/ob1."""
    receive, send = "mca_pml_ob1_recv_request_t", "mca_pml_ob1_send_request_t"
    receives = [each for each in messages(ledger, "receive") if each[2]["state"] != "inactive"]
    sends = messages(ledger, "send")
    what = "whether a message was matched"
    matched = Row("req_match_received", what, lambda _, request: request["state"] != "pending")
    ledger.pin_rows(receive, receives, matched)
    received = [_progress("the bytes that have come", *each, max(each[2]["transferred"], 0)) for each in receives]
    ledger.pin(receive, "req_bytes_received", received, places=receives)
    what = "the receive in the other process, none before it answers"
    answer = Row("req_recv", what, lambda dump, request: _partner(ledger, dump, request))
    ledger.pin_rows(send, sends, answer)
    gone = [each for each in sends if each[2]["state"] == "in progress" or _is_answered(each[2])]
    delivered = [_progress("the bytes delivered", *each, each[2]["bytes"]) for each in gone]
    ledger.pin(send, "req_bytes_delivered", delivered, places=sends)


def _is_answered(request: Entry) -> bool:
    return bool(request["mode"] == "synchronous" and request["state"] == "complete")


def _progress(what: str, dump: Dump, address: int, request: Entry, total: int) -> Sighting:
    """Sight a count of bytes: all of them, or some but not all where the transfer was left in the middle."""
    if request["state"] != "in progress":
        return number(what, dump, address, "Q", total)
    return Sighting(what, SOME, lambda offset: SOME if dump.word(address + offset) < total else None)


def _partner(ledger: OpalLedger, dump: Dump, request: Entry) -> int | None:
    """Return the address of the receive that takes a message, in the process of its receiver, if it is known."""
    if _is_answered(request):
        peer = ledger.rank_of_run(dump, request["peer"])
        found: int = peer.of("requests", kind="receive", label=request["label"], pair=request["pair"])[0]["address"]
        return found
    return 0 if request["state"] == "pending" else None
