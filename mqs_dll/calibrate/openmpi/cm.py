"""Sightings of the requests of pml/cm, and of mtl/ofi below it. Not every MPI has these, nor every machine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from mqs_dll.calibrate.dump import WORD, Dump
from mqs_dll.calibrate.ledger import NotFoundYet, number
from mqs_dll.calibrate.openmpi.opal_ledger import OpalLedger
from mqs_dll.calibrate.openmpi.requests import MODES, Requests
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
CONVERTOR_RECV = 0x20000
CONVERTOR_HOMOGENEOUS = 0x80000

ANY_ADDRESS = (1 << 64) - 1
OFI_REQUEST_BYTES = 256
"""More than mtl/ofi adds to a request; what follows is another element."""


def messages(ledger: OpalLedger, kind: str = "") -> Requests:
    """Return the requests of pml/cm that are still the program's; freed sends may be another's already."""
    kinds = (kind,) if kind else ("receive", "send")
    return [
        (dump, request)
        for dump in ledger.cm_dumps
        for request in dump.of("requests")
        if request["kind"] in kinds
        and request["state"] != "gone"
        and not (request["kind"] == "send" and request["freed"])
    ]


def is_heavy(request: dict[str, Any]) -> bool:
    """Tell whether a request keeps its arguments: those that are started again, or sent from a copy."""
    return bool(request["persistent"]) or request["mode"] == "buffered"


def _numbers(what: str, code: str, key: str, requests: Iterable[tuple[Dump, dict[str, Any]]]) -> list[Sighting]:
    return [number(what, dump, request["address"], code, request[key]) for dump, request in requests]


def find_cm_request(ledger: OpalLedger) -> None:
    """Find what sends and receives of pml/cm have in common."""
    requests = messages(ledger)
    if not requests:
        raise NotFoundYet("there is no run with pml/cm")
    instances = [(dump, request["address"]) for dump, request in requests]
    own = {size: ledger.own_offsets(REQUEST, size, instances) for size in (1, 4, WORD)}
    unchanged = [(dump, request) for dump, request in requests if request["mode"] != "buffered"]
    ledger.pin(REQUEST, "req_comm", _numbers("the communicator", "Q", "comm", requests), own[WORD])
    ledger.pin(REQUEST, "req_datatype", _numbers("the datatype", "Q", "datatype", unchanged), own[WORD])
    types = [
        number("send or receive, thin or heavy", dump, request["address"], "I", _type(request))
        for dump, request in requests
    ]
    ledger.pin(REQUEST, "req_pml_type", types, own[4])
    freed = _numbers("whether the program freed the request", "B", "freed", requests)
    ledger.pin(REQUEST, "req_free_called", freed, own[1])
    # libfabric may have taken over any other message
    done = [
        number("whether the transport is done with it", dump, request["address"], "B", request["state"] == "complete")
        for dump, request in requests
        if request["state"] in ("pending", "complete")
        and not is_heavy(request)
        and request["mode"] in ("", "synchronous")
    ]
    ledger.pin(REQUEST, "req_pml_complete", done, own[1])
    convertors = [_convertor(ledger, dump, request) for dump, request in unchanged]
    ledger.pin(REQUEST, "req_convertor", convertors, ledger.own_offsets(REQUEST, WORD))


def _type(request: dict[str, Any]) -> int:
    return PML_TYPES[request["kind"], is_heavy(request)]


def _convertor(ledger: OpalLedger, dump: Dump, request: dict[str, Any]) -> Sighting:
    """Sight an object of class opal_convertor_t that refers to the request's datatype."""

    def seen(offset: int) -> Hashable:
        address = request["address"] + offset
        if ledger.class_of(dump, address) != CONVERTOR:
            return None
        words = dump.words(address, ledger.size(CONVERTOR) // WORD)
        return request["datatype"] if request["datatype"] in words else None

    return Sighting("a convertor for the datatype", request["datatype"], seen)


def find_convertor(ledger: OpalLedger) -> None:
    """Find how a convertor describes a buffer."""
    base = ledger.offset(REQUEST, "req_convertor")
    thin = [(dump, request) for dump, request in messages(ledger) if not is_heavy(request)]
    words = ledger.own_offsets(CONVERTOR, WORD)

    def sight(what: str, key: str) -> list[Sighting]:
        return [number(what, dump, request["address"] + base, "Q", request[key]) for dump, request in thin]

    ledger.pin(CONVERTOR, "count", sight("the count", "count"), words)
    sizes = [*sight("the bytes of a buffer", "bytes"), *_packs(ledger)]
    ledger.pin(CONVERTOR, "local_size", sizes, words)
    ledger.pin(CONVERTOR, "pBaseBuf", sight("the program's buffer", "buffer"), words)
    flags = [
        _convertor_flags(dump, request["address"] + base, request["kind"])
        for dump, request in messages(ledger)
        if request["kind"] == "receive" or request["persistent"]
    ]
    ledger.pin(CONVERTOR, "flags", flags, ledger.own_offsets(CONVERTOR, 4))


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


def _convertor_flags(dump: Dump, address: int, kind: str) -> Sighting:
    known = CONVERTOR_SEND | CONVERTOR_RECV | CONVERTOR_HOMOGENEOUS
    expected = CONVERTOR_HOMOGENEOUS | (CONVERTOR_SEND if kind == "send" else CONVERTOR_RECV)
    what = "the flags send, receive, homogeneous of a convertor"
    return Sighting(what, expected, lambda offset: dump.scalar(address + offset, "I") & known)


def find_cm_directions(ledger: OpalLedger) -> None:
    """Find what sends and receives of pml/cm have of their own."""
    sends = messages(ledger, "send")
    modes = [
        number("the mode of a send", dump, request["address"], "I", MODES[request["mode"]]) for dump, request in sends
    ]
    ledger.pin(SEND, "req_send_mode", modes, ledger.own_offsets(SEND, 4))
    heavy = [(dump, request) for dump, request in sends if is_heavy(request)]
    numbers = ledger.own_offsets(HEAVY_SEND, 4)
    buffers = _numbers("the program's buffer", "Q", "buffer", heavy)
    ledger.pin(HEAVY_SEND, "req_addr", buffers, ledger.own_offsets(HEAVY_SEND, WORD))
    ledger.pin(HEAVY_SEND, "req_tag", _numbers("the tag that was named", "i", "tag", heavy), numbers)
    ledger.pin(HEAVY_SEND, "req_peer", _numbers("the peer that was named", "i", "peer", heavy), numbers)
    heavy = [(dump, request) for dump, request in messages(ledger, "receive") if is_heavy(request)]
    numbers = ledger.own_offsets(HEAVY_RECV, 4)
    ledger.pin(HEAVY_RECV, "req_tag", _numbers("the tag that was named", "i", "tag", heavy), numbers)
    ledger.pin(HEAVY_RECV, "req_peer", _numbers("the peer that was named", "i", "peer", heavy), numbers)
    own = [
        number("the request itself, as the transport's owner", dump, request["address"], "Q", request["address"])
        for dump, request in _thin_receives(ledger)
    ]
    ledger.pin(THIN_RECV, "req_mtl", own, ledger.own_offsets(THIN_RECV, WORD))


def _thin_receives(ledger: OpalLedger) -> Requests:
    return [(dump, request) for dump, request in messages(ledger, "receive") if not is_heavy(request)]


# ---------------------------------------------------------------- mtl/ofi


def find_ofi_request(ledger: OpalLedger) -> None:
    """Find what mtl/ofi keeps of a receive, counted from where pml/cm lets it begin."""
    base = ledger.offset(THIN_RECV, "req_mtl")
    receives = [(dump, request, request["address"] + base) for dump, request in _thin_receives(ledger)]
    words = range(0, OFI_REQUEST_BYTES, WORD)
    comms, lengths, convertors, started, bits = [], [], [], [], []
    for dump, request, address in receives:
        comms.append(number("the communicator", dump, address, "Q", request["comm"]))
        lengths.append(number("the bytes of a buffer", dump, address, "Q", request["bytes"]))
        convertor = request["address"] + ledger.offset(REQUEST, "req_convertor")
        convertors.append(number("the request's convertor", dump, address, "Q", convertor))
        if request["state"] != "in progress":
            complete = int(request["state"] == "complete")
            started.append(number("whether a message has come", dump, address, "B", complete))
        if request["tag"] >= 0:
            bits.append(_tag_bits(dump, address, request["tag"]))
    ledger.pin(OFI_REQUEST, "comm", comms, words)
    ledger.pin(OFI_REQUEST, "length", lengths, words)
    ledger.pin(OFI_REQUEST, "convertor", convertors, words)
    ledger.pin(OFI_REQUEST, "req_started", started, range(OFI_REQUEST_BYTES))
    ledger.pin(OFI_REQUEST, "match_bits", bits, words)
    peers = [
        _address_of_peer(dump, request["address"] + base, request["peer"])
        for dump in _directed(ledger)
        for request in _waiting(dump)
    ]
    ledger.pin(OFI_REQUEST, "remote_addr", peers, words)


def _tag_bits(dump: Dump, address: int, tag: int) -> Sighting:
    what = "bits that end with the tag"
    return Sighting(what, tag, lambda offset: dump.word(address + offset) & 0x7FFF)


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
    places = [(dump, dump.symbols["ompi_mtl_ofi"]) for dump in ledger.cm_dumps]
    if not places:
        raise NotFoundYet("there is no run with mtl/ofi")
    size = places[0][1].size
    ledger.sizes[OFI_MODULE] = size
    directed, tags, sources, contexts, anywhere = [], [], [], [], []
    for dump, place in places:
        address, shifts = place.address, _shifts(ledger, dump)
        directed.append(number("whether match bits leave the source out", dump, address, "B", not shifts.source))
        if shifts.source:
            bits = int(dump.truth["largest_tag"]).bit_length() + 1
            tags.append(number("the bits of the largest tag", dump, address, "i", bits))
            width = shifts.comm - shifts.source
        else:
            width = 0
        sources.append(number("the bits of the source in match bits", dump, address, "i", width))
        bits = int(dump.truth["contexts"]).bit_length()
        contexts.append(number("the bits that number the contexts asked for", dump, address, "i", bits))
        what = "the address that receives from anywhere have"
        anywhere.append(number(what, dump, address, "Q", ANY_ADDRESS))
    numbers = range(0, size - 3, 4)
    ledger.pin(OFI_MODULE, "fi_cq_data", directed, range(size))
    ledger.pin(OFI_MODULE, "num_bits_mpi_tag", tags, numbers)
    ledger.pin(OFI_MODULE, "num_bits_source_rank", sources, numbers)
    ledger.pin(OFI_MODULE, "any_addr", anywhere, range(0, size, WORD), constant=True)
    ledger.pin(OFI_MODULE, "rx_ctx_bits", contexts, numbers)


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
            endpoints.append(_endpoint("an endpoint of mtl/ofi", ledger, dump, proc, OFI_ENDPOINT))
            addresses.append((dump, proc, address))
    slots = ledger.own_offsets(PROC, WORD)
    slot = solve(f"{PROC}: the slot of mtl/ofi", endpoints, slots).offset
    first = [
        _endpoint("an endpoint of pml/ob1 in the first slot", ledger, dump, _process(ledger, dump, rank), BML)
        for dump in ledger.dumps
        for rank in range(dump.truth["ranks"])
    ]
    ledger.pin(PROC, "proc_endpoints", first, [offset for offset in slots if offset < slot])
    del ledger.sizes[PROC]  # which differs from build to build: there is a slot for each transport that was built
    found = [
        number("the address that receives from a peer have", dump, dump.word(proc + slot), "Q", address)
        for dump, proc, address in addresses
    ]
    ledger.pin(OFI_ENDPOINT, "peer_fiaddr", found, ledger.own_offsets(OFI_ENDPOINT, WORD))
    _find_request_size(ledger)


def _process(ledger: OpalLedger, dump: Dump, rank: int) -> int:
    """Return what Open MPI keeps of a process of MPI_COMM_WORLD."""
    world = next(comm["address"] for comm in dump.of("communicators", label="world"))
    group = ledger.member(dump, world, "ompi_communicator_t", "c_local_group")
    return dump.word(ledger.member(dump, group, "ompi_group_t", "grp_proc_pointers") + WORD * rank)


def _endpoint(what: str, ledger: OpalLedger, dump: Dump, proc: int, name: str) -> Sighting:
    """Sight a pointer to what a transport keeps of a process."""

    def seen(offset: int) -> Hashable:
        return proc if ledger.class_of(dump, dump.word(proc + offset)) == name else None

    return Sighting(what, proc, seen)


def _find_request_size(ledger: OpalLedger) -> None:
    """Find the size of mtl/ofi's request: what the pool's elements have beyond pml/cm's own part."""
    dump = ledger.cm_dumps[0]
    pool = dump.symbols["mca_pml_base_recv_requests"].address
    element = ledger.member(dump, pool, "opal_free_list_t", "fl_frag_size")
    head = ledger.size(THIN_RECV) - ledger.offset(THIN_RECV, "req_mtl")
    ledger.sizes[OFI_REQUEST] = element - ledger.size(HEAVY_RECV) + head
