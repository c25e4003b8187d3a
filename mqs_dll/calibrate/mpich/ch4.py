"""Requests of ch4: messages over shared memory, persistent and partitioned ones, those of one process with itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.layout_solver import SIZES, KnownNumber, MemberRow, Place, number
from mqs_dll.calibrate.mpich.layout_solver import MpichLayoutSolver, comm_of, find_number
from mqs_dll.calibrate.mpich.program import SURPRISES
from mqs_dll.calibrate.mpich.requests import (
    REQUEST,
    context_of,
    is_local,
    posted,
    solve_arguments,
    unexpected,
)
from mqs_dll.calibrate.offset_solver import Observation, Solved, Unsolved, solve_offset
from mqs_dll.library.mpi.mpich import handles

EXTENSION = "MPIDIG_req_ext_t"
EXTENDED = "dev.ch4.am.req"
"""The member of a request that points at its extension."""

HEADER = "MPIDIG_hdr_t"
MAX_EXTENSION = 512
NEAR = range(-64, 128)
"""Where the parts of a message's header lie, counted from the address of the send's request in it."""

STATES = {"posted": 0, "eager": 0x104, "synchronous": 0x106, "rendezvous": 0x184}
"""MPIDIG_REQ_* of each label: unexpected and in progress, of a synchronous send, ready to send."""

FLAGS = {"synchronous": 1, "rendezvous": 2}
"""MPIDIG_AM_SEND_FLAGS_SYNC and _RTS; bits above 8 name a rendezvous's protocol, which may leave out the first."""

GONE = {"synchronous": 1, "rendezvous": 0}
"""Segments of the data of a send that have flowed: a small one's whole data go with its header."""

OTHERS = ("self", "inactive", "partitioned", "lonely")
"""Labels of requests that are no messages over shared memory."""

PERSISTENT_TYPES = {"Recv_init": 0, "Send_init": 1, "Bsend_init": 2, "Ssend_init": 3}
"""MPIDI_ptype."""


def _free(solver: MpichLayoutSolver, *taken: str) -> list[int]:
    """Return the offsets of numbers in a request that some members don't have."""
    used = {solver.offsets[REQUEST][member] for member in taken if member in solver.offsets[REQUEST]}
    return [offset for offset in solver.possible_offsets(REQUEST, "i") if offset not in used]


# ---------------------------------------------------------------- active messages


def tag_at(solver: MpichLayoutSolver) -> int:
    """Return where a request over shared memory has its tag."""
    members = solver.offsets[REQUEST]
    return members.get("dev.ch4.am.u.recv.tag", members.get("status.MPI_TAG", -1))


def find_receive(solver: MpichLayoutSolver) -> None:
    """Find what a receive was posted with; since 4.3 source and tag are in its status and nowhere else."""
    receives = posted(solver)
    prefix = "dev.ch4.am."
    context = MemberRow("u.recv.context_id", "the context id of receiving", partial(context_of, solver))
    solve_arguments(solver, prefix, receives, context)
    free = _free(solver, "status.MPI_SOURCE", "status.MPI_TAG")
    for name, key in (("source", "peer"), ("tag", "tag")):
        own = MemberRow(f"{prefix}u.recv.{name}", f"the {name} that was named", key)
        if not solver.optionally(REQUEST, receives, own, among=free):
            status = own._replace(member=f"status.MPI_{name.upper()}")
            solver.solve_members(REQUEST, receives, status, among=[solver.offset(REQUEST, status.member)])


def find_extension(solver: MpichLayoutSolver) -> None:
    """Find a request's extension, by the send that a synchronous message has there; complete requests have none.

    Raises:
        Unsolved: not exactly one place leads to the sends' addresses.
    """
    answers = [
        (dump, at, solver.find(entry["sender"], entry["handle"]))
        for dump, at, entry in unexpected(solver, tag_at(solver))
        if entry["label"] == "synchronous"
    ]
    complete = solver.requests(label="received", kind="receive")
    ways = [
        (member, inside)
        for member, inside in product(solver.possible_offsets(REQUEST, "Q"), range(0, MAX_EXTENSION, WORD))
        if all(dump.word(at + member) == 0 for dump, at, _ in complete) and _all_lead_to(answers, member, inside)
    ]
    if len(ways) != 1 or len({value for *_, value in answers}) < 2:
        raise Unsolved(f"{EXTENSION}: {len(ways)} ways lead to the sends of {len(answers)} messages: {ways}")
    member, inside = ways[0]
    text = f"what leads to the send of a synchronous message: {len(answers)} places, {len(answers)} values"
    solver.remember(REQUEST, EXTENDED, Solved(member, text))
    solver.remember(EXTENSION, "rreq.peer_req_ptr", Solved(inside, text))
    # they come from a pool of their own: their distance is more than their size
    places = sorted((id(dump), at) for dump, at, _ in extensions(posted(solver), member))
    distances = [other[1] - one[1] for one, other in pairwise(places) if one[0] == other[0]]
    solver.extents[EXTENSION] = min([*distances, MAX_EXTENSION])


def _all_lead_to(answers: Sequence[KnownNumber], member: int, inside: int) -> bool:
    try:
        return bool(answers) and all(dump.word(dump.word(at + member) + inside) == value for dump, at, value in answers)
    except LookupError:
        return False


def extensions(requests: Sequence[Place], member: int) -> list[Place]:
    """Return the extensions of requests, in their place, as far as they have one."""
    return [(dump, place, entry) for dump, at, entry in requests if (place := dump.word(at + member))]


def find_progress(solver: MpichLayoutSolver) -> None:
    """Find what the extension has of a message: its kind and length."""
    member = solver.offset(REQUEST, EXTENDED)
    came, waiting = extensions(unexpected(solver, tag_at(solver)), member), extensions(posted(solver), member)
    status = MemberRow("status", "how far a message is", lambda _, entry: STATES.get(entry["label"]))
    solver.solve_members(EXTENSION, [*came, *waiting], status)
    whole = [each for each in came if "rend" not in each[2]["label"]]
    solver.solve_members(EXTENSION, whole, MemberRow("recv_async.in_data_sz", "the bytes of a message", "bytes"))


def find_flow(solver: MpichLayoutSolver) -> None:
    """Find how much of a message's data has flowed, and the receive that took a message that was there before it.

    The data of some messages was left half-way, with more to come than the shared memory can hold.
    """
    member = solver.offset(REQUEST, EXTENDED)
    sends = extensions(solver.requests(label="stalled", kind="send"), member)
    ways = [
        (rest, flowed)
        for rest, flowed in product(solver.possible_offsets(EXTENSION, "Q"), repeat=2)
        if all(_parts("", dump, at, rest, entry["bytes"]).fits(flowed) for dump, at, entry in sends)
    ]
    if len(ways) != 1 or len({entry["bytes"] for *_, entry in sends}) < 2:
        raise Unsolved(f"{EXTENSION}.send_async: {len(ways)} places have the parts of {len(sends)} messages: {ways}")
    what = "what is left of a message's data, with what has flowed its length"
    rest = Solved(ways[0][0], f"{what}: {len(sends)} places, {len(sends)} values")
    solver.remember(EXTENSION, "send_async.data_sz_left", rest)
    done = extensions([each for label in GONE for each in solver.requests(label=label)], member)
    what = "what has flowed of a message's data"
    gone = MemberRow("send_async.offset", what, lambda _, entry: entry["bytes"] * GONE[entry["label"]])
    solver.solve_members(EXTENSION, done, gone, among=[ways[0][1]])
    _find_segments(solver, done)
    _find_received(solver, member, {entry["tag"]: entry["bytes"] for *_, entry in sends})


def _parts(what: str, dump: Dump, extension: int, rest: int, total: int) -> Observation:
    """Observe what has flowed of a message's data, a smaller part than the rest."""

    def seen(offset: int) -> Hashable:
        left, gone = dump.word(extension + rest), dump.word(extension + offset)
        return left + gone if 0 < gone < left else None

    return Observation(what, total, seen)


def _find_segments(solver: MpichLayoutSolver, done: Sequence[Place]) -> None:
    """Find the number of a message's segments: those given to the transport, and behind it those that it is done with.

    Shared memory is done with a segment at once: the two are equal whenever a program is outside MPI. The order is that
    of the declaration (src/mpid/ch4/include/mpidpre.h).
    """
    what = "the segments of a message's data, the first of two equal numbers"
    observations = [number(what, dump, at, "i", GONE[entry["label"]]) for dump, at, entry in done]
    offsets = solver.possible_offsets(EXTENSION, "i")
    fitting = [at for at in offsets if all(each.fits(at) and each.fits(at + 4) for each in observations)]
    solver.solve(EXTENSION, "send_async.seg_issued", observations, fitting)


def _find_received(solver: MpichLayoutSolver, member: int, totals: dict[int, int]) -> None:
    """Find how much of a message's data has come, by what is still to come of it, and the receive that the message has.

    Only a receive from anywhere keeps a request of its own beside the message's.
    """
    rest = solver.offset(EXTENSION, "recv_async.in_data_sz")
    parts: list[Observation] = []
    matched: list[Place] = []
    for dump, receive, entry in solver.requests(label="stalled", kind="receive"):
        for address in solver.objects(dump, handles.REQUEST):
            extension = dump.word(address + member)
            if not extension or dump.scalar(address + tag_at(solver), "i") != entry["tag"]:
                continue
            if 0 < dump.word(extension + rest) < totals[entry["tag"]]:
                what = "what has come of a message's data, with what is to come its length"
                parts.append(_parts(what, dump, extension, rest, totals[entry["tag"]]))
            if entry["peer"] < 0 and address != receive:
                matched.append((dump, extension, {"receive": receive}))
    solver.solve(EXTENSION, "recv_async.offset", parts)
    came = extensions(unexpected(solver, tag_at(solver)), member)
    none = [(dump, at, {"receive": 0}) for dump, at, entry in came if entry["label"] in ("eager", "synchronous")]
    row = MemberRow("rreq.match_req", "the receive that took the message", "receive")
    solver.optionally(EXTENSION, [*matched, *none], row)


def find_destination(solver: MpichLayoutSolver) -> None:
    """Find where a rendezvous goes, within a node."""
    sends = [each for each in solver.requests("cliques", label="rendezvous") if is_local(each[0], each[2])]
    solver.solve_members(REQUEST, sends, MemberRow("dev.ch4.am.u.send.dest", "the destination of a rendezvous", "peer"))


def find_type(solver: MpichLayoutSolver) -> None:
    """Find what distinguishes messages over shared memory from all other requests, since 4.1."""
    requests = [*posted(solver), *(each for label in OTHERS for each in solver.requests(label=label))]
    shared = MemberRow(
        "dev.type", "whether it is a message over shared memory", lambda _, each: each["label"] == "posted"
    )
    solver.optionally(REQUEST, requests, shared)


# ---------------------------------------------------------------- headers of messages


def find_header(solver: MpichLayoutSolver) -> None:
    """Find the parts of a message's header, counted from the address of the send's request that it has.

    It stays in shared memory where a process left its cells alone after its sends: no data flowed through them.
    """
    sent = [
        (dump, find_number(dump, request, WORD, "shared"), entry)
        for dump, request, entry in solver.requests(kind="send")
        if entry["label"] in SURPRISES and entry["label"] != "eager"
        if not dump.of("requests", label="stalled", kind="send")
    ]
    parts: tuple[tuple[str, str, Callable[[Dump, dict[str, Any]], int | None], int], ...] = (
        ("tag", "the tag", lambda _, entry: entry["tag"], -1),
        ("data_sz", "the bytes of the message", lambda _, entry: entry["bytes"], -1),
        ("src_rank", "the sender's rank", lambda dump, entry: comm_of(dump, entry["comm"])["rank"], -1),
        ("context_id", "the context id of sending", partial(context_of, solver), -1),
        ("flags", "synchronous or rendezvous", lambda _, entry: FLAGS.get(entry["label"]), 0xFF),
    )
    found = {"sreq_ptr": Solved(0, f"the address of the send: {len(sent)} places, {len(sent)} values")}
    taken = set(range(WORD))
    for member, what, value, mask in parts:
        code = solver.code_of(HEADER, member)
        observations = [
            _in_header(what, dump, code, places, expected, mask)
            for dump, places, entry in sent
            if (expected := value(dump, entry)) is not None
        ]
        among = [offset for offset in NEAR if offset % SIZES[code] == 0 and offset not in taken]
        found[member] = solve_offset(f"{HEADER}.{member}", observations, among)
        at = found[member].offset
        taken.update(range(at, at + SIZES[code]))
        if member == "tag":  # old headers are left in cells that were used again
            sent = [
                (dump, [place for place in places if dump.scalar(place + at, code) == entry["tag"]], entry)
                for dump, places, entry in sent
            ]
    for member, solved in found.items():
        solver.remember(HEADER, member, solved)
    solver.count_from_first(HEADER)


def _in_header(what: str, dump: Dump, code: str, places: Sequence[int], expected: int, mask: int) -> Observation:
    """Observe a number at one of the places that may be a header."""

    def seen(offset: int) -> Hashable:
        values = [dump.scalar(place + offset, code) & mask for place in places]
        return expected if expected in values else None

    return Observation(what, expected, seen)


# ---------------------------------------------------------------- other arms


def find_inactive(solver: MpichLayoutSolver) -> None:
    """Find the arguments of a persistent operation."""
    kind = "the kind of persistent operation"
    solve_arguments(
        solver,
        "dev.ch4.preq.",
        solver.requests(label="inactive"),
        MemberRow("rank", "the peer that was named", "peer"),
        MemberRow("tag", "the tag that was named", "tag"),
        MemberRow("p_type", kind, lambda _, entry: PERSISTENT_TYPES.get(entry["function"])),
    )


def find_partitioned(solver: MpichLayoutSolver) -> None:
    """Find the arguments of a partitioned operation, its state and its partner in the other process."""
    sends, receives = (solver.requests(kind=f"partitioned {kind}") for kind in ("send", "receive"))
    requests = [*sends, *receives]
    prefix = "dev.ch4.part_req."
    solve_arguments(solver, prefix, requests)
    solver.solve_members(REQUEST, requests, MemberRow("u.part.partitions", "the number of partitions", "partitions"))
    solver.solve_members(REQUEST, sends, MemberRow(f"{prefix}u.send.dest", "the destination", "peer"))
    free = _free(solver, "status.MPI_SOURCE", "status.MPI_TAG")
    solver.optionally(REQUEST, receives, MemberRow(f"{prefix}u.recv.tag", "the tag", "tag"), among=free)
    started = MemberRow("u.part.active_flag", "whether it was started", lambda _, entry: entry["state"] == "started")
    solver.solve_members(REQUEST, requests, started, among=_free(solver, "cc"))
    partner = MemberRow(f"{prefix}am.peer_req_ptr", "the partner's request", partial(_partner, solver))
    solver.solve_members(REQUEST, requests, partner)


def _partner(solver: MpichLayoutSolver, dump: Dump, entry: dict[str, Any]) -> int | None:
    """Return the address of the other half in its process, 0 where there is none.

    A send learns of its receive when it is started: before, None.
    """
    is_send = entry["kind"] == "partitioned send"
    if is_send and entry["state"] != "started":
        return None
    if entry["label"] == "lonely":
        return 0
    peer = solver.rank_of_run(dump, entry["peer"])
    other = f"partitioned {'receive' if is_send else 'send'}"
    found = peer.of("requests", kind=other, label=entry["label"], tag=entry["tag"])
    return solver.address(peer, found[0]["handle"])


def find_self(solver: MpichLayoutSolver) -> None:
    """Find what a message of a process to itself has."""
    prefix = "dev.ch4.self."
    tag = MemberRow("tag", "the tag", "tag")
    solve_arguments(solver, prefix, solver.requests(label="self"), tag, names=("buf", "count", "datatype"))

    def send_of(dump: Dump, entry: dict[str, Any]) -> int:
        return solver.address(dump, dump.of("requests", label="probed", tag=entry["tag"])[0]["handle"])

    taken = MemberRow(f"{prefix}match_req", "the send of a message that was taken", send_of)
    solver.solve_members(REQUEST, solver.places("messages"), taken)
