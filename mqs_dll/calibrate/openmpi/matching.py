"""Sightings of what pml/ob1 keeps of communicators, their peers, and messages that no receive has matched."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from mqs_dll.calibrate.dump import WORD, Dump, UnreadableError
from mqs_dll.calibrate.ledger import NotFoundYet, Row, number, step
from mqs_dll.calibrate.openmpi.opal import elements, posted_lists
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.solver import Sighting, Solved
from mqs_dll.mpi.openmpi.unexpected import MATCH, RGET, RNDV

COMM = "mca_pml_ob1_comm_t"
PROC = "mca_pml_ob1_comm_proc_t"
FRAG = "mca_pml_ob1_recv_frag_t"
HEADER = "mca_pml_ob1_match_hdr_t"
RENDEZVOUS = "mca_pml_ob1_rendezvous_hdr_t"
LARGEST_HEADER = 128
UNUSED_BYTES = 16


class Fragment(NamedTuple):
    """A message in memory, and what is true of it."""

    dump: Dump
    address: int
    message: dict[str, Any]


def ob1_comm(ledger: OpalLedger, dump: Dump, comm: int) -> int:
    """Return what ob1 keeps of a communicator."""
    return ledger.member(dump, comm, "ompi_communicator_t", "c_pml_comm")


# ---------------------------------------------------------------- communicators and peers


def find_comm(ledger: OpalLedger) -> None:
    """Find the matching state of communicators."""
    sizes, wild = [], []
    for dump in ledger.dumps:
        lists = dict(posted_lists(dump))
        for comm in dump.of("communicators"):
            address = ob1_comm(ledger, dump, comm["address"])
            sizes.append((dump, address, comm["remote_size"] if comm["inter"] else comm["size"]))
            items = lists.get(f"{comm['label']} from -1")
            if items:
                wild.append(_list("the receives from any source", ledger, dump, address, items))
    probes = [(dump, ob1_comm(ledger, dump, probe["comm"]), probe["source"]) for dump, probe in ledger.each("probes")]
    ledger.pin(COMM, "wild_receives", wild)
    ledger.pin(COMM, "procs", [_procs(ledger, *each) for each in probes])
    ledger.pin_numbers(COMM, "num_procs", "the size of the group that messages go to", sizes)
    ledger.pin_numbers(COMM, "last_probed", "the source of the last message probed", probes)


def _list(what: str, ledger: OpalLedger, dump: Dump, address: int, items: tuple[int, ...]) -> Sighting:
    return Sighting(what, items, lambda offset: ledger.list_items(dump, address + offset))


def _procs(ledger: OpalLedger, dump: Dump, address: int, source: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        proc = dump.word(dump.word(address + offset) + WORD * source)
        return source if ledger.class_of(dump, proc) == PROC else None

    return Sighting("a table with an object for the peer at its rank", source, seen)


def ob1_proc(ledger: OpalLedger, dump: Dump, comm: int, rank: int) -> int:
    """Return what ob1 keeps of a peer in a communicator."""
    table = ledger.member(dump, ob1_comm(ledger, dump, comm), COMM, "procs")
    return dump.word(table + WORD * rank)


def arrivals(dump: Dump) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the messages without a receive by communicator and source, in the order of sending."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for message in dump.of("messages", where="unexpected"):
        found.setdefault((message["comm"], message["source"]), []).append(message)
    return found


def find_proc(ledger: OpalLedger) -> None:
    """Find the lists and counters of a peer in a communicator."""
    specific, expected = [], []
    counted: list[tuple[Dump, int, dict[str, Any]]] = []
    for dump in ledger.dumps:
        comms = {comm["label"]: comm["address"] for comm in dump.of("communicators")}
        for name, items in posted_lists(dump):
            label, _, source = name.rpartition(" from ")
            if int(source) >= 0:
                proc = ob1_proc(ledger, dump, comms[label], int(source))
                specific.append(_list("the receives from a peer", ledger, dump, proc, items))
        peers = [(dump, ob1_proc(ledger, dump, *peer), {"count": len(came)}) for peer, came in arrivals(dump).items()]
        for (_, one, before), (_, other, after) in pairwise(peers):
            more = after["count"] - before["count"]
            expected.append(step("as many more as messages came", dump, one, other, "H", more))
        counted += peers
    ledger.pin(PROC, "specific_receives", specific)
    unexpected = [_fragments(ledger, dump, proc, entry["count"]) for dump, proc, entry in counted]
    ledger.pin(PROC, "unexpected_frags", unexpected)
    ledger.pin(PROC, "expected_sequence", expected, places=counted)


def _fragments(ledger: OpalLedger, dump: Dump, proc: int, count: int) -> Sighting:
    def seen(offset: int) -> Hashable:
        items = ledger.list_items(dump, proc + offset)
        return len(items) if all(ledger.class_of(dump, item) == FRAG for item in items) else None

    return Sighting("as many messages as no receive takes", count, seen)


# ---------------------------------------------------------------- messages


def fragments(ledger: OpalLedger) -> list[Fragment]:
    """Return the messages that lie without a receive."""
    found = []
    for dump in ledger.dumps:
        for (comm, source), messages in arrivals(dump).items():
            proc = ob1_proc(ledger, dump, comm, source)
            items = ledger.list_items(dump, proc + ledger.offset(PROC, "unexpected_frags"))
            found += [Fragment(dump, item, message) for item, message in zip(items, messages, strict=True)]
    return found


def find_fragment(ledger: OpalLedger) -> None:
    """Find where a message and its header lie."""
    frags = fragments(ledger)
    eager = [frag for frag in frags if not frag.message["rendezvous"]]
    segment = ledger.pin(FRAG, "segments", [_segment(frag) for frag in eager], ledger.room(FRAG, "Q"))
    wire = {frag.dump.word(frag.address + segment + WORD) - frag.message["bytes"] for frag in eager}
    if len(wire) != 1:
        raise NotFoundYet(f"headers of messages have lengths of {sorted(wire)} bytes")
    header_bytes = wire.pop()
    ledger.pin(FRAG, "hdr", [_header(frag, segment, header_bytes) for frag in frags])
    _find_header(ledger, frags, header_bytes)
    ledger.pin(FRAG, "num_segments", list(_segment_counts(ledger, frags)))


def _segment_counts(ledger: OpalLedger, frags: list[Fragment]) -> Iterator[Sighting]:
    """Sight a number that is 1 in a message, which is always put together, and 0 where none has ever been."""
    hdr = ledger.offset(FRAG, "hdr")
    for frag in frags:
        yield number("one segment in a message", frag.dump, frag.address, "Q", 1)
    for dump in ledger.dumps:
        for chunk in elements(ledger, dump, FRAG):
            for address in chunk:
                if not any(dump.read(address + hdr, UNUSED_BYTES)):
                    yield number("no segment in an element that was never used", dump, address, "Q", 0)


def _segment(frag: Fragment) -> Sighting:
    """Sight a pointer and a length of bytes that end with the message's, which is its tag and then 1, 2, 3, ..."""
    bytes_ = frag.message["bytes"]
    pattern = _payload(frag.message)

    def seen(offset: int) -> Hashable:
        address, length = frag.dump.word(frag.address + offset), frag.dump.word(frag.address + offset + WORD)
        header = length - bytes_
        if not 0 < header < LARGEST_HEADER:
            return None
        return bytes_ if frag.dump.read(address + header, len(pattern)) == pattern else None

    return Sighting("a pointer to header and bytes of a message, and their length", bytes_, seen)


def _payload(message: dict[str, Any]) -> bytes:
    return bytes((message["tag"], *(place % 256 for place in range(1, min(message["bytes"], 256)))))


def _header(frag: Fragment, segment: int, header_bytes: int) -> Sighting:
    """Sight a copy of the header that came, outside of the bytes that came themselves."""
    came = frag.dump.word(frag.address + segment)
    expected = frag.dump.read(came, header_bytes)

    def seen(offset: int) -> Hashable:
        address = frag.address + offset
        return None if address == came else frag.dump.read(address, header_bytes)

    return Sighting("a copy of the header that came", expected, seen)


def _find_header(ledger: OpalLedger, frags: list[Fragment], header_bytes: int) -> None:
    hdr = ledger.offset(FRAG, "hdr")
    slots = {id(dump): ledger.slots(dump, "ompi_mpi_communicators") for dump in ledger.dumps}
    headers = [(frag.dump, frag.address + hdr, frag.message) for frag in frags]
    types = [_type(dump, at, rendezvous=bool(message["rendezvous"])) for dump, at, message in headers]
    ledger.pin(HEADER, "hdr_common", types, range(header_bytes))
    numbers = range(0, header_bytes - 3, 4)
    ledger.pin_rows(
        HEADER,
        headers,
        Row("hdr_src", "the rank of the sender", "source"),
        Row("hdr_tag", "the tag of a message", "tag"),
        among=numbers,
    )
    context = Row("hdr_ctx", "the communicator's slot", lambda dump, message: slots[id(dump)][message["comm"]])
    ledger.pin_rows(HEADER, headers, context, among=range(0, header_bytes - 1, 2))
    sequences = []
    for one, other in pairwise(frags):
        if one.dump is other.dump and one.message["label"] == other.message["label"]:
            what = "one more than the message before"
            sequences.append(step(what, one.dump, one.address + hdr, other.address + hdr, "H", 1))
        elif one.dump is other.dump:
            what = "the first message on a communicator, as that of another"
            first = _first(frags, one)
            sequences.append(step(what, one.dump, first.address + hdr, other.address + hdr, "H", 0))
    end = ledger.pin(HEADER, "hdr_seq", sequences, range(0, header_bytes - 1, 2)) + 2
    if header_bytes > end:
        what = f"headers of {header_bytes} bytes come, and hdr_seq ends at {end}"
        ledger.remember(HEADER, "hdr_padding", Solved(end, what))
    announced = [each for each in headers if each[2]["rendezvous"]]
    begin = -(-header_bytes // WORD) * WORD
    length = Row("hdr_msg_length", "the length that a rendezvous announces", "bytes")
    ledger.pin_rows(RENDEZVOUS, announced, length, among=range(begin, begin + 4 * WORD, WORD))


def _first(frags: list[Fragment], like: Fragment) -> Fragment:
    """Return the first message of the communicator and sender that a message is of."""
    return next(
        frag
        for frag in frags
        if frag.dump is like.dump and all(frag.message[key] == like.message[key] for key in ("comm", "source"))
    )


def _type(dump: Dump, header: int, *, rendezvous: bool) -> Sighting:
    kinds = {MATCH: False, RNDV: True, RGET: True}
    return Sighting(
        "the type of a header: eager or rendezvous",
        rendezvous,
        lambda offset: kinds.get(dump.scalar(header + offset, "B")),
    )


# ---------------------------------------------------------------- messages that can't be matched


def find_early(ledger: OpalLedger) -> None:
    """Find the ring of messages that overtook others, and what hangs off its items."""
    rings = []
    ranges = []
    tag = ledger.offset(FRAG, "hdr") + ledger.offset(HEADER, "hdr_tag")
    for dump in ledger.dumps:
        tags = [message["tag"] for message in dump.of("messages", where="early")]
        if not tags:
            continue
        early = dump.of("messages", where="early")[0]
        proc = ob1_proc(ledger, dump, early["comm"], early["source"])
        rings.append(_early(ledger, dump, proc, tag, tags))
    for comm, source in arrivals(ledger.dumps[0]):
        proc = ob1_proc(ledger, ledger.dumps[0], comm, source)
        rings.append(number("nothing came early", ledger.dumps[0], proc, "Q", 0))
    ring = ledger.pin(PROC, "frags_cant_match", rings, ledger.room(PROC, "Q"))
    for dump in ledger.dumps:
        for early in dump.of("messages", where="early")[:1]:
            proc = ob1_proc(ledger, dump, early["comm"], early["source"])
            ranges += list(_runs(ledger, dump, dump.word(proc + ring), tag))
    ledger.pin(FRAG, "range", ranges)


def _early(ledger: OpalLedger, dump: Dump, proc: int, tag: int, tags: list[int]) -> Sighting:
    def seen(offset: int) -> Hashable:
        first = dump.word(proc + offset)
        if ledger.class_of(dump, first) != FRAG:
            return None
        return "early" if dump.scalar(first + tag, "i") in tags else None

    return Sighting("a message that came early", "early", seen)


def _runs(ledger: OpalLedger, dump: Dump, first: int, tag: int) -> Iterator[Sighting]:
    """Sight for each message of the ring a pointer to the one that was sent after it, if that came early too."""
    ring = (first, *ledger.ring(dump, first))
    early = {
        dump.scalar(address + tag, "i"): address
        for address in _all_fragments(ledger, dump)
        if dump.scalar(address + tag, "i") >= 90
    }
    for item in ring:
        following = early.get(dump.scalar(item + tag, "i") + 1)
        if following is not None and following not in ring:
            yield number("the message that follows directly", dump, item, "Q", following)


def _all_fragments(ledger: OpalLedger, dump: Dump) -> list[int]:
    at = ledger.offset("opal_object_t", "obj_class")
    return [address - at for address in dump.find_word(ledger.descriptor(dump, FRAG))]


def find_component(ledger: OpalLedger) -> None:
    """Find the list of messages for communicators that this process doesn't know."""
    tag = ledger.offset(FRAG, "hdr") + ledger.offset(HEADER, "hdr_tag")
    sightings = []
    for dump in ledger.dumps:
        tags = sorted(message["tag"] for message in dump.of("messages", where="foreign"))
        sightings.append(_foreign(ledger, dump, tag, tags))
    size = ledger.dumps[0].symbols["mca_pml_ob1"].size
    ledger.sizes["mca_pml_ob1_t"] = size
    ledger.pin("mca_pml_ob1_t", "non_existing_communicator_pending", sightings, range(0, size - WORD, WORD))


def _foreign(ledger: OpalLedger, dump: Dump, tag: int, tags: list[int]) -> Sighting:
    component = dump.symbols["mca_pml_ob1"].address

    def seen(offset: int) -> Hashable:
        items = ledger.list_items(dump, component + offset)
        if any(ledger.class_of(dump, item) != FRAG for item in items):
            raise UnreadableError("a list of something else")
        return tuple(sorted(dump.scalar(item + tag, "i") for item in items))

    return Sighting("the messages for a communicator that was freed", tuple(tags), seen)
