"""The phrases of extra_text: what writes and what reads them agree, and no walker writes what nothing reads."""

from __future__ import annotations

import re

import pytest

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import TEXT_SIZE, Queue, Status
from mqs_dll.contract.phrases import Fate, How, Words, made_by, read, unread
from mqs_dll.library.mpi.envelopes import DatatypeFacts, buffer_text
from mqs_dll.library.mpi.mpich import tags as mpich_tags
from mqs_dll.library.mpi.openmpi import tags as openmpi_tags
from tests.support.scenes import (
    BLOCKED,
    BUFFERING,
    DIRECT,
    FLOW,
    ORDER,
    SPECIAL,
    TRAFFIC,
    UNCOLLECTED,
    Scene,
    places,
    scenes,
)

LARGEST = 2**31 - 1
HANDLE = 0x7FFF_FFFF_FFFF

FOR_PEOPLE = re.compile(
    rb".* x \d+, \d+ bytes|\d+ elements of an unreadable datatype at 0x\w+|.*: buffer and count are not kept"
    rb"|its buffer is not kept|\d+ bytes; buffer and datatype are not kept|its destination and buffer are not kept"
    rb"|its header is gone: what it sends where is not known|the buffer is a copy in the attached buffer"
    rb"|sent from a copy; the program's own buffer was 0x\w+"
    rb"|that has no \d+ first bytes: they were sent|that may lack the first bytes: sent at once"
    rb"|(done|done, not delivered yet|matched, none of it is here yet)"
    rb"|matched, its length is not known|of this or another communicator: what it sent is not kept"
    rb"|one of several to this rank, in no particular order"
    rb"|its tag and its order among those to this rank are not known"
    rb"|-?\d+ of \d+ bytes (are here|are sent|delivered)"
    rb"|no receive has matched it|rendezvous: the receiver has not answered"
    rb"|its tag is not known: the header is gone|its tag is not kept|\d+ parts(; no receive has matched it)?"
    rb"|eager: (all|a part) of it is here|all of it is (not )?here( yet)?|sent by MPI_Ssend or MPI_Issend"
    rb"|rendezvous: (\d+ of \d+ bytes are here|its \d+ bytes are with the sender)"
    rb"|from this process: its \d+ bytes are in the send's buffer|from rank \d+ of a part; its rank here is not known"
    rb"|the (source and )?tag that it asked for (are|is) not kept|whether it asked for its own rank or any is not kept"
    rb"|(source|source and tag): not known|(source: not known; )?tag: 0 or MPI_ANY_TAG"
    rb"|the rest is not known: .+ keeps it|pml/cm.+|their numbers: [\d, ]+"
    rb"|\d+ (came too early, behind a message not here yet|for communicators .+)"
    rb"|message no\. \d+ of this sender is the next to match"
    rb"|\d+ bytes; (the datatype is|its buffer and datatype are) not kept|under way; its tag is not kept"
    rb"|its order among those to this rank is not known|its receiver is not known"
    rb"|its destination is not known: mtl/ofi keeps no trace|tag: not known"
    rb"|its message is coming in or is here; from whom is not known"
    rb"|it has not (left|come) whole|the receiver has not acknowledged it"
    rb"|or a neighborhood collective's: pml/ucx cuts its tag|what it sent where is not known"
    rb"|its message is under way or here|not taken in|under way|a part of it is here; its length is not known"
    rb"|its order among those of other senders is not known|the source that it asked for is not known"
)
"""The lines that walkers write for people alone."""


def written(*lines: str) -> tuple[bytes, ...]:
    """Return lines as an operation has them."""
    return tuple(line.encode() for line in lines)


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        (made_by("MPI_Recv", "MPI_Irecv"), ("MPI_Recv", "MPI_Irecv")),
        (made_by("MPI_Irecv", how=How.NONBLOCKING), ("MPI_Irecv",)),
        (made_by("MPI_Irecv", "MPI_Imrecv", error=15), ("MPI_Irecv", "MPI_Imrecv")),
        (made_by("MPI_Send_init", how=How.PERSISTENT), ("MPI_Send_init",)),
        (made_by(how=How.PERSISTENT), ()),
        (phrases.UNKNOWN_MODE(7), ()),
        (
            made_by("MPI_Isend", "MPI_Issend", how=How.BUFFERED_OR_COLLECTIVE),
            ("MPI_Isend", "MPI_Issend", "MPI_Bsend", "MPI_Ibsend"),
        ),
        (
            made_by("MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Issend", how=How.OR_READY),
            ("MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Issend", "MPI_Rsend", "MPI_Irsend"),
        ),
        (
            made_by("MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Issend", how=How.OR_BUFFERED),
            ("MPI_Send", "MPI_Isend", "MPI_Ssend", "MPI_Issend", "MPI_Bsend", "MPI_Ibsend"),
        ),
    ],
)
def test_the_calls_that_may_have_made_an_operation_are_in_its_first_line(line: str, calls: tuple[str, ...]) -> None:
    """All that are named there, and those that are meant."""
    said = read(written(line, phrases.request(HANDLE)))
    assert said == Words(calls=calls, request=HANDLE)
    assert unread(written(line)) == ()
    assert len(line) < TEXT_SIZE


def test_calls_stand_in_the_first_line_alone() -> None:
    """In any other one, a vendor's library may mean something else by them."""
    lines = written(made_by("MPI_Irecv"), made_by("MPI_Bsend", how=How.BUFFERED))
    assert read(lines) == Words(calls=("MPI_Irecv",))
    assert unread(lines) == lines[1:]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (made_by("MPI_Mprobe", "MPI_Improbe", how=How.MATCHED_MESSAGE), {"matched_message": True}),
        (made_by("MPI_Bsend", "MPI_Ibsend", how=How.BUFFERED), {"detached": True}),
        (made_by("MPI_Irecv", how=How.NONBLOCKING, fate=Fate.FREED), {"detached": True}),
        (made_by("MPI_Irecv", "MPI_Imrecv", fate=Fate.CANCELLED), {"cancelled": True}),
    ],
)
def test_what_became_of_an_operation_may_stand_in_its_first_line(line: str, says: dict[str, bool]) -> None:
    """Behind the calls."""
    assert read(written(line))._replace(calls=()) == Words(**says)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (phrases.request(HANDLE), Words(request=HANDLE)),
        (phrases.request(HANDLE, in_wait=True), Words(request=HANDLE, in_wait=True)),
        (phrases.request(HANDLE, in_wait=True, needs=2), Words(request=HANDLE, in_wait=True, needs=2)),
        (phrases.CANCELLED(), Words(cancelled=True)),
        (phrases.FREED(), Words(detached=True)),
        (phrases.NOT_DELIVERED(HANDLE), Words(detached=True)),
        (phrases.RECEIVE_NUMBER(LARGEST), Words(number=LARGEST)),
        (phrases.WORKER_NUMBER(LARGEST), Words(number=LARGEST)),
        (phrases.ENDPOINT_NUMBER(LARGEST), Words(number=LARGEST)),
        (phrases.NEXT_TO_MATCH(65535, 65534), Words(following=65535, sent=65534)),
        (phrases.SEND_NUMBER(LARGEST), Words(number=LARGEST)),
        (phrases.MESSAGE(HANDLE, "rendezvous with the data at the sender"), Words(message=HANDLE)),
        (phrases.NO_ROOM("shared memory"), Words(message=0)),
    ],
)
def test_a_line_says_what_it_was_written_for(line: str, says: Words) -> None:
    """In any place but the first, within its 63 bytes."""
    assert read(written(made_by("MPI_Irecv"), line)) == says._replace(calls=("MPI_Irecv",))
    assert len(line) < TEXT_SIZE


@pytest.mark.parametrize(
    "line",
    [
        *(openmpi_tags.label(tag, nonblocking_base=base) for base in (-27, -33) for tag in (*range(-50, -6), -1 << 30)),
        *(openmpi_tags.label(tag, nonblocking_base=-33) for tag in (-1073741822, -1073742847, -(1 << 31))),
        *(mpich_tags.label(tag) for tag in (*range(300), (1 << 28) - 1, 1 << 28, 1 << 30)),
    ],
)
def test_every_internal_tag_is_read_as_traffic_of_the_mpi(line: str) -> None:
    """Whatever it stands for; a blocking collective with its name, another one with its number."""
    said = read(written(made_by("MPI_Recv", "MPI_Irecv"), line))
    assert said.internal
    assert (said.collective is not None) == line.startswith("collective: ")
    assert (said.nonblocking is not None) == line.startswith("nonblocking")
    assert len(line) < TEXT_SIZE


def test_a_nonblocking_collective_has_its_number() -> None:
    """Counted on its communicator, from 1, on both MPIs."""
    lines = (openmpi_tags.label(-29, nonblocking_base=-27), mpich_tags.label(289))
    assert [read(written(line)).nonblocking for line in lines] == [3, 3]


@pytest.mark.parametrize(
    "name", ["collective: MPI_Barrier, alone or in another one", "x, cancelled", "MPI_Recv, in a wait"]
)
def test_the_name_of_a_datatype_is_never_taken_for_a_phrase(name: str) -> None:
    """A program may call its datatypes what it likes."""
    line = buffer_text(DatatypeFacts(name.encode(), 4, predefined=False), 4, HANDLE)
    assert read((*written(made_by("MPI_Irecv")), line)) == Words(calls=("MPI_Irecv",))
    assert unread((line,)) == (line,)


MORE = (*FLOW, ORDER, UNCOLLECTED, *BLOCKED, BUFFERING, SPECIAL)


@scenes(places(*TRAFFIC, *MORE))
def test_every_line_that_is_written_of_live_processes_is_read_or_for_people(scene: Scene) -> None:
    """No walker writes what nothing understands; and each operation of the program's own names its calls."""
    for seen in scene.see(DIRECT):
        for communicator in seen.communicators:
            for queue in communicator.queues:
                for operation in queue.operations:
                    strange = [line for line in unread(operation.extra_text) if not FOR_PEOPLE.fullmatch(line)]
                    assert strange == []
                    said = read(operation.extra_text)
                    assert said.calls or said.internal or queue.queue is Queue.UNEXPECTED


@scenes(places(*(case for case in BLOCKED if case.program == "blocked")))
def test_requests_in_a_wait_are_read_as_such(scene: Scene) -> None:
    """Open MPI shows which requests of a live MPI_Waitall are still needed, and how many; MPICH doesn't."""
    words = [
        read(operation.extra_text)
        for seen in scene.see(DIRECT)
        for communicator in seen.communicators
        for queue in communicator.queues
        for operation in queue.operations
        if operation.status is not Status.COMPLETE
    ]
    assert (2 in {said.needs for said in words if said.in_wait}) == (scene.job.mpi.product == "Open MPI")
