"""One operation as it is shown, compared field by field."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mqs_dll.contract.abi import Operation, Queue, Status
from mqs_dll.contract.errors import TargetReadError
from tests.support.rules import SAYS_UNKNOWN, Rules
from tests.support.truth.written import TrueCommunicator, TrueOperation

Fetch = Callable[[int, int], bytes]
"""Reads memory of the process: address and size to bytes."""

HANDLES = re.compile(rb"\b0x[0-9a-f]+\b")

ALL_BYTES = bytes(range(256))
"""In their order, again and again, they make a message; its pattern is the first."""

UNKNOWN = {"buffer": 0}
"""What a field is when nobody knows it; -1 where it isn't here."""


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
        if self.communicator.has_strangers and not self.rules.strangers_tell_datatypes:
            true = replace(true, count=-1)
        if self.rules.may_know_data_alone and "init" not in true.call and shown.buffer == true.buffer + true.gap:
            true = replace(true, buffer=shown.buffer)
        unknown = self.rules.may_be_unknown(true, self.communicator)
        return compare_request(true, shown, self.rules, unknown)


def wanted_of(true: TrueOperation) -> dict[str, Any]:
    """Return the ranks, tags, lengths and the buffer with which an operation must be shown.

    A message has come as it was sent, and a send is what it asks for; only of a receive the two differ.
    """
    asked = {"local_rank": true.peer, "global_rank": true.world_peer, "tag": true.tag, "length": true.length}
    found = asked
    if true.queue is Queue.RECEIVES:
        found = {
            "local_rank": true.actual_peer,
            "global_rank": true.actual_world_peer,
            "tag": true.actual_tag,
            "length": true.actual_length,
        }
    wanted = {f"desired_{name}": value for name, value in asked.items()}
    wanted |= {f"actual_{name}": value for name, value in found.items()}
    return wanted if true.buffer == -1 else wanted | {"buffer": true.buffer}  # -1: it is not the program's


def compare_request(true: TrueOperation, shown: Operation, rules: Rules, unknown: frozenset[str]) -> list[str]:
    """Compare a send or a receive in every field; some may be unknown, which the text then says."""
    wanted = wanted_of(true) | {
        "status": true.status if true.status is not None else shown.status,
        "tag_wild": true.tag == -1,
    }
    if "buffer" in wanted:
        wanted["system_buffer"] = False
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
    missing = [each for each in rules.texts(known) if not re.search(each, text)]
    handle = b"0x%x" % true.request
    if true.request and handle not in HANDLES.findall(text):
        missing.append(handle)
    return [f"the text has no {each!r}: {text!r}" for each in missing]


def compare_unexpected(true: TrueOperation, shown: Operation, fetch: Fetch) -> list[str]:
    """Compare an unexpected message in every field, and what lies where its payload should lie."""
    wanted = wanted_of(true) | {
        "status": true.status if true.status is not None else shown.status,
        "tag_wild": False,
        "system_buffer": True,
    }
    wanted.pop("buffer", None)  # compare_payload looks at it
    differences = differing(shown, **wanted)
    return differences + compare_payload(true, shown, fetch)


def compare_payload(true: TrueOperation, shown: Operation, fetch: Fetch) -> list[str]:
    """Compare the bytes of a message that are here, where they are known: all of a complete one, else the first."""
    if shown.status is Status.COMPLETE and bool(true.length) != bool(shown.buffer):
        return [f"the message of {true.length} bytes is complete, and its buffer is {shown.buffer:#x}"]
    if not shown.buffer or true.pattern < 0:
        return []
    size = true.length if shown.status is Status.COMPLETE else 1
    begin = true.pattern % len(ALL_BYTES)
    wanted = (ALL_BYTES * (size // len(ALL_BYTES) + 2))[begin : begin + size]
    try:
        lies_there = fetch(shown.buffer, size)
    except TargetReadError as error:
        return [str(error)]
    return [] if lies_there == wanted else [f"at {shown.buffer:#x} lies {lies_there[:16]!r}, not {wanted[:16]!r}"]


def differing(shown: Operation, **wanted: Any) -> list[str]:
    """Return a sentence for each field that is not as wanted."""
    return [
        f"{field} is {getattr(shown, field)!r} instead of {value!r}"
        for field, value in wanted.items()
        if getattr(shown, field) != value
    ]


def wrong_fields(true: TrueOperation, shown: Operation) -> list[str]:
    """Return the fields that are neither true nor said to be unknown."""
    known = {field: value for field, value in wanted_of(true).items() if getattr(shown, field) != -1}
    if not shown.buffer and SAYS_UNKNOWN.search(b"\n".join(shown.extra_text)):
        known.pop("buffer", None)
    differences = differing(shown, **known)
    if shown.tag_wild and true.tag != -1:
        differences.append("tag_wild is set")
    if true.done is not None and true.done != (shown.status is Status.COMPLETE):
        differences.append(f"the status is {shown.status!r}, but MPI says done={true.done}")
    return differences
