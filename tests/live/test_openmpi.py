"""What is Open MPI's own: requests in a wait, and messages that came too early."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.contract.phrases import Words, read
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.library.layouts.profiles import shipped
from mqs_dll.library.session import Library
from tests.support.jobs import HANGS, Compiler, running
from tests.support.mpis import OB1, Mpi, open_mpis
from tests.support.scenes import BLOCKED, DIRECT, Parameters, Scene, places, read_by, scenes
from tests.support.targets import wait_until
from tests.support.truth.communicators import pair
from tests.support.truth.written import Truth
from tests.support.ways import READERS, Seen, read_direct

WAITING: list[Parameters] = [each for each in places(*BLOCKED[:2]) if each[1] == OB1]


@scenes(WAITING)
def test_requests_in_a_wait_say_how_many_more_it_needs(scene: Scene) -> None:
    """A thread in MPI_Waitall needs all of its requests that are pending: the one that is complete isn't counted."""
    (field,) = (each for each in scene.see(DIRECT)[2].communicators if each.communicator.name == b"field")
    waiting = [each.extra_text for each in field.queues[Queue.RECEIVES].operations if each.status is Status.PENDING]
    assert [read(text).needs for text in waiting] == [2] * 2


# ---------------------------------------------------------------- messages that can't be received yet


LOOKS_AT_A_LOOP = 30


def member(process: LiveProcess, struct: str, name: str) -> int:
    """Return the offset of a member of one of Open MPI's structs, as libmqs has it for this process."""
    queues = Library().setup_image(process.image).setup_process(process)
    queues.has_queues()
    origin = next(each.origin for each in queues.layout_origins() if each.struct == struct)
    handle = process.image.find_type(struct)
    if handle is not None:
        offset = process.image.field_offset(handle, name)
    else:
        offset = next(
            profile.layouts.offset(struct, name) for profile in shipped("openmpi") if origin.endswith(profile.name)
        )
    assert offset is not None
    return offset


def change(pid: int, address: int, data: bytes) -> None:
    """Write into a process."""
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(address)
        memory.write(data)


def pointer(process: LiveProcess, address: int) -> int:
    """Return a pointer that lies in a process."""
    return int.from_bytes(process.fetch(address, 8), "little")


def expect_an_earlier_message(process: LiveProcess, communicator: int) -> None:
    """Let a rank wait for one more message of rank 0 on a communicator than there will be."""
    matching = pointer(process, communicator + member(process, "ompi_communicator_t", "c_pml_comm"))
    peers = pointer(process, matching + member(process, "mca_pml_ob1_comm_t", "procs"))
    address = pointer(process, peers) + member(process, "mca_pml_ob1_comm_proc_t", "expected_sequence")
    expected = int.from_bytes(process.fetch(address, 2), "little")
    change(process.pid, address, (expected - 1).to_bytes(2, "little"))


def forget_communicator(process: LiveProcess, number: int) -> None:
    """Let a rank not know a communicator by its number."""
    table = process.image.find_symbol("ompi_mpi_communicators")
    assert table is not None
    slots = pointer(process, table + member(process, "opal_pointer_array_t", "addr"))
    change(process.pid, slots + 8 * number, bytes(8))


@pytest.mark.parametrize("mpi", open_mpis(), ids=lambda mpi: mpi.name)
def test_messages_that_came_too_early_are_counted(mpi: Mpi, compiler: Compiler) -> None:
    """Messages that no receive can match yet are no messages of the queue, but notes that count them."""
    with running(compiler, mpi, OB1, "early", 2) as job, ExitStack() as opened:
        truth = Truth.from_json(job.wait_until_ready()[1])
        found, _, _ = pair(truth, read_direct([truth.pid])[0].communicators)
        number = found["ghost"].communicator.unique_id
        process = opened.enter_context(LiveProcess(truth.pid))
        with stopped(process.pid):
            expect_an_earlier_message(process, truth.communicator("field").handle)
            forget_communicator(process, number)
        job.next_phase(2)
        for way in READERS:
            (seen,) = read_by(mpi, way, [process])
            found, _, _ = pair(truth, seen.communicators)
            (early,) = found["field"].queues[Queue.UNEXPECTED].operations
            (foreign,) = found["world"].queues[Queue.UNEXPECTED].operations
            assert early.extra_text[0].startswith(b"2 came too early")
            assert (early.desired_local_rank, early.desired_global_rank, early.desired_tag) == (0, 0, -1)
            assert foreign.extra_text[0].startswith(b"2 for communicators that this process doesn't have")
            assert foreign.extra_text[1] == b"their numbers: %d" % number


@pytest.mark.parametrize("mpi", open_mpis(), ids=lambda mpi: mpi.name)
def test_a_receive_shows_which_message_of_its_sender_is_the_next(mpi: Mpi, compiler: Compiler) -> None:
    """The one behind those that have come, for whatever receive; messages are counted as their sends are."""
    with running(compiler, mpi, OB1, f"{HANGS}early", 2) as job:
        receiver = job.wait_until_ready()[0]["pid"]
        assert [words.following for words in said(receiver, Queue.RECEIVES)] == [2]
    with running(compiler, mpi, OB1, f"{HANGS}too_small", 2) as job:
        sender, receiver = (truth["pid"] for truth in job.wait_until_ready())
        wait_until(lambda: said(sender, Queue.SENDS))
        (sent,), (waits,) = said(sender, Queue.SENDS), said(receiver, Queue.RECEIVES)
        assert waits.following == sent.number is not None


@pytest.mark.parametrize("mpi", open_mpis(), ids=lambda mpi: mpi.name)
def test_a_receive_shows_how_many_messages_were_sent_to_its_sender(mpi: Mpi, compiler: Compiler) -> None:
    """So that what is under way between two that wait for each other is known: here it is one message, all the time."""
    senders = set()
    with running(compiler, mpi, OB1, f"{HANGS}ping_pong", 2) as job:
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        for _ in range(LOOKS_AT_A_LOOP):
            samples = (words_of(seen, Queue.RECEIVES) for seen in read_direct(pids))
            one, other = ([words for words in sample if words.following] for sample in samples)
            if not (one and other):
                continue
            under_way = [
                (sender.sent + 1 - receiver.following) % (1 << 16)
                for ((sender,), (receiver,)) in ((one, other), (other, one))
                if sender.sent is not None and receiver.following is not None
            ]
            assert sum(under_way) == 1
            senders.add(under_way.index(1))
    assert senders


def said(pid: int, queue: Queue) -> list[Words]:
    """Return what the lines of a process's operations say."""
    return words_of(read_direct([pid])[0], queue)


def words_of(seen: Seen, queue: Queue) -> list[Words]:
    """Return what the lines of the operations in a sample of a process say."""
    return [read(each.extra_text) for found in seen.communicators for each in found.queues[queue].operations]
