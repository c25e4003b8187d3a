"""Verdicts on collective calls that some have left, or left out, and others wait in."""

from __future__ import annotations

from typing import Any

import pytest

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Queue, Status
from mqs_dll.job.records import Argument, ArgumentEvidence
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Certainty, Finding, Verdict
from tests.support.made_up_job import SEND, Pending, Rank, collective, given, job, rank, receive, send, unexpected

CALL = "MPI_Alltoallw"
MPICH = "MPICH 4.3.2, ch4:ofi (shared memory)"
COUNTS = tuple(
    Argument(name, 0x7FFC_0000 + 16 * number, ArgumentEvidence.CALLER, elements=(4, 4, 4))
    for number, name in enumerate(("sendcounts", "recvcounts"))
)
SENT = send(0, -15, status=Status.COMPLETE, text=(SEND, phrases.COLLECTIVE(CALL)))
UNDER_WAY = send(0, -15, text=(SEND, phrases.COLLECTIVE(CALL)))
LIES = unexpected(1, -15, text=(phrases.COLLECTIVE(CALL),))


def still(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that two samples saw in the same state."""
    return rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)


def exchanging(*operations: Pending, arguments: tuple[Argument, ...] = COUNTS, **facts: Any) -> Rank:
    """Return rank 1, which waits in the call for rank 0's data."""
    given_to_call = (*arguments, *given(comm=None))
    return still(1, collective(CALL, source=0, tag=-15), *operations, call=CALL, arguments=given_to_call, **facts)


def elsewhere(*operations: Pending, **facts: Any) -> Rank:
    """Return rank 0, which waits for rank 1 outside of the call."""
    return still(0, receive(1, tag=5), *operations, **{"call": "MPI_Recv", **facts})


def found(verdict: Verdict, cause: Cause) -> list[Finding]:
    """Return the findings of a cause."""
    return [each for each in verdict.findings if each.cause is cause]


def test_who_has_received_what_was_sent_in_a_call_and_is_elsewhere_has_left_it() -> None:
    """The finding says which counts to compare, and the one that is known."""
    (left,) = found(conclude(job(elsewhere(), exchanging(SENT), still(2))), Cause.COUNTS)
    assert left.certainty is Certainty.PROVED
    assert left.sentence == (
        "Rank 1 waits in MPI_Alltoallw on MPI_COMM_WORLD for data of rank 0, which has left that call: it is in "
        "MPI_Recv from rank 1, tag 5 on MPI_COMM_WORLD at solver.c:42."
    )
    assert left.advice == "Compare sendcounts[1] on rank 0 with recvcounts[0] on rank 1, which is 4."


def test_where_mpich_keeps_no_send_the_arguments_show_that_there_was_one() -> None:
    """All of a small communicator are sent together; where none was to be sent to rank 0, nothing is known of it."""
    assert found(conclude(job(elsewhere(), exchanging(), still(2), mpi=MPICH)), Cause.COUNTS)
    nothing_sent = (COUNTS[0]._replace(elements=(0, 4, 4)), COUNTS[1])
    assert not found(conclude(job(elsewhere(), exchanging(arguments=nothing_sent), still(2), mpi=MPICH)), Cause.COUNTS)
    assert not found(conclude(job(elsewhere(), exchanging(), still(2))), Cause.COUNTS)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(elsewhere(LIES), id="what-was-sent-lies-there"),
        pytest.param(elsewhere(broken=[Queue.UNEXPECTED]), id="its-queue-breaks-off"),
        pytest.param(elsewhere(hidden=[Queue.UNEXPECTED]), id="its-queue-is-hidden"),
        pytest.param(still(0), id="it-takes-in-nothing-outside-mpi"),
        pytest.param(elsewhere(watched=False), id="it-may-have-made-the-call-meanwhile"),
    ],
)
def test_who_may_not_have_made_a_call_is_not_said_to_have_left_it(other: Rank) -> None:
    """Nothing is made of a message that isn't seen, where it may be under way or unseen."""
    verdict = conclude(job(other, exchanging(SENT), still(2), mpi=MPICH))
    assert not found(verdict, Cause.COUNTS)
    assert not any("has left that call" in each.sentence for each in verdict.findings)


@pytest.mark.parametrize(
    "sender",
    [
        pytest.param(exchanging(SENT, watched=False), id="it-may-have-sent-just-now"),
        pytest.param(exchanging(UNDER_WAY), id="its-message-is-under-way"),
    ],
)
def test_what_is_not_known_to_have_been_taken_in_proves_no_call(sender: Rank) -> None:
    """Rank 0 may have left out the call, and the message may still come to it."""
    assert not found(conclude(job(elsewhere(), sender, still(2), mpi=MPICH)), Cause.COUNTS)


def test_in_a_large_communicator_not_all_of_a_call_is_sent_together() -> None:
    """There MPICH has so many messages under way at once, and that to rank 0 may be none of them yet."""
    for size, is_known in ((32, True), (33, False)):
        others = (still(number) for number in range(2, size))
        assert bool(found(conclude(job(elsewhere(), exchanging(), *others, mpi=MPICH)), Cause.COUNTS)) == is_known


def test_of_one_who_left_out_a_call_or_left_it_both_are_said() -> None:
    """With what to compare, in case the call was made."""
    (missing,) = found(conclude(job(elsewhere(LIES), exchanging(SENT), still(2))), Cause.COLLECTIVE_MISSING)
    assert missing.advice.endswith(
        "If it was made: compare sendcounts[1] on rank 0 with recvcounts[0] on rank 1, which is 4."
    )


def test_a_count_of_another_call_or_beyond_the_array_is_not_reported() -> None:
    """An array that was read in part has no element for a rank beyond it."""
    short = tuple(each._replace(elements=()) for each in COUNTS)
    (left,) = found(conclude(job(elsewhere(), exchanging(SENT, arguments=short), still(2))), Cause.COUNTS)
    assert left.advice == "Compare sendcounts[1] on rank 0 with recvcounts[0] on rank 1."


def test_a_stuck_rank_with_traffic_of_a_collective_has_left_that_out() -> None:
    """It explains the wait where the one that it waits for is beyond that call; else it is worth a line."""
    bcast = unexpected(0, -17, text=(phrases.COLLECTIVE("MPI_Bcast"),))
    stuck = still(1, receive(0, tag=5), bcast, call="MPI_Recv")
    (explains,) = found(conclude(job(still(0, receive(1, tag=6), call="MPI_Recv"), stuck)), Cause.LEFT_OUT)
    assert explains.certainty is Certainty.PROVED
    assert explains.sentence == (
        "Rank 1 is in MPI_Recv from rank 0, tag 5 on MPI_COMM_WORLD at solver.c:42, and has left out MPI_Bcast on "
        "MPI_COMM_WORLD, or not come to it: what rank 0 sent it in that call, or in one that is made of it, lies "
        "unexpected."
    )
    others = (still(0), stuck._replace(samples=still(1, receive(2, tag=5), bcast, call="MPI_Recv").samples))
    (noted,) = found(conclude(job(*others, still(2, receive(1), call="MPI_Recv"))), Cause.LEFT_OUT)
    assert noted.certainty is Certainty.NOTED


def test_who_is_still_in_a_collective_shows_that_by_its_own_traffic() -> None:
    """That rank 1 is missing there is another finding; and what nobody is stuck for is none."""
    bcast = unexpected(0, -17, text=(phrases.COLLECTIVE("MPI_Bcast"),))
    for call in ("MPI_Bcast", "MPI_File_write_at_all"):  # which may be made of the other
        inside = still(0, collective("MPI_Bcast", target=1, tag=-17), call=call)
        assert not found(conclude(job(inside, still(1, receive(0, tag=5), bcast, call="MPI_Recv"))), Cause.LEFT_OUT)
    assert not found(conclude(job(still(0), still(1, bcast))), Cause.LEFT_OUT)


def test_who_is_in_a_collective_or_receives_its_traffic_has_left_out_none() -> None:
    """What has come for the next call lies there until the one before is over; what is received is on its way in."""
    bcast = unexpected(0, -17, text=(phrases.COLLECTIVE("MPI_Bcast"),))
    waiting = still(0, receive(1, tag=6), call="MPI_Recv")
    inside = still(1, collective("MPI_Barrier", source=0), bcast, call="MPI_Barrier")
    takes_it = still(1, receive(0, tag=5), collective("MPI_Bcast", source=0, tag=-17), bcast, call="MPI_Recv")
    for other in (inside, takes_it):
        assert not found(conclude(job(waiting, other)), Cause.LEFT_OUT)
