"""Requests of ch3 (MPIDI_Request): all of them have the same members."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.ledger import Row
from mqs_dll.calibrate.mpich.ch4 import pin_arguments
from mqs_dll.calibrate.mpich.pool_ledger import PoolLedger
from mqs_dll.calibrate.mpich.program import TAG_BYTES
from mqs_dll.calibrate.mpich.requests import (
    REQUEST,
    Requests,
    comm_of,
    posted,
    requests_of,
    source_of,
    tag_of,
    unexpected,
)
from mqs_dll.calibrate.solver import Sighting

COMM = "MPIR_Comm"
RANK_MASK = 0xFFFF

EAGER, RENDEZVOUS, SELF = 1, 2, 3
"""MPIDI_REQUEST_*_MSG: how a message goes."""

SEND, SYNCHRONOUS_SEND = 1 << 4, 3 << 4
"""MPIDI_REQUEST_TYPE_*: what a request is of."""


def find_match(ledger: PoolLedger) -> None:
    """Find what a receive was posted with, and what a send goes with."""
    receives, sends = posted(ledger), _sends(ledger)

    def context(dump: Dump, entry: dict[str, Any]) -> int:
        member = "context_id" if entry["kind"] == "send" else "recvcontext_id"
        return ledger.member(dump, comm_of(ledger, dump, entry["comm"]), COMM, member, "H")

    ledger.pin_rows(
        REQUEST,
        [*receives, *sends],
        Row("dev.match.parts.tag", "the tag", tag_of),
        Row("dev.match.parts.rank", "the peer", lambda dump, entry: source_of(dump, entry) & RANK_MASK),
        Row("dev.match.parts.context_id", "the context id", context),
    )


def _sends(ledger: PoolLedger) -> Requests:
    """Return the sends that wait for their receivers."""
    return [each for label in ("synchronous", "rendezvous") for each in requests_of(ledger, label=label)]


def find_arguments(ledger: PoolLedger) -> None:
    """Find buffer, count and datatype of receives and sends."""
    requests = [*posted(ledger), *_sends(ledger), *requests_of(ledger, label="inactive")]
    pin_arguments(ledger, "dev.", requests, ("user_buf", "user_count", "datatype"))


def find_progress(ledger: PoolLedger) -> None:
    """Find how far a message is, where a message that nobody received lies, and how much of it has flowed."""
    tag = ledger.offset(REQUEST, "dev.match.parts.tag")
    early = list(unexpected(ledger, tag))
    going = {"synchronous": SYNCHRONOUS_SEND, "rendezvous": SEND | RENDEZVOUS, "self": SEND | SELF}
    sends = [each for label in going for each in requests_of(ledger, label=label) if each[2]["kind"] == "send"]
    state = Row("dev.state", "what it is, and how its message goes", lambda _, entry: going[entry["label"]])
    ledger.pin_rows(REQUEST, sends, state)
    copies = [_copy(dump, at, entry["tag"]) for dump, at, _, _, entry in early if entry["label"] == "eager"]
    ledger.pin(REQUEST, "dev.tmpbuf", copies)
    flows = [
        _flow(dump, at, entry["bytes"], True) for dump, at, entry in requests_of(ledger, label="stalled", kind="send")
    ]
    flows += [_flow(dump, at, entry["bytes"], False) for dump, at, entry in requests_of(ledger, label="rendezvous")]
    ledger.pin(REQUEST, "dev.msg_offset", flows)


def _flow(dump: Dump, address: int, total: int, expected: bool) -> Sighting:
    """Sight how much of a message with holes was copied: a part where its data were left half-way, else nothing."""

    def seen(offset: int) -> Hashable:
        copied = dump.word(address + offset)
        return bool(copied) if copied < total else "too much"

    return Sighting("whether a part of the message, not all, has flowed", expected, seen)


def _copy(dump: Dump, address: int, tag: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        return int.from_bytes(dump.read(dump.word(address + offset), TAG_BYTES), "little")

    return Sighting("a copy of the message", tag, seen)
