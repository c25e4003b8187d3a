"""Observations of what pml/ob1 keeps of communicators, their peers, and messages that no receive has matched."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import chain, pairwise

from mqs_dll.calibrate.dump import WORD, Dump, Entry, UnreadableError
from mqs_dll.calibrate.layout_solver import MemberRow, NotFoundYet, Place, number, step, within
from mqs_dll.calibrate.offset_solver import Observation, Solved
from mqs_dll.calibrate.openmpi.layout_solver import OpenMpiLayoutSolver
from mqs_dll.calibrate.openmpi.opal import elements, posted_lists
from mqs_dll.library.mpi.openmpi.ob1_unexpected import MATCH, RGET, RNDV

COMM = "mca_pml_ob1_comm_t"
PROC = "mca_pml_ob1_comm_proc_t"
FRAG = "mca_pml_ob1_recv_frag_t"
HEADER = "mca_pml_ob1_match_hdr_t"
RENDEZVOUS = "mca_pml_ob1_rendezvous_hdr_t"
COMPONENT = "mca_pml_ob1_t"
IS_RENDEZVOUS = {MATCH: False, RNDV: True, RGET: True}
"""By types of headers."""

MAX_HEADER_SIZE = 128
FIRST_EARLY_TAG = 90


def ob1_comm(solver: OpenMpiLayoutSolver, dump: Dump, comm: int) -> int:
    """Return what ob1 keeps of a communicator."""
    return solver.member(dump, comm, "ompi_communicator_t", "c_pml_comm")


# ---------------------------------------------------------------- communicators and peers


def find_comm(solver: OpenMpiLayoutSolver) -> None:
    """Find the matching state of communicators."""
    comms = [(dump, ob1_comm(solver, dump, comm["address"]), comm) for dump, comm in solver.each("communicators")]
    solver.solve_members(
        COMM,
        comms,
        MemberRow(
            "wild_receives",
            "the receives from any source",
            lambda dump, comm: posted_lists(dump).get((comm["address"], -1)),
            seen=OpenMpiLayoutSolver.list_items,
        ),
        MemberRow("num_procs", "the size of the group that messages go to", "remote_size"),
    )
    probes = [(dump, ob1_comm(solver, dump, probe["comm"]), probe) for dump, probe in solver.each("probes")]
    table = MemberRow("procs", "a table with an object for the peer at its rank", "source", seen=_procs)
    solver.solve_members(
        COMM, probes, table, MemberRow("last_probed", "the source of the last message probed", "source")
    )


def _procs(solver: OpenMpiLayoutSolver, dump: Dump, address: int, probe: Entry) -> Hashable:
    proc = dump.word(dump.word(address) + WORD * probe["source"])
    return probe["source"] if solver.class_of(dump, proc) == PROC else None


def ob1_proc(solver: OpenMpiLayoutSolver, dump: Dump, comm: int, rank: int) -> int:
    """Return what ob1 keeps of a peer in a communicator."""
    table = solver.member(dump, ob1_comm(solver, dump, comm), COMM, "procs")
    return dump.word(table + WORD * rank)


def arrivals(dump: Dump) -> dict[tuple[int, int], list[Entry]]:
    """Return the messages without a receive by communicator and source, in the order of sending."""
    found: dict[tuple[int, int], list[Entry]] = {}
    for message in dump.of("messages", where="unexpected"):
        found.setdefault((message["comm"], message["source"]), []).append(message)
    return found


def find_proc(solver: OpenMpiLayoutSolver) -> None:
    """Find the lists and counters of a peer in a communicator."""
    asked = [
        (dump, ob1_proc(solver, dump, *peer), {"items": items})
        for dump in solver.dumps
        for peer, items in posted_lists(dump).items()
        if peer[1] >= 0
    ]
    receives = MemberRow("specific_receives", "the receives from a peer", "items", seen=OpenMpiLayoutSolver.list_items)
    solver.solve_members(PROC, asked, receives)
    peers = [
        (dump, ob1_proc(solver, dump, *peer), {"count": len(came)})
        for dump in solver.dumps
        for peer, came in arrivals(dump).items()
    ]
    messages = MemberRow("unexpected_frags", "as many messages as no receive takes", "count", seen=_fragment_count)
    solver.solve_members(PROC, peers, messages)
    expected = [
        step("as many more as messages came", dump, one, other, "H", after["count"] - before["count"])
        for (dump, one, before), (same, other, after) in pairwise(peers)
        if dump is same
    ]
    solver.solve(PROC, "expected_sequence", expected, places=peers)


def _fragment_count(solver: OpenMpiLayoutSolver, dump: Dump, address: int, _: Entry) -> Hashable:
    items = solver.list_items(dump, address)
    return len(items) if all(solver.class_of(dump, item) == FRAG for item in items) else None


# ---------------------------------------------------------------- messages


def fragments(solver: OpenMpiLayoutSolver) -> list[Place]:
    """Return the messages that lie without a receive, with their number on their communicator."""
    found: list[Place] = []
    for dump in solver.dumps:
        for peer, messages in arrivals(dump).items():
            head = ob1_proc(solver, dump, *peer) + solver.offset(PROC, "unexpected_frags")
            pairs = zip(solver.list_items(dump, head), messages, strict=True)
            found += [(dump, item, {**message, "number": place}) for place, (item, message) in enumerate(pairs)]
    return found


def find_fragment(solver: OpenMpiLayoutSolver) -> None:
    """Find where a message and its header lie."""
    frags = fragments(solver)
    words = solver.possible_offsets(FRAG, "Q")
    eager = [frag for frag in frags if not frag[2]["rendezvous"]]
    what = "a pointer to header and bytes of a message, and their length"
    solver.solve_members(FRAG, eager, MemberRow("segments", what, "bytes", seen=_segment), among=words)
    segment = solver.offset(FRAG, "segments")
    wire = {dump.word(at + segment + WORD) - message["bytes"] for dump, at, message in eager}
    if len(wire) != 1:
        raise NotFoundYet(f"headers of messages have lengths of {sorted(wire)} bytes")
    header_bytes = wire.pop()
    copy = MemberRow(
        "hdr",
        "a copy of the header that came",
        lambda dump, message: dump.read(message["came"], header_bytes),
        seen=lambda _, dump, at, message: None if at == message["came"] else dump.read(at, header_bytes),
    )
    solver.solve_members(FRAG, [(dump, at, {"came": dump.word(at + segment)}) for dump, at, _ in frags], copy)
    _find_header(solver, within(frags, solver.offset(FRAG, "hdr")), header_bytes)
    used = [(dump, at, {"segments": 1}) for dump, at, _ in frags]
    what = "one segment in a message, which is always put together; none in an element that was never used"
    solver.solve_members(FRAG, [*used, *_unused(solver)], MemberRow("num_segments", what, "segments"), among=words)


def _unused(solver: OpenMpiLayoutSolver) -> Iterator[Place]:
    """Yield elements in which no message has ever been: all zeros, for what lay there before may lie there yet."""
    hdr, size = solver.offset(FRAG, "hdr"), solver.size(FRAG)
    for dump in solver.dumps:
        for address in chain.from_iterable(elements(solver, dump, FRAG)):
            if not any(dump.read(address + hdr, size - hdr)):
                yield dump, address, {"segments": 0}


def _segment(_: OpenMpiLayoutSolver, dump: Dump, address: int, message: Entry) -> Hashable:
    """See a pointer and a length of bytes that end with the message's, which is its tag and then 1, 2, 3, ..."""
    size = message["bytes"]
    start, header = dump.word(address), dump.word(address + WORD) - size
    if not 0 < header < MAX_HEADER_SIZE:
        return None
    payload = bytes((message["tag"], *range(1, min(size, 256))))
    return size if dump.read(start + header, len(payload)) == payload else None


def _find_header(solver: OpenMpiLayoutSolver, headers: list[Place], header_bytes: int) -> None:
    kind = MemberRow(
        "hdr_common",
        "the type of a header: eager or rendezvous",
        "rendezvous",
        seen=lambda _, dump, at, __: IS_RENDEZVOUS.get(dump.scalar(at, "B")),
    )
    for size, row in (
        (1, kind),
        (4, MemberRow("hdr_src", "the rank of the sender", "source")),
        (4, MemberRow("hdr_tag", "the tag of a message", "tag")),
        (2, MemberRow("hdr_ctx", "the communicator's slot", lambda dump, message: solver.slots(dump)[message["comm"]])),
    ):
        solver.solve_members(HEADER, headers, row, among=range(0, header_bytes - size + 1, size))
    first = {id(dump): at for dump, at, _ in reversed(headers)}
    what = "as many more as messages came before it on its communicator"
    numbers = [step(what, dump, first[id(dump)], at, "H", message["number"]) for dump, at, message in headers]
    end = solver.solve(HEADER, "hdr_seq", numbers, range(0, header_bytes - 1, 2)) + 2
    if header_bytes > end:
        what = f"headers of {header_bytes} bytes come, and hdr_seq ends at {end}"
        solver.remember(HEADER, "hdr_padding", Solved(end, what))
    announced = [each for each in headers if each[2]["rendezvous"]]
    start = -(-header_bytes // WORD) * WORD
    length = MemberRow("hdr_msg_length", "the length that a rendezvous announces", "bytes")
    solver.solve_members(RENDEZVOUS, announced, length, among=range(start, start + 4 * WORD, WORD))


# ---------------------------------------------------------------- messages that can't be matched


def find_early(solver: OpenMpiLayoutSolver) -> None:
    """Find the ring of messages that overtook others, and what hangs off its items."""
    tag = solver.offset(FRAG, "hdr") + solver.offset(HEADER, "hdr_tag")

    def is_early(_: OpenMpiLayoutSolver, dump: Dump, address: int, peer: Entry) -> Hashable:
        first = dump.word(address)
        if not first:
            return False
        early = solver.class_of(dump, first) == FRAG and dump.scalar(first + tag, "i") in peer["tags"]
        return True if early else None

    early: list[Place] = []
    for dump in solver.dumps:
        messages = dump.of("messages", where="early")
        for message in messages[:1]:
            proc = ob1_proc(solver, dump, message["comm"], message["source"])
            early.append((dump, proc, {"tags": [each["tag"] for each in messages]}))
    plain = solver.dumps[0]
    others: list[Place] = [(plain, ob1_proc(solver, plain, *peer), {"tags": []}) for peer in arrivals(plain)]
    ring = MemberRow("frags_cant_match", "a message that came early", lambda _, peer: bool(peer["tags"]), seen=is_early)
    solver.solve_members(PROC, [*early, *others], ring, among=solver.possible_offsets(PROC, "Q"))
    at = solver.offset(PROC, "frags_cant_match")
    ranges = [each for dump, proc, _ in early for each in _runs(solver, dump, dump.word(proc + at), tag)]
    solver.solve(FRAG, "range", ranges)


def _runs(solver: OpenMpiLayoutSolver, dump: Dump, first: int, tag: int) -> Iterator[Observation]:
    """Observe for each message of the ring a pointer to the one that was sent after it, if that came early too."""
    ring = (first, *solver.ring(dump, first))
    tags = {address: dump.scalar(address + tag, "i") for address in solver.instances(dump, FRAG)}
    early = {tags[address]: address for address in tags if tags[address] >= FIRST_EARLY_TAG}
    for item in ring:
        following = early.get(tags[item] + 1)
        if following is not None and following not in ring:
            yield number("the message that follows directly", dump, item, "Q", following)


def find_component(solver: OpenMpiLayoutSolver) -> None:
    """Find the list of messages for communicators that this process doesn't know."""
    tag = solver.offset(FRAG, "hdr") + solver.offset(HEADER, "hdr_tag")

    def foreign(_: OpenMpiLayoutSolver, dump: Dump, address: int, __: Entry) -> Hashable:
        items = solver.list_items(dump, address)
        if any(solver.class_of(dump, item) != FRAG for item in items):
            raise UnreadableError("a list of something else")
        return tuple(sorted(dump.scalar(item + tag, "i") for item in items))

    components: list[Place] = [(dump, dump.symbols["mca_pml_ob1"].address, {}) for dump in solver.dumps]
    size = solver.sizes[COMPONENT] = solver.dumps[0].symbols["mca_pml_ob1"].size
    pending = MemberRow(
        "non_existing_communicator_pending",
        "the messages for a communicator that was freed",
        lambda dump, _: tuple(sorted(message["tag"] for message in dump.of("messages", where="foreign"))),
        seen=foreign,
    )
    solver.solve_members(COMPONENT, components, pending, among=range(0, size - WORD, WORD))
