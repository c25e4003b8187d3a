"""Communicators, and the variable that has the predefined ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from typing import Any

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import Place, Row, number, text
from mqs_dll.calibrate.mpich.pool_ledger import COMMS, PoolLedger
from mqs_dll.calibrate.solver import Sighting, Solved, Unsolved, solve
from mqs_dll.errors import CalibrationError
from mqs_dll.mpi.mpich import handles

COMM = "MPIR_Comm"
PROCESS = "MPIR_Process_t"
CONTEXT_ID = "MPIR_Context_id_t"
INTRA, INTER = 0, 1
"""MPIR_COMM_KIND__INTRACOMM and its sibling."""

ATTRIBUTE_WORDS = 8
"""Words of an attribute within which its value lies."""

BEFORE, AFTER = 128, 64
"""Bytes around the addresses of MPI_COMM_WORLD and MPI_COMM_SELF where the rest of MPIR_Process is looked for."""

MOST_SEARCHES = 10
"""Receives that a whole process is searched for."""

Comms = list[Place]


# ---------------------------------------------------------------- the process


def find_process(ledger: PoolLedger) -> None:
    """Find MPIR_Process by the addresses of MPI_COMM_WORLD and MPI_COMM_SELF, which it has one behind the other.

    What precedes the first member that is known doesn't show: offsets are counted from there.
    """
    places = [(dump, _pair(ledger, dump)) for dump in ledger.all_dumps]
    nearby = range(-BEFORE, AFTER, 4)
    ranks = [number("the rank of the process", dump, at, "i", dump.truth["rank"]) for dump, at in places]
    sizes = [number("the number of processes", dump, at, "i", dump.truth["ranks"]) for dump, at in places]
    evidence = f"the addresses of MPI_COMM_WORLD and MPI_COMM_SELF: {len(places)} places, {len(places)} values"
    found = {
        "rank": solve(f"{PROCESS}.rank", ranks, nearby),
        "size": solve(f"{PROCESS}.size", sizes, nearby),
        "comm_world": Solved(0, evidence),
    }
    begin = min(solved.offset for solved in found.values())
    for member, solved in found.items():
        ledger.remember(PROCESS, member, Solved(solved.offset - begin, solved.evidence))


def _pair(ledger: PoolLedger, dump: Dump) -> int:
    """Return where a process has the addresses of both predefined communicators.

    Raises:
        CalibrationError: there is not one such place.
    """
    world, alone = (ledger.address(dump, handle) for handle in COMMS)
    found = [
        place
        for place in ledger.variables(dump, world.to_bytes(WORD, "little"), WORD)
        if dump.word(place + WORD) == alone
    ]
    found = [place for place in found if not _is_in_object(ledger, dump, place)]
    if len(found) != 1:
        raise CalibrationError(f"{PROCESS}: there are {len(found)} places with the predefined communicators")
    return found[0]


def _is_in_object(ledger: PoolLedger, dump: Dump, place: int) -> bool:
    """Tell whether a place lies in a communicator: ch3 chains them."""
    return any(
        array.address <= place < array.address + array.count * array.stride
        for array in ledger.arrays_of(dump, handles.COMM)
    )


# ---------------------------------------------------------------- what a program can ask for


ROWS = (
    Row("rank", "the rank in a communicator", "rank"),
    Row("comm_kind", "intra- or inter-communicator", lambda _, entry: INTER if entry["inter"] else INTRA),
    Row("local_size", "the processes of the own group", lambda _, entry: len(entry["members"])),
    Row("remote_size", "the processes that ranks refer to", lambda _, entry: len(entry["peers"])),
)


def find_communicator(ledger: PoolLedger) -> None:
    """Find what the program knows of its communicators."""
    ledger.inherit_head(COMM)
    comms = [*ledger.places("comms"), *ledger.places_in("cliques", "comms")]
    ledger.pin(COMM, "name", [text("the name of a communicator", dump, at, each["name"]) for dump, at, each in comms])
    among = [offset for offset in ledger.room(COMM, "i") if offset not in ledger.of_maps]
    ledger.pin_rows(COMM, comms, *ROWS, among=among)

    def group(dump: Dump, entry: dict[str, Any]) -> int | None:
        return ledger.address(dump, entry["group"]) if entry["group"] else None

    def remote_group(dump: Dump, entry: dict[str, Any]) -> int | None:
        if entry["remote_group"]:
            return ledger.address(dump, entry["remote_group"])
        return None if entry["inter"] else 0

    what = "the group that the program asked for"
    ledger.pin_rows(COMM, comms, Row("local_group", what, group), Row("remote_group", what, remote_group))


def find_attributes(ledger: PoolLedger) -> None:
    """Find the list of attributes by the value of the only one that a communicator has."""
    sightings = [_attribute(dump, at, entry["attribute"]) for dump, at, entry in ledger.places("comms")]
    ledger.pin(COMM, "attributes", sightings)


def _attribute(dump: Dump, address: int, value: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        attribute = dump.word(address + offset)
        if attribute == 0:
            return 0
        return value if value and value in dump.words(attribute, ATTRIBUTE_WORDS) else "something else"

    return Sighting("an attribute with the value that the program gave it", value, seen)


# ---------------------------------------------------------------- context ids


def find_context_ids(ledger: PoolLedger) -> None:
    """Find the numbers that tell a communicator's messages, and how wide they are.

    Both are equal in all processes of a communicator and different for each communicator of a process. Of an
    inter-communicator each is the other one of the other group; the one that receives carry is that of receiving.

    Raises:
        Unsolved: not exactly two places are so, or receives don't tell which is which.
    """
    comms = ledger.places("comms")
    same = [*_equalities(ledger, comms), *_differences(comms)]
    evidence = "equal in all processes of a communicator, different for each in one process"
    found = [offset for offset in ledger.room(COMM, "H") if all(sighting.fits(offset) for sighting in same)]
    crossing = [*_crossings(ledger, comms)]
    pairs = [
        (one, other)
        for one, other in product(found, found)
        if one != other
        and all(_crosses(each, one, other) for each in crossing)
        and any(not _crosses(each, one, one) for each in crossing)
    ]
    if len(pairs) != 2:
        raise Unsolved(f"{COMM}.context_id: offsets {found} are {evidence}; {pairs} cross in inter-communicators")
    receiving = _carried(ledger, comms, pairs[0])
    if len(receiving) != 1:
        receiving = _in_network(ledger, comms, pairs[0])
    if len(receiving) != 1:
        raise Unsolved(f"{COMM}.recvcontext_id: receives carry the numbers at {receiving} of {pairs[0]}")
    sending = next(offset for offset in pairs[0] if offset != receiving[0])
    seen = f"{evidence}: {len(same)} places, 2 values; crossing in inter-communicators: {len(crossing)} places"
    ledger.remember(COMM, "context_id", Solved(sending, seen))
    ledger.remember(COMM, "recvcontext_id", Solved(receiving[0], f"{seen}; what receives carry"))
    ledger.sizes[CONTEXT_ID] = abs(receiving[0] - sending)
    ledger.offsets[CONTEXT_ID] = {}


def _equalities(ledger: PoolLedger, comms: Comms) -> Iterator[Sighting]:
    for dump, at, entry in comms:
        first = ledger.rank_of_run(dump, entry["members"][0])
        if first is not dump:
            there = ledger.address(first, first.of("comms", label=entry["label"])[0]["handle"])
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


def _crossings(ledger: PoolLedger, comms: Comms) -> Iterator[Crossing]:
    """Yield each process's inter-communicators, and the same one in the first process of the other group."""
    for dump, at, entry in comms:
        if entry["inter"]:
            peer = ledger.rank_of_run(dump, entry["peers"][0])
            yield dump, at, peer, ledger.address(peer, peer.of("comms", label=entry["label"])[0]["handle"])


def _crosses(crossing: Crossing, one: int, other: int) -> bool:
    dump, at, peer, there = crossing
    return dump.scalar(at + one, "H") == peer.scalar(there + other, "H")


def _carried(ledger: PoolLedger, comms: Comms, offsets: Sequence[int]) -> list[int]:
    """Return the offsets in a communicator of what its posted receives have, all at the same place.

    Persistent receives would mislead: to 4.1 they have what sends carry.
    """
    carried = _context_readers(comms)
    requests = ledger.places("requests", label="posted", kind="receive")

    def is_carried(offset: int) -> bool:
        sightings = [number("", dump, at, "H", carried(dump, entry, offset)) for dump, at, entry in requests]
        return any(all(each.fits(place) for each in sightings) for place in ledger.room("MPIR_Request", "H"))

    return [offset for offset in offsets if is_carried(offset)]


def _in_network(ledger: PoolLedger, comms: Comms, offsets: Sequence[int]) -> list[int]:
    """Return the offsets in a communicator of what stands before source and tag in the network's own receives.

    UCX takes one number for all three: 16 bits of the context id, 16 of the source, 32 of the tag
    (src/mpid/ch4/netmod/ucx/ucx_impl.h).
    """
    carried = _context_readers(comms)
    told = [
        (dump, entry)
        for dump, _, entry in ledger.places("requests", label="posted", kind="receive")
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


def find_hidden(ledger: PoolLedger) -> None:
    """Find the communicators that MPICH makes of another: of its node, of the nodes' first processes, of one group."""
    comms = ledger.places("comms")
    used = [each for each in comms if each[2]["used"] or not each[2]["inter"]]
    _pin_hidden(ledger, "local_comm", "the communicator of the own group", used, comms, _local)
    cliques = [
        (dump, at, entry)
        for dump, at, entry in ledger.places_in("cliques", "comms")
        if not entry["inter"] and 1 < len(_roots(entry)) < len(entry["members"])
    ]  # releases differ in what a communicator has that is within one node, or has one process on each
    if not cliques:
        raise CalibrationError("without a run with several nodes, nothing tells the communicators of nodes apart")
    _pin_hidden(ledger, "node_comm", "the communicator of the node", cliques, cliques, _of_node)
    what = "the communicator of the first processes of the nodes"
    _pin_hidden(ledger, "node_roots_comm", what, cliques, cliques, _of_roots)


Shape = tuple[int, int]
"""The rank in a communicator, and how many processes it has."""


def _local(_: Dump, entry: dict[str, Any]) -> Shape | None:
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


def _pin_hidden(
    ledger: PoolLedger,
    member: str,
    what: str,
    comms: Comms,
    own: Comms,
    shape_of: Callable[[Dump, dict[str, Any]], Shape | None],
) -> None:
    """Find a pointer to a communicator that is none of the program's own, or NULL."""
    known = {(id(dump), at) for dump, at, _ in own}

    def seen(dump: Dump, target: int) -> Hashable:
        if target == 0:
            return None
        if not ledger.is_object(dump, handles.COMM, target) or (id(dump), target) in known:
            return "something else"
        return ledger.shape(dump, target)

    def sighting(dump: Dump, at: int, expected: Shape | None) -> Sighting:
        return Sighting(what, expected, lambda offset: seen(dump, dump.word(at + offset)))

    ledger.pin(COMM, member, [sighting(dump, at, shape_of(dump, entry)) for dump, at, entry in comms])
