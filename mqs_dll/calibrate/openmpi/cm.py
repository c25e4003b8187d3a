"""Observations of the requests of pml/cm, and of mtl/ofi below it. Not every MPI has these, nor every machine."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from mqs_dll.calibrate.dump import WORD, Dump, Entry
from mqs_dll.calibrate.layout_solver import MemberRow, NotFoundYet, Place, number, within
from mqs_dll.calibrate.offset_solver import solve_offset
from mqs_dll.calibrate.openmpi.layout_solver import OpenMpiLayoutSolver
from mqs_dll.calibrate.openmpi.requests import MODES, live
from mqs_dll.library.mpi.openmpi.cm import CONVERTOR_SEND, CONVERTOR_SEND_6, is_6

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
HOMOGENEOUS, HOMOGENEOUS_6 = 0x80000, 0x1000000
FLAGS = (
    {"send": HOMOGENEOUS | CONVERTOR_SEND, "receive": HOMOGENEOUS | 0x20000},
    {"send": HOMOGENEOUS_6 | CONVERTOR_SEND_6, "receive": HOMOGENEOUS_6 | 0x400000},
)
"""By what a convertor is for; the second are those since 6.0.0."""

ANY_ADDRESS = (1 << 64) - 1
OFI_REQUEST_BYTES = 256
"""More than mtl/ofi adds to a request; what follows is another element."""


def messages(solver: OpenMpiLayoutSolver, kind: str = "", *, heavy: bool | None = None) -> list[Place]:
    """Return the requests of pml/cm that are still the program's; freed sends may be another's already."""
    return [
        (dump, at, request)
        for dump, at, request in live(solver.cm_dumps, kind)
        if heavy in (None, is_heavy(request)) and not (request["kind"] == "send" and request["freed"])
    ]


def is_heavy(request: Entry) -> bool:
    """Return whether a request keeps its arguments: those that are started again, or sent from a copy."""
    return bool(request["persistent"]) or request["mode"] == "buffered"


def _is_delivered(_: Dump, request: Entry) -> bool | None:
    """Return whether the transport is done; libfabric may have taken over what isn't sure to wait for its receiver."""
    known = request["state"] in ("pending", "complete") and not is_heavy(request)
    return request["state"] == "complete" if known and request["mode"] in ("", "synchronous") else None


def _datatype(_: Dump, request: Entry) -> int | None:
    return None if request["mode"] == "buffered" else request["datatype"]


def _convertor(solver: OpenMpiLayoutSolver, dump: Dump, address: int, request: Entry) -> Hashable:
    """See an object of class opal_convertor_t that refers to the request's datatype."""
    if solver.class_of(dump, address) != CONVERTOR:
        return None
    words = dump.words(address, solver.size(CONVERTOR) // WORD)
    return request["datatype"] if request["datatype"] in words else None


REQUEST_ROWS = (
    MemberRow("req_comm", "the communicator", "comm"),
    MemberRow("req_datatype", "the datatype", _datatype),
    MemberRow(
        "req_pml_type", "send or receive, thin or heavy", lambda _, each: PML_TYPES[each["kind"], is_heavy(each)]
    ),
    MemberRow("req_free_called", "whether the program freed the request", "freed"),
    MemberRow("req_pml_complete", "whether the transport is done with it", _is_delivered),
    MemberRow("req_convertor", "a convertor for the datatype", _datatype, seen=_convertor),
)
"""What sends and receives of pml/cm have in common."""

ARGUMENT_ROWS = (
    MemberRow("req_tag", "the tag that was named", "tag"),
    MemberRow("req_peer", "the peer that was named", "peer"),
)
"""What heavy requests have of their own."""


def find_cm_request(solver: OpenMpiLayoutSolver) -> None:
    """Find what sends and receives of pml/cm have in common."""
    solver.solve_members(REQUEST, messages(solver), *REQUEST_ROWS)


def find_convertor(solver: OpenMpiLayoutSolver) -> None:
    """Find how a convertor describes a buffer."""
    base = solver.offset(REQUEST, "req_convertor")
    thin = within(messages(solver, heavy=False), base)
    buffer = MemberRow("pBaseBuf", "the program's buffer", "buffer")
    solver.solve_members(CONVERTOR, thin, MemberRow("count", "the count", "count"), buffer)
    size = MemberRow("local_size", "the bytes of a buffer, and those here of what is packed for there", "bytes")
    solver.solve_members(CONVERTOR, [*thin, *_packs(solver)], size)
    of_kind = FLAGS[is_6(solver.offsets[CONVERTOR])]
    all_flags = of_kind["send"] | of_kind["receive"]
    flags = MemberRow("flags", "the flags send, receive, homogeneous", lambda _, each: of_kind[each["kind"]], all_flags)
    kept = [each for each in messages(solver) if each[2]["kind"] == "receive" or each[2]["persistent"]]
    solver.solve_members(CONVERTOR, within(kept, base), flags)


def _packs(solver: OpenMpiLayoutSolver) -> Iterator[Place]:
    """Yield convertors for a format with a long of another size: the bytes here are not those there."""
    for dump in solver.all_dumps:
        convertors = solver.instances(dump, CONVERTOR)
        for pack in dump.of("packs"):
            start, size = pack["stack"]
            for address in (each for each in convertors if start <= each < start + size):
                if solver.member(dump, address, CONVERTOR, "count") == pack["count"]:
                    yield dump, address, pack


def find_cm_directions(solver: OpenMpiLayoutSolver) -> None:
    """Find what sends and receives of pml/cm have of their own."""
    mode = MemberRow("req_send_mode", "the mode of a send", lambda _, request: MODES[request["mode"]])
    solver.solve_members(SEND, messages(solver, "send"), mode)
    address = MemberRow("req_addr", "the program's buffer", "buffer")
    solver.solve_members(HEAVY_SEND, messages(solver, "send", heavy=True), address, *ARGUMENT_ROWS)
    solver.solve_members(HEAVY_RECV, messages(solver, "receive", heavy=True), *ARGUMENT_ROWS)
    what = "the request itself, as the transport's owner"
    own = [number(what, dump, at, "Q", at) for dump, at, _ in messages(solver, "receive", heavy=False)]
    solver.solve(THIN_RECV, "req_mtl", own)


# ---------------------------------------------------------------- mtl/ofi


def _tag(_: Dump, request: Entry) -> int | None:
    return request["tag"] if request["tag"] >= 0 else None


def find_ofi_request(solver: OpenMpiLayoutSolver) -> None:
    """Find what mtl/ofi keeps of a receive, counted from where pml/cm lets it start."""
    base, convertor = solver.offset(THIN_RECV, "req_mtl"), solver.offset(REQUEST, "req_convertor")
    receives = within(messages(solver, "receive", heavy=False), base)
    words = range(0, OFI_REQUEST_BYTES, WORD)
    solver.solve_members(
        OFI_REQUEST,
        receives,
        MemberRow("comm", "the communicator", "comm"),
        MemberRow("length", "the bytes of a buffer", "bytes"),
        MemberRow("convertor", "the request's convertor", lambda _, request: request["address"] + convertor),
        MemberRow("match_bits", "bits that end with the tag", _tag, 0x7FFF),
        among=words,
    )
    settled = [each for each in receives if each[2]["state"] != "in progress"]
    started = MemberRow("req_started", "whether a message has come", lambda _, request: request["state"] == "complete")
    solver.solve_members(OFI_REQUEST, settled, started, among=range(OFI_REQUEST_BYTES))
    source = MemberRow(
        "remote_addr",
        "whether the source is left open",
        lambda _, request: request["peer"] < 0,
        seen=lambda _, dump, at, __: dump.word(at) == ANY_ADDRESS,
    )
    solver.solve_members(OFI_REQUEST, _directed(solver), source, among=words)


def _waiting(solver: OpenMpiLayoutSolver, dump: Dump) -> list[Place]:
    """Return what mtl/ofi keeps of thin receives that wait; a message may have changed what others asked for."""
    base = solver.offset(THIN_RECV, "req_mtl")
    requests = dump.of("requests", kind="receive", persistent=0, state="pending")
    return [(dump, request["address"] + base, request) for request in requests]


def _directed(solver: OpenMpiLayoutSolver) -> list[Place]:
    """Return what waits in processes that name a source by its address, and not in the match bits."""
    dumps = [dump for dump in solver.cm_dumps if not _shifts(solver, dump)[1]]
    return [each for dump in dumps for each in _waiting(solver, dump)]


def _shifts(solver: OpenMpiLayoutSolver, dump: Dump) -> tuple[int, int]:
    """Return where match bits have the communicator's slot and the source; 0 for no source.

        highest bit | protocol | slot | source, not in all runs | tag | lowest bit

    A receive that waits has 0 for the protocol, and for a source or a tag that it leaves open.
    """
    slots = solver.slots(dump)
    receives = [
        (solver.member(dump, at, OFI_REQUEST, "match_bits") - max(each["tag"], 0), slots[each["comm"]], each["peer"])
        for dump, at, each in _waiting(solver, dump)
    ]
    for shift in range(1, 64):
        sources = [(bits - (slot << shift), peer) for bits, slot, peer in receives]
        of_each_rank = {source // peer for source, peer in sources if peer > 0}
        if len(of_each_rank) == 1 and not any(source for source, peer in sources if peer <= 0):
            return shift, max(of_each_rank.pop().bit_length() - 1, 0)
    raise NotFoundYet("match bits are not made up of slot, source and tag")


def find_ofi_module(solver: OpenMpiLayoutSolver) -> None:
    """Find how mtl/ofi uses libfabric, from runs that make it do so in different ways."""
    modules = []
    for dump in solver.cm_dumps:
        comm, source = _shifts(solver, dump)
        symbol, largest_tag = dump.symbols["ompi_mtl_ofi"], int(dump.truth["largest_tag"])
        known = {
            "no source": not source,
            "tag": largest_tag.bit_length() + 1 if source else None,
            "source": comm - source if source else 0,
            "contexts": int(dump.truth["contexts"]).bit_length(),
            "anywhere": ANY_ADDRESS,
        }
        modules.append((dump, symbol.address, known))
        solver.sizes[OFI_MODULE] = symbol.size
    solver.solve_members(
        OFI_MODULE,
        modules,
        MemberRow("fi_cq_data", "whether match bits leave the source out", "no source"),
        MemberRow("num_bits_mpi_tag", "the bits of the largest tag", "tag"),
        MemberRow("num_bits_source_rank", "the bits of the source in match bits", "source"),
        MemberRow(
            "any_addr", "the address that receives from anywhere have", "anywhere", seen=_any_addr, constant=True
        ),
    )
    if any(known["contexts"] for *_, known in modules):  # libfabric 2 has no provider that can have several
        contexts = MemberRow("rx_ctx_bits", "the bits that number the contexts asked for", "contexts")
        solver.solve_members(OFI_MODULE, modules, contexts)


def _any_addr(_: OpenMpiLayoutSolver, dump: Dump, address: int, __: Entry) -> Hashable:
    """See a number in front of a text, the provider's name: another number may be the same."""
    return dump.word(address) if dump.text(dump.word(address + WORD)) else None


def find_endpoint(solver: OpenMpiLayoutSolver) -> None:
    """Find the address that libfabric has for a process, and where the process refers to it."""
    addresses = [
        (dump, solver.process(dump, request["peer"]), solver.member(dump, at, OFI_REQUEST, "remote_addr"))
        for dump, at, request in _directed(solver)
        if request["peer"] >= 0
    ]
    what = "an endpoint of mtl/ofi"
    endpoints = [solver.points_at(what, dump, proc, OFI_ENDPOINT, proc) for dump, proc, _ in addresses]
    slots = solver.possible_offsets(PROC, "Q")
    slot = solve_offset(f"{PROC}: the slot of mtl/ofi", endpoints, slots).offset
    procs = [(dump, solver.process(dump, rank)) for dump in solver.dumps for rank in range(dump.truth["ranks"])]
    what = "an endpoint of pml/ob1 in the first slot"
    first = [solver.points_at(what, dump, proc, BML, proc) for dump, proc in procs]
    solver.solve(PROC, "proc_endpoints", first, [offset for offset in slots if offset < slot])
    del solver.sizes[PROC]  # which differs from build to build: there is a slot for each transport that was built
    found = [(dump, dump.word(proc + slot), address) for dump, proc, address in addresses]
    solver.solve_number(OFI_ENDPOINT, "peer_fiaddr", "the address that receives from a peer have", found)
    # the size of mtl/ofi's request is what the pool's elements have beyond pml/cm's own part
    dump = solver.cm_dumps[0]
    pool = dump.symbols["mca_pml_base_recv_requests"].address
    element = solver.member(dump, pool, "opal_free_list_t", "fl_frag_size")
    head = solver.size(THIN_RECV) - solver.offset(THIN_RECV, "req_mtl")
    solver.sizes[OFI_REQUEST] = element - solver.size(HEAVY_RECV) + head
