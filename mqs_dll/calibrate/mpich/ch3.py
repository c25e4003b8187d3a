"""Requests of ch3 (MPIDI_Request): all of them have the same members."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.layout_solver import MemberRow, Place
from mqs_dll.calibrate.mpich.layout_solver import MpichLayoutSolver
from mqs_dll.calibrate.mpich.program import TAG_BYTES
from mqs_dll.calibrate.mpich.requests import REQUEST, context_of, posted, solve_arguments, unexpected
from mqs_dll.calibrate.offset_solver import Observation

RANK_MASK = 0xFFFF

EAGER, RENDEZVOUS, SELF = 1, 2, 3
"""MPIDI_REQUEST_*_MSG: how a message goes."""

SEND, SYNCHRONOUS_SEND = 1 << 4, 3 << 4
"""MPIDI_REQUEST_TYPE_*: what a request is of."""


def find_match(solver: MpichLayoutSolver) -> None:
    """Find what a receive was posted with, and what a send goes with."""
    solver.solve_members(
        REQUEST,
        [*posted(solver), *_sends(solver)],
        MemberRow("dev.match.parts.tag", "the tag", "tag"),
        MemberRow("dev.match.parts.rank", "the peer", lambda _, entry: entry["peer"] & RANK_MASK),
        MemberRow("dev.match.parts.context_id", "the context id", partial(context_of, solver, code="H")),
    )


def _sends(solver: MpichLayoutSolver) -> list[Place]:
    """Return the sends that wait for their receivers."""
    return [each for label in ("synchronous", "rendezvous") for each in solver.requests(label=label)]


def find_arguments(solver: MpichLayoutSolver) -> None:
    """Find buffer, count and datatype of receives and sends."""
    requests = [*posted(solver), *_sends(solver), *solver.requests(label="inactive")]
    solve_arguments(solver, "dev.", requests, names=("user_buf", "user_count", "datatype"))


def find_progress(solver: MpichLayoutSolver) -> None:
    """Find how far a message is, where a message that nobody received lies, and how much of it has flowed."""
    early = unexpected(solver, solver.offset(REQUEST, "dev.match.parts.tag"))
    going = {"synchronous": SYNCHRONOUS_SEND, "rendezvous": SEND | RENDEZVOUS, "self": SEND | SELF}
    sends = [each for label in going for each in solver.requests(label=label, kind="send")]
    state = MemberRow("dev.state", "what it is, and how its message goes", lambda _, entry: going[entry["label"]])
    solver.solve_members(REQUEST, sends, state)
    copies = [(dump, at, entry["tag"]) for dump, at, entry in early if entry["label"] == "eager"]
    solver.solve_seen(REQUEST, "dev.tmpbuf", "a copy of the message", copies, _copied_tag)
    stalled, waiting = solver.requests(label="stalled", kind="send"), solver.requests(label="rendezvous")
    flows = [_flow(dump, at, entry["bytes"], entry["label"] == "stalled") for dump, at, entry in [*stalled, *waiting]]
    solver.solve(REQUEST, "dev.msg_offset", flows)


def _copied_tag(dump: Dump, place: int) -> int:
    return int.from_bytes(dump.read(dump.word(place), TAG_BYTES), "little")


def _flow(dump: Dump, address: int, total: int, expected: bool) -> Observation:
    """Observe how much of a message with holes was copied: a part where its data were left half-way, else nothing."""

    def seen(offset: int) -> Hashable:
        copied = dump.word(address + offset)
        return bool(copied) if copied < total else "too much"

    return Observation("whether a part of the message, not all, has flowed", expected, seen)
