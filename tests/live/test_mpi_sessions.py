"""Programs that use MPI through sessions, without MPI_Init and MPI_COMM_WORLD (MPI 4, Open MPI since 5.0)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqs_dll.contract.abi import Queue
from mqs_dll.job.snapshot import CommunicatorSnapshot
from mqs_dll.library.mpi.openmpi.communicators import FOLDED
from tests.support.jobs import Compiler, running
from tests.support.mpis import OB1, Mpi, open_mpis
from tests.support.ways import Seen, read_direct

WITH_SESSIONS = [mpi for mpi in open_mpis() if "4.1" not in mpi.name and mpi.name != "openmpi-debian"]


@pytest.fixture(scope="module", params=WITH_SESSIONS, ids=lambda mpi: mpi.name)
def ranks(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[tuple[list[Seen], list[int]]]:
    """Return what is seen of each of three ranks, and the address of each rank's receive buffer."""
    mpi: Mpi = request.param
    with running(compiler, mpi, OB1, "sessions", 3) as job:
        truths = job.wait_until_ready()
        yield read_direct([truth["pid"] for truth in truths]), [truth["receive_buffer"] for truth in truths]


def _named(seen: Seen, name: bytes) -> CommunicatorSnapshot:
    return next(each for each in seen.communicators if each.communicator.name == name)


def test_communicators_of_a_session_are_shown_without_mpi_init(ranks: tuple[list[Seen], list[int]]) -> None:
    """They have their names, sizes and groups; there is no MPI_COMM_WORLD to show, and none is made up."""
    seen, _ = ranks
    assert [each.global_rank for each in seen] == [0, 1, 2]
    for rank, each in enumerate(seen):
        names = [communicator.communicator.name for communicator in each.communicators]
        assert names[-1] == b"copy"
        assert (b"backwards" in names) == (rank < 2)
        assert b"MPI_COMM_WORLD" not in names
        assert _named(each, b"copy").group == (0, 1, 2)
    assert _named(seen[0], b"backwards").group == (1, 0)
    assert _named(seen[0], b"backwards").communicator.local_rank == 1


def test_an_extended_id_is_the_same_in_all_processes(ranks: tuple[list[Seen], list[int]]) -> None:
    """Communicators that were made from a group have an id of 16 bytes; folded, it still distinguishes them."""
    seen, _ = ranks
    ids = [{each.communicator.name: each.communicator.unique_id for each in one.communicators} for one in seen]
    assert ids[0] == ids[1]
    assert ids[2].items() <= ids[0].items()
    assert len(set(ids[0].values())) == 3
    assert ids[0][b"backwards"] >= FOLDED
    assert ids[0][b"copy"] < FOLDED  # duplicates of it have a number that all have agreed on


def test_queues_of_a_session_are_shown(ranks: tuple[list[Seen], list[int]]) -> None:
    """Receives and unexpected messages have ranks of the session's world as their global ranks."""
    seen, buffers = ranks
    receives, unexpected = (_named(seen[0], b"copy").queues[queue] for queue in (Queue.RECEIVES, Queue.UNEXPECTED))
    (receive,) = receives.operations
    assert (receive.desired_local_rank, receive.desired_global_rank, receive.desired_tag) == (1, 1, 5)
    assert (receive.desired_length, receive.buffer) == (40, buffers[0])
    (message,) = unexpected.operations
    assert (message.actual_global_rank, message.actual_tag, message.actual_length) == (1, 6, 12)
    (backwards,) = _named(seen[0], b"backwards").queues[Queue.UNEXPECTED].operations
    assert (backwards.actual_local_rank, backwards.actual_global_rank, backwards.actual_tag) == (0, 1, 8)
