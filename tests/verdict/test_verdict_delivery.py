"""Verdicts on messages that match and are not delivered: what is suspected, and which slow transfers are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Label, Status
from mqs_dll.contract.names import PART_WORDS
from mqs_dll.contract.phrases import How
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.delivery import MAX_PARTITIONED_SIZE, MAX_SIZE
from mqs_dll.verdict.results import Cause, Certainty, Finding, Outcome, Verdict
from tests.support.made_up_job import IRECV, RECV, Pending, Rank, communicator, given, job, rank, receive, send, stack

HELD = (phrases.made_by("MPI_Mprobe", "MPI_Improbe", how=How.MATCHED_MESSAGE),)


def still(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that three samples saw in the same state."""
    earlier = rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)
    return rank(number, *operations, earlier=earlier, **facts)


def sending(**facts: Any) -> Rank:
    """Return rank 0 in a send to rank 1 that stood still."""
    return still(0, send(1, tag=5), call="MPI_Ssend", **facts)


def receiving(*others: Pending, **facts: Any) -> Rank:
    """Return rank 1 in the receive for it that stood still."""
    return still(1, *others, receive(0, tag=5), call="MPI_Recv", **facts)


def undelivered(verdict: Verdict) -> Sequence[Finding]:
    """Return what is said of messages that aren't delivered."""
    return [finding for finding in verdict.findings if finding.cause is Cause.UNDELIVERED]


def test_a_send_and_a_receive_that_match_and_never_move_are_suspected() -> None:
    """Both ranks wait for that one message: what connects them is to be checked, and they form no circle."""
    verdict = conclude(job(sending(), receiving()))
    (finding,) = verdict.findings
    assert finding.sentence == (
        "Rank 0 waits in MPI_Ssend to rank 1, tag 5 on MPI_COMM_WORLD, rank 1 in MPI_Recv from rank 0, tag 5 on "
        "MPI_COMM_WORLD: matched, not delivered."
    )
    assert (finding.cause, finding.certainty) == (Cause.UNDELIVERED, Certainty.SUSPECTED)
    assert "transport" in finding.advice
    assert verdict.outcome is Outcome.SUSPECTED


def test_on_two_nodes_the_network_between_them_is_named() -> None:
    """By the names of both."""
    made = job(sending(), receiving())
    there = replace(made, processes=(made.processes[0], replace(made.processes[1], host="node12")))
    (finding,) = undelivered(conclude(there))
    assert finding.advice.startswith(f"Look at the network between {made.processes[0].host} and node12: a link")


def test_a_transfer_that_began_and_stopped_is_suspected_where_it_is_small() -> None:
    """One of many bytes may be slow, and no queue shows how many have come."""
    for length, found in ((MAX_SIZE, 1), (MAX_SIZE + 1, 0)):
        half = receive(0, tag=5, length=2 * MAX_SIZE, status=Status.MATCHED, message=(0, 5, length))
        assert len(undelivered(conclude(job(sending(), still(1, half, call="MPI_Recv"))))) == found


def test_what_waits_behind_a_large_transfer_is_not_accused() -> None:
    """A connection carries one message after the other."""
    large = MAX_SIZE + 1
    ahead = receive(0, tag=4, length=large, status=Status.MATCHED, message=(0, 4, large), text=(IRECV,))
    assert conclude(job(sending(), receiving(ahead))).outcome is Outcome.NOTHING_STUCK


def test_a_rank_that_was_elsewhere_in_an_earlier_sample_is_not_accused() -> None:
    """Two equal samples are no standstill where the one before them differs."""
    elsewhere = rank(1, stacks=[stack("MPI_Barrier")])
    again = rank(1, receive(0, tag=5), call="MPI_Recv", earlier=elsewhere)
    came = rank(1, receive(0, tag=5), call="MPI_Recv", earlier=again)
    assert conclude(job(sending(), came)).outcome is Outcome.NOTHING_STUCK


@pytest.mark.parametrize("unseen", [0, 1])
def test_a_loop_over_the_same_calls_is_not_accused(unseen: int) -> None:
    """Where nobody could watch whether a rank left its call, it may have made it again."""
    watched = [number != unseen for number in range(2)]
    verdict = conclude(job(sending(watched=watched[0]), receiving(watched=watched[1])))
    assert verdict.outcome is Outcome.NOTHING_STUCK


def test_a_receiver_that_waits_for_something_else_is_not_accused() -> None:
    """It may be at work in that call, and not moving messages: in MPI_File_write_all it writes to a disk."""
    busy = still(1, receive(0, tag=5, text=(IRECV,)), call="MPI_File_write_all")
    assert undelivered(conclude(job(sending(), busy))) == []


@pytest.mark.parametrize("call", ["MPI_Recv", None])
def test_a_message_that_a_matched_probe_has_is_not_delivered(call: str | None) -> None:
    """Its sender is told why it waits, once; that is suspected, since another message may have the same envelope."""
    held = receive(0, tag=5, status=Status.MATCHED, message=(0, 5, 8), text=HELD)
    following = receive(0, tag=6, text=(RECV, phrases.NEXT_TO_MATCH(2, 0)))
    ssend = send(1, tag=5, text=(phrases.made_by("MPI_Ssend", "MPI_Issend"), phrases.SEND_NUMBER(1)))
    keeper = still(1, held, *([following] if call else []), call=call)
    verdict = conclude(job(still(0, ssend, call="MPI_Ssend"), keeper))
    assert verdict.outcome is Outcome.SUSPECTED
    (finding,) = undelivered(verdict)
    assert verdict.findings[0] is finding
    assert finding.sentence.startswith(
        "Rank 0 waits in MPI_Ssend to rank 1, tag 5 on MPI_COMM_WORLD: rank 1 has matched its message by MPI_Mprobe or "
        "MPI_Improbe, and has not received it with MPI_Mrecv; it is "
    )
    assert {finding.cause for finding in verdict.findings[1:]} <= {Cause.CYCLE}


def test_a_matched_probe_has_nothing_to_do_with_another_message() -> None:
    """A send with another tag waits for its own receive."""
    held = receive(0, tag=4, status=Status.MATCHED, message=(0, 4, 8), text=HELD)
    verdict = conclude(job(sending(), still(1, held, receive(0, tag=6), call="MPI_Recv")))
    assert undelivered(verdict) == []
    assert verdict.outcome is Outcome.PROVED


PARTITIONED = [(phrases.made_by(f"MPI_P{kind}_init", how=How.PARTITIONED),) for kind in ("send", "recv")]


@pytest.mark.parametrize("moves", [False, True])
def test_a_partitioned_message_that_matches_may_lack_a_part(moves: bool) -> None:
    """Both ranks wait for it and stand still: no circle, but a part to be looked for; not where they may move."""
    sent = send(1, tag=-1, text=PARTITIONED[0])
    half = receive(0, tag=3, status=Status.MATCHED, message=(0, 3, 8), text=PARTITIONED[1])
    facts: dict[str, Any] = {"call": "MPI_Wait", "watched": not moves}
    verdict = conclude(job(still(0, sent, **facts), still(1, half, **facts)))
    assert verdict.outcome is (Outcome.NOTHING_STUCK if moves else Outcome.SUSPECTED)
    assert [finding.sentence for finding in verdict.findings] == [
        "Ranks [0-1] wait in MPI_Wait for a partitioned message of rank 0 to rank 1, tag 3 on MPI_COMM_WORLD: not all "
        "of its parts have come."
    ][moves:]
    assert all("MPI_Pready" in finding.advice for finding in verdict.findings)


def test_a_large_partitioned_message_may_be_slow() -> None:
    """It is not accused where its bytes could take longer than the samples."""
    sent = send(1, tag=-1, length=MAX_PARTITIONED_SIZE + 1, text=PARTITIONED[0])
    receives = receive(
        0, tag=3, length=MAX_PARTITIONED_SIZE + 1, status=Status.MATCHED, message=(0, 3, 8), text=PARTITIONED[1]
    )
    verdict = conclude(job(still(0, sent, call="MPI_Wait"), still(1, receives, call="MPI_Wait")))
    assert verdict.outcome is Outcome.NOTHING_STUCK


def test_the_parts_of_a_message_show_who_waits_for_it() -> None:
    """Open MPI receives them on a communicator of its own; the request of the whole message is in no queue."""
    own = communicator("", range(2), label=Label(b"", PART_WORDS, internal=True))
    request = given(request=0x10)[0]._replace(elements=(0x77,))
    part = receive(0, tag=2, on=own, text=(phrases.made_by("MPI_Recv_init", how=How.PERSISTENT), phrases.request(0x99)))
    facts: dict[str, Any] = {"call": "MPI_Wait", "arguments": [request]}
    verdict = conclude(job(still(0, member_of=[own], **facts), still(1, part, **facts), communicators=[own]))
    assert verdict.outcome is Outcome.SUSPECTED
    assert verdict.findings[0].sentence == (
        "Rank 1 waits in MPI_Wait for a partitioned message of rank 0 to rank 1: not all of its parts have come."
    )
