"""Requests: what all of them have, whatever the device."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from itertools import pairwise, product
from typing import Any

from mqs_dll.calibrate.dump import Dump
from mqs_dll.calibrate.layout_solver import MemberRow, Place, number
from mqs_dll.calibrate.mpich.communicators import COMM
from mqs_dll.calibrate.mpich.layout_solver import MpichLayoutSolver, comm_of, is_near
from mqs_dll.calibrate.mpich.program import SURPRISES
from mqs_dll.calibrate.offset_solver import Observation, Solved, Unsolved, solve_offset
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.library.mpi.mpich import handles

REQUEST = "MPIR_Request"
KINDS = {"send": 1, "receive": 2, "persistent send": 3, "persistent receive": 4}
"""MPIR_Request_kind_t: what all releases number alike."""


def posted(solver: MpichLayoutSolver, mode: str = "plain") -> list[Place]:
    """Return the receives that nothing has matched."""
    return solver.requests(mode, label="posted", state="pending")


def find_request(solver: MpichLayoutSolver) -> None:
    """Find what a request's kind is, and whether it is complete."""
    solver.inherit_head(REQUEST)
    everything = solver.requests()
    inactive = solver.requests(label="inactive")
    solver.solve_members(
        REQUEST,
        everything,
        MemberRow("kind", "the kind of request", lambda _, entry: KINDS.get(entry["kind"])),
        MemberRow("cc", "what is left to be done", _is_left),
    )
    count = solver.offset(REQUEST, "cc")
    own = [(dump, at, at + count) for dump, at, entry in everything if entry["label"] in ("posted", "inactive")]
    solver.solve_number(REQUEST, "cc_ptr", "the address of what is left to be done", own)
    # the requests of some networks have no communicator, inactive ones always do
    comm = MemberRow("comm", "the communicator", lambda dump, entry: solver.comm(dump, entry["comm"]))
    solver.first_that_works(
        lambda: solver.solve_members(REQUEST, [*solver.requests(label="posted"), *inactive], comm),
        lambda: solver.solve_members(REQUEST, inactive, comm),
    )


def _is_left(_: Dump, entry: dict[str, Any]) -> bool | None:
    if entry["kind"] == "receive" and entry["label"] not in ("self", "stalled"):  # those are at what nobody waited for
        return bool(entry["state"] == "pending")
    return False if entry["label"] == "inactive" else None


def find_status(solver: MpichLayoutSolver) -> None:
    """Find the parts of the status of complete receives.

    Those over a network count too: over shared memory some releases have source and tag twice.
    """
    modes = ("plain", "cliques")
    received = [each for mode in modes for each in solver.requests(mode, kind="receive", state="complete")]
    solver.solve_members(
        REQUEST,
        received,
        MemberRow("status.MPI_SOURCE", "the source of a message that came", lambda _, entry: entry["status"]["source"]),
        MemberRow("status.MPI_TAG", "the tag of a message that came", lambda _, entry: entry["status"]["tag"]),
    )
    before, size = solver.dumps[0].truth["status"]  # as the MPI's own mpi.h has it
    start = solver.offset(REQUEST, "status.MPI_SOURCE") - before
    what = "the bytes of a message that came, within the status"
    count = MemberRow("status.count_lo", what, lambda _, entry: entry["status"]["bytes"])
    solver.solve_members(REQUEST, received, count, among=range(start, start + size, 4))
    what = "whether it was cancelled, behind the low half of the count"
    cancelled = MemberRow("status.count_hi_and_cancelled", what, lambda _, entry: entry["state"] == "cancelled")
    requests = [*solver.requests(state="cancelled"), *received]
    solver.solve_members(REQUEST, requests, cancelled, among=[solver.offset(REQUEST, "status.count_lo") + 4])


def find_persistent(solver: MpichLayoutSolver) -> None:
    """Find the request behind a persistent one that was started: what is left of the one is left of the other."""
    count, pointer = solver.offset(REQUEST, "cc"), solver.offset(REQUEST, "cc_ptr")
    started = [(dump, at, dump.word(at + pointer) - count) for dump, at, _ in solver.requests(label="started")]
    behind = [(dump, at, other) for dump, at, other in started if other != at]
    none = [(dump, at, 0) for dump, at, _ in solver.requests(label="inactive")]
    solver.solve_number(REQUEST, "u.persist.real_request", "the request behind, none while inactive", [*behind, *none])


def find_links(solver: MpichLayoutSolver) -> None:
    """Find the link from a receive to the one that was posted after it.

    To 3.4 they belong to the device; the name says so.
    """

    def solved(*labels: str) -> Solved:
        links = [
            number("the receive that was posted after it", dump, one, "Q", other)
            for dump, label in product(solver.dumps, labels)
            for one, other in pairwise(
                at for owner, at, _ in solver.requests(label=label, kind="receive") if owner is dump
            )
        ]
        return solve_offset(f"{REQUEST}.next", links, solver.possible_offsets(REQUEST, "Q"))

    try:
        found = solved("posted", "self")
    except Unsolved:  # a network keeps its receives to itself, except those of a process from itself
        found = solved("self")
    of_device = solver.offsets[REQUEST].get("dev.match.parts.tag", found.offset) < found.offset
    solver.remember(REQUEST, "dev.next" if of_device else "next", found)


def context_of(solver: MpichLayoutSolver, dump: Dump, entry: dict[str, Any], code: str = "") -> int:
    """Return the context id of an operation: that of its communicator for sending, or for receiving."""
    member = "context_id" if entry["kind"] == "send" else "recvcontext_id"
    return solver.member(dump, solver.comm(dump, entry["comm"]), COMM, member, code or solver.code_of(COMM, member))


def solve_arguments(
    solver: MpichLayoutSolver,
    prefix: str,
    requests: Sequence[Place],
    *more: MemberRow,
    names: Sequence[str] = ("buffer", "count", "datatype"),
) -> None:
    """Find what all operations have: buffer, count and datatype, which a device has its own names for; and more."""
    buffer, count, datatype = names
    for row in (
        MemberRow(datatype, "the datatype", lambda dump, entry: solver.handle_inside(dump, entry["datatype"])),
        MemberRow(buffer, "the program's buffer", "buffer"),
        MemberRow(count, "the count", "count"),
        *more,
    ):
        solver.solve_members(REQUEST, requests, row._replace(member=prefix + row.member))


def unexpected(solver: MpichLayoutSolver, tag_at: int) -> list[Place]:
    """Return the requests that MPICH made for messages that nobody receives, found by their tags at an offset.

    Their entries are those of the sends, with the process of the "sender".
    """
    found = {
        (dump, dump.scalar(address + tag_at, "i")): address
        for dump in solver.dumps
        for address in solver.objects(dump, handles.REQUEST)
        if solver.member(dump, address, REQUEST, "comm") == 0
    }
    messages = [
        (solver.rank_of_run(dump, comm_of(dump, entry["comm"])["peers"][entry["peer"]]), {**entry, "sender": dump})
        for dump, entry in solver.each("requests")
        if entry["label"] in SURPRISES
    ]
    return [(dump, found[dump, entry["tag"]], entry) for dump, entry in messages if (dump, entry["tag"]) in found]


def is_local(dump: Dump, entry: dict[str, Any]) -> bool | None:
    """Return whether the peer of an operation is on the same node in the run with several, None of any peer."""
    return None if entry["peer"] < 0 else is_near(dump, comm_of(dump, entry["comm"])["peers"][entry["peer"]])


def find_locality(solver: MpichLayoutSolver) -> None:
    """Find whether a message stays within a node, and the other half of a receive from anywhere."""
    partitioned = [each for each in solver.requests() if each[2]["partitions"]]  # unlike a message's type
    what = "whether the peer is on the same node"
    local = MemberRow("dev.is_local", what, lambda dump, entry: bool(entry["partitions"]) or is_local(dump, entry))
    solver.optionally(REQUEST, [*posted(solver, "cliques"), *partitioned], local)

    def solve_partner(*modes: str) -> None:
        receives = [each for mode in modes for each in posted(solver, mode)]
        halves = [_half(solver, dump, at, entry["peer"] < 0) for dump, at, entry in receives]
        solver.solve(REQUEST, "dev.anysrc_partner", halves)

    with suppress(CalibrationError):  # not every release has it, nor a job that can't use a network
        solver.first_that_works(lambda: solve_partner("plain", "cliques"), lambda: solve_partner("cliques"))


def _half(solver: MpichLayoutSolver, dump: Dump, address: int, from_anywhere: bool) -> Observation:
    """Observe a pointer to another request that points back, of a receive from anywhere."""

    def seen(offset: int) -> Hashable:
        other = dump.word(address + offset)
        if other == 0:
            return False
        is_request = solver.is_object(dump, handles.REQUEST, other) and other != address
        return True if is_request and dump.word(other + offset) == address else None

    return Observation("a request that points back, of a receive from anywhere", from_anywhere, seen)
