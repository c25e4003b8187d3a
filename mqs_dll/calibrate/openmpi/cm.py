"""Sightings of the requests of pml/cm, and of mtl/ofi below it. Not every MPI has these, nor every machine."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import NotFoundYet, Place, Row, number
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.openmpi.requests import MODES, Entry
from mqs_dll.calibrate.solver import Sighting, solve
from mqs_dll.mpi.openmpi.cm import CONVERTOR_SEND

REQUEST = "mca_pml_cm_request_t"
SEND = "mca_pml_cm_send_request_t"
HEAVY_SEND = "mca_pml_cm_hvy_send_request_t"
HEAVY_RECV = "mca_pml_cm_hvy_recv_request_t"
THIN_RECV = "mca_pml_cm_thin_recv_request_t"
CONVERTOR = "opal_convertor_t"
OFI_REQUEST = "ompi_mtl_ofi_request_t"
OFI_MODULE = "mca_mtl_ofi_module_t"
OFI_ENDPOINT = "mca_mtl_ofi_endpoint_t"
BML = "mca_bml_base_endpoint_t"
PROC = "ompi_proc_t"

# ompi/mca/pml/cm/pml_cm_request.h, the same in 4.1 and 5.0: (send or receive, heavy) -> type
PML_TYPES = {("send", True): 0, ("send", False): 1, ("receive", True): 2, ("receive", False): 3}

# opal/datatype/opal_convertor.h
HOMOGENEOUS = 0x80000
FLAGS = {"send": HOMOGENEOUS | CONVERTOR_SEND, "receive": HOMOGENEOUS | 0x20000}
ALL_FLAGS = FLAGS["send"] | FLAGS["receive"]

ANY_ADDRESS = (1 << 64) - 1
OFI_REQUEST_BYTES = 256
"""More than mtl/ofi adds to a request; what follows is another element."""


def messages(ledger: OpalLedger, kind: str = "", *, heavy: bool | None = None) -> list[Place]:
    """Return the requests of pml/cm that are still the program's; freed sends may be another's already."""
    return [
        (dump, request["address"], request)
        for dump in ledger.cm_dumps
        for request in dump.of("requests")
        if kind in ("", request["kind"])
        and heavy in (None, is_heavy(request))
        and request["state"] != "gone"
        and not (request["kind"] == "send" and request["freed"])
    ]


def is_heavy(request: Entry) -> bool:
    """Tell whether a request keeps its arguments: those that are started again, or sent from a copy."""
    return bool(request["persistent"]) or request["mode"] == "buffered"


def _is_delivered(_: Dump, request: Entry) -> bool | None:
    """Tell whether the transport is done; libfabric may have taken over what isn't sure to wait for its receiver."""
    known = request["state"] in ("pending", "complete") and not is_heavy(request)
    return request["state"] == "complete" if known and request["mode"] in ("", "synchronous") else None


REQUEST_ROWS = (
    Row("req_comm", "the communicator", "comm"),
    Row("req_datatype", "the datatype", lambda _, each: None if each["mode"] == "buffered" else each["datatype"]),
    Row("req_pml_type", "send or receive, thin or heavy", lambda _, each: PML_TYPES[each["kind"], is_heavy(each)]),
    Row("req_free_called", "whether the program freed the request", "freed"),
    Row("req_pml_complete", "whether the transport is done with it", _is_delivered),
)
"""What sends and receives of pml/cm have in common."""

ARGUMENT_ROWS = (
    Row("req_tag", "the tag that was named", "tag"),
    Row("req_peer", "the peer that was named", "peer"),
)
"""What heavy requests have of their own."""


def find_cm_request(ledger: OpalLedger) -> None:
    """Find what sends and receives of pml/cm have in common."""
    requests = messages(ledger)
    if not requests:
        raise NotFoundYet("there is no run with pml/cm")
    ledger.pin_rows(REQUEST, requests, *REQUEST_ROWS)
    convertors = [_convertor(ledger, *each) for each in requests if each[2]["mode"] != "buffered"]
    ledger.pin(REQUEST, "req_convertor", convertors, range(0, ledger.size(REQUEST), WORD))


def _convertor(ledger: OpalLedger, dump: Dump, address: int, request: Entry) -> Sighting:
    """Sight an object of class opal_convertor_t that refers to the request's datatype."""

    def seen(offset: int) -> Hashable:
        if ledger.class_of(dump, address + offset) != CONVERTOR:
            return None
        words = dump.words(address + offset, ledger.size(CONVERTOR) // WORD)
        return request["datatype"] if request["datatype"] in words else None

    return Sighting("a convertor for the datatype", request["datatype"], seen)


def find_convertor(ledger: OpalLedger) -> None:
    """Find how a convertor describes a buffer."""
    base = ledger.offset(REQUEST, "req_convertor")
    thin = [(dump, at + base, request) for dump, at, request in messages(ledger, heavy=False)]
    ledger.pin_rows(
        CONVERTOR, thin, Row("count", "the count", "count"), Row("pBaseBuf", "the program's buffer", "buffer")
    )
    sizes = [number("the bytes of a buffer", dump, at, "Q", request["bytes"]) for dump, at, request in thin]
    ledger.pin(CONVERTOR, "local_size", [*sizes, *_packs(ledger)], places=thin)
    flags = Row("flags", "the flags send, receive, homogeneous", lambda _, each: FLAGS[each["kind"]], ALL_FLAGS)
    kept = [
        (dump, at + base, each)
        for dump, at, each in messages(ledger)
        if each["kind"] == "receive" or each["persistent"]
    ]
    ledger.pin_rows(CONVERTOR, kept, flags)


def _packs(ledger: OpalLedger) -> Iterator[Sighting]:
    """Sight the bytes here, not there, in convertors for a format with a long of another size."""
    count = ledger.offset(CONVERTOR, "count")
    for dump in ledger.all_dumps:
        places = dump.find_word(ledger.descriptor(dump, CONVERTOR))
        for pack in dump.of("packs"):
            stack = range(pack["stack"], pack["stack"] + pack["stack_bytes"])
            for place in places:
                address = place - ledger.offset("opal_object_t", "obj_class")
                if place in stack and dump.word(address + count) == pack["count"]:
                    yield number("the bytes here of what is packed for there", dump, address, "Q", pack["bytes"])


def find_cm_directions(ledger: OpalLedger) -> None:
    """Find what sends and receives of pml/cm have of their own."""
    mode = Row("req_send_mode", "the mode of a send", lambda _, request: MODES[request["mode"]])
    ledger.pin_rows(SEND, messages(ledger, "send"), mode)
    address = Row("req_addr", "the program's buffer", "buffer")
    ledger.pin_rows(HEAVY_SEND, messages(ledger, "send", heavy=True), address, *ARGUMENT_ROWS)
    ledger.pin_rows(HEAVY_RECV, messages(ledger, "receive", heavy=True), *ARGUMENT_ROWS)
    own = [
        number("the request itself, as the transport's owner", dump, at, "Q", at)
        for dump, at, _ in messages(ledger, "receive", heavy=False)
    ]
    ledger.pin(THIN_RECV, "req_mtl", own)


# ---------------------------------------------------------------- mtl/ofi


def find_ofi_request(ledger: OpalLedger) -> None:
    """Find what mtl/ofi keeps of a receive, counted from where pml/cm lets it begin."""
    base = ledger.offset(THIN_RECV, "req_mtl")
    receives = [(dump, at + base, request) for dump, at, request in messages(ledger, "receive", heavy=False)]
    convertor = ledger.offset(REQUEST, "req_convertor")
    words = range(0, OFI_REQUEST_BYTES, WORD)
    ledger.pin_rows(
        OFI_REQUEST,
        receives,
        Row("comm", "the communicator", "comm"),
        Row("length", "the bytes of a buffer", "bytes"),
        Row("convertor", "the request's convertor", lambda _, request: request["address"] + convertor),
        Row("match_bits", "bits that end with the tag", _tag_of, 0x7FFF),
        among=words,
    )
    settled = [each for each in receives if each[2]["state"] != "in progress"]
    started = Row("req_started", "whether a message has come", lambda _, request: request["state"] == "complete")
    ledger.pin_rows(OFI_REQUEST, settled, started, among=range(OFI_REQUEST_BYTES))
    peers = [
        _address_of_peer(dump, request["address"] + base, request["peer"])
        for dump in _directed(ledger)
        for request in _waiting(dump)
    ]
    ledger.pin(OFI_REQUEST, "remote_addr", peers, words)


def _tag_of(_: Dump, request: Entry) -> int | None:
    return int(request["tag"]) if request["tag"] >= 0 else None


def _address_of_peer(dump: Dump, address: int, peer: int) -> Sighting:
    """Sight all ones for a receive from anywhere, something else for one from a peer."""

    def seen(offset: int) -> Hashable:
        return dump.word(address + offset) == ANY_ADDRESS

    return Sighting("whether the source is left open", peer < 0, seen)


def _waiting(dump: Dump) -> list[dict[str, Any]]:
    """Return the thin receives that wait; a message that came may have changed what they asked for."""
    return dump.of("requests", kind="receive", persistent=0, state="pending")


def _directed(ledger: OpalLedger) -> list[Dump]:
    """Return the dumps of processes that name a source by its address, and not in the match bits."""
    return [dump for dump in ledger.cm_dumps if not _shifts(ledger, dump).source]


class Shifts(NamedTuple):
    """Where match bits have the communicator and the source; 0 where they leave the source out."""

    comm: int
    source: int


def _shifts(ledger: OpalLedger, dump: Dump) -> Shifts:
    """Return how the match bits of the receives that were posted are made up of slot, source and tag."""
    base = ledger.offset(THIN_RECV, "req_mtl") + ledger.offset(OFI_REQUEST, "match_bits")
    slots = ledger.slots(dump, "ompi_mpi_communicators")
    receives = [
        (dump.word(request["address"] + base), slots[request["comm"]], request["peer"], max(request["tag"], 0))
        for request in _waiting(dump)
    ]
    for comm in range(1, 64):
        rest = [(bits - (slot << comm) - tag, peer) for bits, slot, peer, tag in receives]
        if all(left == 0 for left, peer in rest if peer <= 0):
            sources = {left // peer for left, peer in rest if peer > 0}
            if sources == {0}:
                return Shifts(comm, 0)
            if len(sources) == 1:
                return Shifts(comm, sources.pop().bit_length() - 1)
    raise NotFoundYet("match bits are not made up of slot, source and tag")


def find_ofi_module(ledger: OpalLedger) -> None:
    """Find how mtl/ofi uses libfabric, from runs that make it do so in different ways."""
    if not ledger.cm_dumps:
        raise NotFoundYet("there is no run with mtl/ofi")
    modules = [(dump, dump.symbols["ompi_mtl_ofi"].address, dict(dump.truth)) for dump in ledger.cm_dumps]
    ledger.sizes[OFI_MODULE] = ledger.cm_dumps[0].symbols["ompi_mtl_ofi"].size
    shifts = {id(dump): _shifts(ledger, dump) for dump in ledger.cm_dumps}

    def bits_of_tag(dump: Dump, truth: Entry) -> int | None:
        return int(truth["largest_tag"]).bit_length() + 1 if shifts[id(dump)].source else None

    def bits_of_source(dump: Dump, _: Entry) -> int:
        return shifts[id(dump)].comm - shifts[id(dump)].source if shifts[id(dump)].source else 0

    ledger.pin_rows(
        OFI_MODULE,
        modules,
        Row("fi_cq_data", "whether match bits leave the source out", lambda dump, _: not shifts[id(dump)].source),
        Row("num_bits_mpi_tag", "the bits of the largest tag", bits_of_tag),
        Row("num_bits_source_rank", "the bits of the source in match bits", bits_of_source),
        Row(
            "rx_ctx_bits",
            "the bits that number the contexts asked for",
            lambda _, truth: int(truth["contexts"]).bit_length(),
        ),
    )
    what = "the address that receives from anywhere have"
    ledger.pin_numbers(
        OFI_MODULE, "any_addr", what, [(dump, at, ANY_ADDRESS) for dump, at, _ in modules], constant=True
    )


def find_endpoint(ledger: OpalLedger) -> None:
    """Find the address that libfabric has for a process, and where the process refers to it."""
    base = ledger.offset(THIN_RECV, "req_mtl") + ledger.offset(OFI_REQUEST, "remote_addr")
    endpoints, addresses = [], []
    for dump in _directed(ledger):
        known = {
            request["peer"]: dump.word(request["address"] + base) for request in _waiting(dump) if request["peer"] >= 0
        }
        for peer, address in known.items():
            proc = _process(ledger, dump, peer)
            endpoints.append(ledger.points_at("an endpoint of mtl/ofi", dump, proc, OFI_ENDPOINT, proc))
            addresses.append((dump, proc, address))
    slots = ledger.room(PROC, "Q")
    slot = solve(f"{PROC}: the slot of mtl/ofi", endpoints, slots).offset
    procs = [(dump, _process(ledger, dump, rank)) for dump in ledger.dumps for rank in range(dump.truth["ranks"])]
    what = "an endpoint of pml/ob1 in the first slot"
    first = [ledger.points_at(what, dump, proc, BML, proc) for dump, proc in procs]
    ledger.pin(PROC, "proc_endpoints", first, [offset for offset in slots if offset < slot])
    del ledger.sizes[PROC]  # which differs from build to build: there is a slot for each transport that was built
    found = [
        number("the address that receives from a peer have", dump, dump.word(proc + slot), "Q", address)
        for dump, proc, address in addresses
    ]
    ledger.pin(OFI_ENDPOINT, "peer_fiaddr", found)
    _find_request_size(ledger)


def _process(ledger: OpalLedger, dump: Dump, rank: int) -> int:
    """Return what Open MPI keeps of a process of MPI_COMM_WORLD."""
    world = next(comm["address"] for comm in dump.of("communicators", label="world"))
    group = ledger.member(dump, world, "ompi_communicator_t", "c_local_group")
    return dump.word(ledger.member(dump, group, "ompi_group_t", "grp_proc_pointers") + WORD * rank)


def _find_request_size(ledger: OpalLedger) -> None:
    """Find the size of mtl/ofi's request: what the pool's elements have beyond pml/cm's own part."""
    dump = ledger.cm_dumps[0]
    pool = dump.symbols["mca_pml_base_recv_requests"].address
    element = ledger.member(dump, pool, "opal_free_list_t", "fl_frag_size")
    head = ledger.size(THIN_RECV) - ledger.offset(THIN_RECV, "req_mtl")
    ledger.sizes[OFI_REQUEST] = element - ledger.size(HEAVY_RECV) + head
