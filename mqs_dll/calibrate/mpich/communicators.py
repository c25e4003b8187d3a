"""Communicators, the variable that has the predefined ones, windows with their own, and datatypes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import product
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.layout_solver import SIZES, MemberRow, Place, number
from mqs_dll.calibrate.mpich.layout_solver import MpichLayoutSolver, comm_of, find_number, is_near
from mqs_dll.calibrate.offset_solver import Solved, Unsolved
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.library.mpi.mpich import handles
from mqs_dll.library.mpi.mpich.views import CONTEXT_ID

COMM = "MPIR_Comm"
PROCESS = "MPIR_Process_t"
DATATYPE = "MPIR_Datatype"
WIN = "MPIR_Win"
NAME = MemberRow("name", "the name", "name")

ATTRIBUTE_WORDS = 8
"""Words of an attribute within which its value lies."""

NEARBY = range(-128, 64, 4)
"""Bytes around the addresses of MPI_COMM_WORLD and MPI_COMM_SELF where the rest of MPIR_Process is searched for."""

MAX_SEARCHES = 10
"""Receives that a whole process is searched for."""


# ---------------------------------------------------------------- the process


def find_process(solver: MpichLayoutSolver) -> None:
    """Find MPIR_Process by the addresses of MPI_COMM_WORLD and MPI_COMM_SELF, which it has one behind the other."""
    places = [(dump, _pair(solver, dump), dict(dump.truth)) for dump in solver.all_dumps]
    solver.solve_members(PROCESS, places, MemberRow("rank", "the rank of the process", "rank"), among=NEARBY)
    # where every node has one process, their numbers are the same, too
    behind = (solver.offset(PROCESS, "rank") + SIZES["i"],)
    solver.solve_members(PROCESS, places, MemberRow("size", "the number of processes", "ranks"), among=behind)
    evidence = f"the addresses of MPI_COMM_WORLD and MPI_COMM_SELF: {len(places)} places, {len(places)} values"
    solver.remember(PROCESS, "comm_world", Solved(0, evidence))
    solver.count_from_first(PROCESS)


def _pair(solver: MpichLayoutSolver, dump: Dump) -> int:
    """Return where a process has the addresses of both predefined communicators.

    Raises:
        CalibrationError: there is not one such place outside communicators, which ch3 chains.
    """
    world, alone = (solver.comm(dump, label) for label in ("world", "self"))
    comms = [array.addresses() for array in solver.arrays[dump, handles.COMM]]
    found = [
        place
        for place in find_number(dump, world, WORD)
        if dump.word(place + WORD) == alone and not any(each.start <= place < each.stop for each in comms)
    ]
    if len(found) != 1:
        raise CalibrationError(f"{PROCESS}: there are {len(found)} places with the predefined communicators")
    return found[0]


# ---------------------------------------------------------------- what a program can ask for


def find_communicator(solver: MpichLayoutSolver) -> None:
    """Find what the program knows of its communicators.

    Since 5.0 MPICH counts a communicator's nodes as it counts its ranks. Where every node has one process only a
    communicator with processes of another job shows which is which, since the nodes of these aren't known.
    """
    solver.inherit_head(COMM)
    merged = [place for mode in ("spawn", "spawned") for place in solver.places("merged", mode)]
    comms = [*solver.places("comms"), *solver.places("comms", "cliques"), *merged]
    solver.solve_members(COMM, comms, MemberRow("name", "the name of a communicator", "name"))
    among = [offset for offset in solver.possible_offsets(COMM, "i") if offset not in solver.of_maps]
    solver.solve_members(
        COMM,
        comms,
        MemberRow("rank", "the rank in a communicator", "rank"),
        MemberRow(
            "comm_kind", "intra- or inter-communicator", "inter"
        ),  # MPIR_COMM_KIND__INTRACOMM is 0, its sibling 1
        MemberRow("local_size", "the processes of the own group", lambda _, entry: len(entry["members"])),
        MemberRow("remote_size", "the processes that ranks refer to", lambda _, entry: len(entry["peers"])),
        among=among,
    )

    def group(key: str) -> Callable[[Dump, dict[str, Any]], int | None]:
        return lambda dump, entry: entry[key] and solver.address(dump, entry[key])

    what = "the group that the program asked for"
    groups = MemberRow("local_group", what, group("group")), MemberRow("remote_group", what, group("remote_group"))
    solver.solve_members(COMM, comms, *groups)


def find_attributes(solver: MpichLayoutSolver) -> None:
    """Find the list of attributes by the value of the only one that a communicator has."""
    places = [(dump, at, entry["attribute"]) for dump, at, entry in solver.places("comms")]
    values = {value for *_, value in places if value}

    def seen(dump: Dump, place: int) -> Hashable:
        attribute = dump.word(place)
        if attribute == 0:
            return 0
        return next((word for word in dump.words(attribute, ATTRIBUTE_WORDS) if word in values), "something else")

    solver.solve_seen(COMM, "attributes", "an attribute with the value that the program gave it", places, seen)


# ---------------------------------------------------------------- context ids


Pair = tuple[Dump, int, Dump, int]
"""Two communicators, each by its process and its address."""


def find_context_ids(solver: MpichLayoutSolver) -> None:
    """Find the numbers that identify a communicator's messages, and how wide they are.

                                          context_id  recvcontext_id
        a communicator, in all its processes       4               4
        an inter-communicator, in one group        8              12
        the same, in the other group              12               8

    All of a process's communicators have different ones. Receives carry recvcontext_id.

    Raises:
        Unsolved: not exactly two places are so, or receives don't show which is which.
    """
    comms = solver.places("comms")
    inter = [each for each in comms if each[2]["inter"]]
    intra = [(dump, at) for dump, at, entry in comms if not entry["inter"]]
    same = [pair for pair in _with_copies(solver, comms, "members") if pair[0] is not pair[2]]
    different = [(*one, *other) for one, other in product(intra, intra) if one[0] is other[0] and one[1] < other[1]]
    crossing = _with_copies(solver, inter, "peers")
    found = [
        offset
        for offset in solver.possible_offsets(COMM, "H")
        if all(_equal(each, offset, offset) for each in same)
        and not any(_equal(each, offset, offset) for each in different)
    ]
    pairs = [
        (one, other)
        for one, other in product(found, found)
        if all(_equal(each, one, other) for each in crossing) and not all(_equal(each, one, one) for each in crossing)
    ]
    evidence = "equal in all processes of a communicator, different for each in one process"
    if len(pairs) != 2:
        raise Unsolved(f"{COMM}.context_id: offsets {found} are {evidence}; {pairs} cross in inter-communicators")
    receiving = _receiving(solver, pairs[0])
    (sending,) = {*pairs[0]} - {receiving}
    seen = (
        f"{evidence}: {len(same) + len(different)} places, 2 values; "
        f"crossing in inter-communicators: {len(crossing)} places"
    )
    solver.remember(COMM, "context_id", Solved(sending, seen))
    solver.remember(COMM, "recvcontext_id", Solved(receiving, f"{seen}; what receives carry"))
    solver.sizes[CONTEXT_ID] = abs(receiving - sending)
    solver.offsets[CONTEXT_ID] = {}


def _with_copies(solver: MpichLayoutSolver, comms: Iterable[Place], group: str) -> list[Pair]:
    """Return communicators, each with what the first process of a group of it ("members", "peers") has as the same."""
    found = []
    for dump, at, entry in comms:
        peer = solver.rank_of_run(dump, entry[group][0])
        found.append((dump, at, peer, solver.comm(peer, entry["label"])))
    return found


def _receiving(solver: MpichLayoutSolver, offsets: Sequence[int]) -> int:
    """Return the offset of the two in a communicator whose number receives carry.

    Raises:
        Unsolved: they don't show it.
    """
    found: list[int] = []
    for search in (_carried, _in_network):
        found = search(solver, offsets)
        if len(found) == 1:
            return found[0]
    raise Unsolved(f"{COMM}.recvcontext_id: receives carry the numbers at {found} of {tuple(offsets)}")


def _equal(pair: Pair, one: int, other: int) -> bool:
    """Return whether two communicators have the same 16 bits, each at an offset of its own."""
    dump, at, peer, there = pair
    return dump.scalar(at + one, "H") == peer.scalar(there + other, "H")


def _carried(solver: MpichLayoutSolver, offsets: Sequence[int]) -> list[int]:
    """Return the offsets in a communicator of what its posted receives have, all at the same place.

    Persistent receives would mislead: to 4.1 they have what sends carry.
    """
    requests = solver.requests(label="posted", kind="receive")

    def is_carried(offset: int) -> bool:
        observations = [number("", dump, at, "H", _bits(solver, dump, entry, offset)) for dump, at, entry in requests]
        places = solver.possible_offsets("MPIR_Request", "H")
        return any(all(each.fits(place) for each in observations) for place in places)

    return [offset for offset in offsets if is_carried(offset)]


def _in_network(solver: MpichLayoutSolver, offsets: Sequence[int]) -> list[int]:
    """Return the offsets in a communicator of what stands before source and tag in the network's own receives.

    UCX takes one number for all three: 16 bits of the context id, 16 of the source, 32 of the tag
    (src/mpid/ch4/netmod/ucx/ucx_impl.h).
    """
    known = [
        (dump, entry)
        for dump, _, entry in solver.requests(label="posted", kind="receive")
        if min(entry["peer"], entry["tag"]) >= 0
        and len({_bits(solver, dump, entry, offset) for offset in offsets}) == len(offsets)
    ][:MAX_SEARCHES]

    def is_there(dump: Dump, entry: dict[str, Any], offset: int) -> bool:
        bits = struct.pack("<IHH", entry["tag"], entry["peer"], _bits(solver, dump, entry, offset))
        return bool(dump.find_bytes(bits, WORD))

    return [offset for offset in offsets if known and all(is_there(dump, entry, offset) for dump, entry in known)]


def _bits(solver: MpichLayoutSolver, dump: Dump, request: dict[str, Any], offset: int) -> int:
    """Return the 16 bits at an offset in the communicator of a request."""
    return dump.scalar(solver.comm(dump, request["comm"]) + offset, "H")


# ---------------------------------------------------------------- what MPICH keeps for itself


def find_hidden(solver: MpichLayoutSolver) -> None:
    """Find the communicators that MPICH makes of another: of its node, of the nodes' first processes, of one group."""
    used = [each for each in solver.places("comms") if each[2]["used"] or not each[2]["inter"]]
    groups = [(dump, at, entry["members"] if entry["inter"] else []) for dump, at, entry in used]
    solve_hidden(solver, COMM, "local_comm", "the communicator of the own group", groups)
    several = solver.of_mode("cliques")
    if several and all(dump.truth["alone"] for dump in several):
        return  # a build that takes each process for a node has neither of the others
    cliques = [(dump, at, each["members"]) for dump, at, each in solver.places("comms", "cliques", inter=False)]
    # releases differ in what a communicator has that is within one node, or has one process on each
    cliques = [each for each in cliques if 1 < len(_first_of_nodes(each[2])) < len(each[2])]
    if not cliques:
        raise CalibrationError(
            f"{COMM}.node_comm, node_roots_comm: without a run with several nodes, they can't be distinguished"
        )
    near = [(dump, at, [each for each in members if is_near(dump, each)]) for dump, at, members in cliques]
    nodes = [(dump, at, members if len(members) > 1 else []) for dump, at, members in near]
    solve_hidden(solver, COMM, "node_comm", "the communicator of the node", nodes)
    roots = [(dump, at, _first_of_nodes(members)) for dump, at, members in cliques]
    solve_hidden(solver, COMM, "node_roots_comm", "the communicator of the first processes of the nodes", roots)


def _first_of_nodes(members: Sequence[int]) -> list[int]:
    """Return the first process of each node, in the order of the communicator."""
    return [rank for place, rank in enumerate(members) if rank % 2 not in [each % 2 for each in members[:place]]]


def solve_hidden(
    solver: MpichLayoutSolver, struct: str, member: str, what: str, groups: Iterable[tuple[Dump, int, Sequence[int]]]
) -> None:
    """Find a pointer to a communicator of a group that is none of the program's own: NULL where it isn't in the group.

    What is seen of it is the rank in it, and how many processes it has.
    """
    known = {(dump, at) for mode in ("plain", "cliques") for dump, at, _ in solver.places("comms", mode)}

    def seen(dump: Dump, place: int) -> Hashable:
        target = dump.word(place)
        if target == 0:
            return None
        if not solver.is_object(dump, handles.COMM, target) or (dump, target) in known:
            return "something else"
        return tuple(solver.member(dump, target, COMM, name, "i") for name in ("rank", "local_size"))

    ranks = ((dump, at, dump.truth["rank"], group) for dump, at, group in groups)
    shapes = [(dump, at, (group.index(rank), len(group)) if rank in group else None) for dump, at, rank, group in ranks]
    solver.solve_seen(struct, member, what, shapes, seen)


# ---------------------------------------------------------------- datatypes and windows


def find_datatype(solver: MpichLayoutSolver) -> None:
    """Find what the program knows of its datatypes."""
    solver.inherit_head(DATATYPE)
    solver.solve_members(
        DATATYPE, solver.places("datatypes"), MemberRow("size", "the bytes of a datatype", "size"), NAME
    )


def find_window(solver: MpichLayoutSolver) -> None:
    """Find a window's name, and its own communicator, which is like the one that it was made on but not the same."""
    windows = solver.places("windows")
    solver.solve_members(WIN, windows, NAME)
    what = "a communicator of the window's processes, not the program's"
    groups = [(dump, at, comm_of(dump, entry["comm"])["members"]) for dump, at, entry in windows]
    solve_hidden(solver, WIN, "comm_ptr", what, groups)
