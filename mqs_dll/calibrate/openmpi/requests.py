"""Observations of requests: those of every kind, and those of pml/ob1."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from mqs_dll.calibrate.dump import Dump, Entry
from mqs_dll.calibrate.layout_solver import MemberRow, Place, step
from mqs_dll.calibrate.offset_solver import Observation, Solved
from mqs_dll.calibrate.openmpi.layout_solver import OpenMpiLayoutSolver

# ompi/request/request.h and ompi/mca/pml/base/pml_base_request.h, the same in 4.1 and 5.0
PML_TYPES = {"send": 1, "receive": 2}
STATES = {"gone": 0, "inactive": 1, "pending": 2, "in progress": 2, "complete": 2}
LIVE = ("inactive", "pending", "in progress", "complete")
MODES = {"synchronous": 0, "buffered": 2, "ready": 3, "standard": 4}
BEHIND_FIRST_PACKET = 500_000
"""Bytes into a large buffered message: what goes out at once isn't copied."""

SOME = "some, not all"


def live(dumps: Sequence[Dump], kind: str = "", *states: str) -> list[Place]:
    """Return the live requests of some processes, those of one direction or all, in some states or any."""
    return [
        (dump, request["address"], request)
        for dump in dumps
        for request in dump.of("requests")
        if kind in ("", request["kind"]) and request["state"] in (states or LIVE)
    ]


# ---------------------------------------------------------------- requests of every kind


def _is_complete(_: Dump, request: Entry) -> bool:
    return request["state"] in ("complete", "inactive")


STATUS = (("MPI_SOURCE", "i", "source"), ("MPI_TAG", "i", "tag"), ("_ucount", "Q", "bytes"))
"""Members of a status that a receive's is known by, with their types, and the truth's names for them."""


def _status(solver: OpenMpiLayoutSolver, dump: Dump, address: int, _: Entry) -> Hashable:
    return tuple(solver.member(dump, address, "ompi_status_public_t", member, code) for member, code, _ in STATUS)


def find_request(solver: OpenMpiLayoutSolver) -> None:
    """Find what all requests have, and the status, whose own layout is in the MPI's public header."""
    struct, status = "ompi_request_t", "ompi_status_public_t"
    state = MemberRow("req_state", "the state of a request", lambda _, request: STATES[request["state"]])
    solver.solve_members(struct, solver.places("requests"), state)
    solver.solve_members(
        struct,
        live(solver.dumps),
        MemberRow("req_complete", "whether a request is complete", _is_complete),
        MemberRow("req_persistent", "whether a request is persistent", "persistent"),
    )
    public = solver.dumps[0].truth[status]
    solver.sizes[status] = public["size"]
    for member, offset in public.items():
        if member != "size":
            solver.remember(status, member, Solved(offset, "offsetof in the MPI's own mpi.h"))
    what = "source, tag and length as MPI_Request_get_status gives them"
    row = MemberRow("req_status", what, lambda _, each: tuple(each["status"][key] for *_, key in STATUS), seen=_status)
    solver.solve_members(struct, live(solver.dumps, "receive", "complete"), row)


# ---------------------------------------------------------------- messages of the pml base


def _is_delivered(dump: Dump, request: Entry) -> bool | None:
    """Return whether the transport is done; a buffered send is complete for the program long before."""
    mode = request["mode"]
    if request["kind"] == "send" and request["state"] == "complete" and mode not in ("synchronous", "buffered"):
        return None  # eager: the transport may not have reported it yet
    return _is_complete(dump, request) and mode != "buffered"


def _sent_from(_: OpenMpiLayoutSolver, dump: Dump, address: int, request: Entry) -> Hashable:
    """See the buffer that is sent from: of a buffered send the copy in the attached buffer."""
    buffer = dump.word(address)
    if request["mode"] != "buffered":
        return buffer
    attached, size = dump.truth["attached"]
    pattern = bytes((BEHIND_FIRST_PACKET + place) % 256 for place in range(64))
    is_copy = attached <= buffer < attached + size
    return "a copy" if is_copy and dump.read(buffer + BEHIND_FIRST_PACKET, len(pattern)) == pattern else None


BASE_ROWS = (
    MemberRow("req_comm", "the communicator", "comm"),
    MemberRow("req_datatype", "the datatype", "datatype"),
    MemberRow("req_addr", "the program's buffer", "buffer"),
    MemberRow("req_count", "the count", "count"),
    MemberRow("req_peer", "the peer that was named", "peer"),
    MemberRow("req_tag", "the tag that was named", "tag"),
    MemberRow("req_free_called", "whether the program freed the request", "freed"),
    MemberRow("req_type", "send or receive", lambda _, request: PML_TYPES[request["kind"]]),
    MemberRow("req_pml_complete", "whether the transport is done with it", _is_delivered),
)
"""What sends and receives have in common."""

SEND_ROWS = (
    MemberRow("req_bytes_packed", "the bytes of a message", "bytes"),
    MemberRow("req_send_mode", "the mode of a send", lambda _, request: MODES[request["mode"]]),
    MemberRow(
        "req_addr",
        "the buffer of a send, or the copy of a message in the attached buffer",
        lambda _, request: "a copy" if request["mode"] == "buffered" else request["buffer"],
        seen=_sent_from,
    ),
)


def find_pml_request(solver: OpenMpiLayoutSolver) -> None:
    """Find what sends and receives have in common, and what each has of its own, whatever the pml."""
    base, receive, send = (f"mca_pml_base_{name}request_t" for name in ("", "recv_", "send_"))
    everything = live(solver.dumps)
    solver.solve_members(base, everything, *BASE_ROWS)
    solver.solve(base, "req_sequence", list(_sequences(solver)), places=everything)
    length = MemberRow("req_bytes_packed", "the length of the message that a receive took", "transferred")
    solver.solve_members(receive, live(solver.dumps, "receive", "complete", "in progress"), length)
    solver.solve_members(send, live(solver.dumps, "send"), *SEND_ROWS)


def _sequences(solver: OpenMpiLayoutSolver) -> Iterator[Observation]:
    """Observe numbers that go up by one with each receive posted on a communicator, and each message sent."""
    for dump in solver.dumps:
        for label in ("posted 0", "posted 1", "posted 2"):
            posted = dump.of("requests", kind="receive", label=label, state="pending")
            for one, other in pairwise(posted):
                yield step("one more than the receive before", dump, one["address"], other["address"], "Q", 1)
        for one, other in pairwise(dump.of("requests", kind="send", label="surprise 0")):
            what, distance = "as many more as messages were sent since", other["tag"] - one["tag"]
            yield step(what, dump, one["address"], other["address"], "Q", distance)


# ---------------------------------------------------------------- pml/ob1


def _progress(_: Dump, request: Entry) -> Hashable:
    return SOME if request["state"] == "in progress" else request["transferred"]


def _bytes_so_far(_: OpenMpiLayoutSolver, dump: Dump, address: int, request: Entry) -> Hashable:
    """See a count of bytes: all of them, or some but not all where the transfer was left in the middle."""
    count = dump.word(address)
    return SOME if request["state"] == "in progress" and count < request["transferred"] else count


def find_ob1_requests(solver: OpenMpiLayoutSolver) -> None:
    """Find the progress of sends and receives in pml/ob1."""
    receive, send = "mca_pml_ob1_recv_request_t", "mca_pml_ob1_send_request_t"
    sends = live(solver.dumps, "send")
    solver.solve_members(
        receive,
        live(solver.dumps, "receive", "pending", "in progress", "complete"),
        MemberRow("req_match_received", "whether a message was matched", lambda _, each: each["state"] != "pending"),
        MemberRow("req_bytes_received", "the bytes that have come", _progress, seen=_bytes_so_far),
    )
    what = "the receive in the other process, none before it answers"
    solver.solve_members(
        send, sends, MemberRow("req_recv", what, lambda dump, request: _partner(solver, dump, request))
    )
    gone = [each for each in sends if each[2]["state"] == "in progress" or _is_answered(each[2])]
    solver.solve_members(
        send, gone, MemberRow("req_bytes_delivered", "the bytes delivered", _progress, seen=_bytes_so_far)
    )


def _is_answered(request: Entry) -> bool:
    return bool(request["mode"] == "synchronous" and request["state"] == "complete")


def _partner(solver: OpenMpiLayoutSolver, dump: Dump, request: Entry) -> int | None:
    """Return the address of the receive that takes a message, in the process of its receiver, if it is known."""
    if _is_answered(request):
        peer = solver.rank_of_run(dump, request["peer"])
        found: int = peer.of("requests", kind="receive", label=request["label"], tag=request["tag"])[0]["address"]
        return found
    return 0 if request["state"] == "pending" else None
