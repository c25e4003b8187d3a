"""Sightings of requests: those of every kind, and those of pml/ob1."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import number, step
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.solver import Sighting, Solved

# ompi/request/request.h and ompi/mca/pml/base/pml_base_request.h, the same in 4.1 and 5.0
PML_TYPES = {"send": 1, "receive": 2}
STATES = {"gone": 0, "inactive": 1, "pending": 2, "in progress": 2, "complete": 2}
MODES = {"synchronous": 0, "buffered": 2, "ready": 3, "standard": 4}
OB1_CLASSES = {"receive": "mca_pml_ob1_recv_request_t", "send": "mca_pml_ob1_send_request_t"}
BEHIND_FIRST_PACKET = 500_000
"""Bytes into a large buffered message: what goes out at once isn't copied."""

SOME = "some, not all"

Requests = list[tuple[Dump, dict[str, Any]]]


def messages(ledger: OpalLedger, kind: str = "") -> Requests:
    """Return the live requests of point-to-point messages, those of one direction or all."""
    kinds = (kind,) if kind else ("receive", "send")
    return [
        (dump, request)
        for dump, request in ledger.each("requests")
        if request["kind"] in kinds and request["state"] != "gone"
    ]


def _numbers(what: str, code: str, key: str, requests: Iterable[tuple[Dump, dict[str, Any]]]) -> list[Sighting]:
    return [number(what, dump, request["address"], code, request[key]) for dump, request in requests]


# ---------------------------------------------------------------- requests of every kind


def find_request(ledger: OpalLedger) -> None:
    """Find what all requests have."""
    struct = "ompi_request_t"
    own = {size: ledger.own_offsets(struct, size) for size in (1, 4, WORD)}
    states, completions, persistence = [], [], []
    for dump, request in ledger.each("requests"):
        address, kind, state = request["address"], request["kind"], request["state"]
        if kind in OB1_CLASSES:
            states.append(number("the state of a request", dump, address, "i", STATES[state]))
        if kind in OB1_CLASSES and state != "gone":
            complete = int(state in ("complete", "inactive"))
            completions.append(number("whether a request is complete", dump, address, "Q", complete))
            persistence.append(number("whether a request is persistent", dump, address, "B", request["persistent"]))
    ledger.pin(struct, "req_state", states, own[4])
    ledger.pin(struct, "req_complete", completions, own[WORD])
    ledger.pin(struct, "req_persistent", persistence, own[1])
    _find_status(ledger, own[WORD])


def _find_status(ledger: OpalLedger, candidates: list[int]) -> None:
    """Find the status; its own layout is in the MPI's public header, and the compiler told it."""
    public = ledger.dumps[0].truth["ompi_status_public_t"]
    ledger.sizes["ompi_status_public_t"] = public["size"]
    for member, offset in public.items():
        if member != "size":
            ledger.remember("ompi_status_public_t", member, Solved(offset, "offsetof in the MPI's own mpi.h"))
    sightings = [
        _status(ledger, dump, request)
        for dump, request in messages(ledger, "receive")
        if request["state"] == "complete"
    ]
    ledger.pin("ompi_request_t", "req_status", sightings, candidates)


def _status(ledger: OpalLedger, dump: Dump, request: dict[str, Any]) -> Sighting:
    def read(offset: int, member: str, code: str) -> int:
        return ledger.member(dump, request["address"] + offset, "ompi_status_public_t", member, code)

    def seen(offset: int) -> Hashable:
        return (read(offset, "MPI_SOURCE", "i"), read(offset, "MPI_TAG", "i"), read(offset, "_ucount", "Q"))

    status = request["status"]
    expected = (status["source"], status["tag"], status["bytes"])
    return Sighting("source, tag and length as MPI_Request_get_status gives them", expected, seen)


# ---------------------------------------------------------------- messages of the pml base


def find_pml_request(ledger: OpalLedger) -> None:
    """Find what sends and receives have in common."""
    struct = "mca_pml_base_request_t"
    requests = messages(ledger)
    instances = [(dump, request["address"]) for dump, request in requests]
    own = {size: ledger.own_offsets(struct, size, instances) for size in (1, 4, WORD)}
    ledger.pin(struct, "req_comm", _numbers("the communicator", "Q", "comm", requests), own[WORD])
    ledger.pin(struct, "req_datatype", _numbers("the datatype", "Q", "datatype", requests), own[WORD])
    ledger.pin(struct, "req_addr", _numbers("the program's buffer", "Q", "buffer", requests), own[WORD])
    ledger.pin(struct, "req_count", _numbers("the count", "Q", "count", requests), own[WORD])
    ledger.pin(struct, "req_peer", _numbers("the peer that was named", "i", "peer", requests), own[4])
    ledger.pin(struct, "req_tag", _numbers("the tag that was named", "i", "tag", requests), own[4])
    freed = _numbers("whether the program freed the request", "B", "freed", requests)
    ledger.pin(struct, "req_free_called", freed, own[1])
    types = [
        number("send or receive", dump, request["address"], "I", PML_TYPES[request["kind"]])
        for dump, request in requests
    ]
    ledger.pin(struct, "req_type", types, own[4])
    ledger.pin(struct, "req_pml_complete", list(_deliveries(requests)), own[1])
    ledger.pin(struct, "req_sequence", list(_sequences(ledger)), own[WORD])


def _deliveries(requests: Requests) -> Iterator[Sighting]:
    """Sight whether the transport is done; a buffered send is complete for the program long before."""
    for dump, request in requests:
        state, mode = request["state"], request["mode"]
        if request["kind"] == "send" and state == "complete" and mode not in ("synchronous", "buffered"):
            continue  # eager: the transport may not have told yet
        done = int(state in ("complete", "inactive") and mode != "buffered")
        yield number("whether the transport is done with it", dump, request["address"], "B", done)


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


def find_base_directions(ledger: OpalLedger) -> None:
    """Find what a send or a receive has of its own, whatever the pml."""
    receive, send = "mca_pml_base_recv_request_t", "mca_pml_base_send_request_t"
    lengths = [
        number("the length of the message that a receive took", dump, request["address"], "Q", request["transferred"])
        for dump, request in messages(ledger, "receive")
        if request["state"] in ("complete", "in progress")
    ]
    ledger.pin(receive, "req_bytes_packed", lengths, ledger.own_offsets(receive, WORD))
    sends = messages(ledger, "send")
    own = ledger.own_offsets(send, WORD)
    ledger.pin(send, "req_bytes_packed", _numbers("the bytes of a message", "Q", "bytes", sends), own)
    ledger.pin(send, "req_addr", [_sent_from(dump, request) for dump, request in sends], own)
    modes = [
        number("the mode of a send", dump, request["address"], "I", MODES[request["mode"]]) for dump, request in sends
    ]
    ledger.pin(send, "req_send_mode", modes, ledger.own_offsets(send, 4))


def _sent_from(dump: Dump, request: dict[str, Any]) -> Sighting:
    """Sight the buffer that is sent from: of a buffered send the copy in the attached buffer."""
    if request["mode"] != "buffered":
        return number("the buffer of a send", dump, request["address"], "Q", request["buffer"])
    attached = range(dump.truth["attached"], dump.truth["attached"] + dump.truth["attached_bytes"])
    pattern = bytes((BEHIND_FIRST_PACKET + place) % 256 for place in range(64))

    def seen(offset: int) -> Hashable:
        copy = dump.word(request["address"] + offset)
        if copy not in attached or dump.read(copy + BEHIND_FIRST_PACKET, len(pattern)) != pattern:
            return None
        return int(request["bytes"])

    return Sighting("the copy of a message in the attached buffer", request["bytes"], seen)


# ---------------------------------------------------------------- pml/ob1


def find_ob1_requests(ledger: OpalLedger) -> None:
    """Find the progress of sends and receives in pml/ob1."""
    receive, send = OB1_CLASSES["receive"], OB1_CLASSES["send"]
    received, matched, delivered, answered = [], [], [], []
    for dump, request in messages(ledger, "receive"):
        if request["state"] == "inactive":
            continue
        received.append(_progress("the bytes that have come", dump, request, max(request["transferred"], 0)))
        known = int(request["state"] != "pending")
        matched.append(number("whether a message was matched", dump, request["address"], "B", known))
    for dump, request in messages(ledger, "send"):
        if request["mode"] == "synchronous" and request["state"] == "complete":
            what = "the receive in the other process"
            answered.append(number(what, dump, request["address"], "Q", _partner(ledger, dump, request)))
        if request["state"] == "pending":
            answered.append(number("no answer yet", dump, request["address"], "Q", 0))
        if request["state"] == "in progress" or (request["mode"] == "synchronous" and request["state"] == "complete"):
            delivered.append(_progress("the bytes delivered", dump, request, request["bytes"]))
    own = ledger.own_offsets(receive, WORD)
    ledger.pin(receive, "req_bytes_received", received, own)
    ledger.pin(receive, "req_match_received", matched, ledger.own_offsets(receive))
    own = ledger.own_offsets(send, WORD)
    ledger.pin(send, "req_recv", answered, own)
    ledger.pin(send, "req_bytes_delivered", delivered, own)


def _progress(what: str, dump: Dump, request: dict[str, Any], total: int) -> Sighting:
    """Sight a count of bytes: all of them, or some but not all where the transfer was left in the middle."""
    if request["state"] != "in progress":
        return number(what, dump, request["address"], "Q", total)

    def seen(offset: int) -> Hashable:
        return SOME if dump.word(request["address"] + offset) < total else None

    return Sighting(what, SOME, seen)


def _partner(ledger: OpalLedger, dump: Dump, request: dict[str, Any]) -> int:
    """Return the address of the receive that takes a message, in the process of its receiver."""
    peer = ledger.rank_of_run(dump, request["peer"])
    found: int = peer.of("requests", kind="receive", label=request["label"], pair=request["pair"])[0]["address"]
    return found
