"""Communicators, and the variable that has the predefined ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.findings import number
from mqs_dll.calibrate.mpich.findings import COMMS, MpichFindings
from mqs_dll.calibrate.solver import Sighting, Solved, Unsolved, solve
from mqs_dll.errors import CalibrationError
from mqs_dll.mpi.mpich import handles

COMM = "MPIR_Comm"
PROCESS = "MPIR_Process_t"
CONTEXT_ID = "MPIR_Context_id_t"
NAME_BYTES = 128
INTRA, INTER = 0, 1
"""MPIR_COMM_KIND__INTRACOMM and its sibling."""

ATTRIBUTE_WORDS = 8
"""Words of an attribute within which its value lies."""

MOST_STATES = 8
"""MPICH_MPI_STATE__* has fewer."""

STATE_BEFORE = 16
"""Bytes before the rank where the state is looked for: other variables come and go with MPI, too."""

BEFORE, AFTER = 128, 64
"""Bytes around the addresses of MPI_COMM_WORLD and MPI_COMM_SELF where the rest of MPIR_Process is looked for."""

MOST_SEARCHES = 10
"""Receives that a whole process is searched for."""

Comms = list[tuple[Dump, int, dict[str, Any]]]


# ---------------------------------------------------------------- the process


def find_process(findings: MpichFindings) -> None:
    """Find MPIR_Process by the addresses of MPI_COMM_WORLD and MPI_COMM_SELF, which it has one behind the other.

    Rank and size are known; the state changes with MPI_Init and MPI_Finalize, the parent is that of a spawned process.
    """
    places = [(dump, _pair(findings, dump)) for dump in findings.all_dumps if dump.truth["phase"] == "running"]
    nearby = range(-BEFORE, AFTER, 4)
    ranks = [number("the rank of the process", dump, at, "i", dump.truth["rank"]) for dump, at in places]
    sizes = [number("the number of processes", dump, at, "i", dump.truth["size"]) for dump, at in places]
    rank = solve(f"{PROCESS}.rank", ranks, nearby)
    size = solve(f"{PROCESS}.size", sizes, nearby)
    evidence = f"the addresses of MPI_COMM_WORLD and MPI_COMM_SELF: {len(places)} places, {len(places)} values"
    near_rank = range(rank.offset - STATE_BEFORE, rank.offset, 4)
    found = {
        "rank": rank,
        "size": size,
        "comm_world": Solved(0, evidence),
        "comm_self": Solved(WORD, evidence),
        "comm_parent": _solve_parent(findings, places),
        "mpich_state": solve(f"{PROCESS}.mpich_state", list(_phases(findings)), near_rank),
    }
    begin = min(solved.offset for solved in found.values())
    for member, solved in found.items():
        findings.remember(PROCESS, member, Solved(solved.offset - begin, solved.evidence))


def _solve_parent(findings: MpichFindings, places: Sequence[tuple[Dump, int]]) -> Solved:
    """Find the communicator of the parent; where nothing can be spawned it is NULL, and where its declaration says."""
    parents = [number("the communicator of the parent", dump, at, "Q", _parent(findings, dump)) for dump, at in places]
    member = f"{PROCESS}.comm_parent"
    if findings.of_mode("spawned"):
        return solve(member, parents, range(2 * WORD, AFTER, WORD))
    return solve(member, parents, [2 * WORD], constant=True)


def _pair(findings: MpichFindings, dump: Dump) -> int:
    """Return where a process has the addresses of both predefined communicators.

    Raises:
        CalibrationError: there is not one such place.
    """
    world, alone = (findings.address(dump, handle) for handle in COMMS)
    found = [
        place
        for place in findings.variables(dump, world.to_bytes(WORD, "little"), WORD)
        if dump.word(place + WORD) == alone
    ]
    found = [place for place in found if not _is_in_object(findings, dump, place)]
    if len(found) != 1:
        raise CalibrationError(f"{PROCESS}: there are {len(found)} places with the predefined communicators")
    return found[0]


def _is_in_object(findings: MpichFindings, dump: Dump, place: int) -> bool:
    """Tell whether a place lies in a communicator: ch3 chains them."""
    return any(
        array.address <= place < array.address + array.count * array.stride
        for array in findings.arrays_of(dump, handles.COMM)
    )


def _parent(findings: MpichFindings, dump: Dump) -> int:
    entries = dump.of("comms", label="parent")
    return findings.address(dump, entries[0]["handle"]) if entries else 0


def _phases(findings: MpichFindings) -> Iterator[Sighting]:
    """Sight the state: 0 before MPI_Init, another number while MPI runs, and yet another after MPI_Finalize."""
    for dump in findings.all_dumps:
        if dump.truth["phase"] != "running":
            continue
        others = {each.truth["phase"]: each for each in findings.phases_of(dump)}
        if len(others) == 3:
            place = _pair(findings, dump)
            yield number("0 before MPI_Init", others["before"], place, "i", 0)
            yield _change("a small number while MPI runs, another one after MPI_Finalize", dump, others["after"], place)


def _change(what: str, running: Dump, after: Dump, place: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        number = running.scalar(place + offset, "i")
        return 0 < number < MOST_STATES and after.scalar(place + offset, "i") not in (number, *range(MOST_STATES, 0))

    return Sighting(what, True, seen)


# ---------------------------------------------------------------- what a program can ask for


def find_communicator(findings: MpichFindings) -> None:
    """Find what the program knows of its communicators."""
    findings.inherit_head(COMM)
    comms = [*findings.places("comms"), *findings.places_in("cliques", "comms")]

    def pin(member: str, what: str, value: str) -> None:
        numbers = [(dump, at, _value(entry, value)) for dump, at, entry in comms]
        among = [offset for offset in findings.room(COMM, "i") if offset not in findings.of_maps]
        findings.pin_numbers(COMM, member, what, numbers, among=among)

    names = [_name(dump, at, entry["name"]) for dump, at, entry in comms]
    findings.pin(COMM, "name", names, range(0, findings.size(COMM) - NAME_BYTES, 4))
    pin("rank", "the rank in a communicator", "rank")
    pin("comm_kind", "intra- or inter-communicator", "kind")
    pin("local_size", "the processes of the own group", "members")
    pin("remote_size", "the processes that ranks refer to", "peers")
    for member, key in (("local_group", "group"), ("remote_group", "remote_group")):
        asked = [(dump, at, findings.address(dump, entry[key])) for dump, at, entry in comms if entry[key]]
        none = [(dump, at, 0) for dump, at, entry in comms if key == "remote_group" and not entry["inter"]]
        findings.pin_numbers(COMM, member, "the group that the program asked for", [*asked, *none])


def find_attributes(findings: MpichFindings) -> None:
    """Find the list of attributes by the value of the only one that a communicator has."""
    sightings = [_attribute(dump, at, entry["attribute"]) for dump, at, entry in findings.places("comms")]
    findings.pin_sightings(COMM, "attributes", sightings)


def _attribute(dump: Dump, address: int, value: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        attribute = dump.word(address + offset)
        if attribute == 0:
            return 0
        return value if value and value in dump.words(attribute, ATTRIBUTE_WORDS) else "something else"

    return Sighting("an attribute with the value that the program gave it", value, seen)


def _value(entry: dict[str, Any], key: str) -> int:
    if key == "kind":
        return INTER if entry["inter"] else INTRA
    value = entry[key]
    return int(value) if isinstance(value, int) else len(value)


def _name(dump: Dump, address: int, name: str) -> Sighting:
    def seen(offset: int) -> Hashable:
        return dump.read(address + offset, NAME_BYTES).partition(b"\0")[0].decode("utf-8", "replace")

    return Sighting("the name of a communicator", name, seen)


# ---------------------------------------------------------------- context ids


def find_context_ids(findings: MpichFindings) -> None:
    """Find the numbers that tell a communicator's messages, and how wide they are.

    Both are equal in all processes of a communicator and different for each communicator of a process. Of an
    inter-communicator each is the other one of the other group; the one that receives carry is that of receiving.

    Raises:
        Unsolved: not exactly two places are so, or receives don't tell which is which.
    """
    comms = findings.places("comms")
    same = [*_equalities(findings, comms), *_differences(comms)]
    evidence = "equal in all processes of a communicator, different for each in one process"
    found = [offset for offset in findings.room(COMM, "H") if all(sighting.fits(offset) for sighting in same)]
    crossing = [*_crossings(findings, comms)]
    pairs = [
        (one, other)
        for one, other in product(found, found)
        if one != other
        and all(_crosses(each, one, other) for each in crossing)
        and any(not _crosses(each, one, one) for each in crossing)
    ]
    if len(pairs) != 2:
        raise Unsolved(f"{COMM}.context_id: offsets {found} are {evidence}; {pairs} cross in inter-communicators")
    receiving = _carried(findings, comms, pairs[0])
    if len(receiving) != 1:
        receiving = _in_network(findings, comms, pairs[0])
    if len(receiving) != 1:
        raise Unsolved(f"{COMM}.recvcontext_id: receives carry the numbers at {receiving} of {pairs[0]}")
    sending = next(offset for offset in pairs[0] if offset != receiving[0])
    seen = f"{evidence}: {len(same)} places, 2 values; crossing in inter-communicators: {len(crossing)} places"
    findings.remember(COMM, "context_id", Solved(sending, seen))
    findings.remember(COMM, "recvcontext_id", Solved(receiving[0], f"{seen}; what receives carry"))
    findings.sizes[CONTEXT_ID] = abs(receiving[0] - sending)
    findings.offsets[CONTEXT_ID] = {}


def _equalities(findings: MpichFindings, comms: Comms) -> Iterator[Sighting]:
    for dump, at, entry in comms:
        first = findings.rank_of_run(dump, entry["members"][0])
        if first is not dump:
            there = findings.address(first, first.of("comms", label=entry["label"])[0]["handle"])
            yield _equal("the same in all processes", (dump, at), (first, there), True)


def _differences(comms: Comms) -> Iterator[Sighting]:
    intra = [(dump, at) for dump, at, entry in comms if not entry["inter"]]
    for (dump, at), (other, there) in product(intra, intra):
        if dump is other and at < there:
            yield _equal("not the same in two communicators", (dump, at), (other, there), False)


def _equal(what: str, one: tuple[Dump, int], other: tuple[Dump, int], expected: bool) -> Sighting:
    return Sighting(
        what, expected, lambda offset: one[0].scalar(one[1] + offset, "H") == other[0].scalar(other[1] + offset, "H")
    )


Crossing = tuple[Dump, int, Dump, int]


def _crossings(findings: MpichFindings, comms: Comms) -> Iterator[Crossing]:
    """Yield each process's inter-communicators, and the same one in the first process of the other group."""
    for dump, at, entry in comms:
        if entry["inter"]:
            peer = findings.rank_of_run(dump, entry["peers"][0])
            yield dump, at, peer, findings.address(peer, peer.of("comms", label=entry["label"])[0]["handle"])


def _crosses(crossing: Crossing, one: int, other: int) -> bool:
    dump, at, peer, there = crossing
    return dump.scalar(at + one, "H") == peer.scalar(there + other, "H")


def _carried(findings: MpichFindings, comms: Comms, offsets: Sequence[int]) -> list[int]:
    """Return the offsets in a communicator of what its posted receives have, all at the same place.

    Persistent receives would mislead: to 4.1 they have what sends carry.
    """
    carried = _context_readers(comms)
    requests = findings.places("requests", label="posted", kind="receive")

    def is_carried(offset: int) -> bool:
        sightings = [number("", dump, at, "H", carried(dump, entry, offset)) for dump, at, entry in requests]
        return any(all(each.fits(place) for each in sightings) for place in findings.room("MPIR_Request", "H"))

    return [offset for offset in offsets if is_carried(offset)]


def _in_network(findings: MpichFindings, comms: Comms, offsets: Sequence[int]) -> list[int]:
    """Return the offsets in a communicator of what stands before source and tag in the network's own receives.

    UCX takes one number for all three: 16 bits of the context id, 16 of the source, 32 of the tag
    (src/mpid/ch4/netmod/ucx/ucx_impl.h).
    """
    carried = _context_readers(comms)
    told = [
        (dump, entry)
        for dump, _, entry in findings.places("requests", label="posted", kind="receive")
        if "any" not in (entry["peer"], entry["tag"])
        and len({carried(dump, entry, offset) for offset in offsets}) == len(offsets)
    ][:MOST_SEARCHES]

    def is_there(dump: Dump, entry: dict[str, Any], offset: int) -> bool:
        bits = struct.pack("<IHH", entry["tag"], entry["peer"], carried(dump, entry, offset))
        return bool(dump.find_bytes(bits, WORD))

    return [offset for offset in offsets if told and all(is_there(dump, entry, offset) for dump, entry in told)]


def _context_readers(comms: Comms) -> Callable[[Dump, dict[str, Any], int], int]:
    """Return a function that reads the 16 bits at an offset in the communicator of a request."""
    addresses = {(id(dump), entry["label"]): at for dump, at, entry in comms}
    return lambda dump, entry, offset: dump.scalar(addresses[id(dump), entry["comm"]] + offset, "H")


# ---------------------------------------------------------------- what MPICH keeps for itself


def find_hidden(findings: MpichFindings) -> None:
    """Find the communicators that MPICH makes of another: of its node, of the nodes' first processes, of one group."""
    own = {(id(dump), at) for dump, at, _ in findings.places("comms")}
    comms = findings.places("comms")
    local = [
        _hidden("the communicator of the own group", findings, own, dump, at, _local(entry))
        for dump, at, entry in comms
        if entry["used"] or not entry["inter"]
    ]
    findings.pin_sightings(COMM, "local_comm", local)
    cliques = [
        (dump, at, entry)
        for dump, at, entry in findings.places_in("cliques", "comms")
        if not entry["inter"] and 1 < len(_roots(entry)) < len(entry["members"])
    ]  # releases differ in what a communicator has that is within one node, or has one process on each
    if not cliques:
        raise CalibrationError("without a run with several nodes, nothing tells the communicators of nodes apart")
    for member, what, expected in (
        ("node_comm", "the communicator of the node", _of_node),
        ("node_roots_comm", "the communicator of the first processes of the nodes", _of_roots),
    ):
        own = {(id(dump), at) for dump, at, _ in cliques}
        sightings = [_hidden(what, findings, own, dump, at, expected(dump, entry)) for dump, at, entry in cliques]
        findings.pin_sightings(COMM, member, sightings)


Shape = tuple[int, int]
"""The rank in a communicator, and how many processes it has."""


def _local(entry: dict[str, Any]) -> Shape | None:
    return (entry["rank"], len(entry["members"])) if entry["inter"] else None


def _node_of(rank: int) -> int:
    """Return the node of a process in the run with several: even and odd ranks, MPIR_CVAR_ODD_EVEN_CLIQUES."""
    return rank % 2


def _of_node(dump: Dump, entry: dict[str, Any]) -> Shape | None:
    members: Sequence[int] = entry["members"]
    near = [member for member in members if _node_of(member) == _node_of(dump.truth["rank"])]
    return (near.index(dump.truth["rank"]), len(near)) if len(near) > 1 else None


def _roots(entry: dict[str, Any]) -> list[int]:
    """Return the first process of each node, in the order of the communicator."""
    members: Sequence[int] = entry["members"]
    firsts = {_node_of(member): member for member in reversed(members)}
    return sorted(firsts.values(), key=members.index)


def _of_roots(dump: Dump, entry: dict[str, Any]) -> Shape | None:
    roots = _roots(entry)
    if dump.truth["rank"] not in roots or len(roots) == len(entry["members"]):
        return None
    return roots.index(dump.truth["rank"]), len(roots)


def _hidden(
    what: str, findings: MpichFindings, own: set[tuple[int, int]], dump: Dump, address: int, expected: Shape | None
) -> Sighting:
    """Sight a pointer to a communicator that is not the program's, or NULL."""

    def seen(offset: int) -> Hashable:
        target = dump.word(address + offset)
        if target == 0:
            return None
        if not findings.is_object(dump, handles.COMM, target) or (id(dump), target) in own:
            return "something else"
        return findings.member(dump, target, COMM, "rank", "i"), findings.member(dump, target, COMM, "local_size", "i")

    return Sighting(what, expected, seen)
