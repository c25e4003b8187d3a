"""How operations are made of what is asked for and what has come."""

from __future__ import annotations

from mqs_dll.contract.abi import Status
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope, message, note, receive, send

PEERS = (7, 5, -1)
"""MPI_COMM_WORLD ranks of a communicator, the last process is of another job."""


def test_a_receive_has_the_ranks_of_both_worlds() -> None:
    """What it asks for and what it got are ranks of the communicator, and beside them those of MPI_COMM_WORLD."""
    asked, got = Envelope(0, 3, 16), Envelope(1, 4, 8)
    found = receive(Status.MATCHED, asked, got, PEERS, 0x1000, "first", None, "second", tag_wild=True)
    assert (found.desired_local_rank, found.desired_global_rank, found.desired_tag, found.desired_length) == (
        0,
        7,
        3,
        16,
    )
    assert (found.actual_local_rank, found.actual_global_rank, found.actual_tag, found.actual_length) == (1, 5, 4, 8)
    assert (found.tag_wild, found.system_buffer, found.buffer, found.extra_text) == (
        *(True, False, 0x1000),
        (b"first", b"second"),
    )


def test_what_is_not_known_is_minus_one() -> None:
    """A receive from any source that got nothing, or from a process of another job, has no rank in MPI_COMM_WORLD."""
    found = receive(Status.PENDING, Envelope(2, 3, 16), NOTHING, PEERS, 0)
    assert (found.desired_local_rank, found.desired_global_rank) == (2, -1)
    assert (found.actual_local_rank, found.actual_global_rank, found.actual_tag, found.actual_length) == (-1,) * 4
    assert receive(Status.PENDING, NOTHING, NOTHING, PEERS, 0).desired_global_rank == -1


def test_what_a_send_desires_is_what_it_is() -> None:
    """Sends, messages and notes have the same rank, tag and length twice; a message lies in a buffer of the system."""
    for found, of_system in (
        (send(Status.PENDING, 1, 5, 3, 16, 0), False),
        (message(Status.PENDING, 1, 5, 3, 16, 0), True),
        (note("2 came too early", rank=1, world=5), True),
    ):
        desired = (found.desired_local_rank, found.desired_global_rank, found.desired_tag, found.desired_length)
        assert desired == (found.actual_local_rank, found.actual_global_rank, found.actual_tag, found.actual_length)
        assert (found.desired_global_rank, found.system_buffer, found.tag_wild) == (5, of_system, False)
