"""Verdicts on calls that need processes beyond their communicator, and on those that another MPI's launcher started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mqs_dll.job import calls
from mqs_dll.job.facts import IS_ALONE
from mqs_dll.job.records import Job, RankState
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.findings import partners
from mqs_dll.verdict.results import Cause, Certainty, Outcome
from tests.support.made_up_job import Pending, Rank, collective, communicator, given, job, rank, receive

SELVES = [communicator("MPI_COMM_SELF", [number], unique_id=8 + number) for number in (0, 1)]


def still(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that two samples saw in the same state."""
    return rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)


def leading(number: int, *operations: Pending, tag: int) -> Rank:
    """Return a rank that makes an inter-communicator of itself and the other one."""
    on = SELVES[number]
    arguments = given(local_comm=on, peer_comm=None, remote_leader=1 - number, tag=tag)
    return still(number, *operations, call="MPI_Intercomm_create", arguments=arguments, member_of=[on])


def test_leaders_that_do_not_meet_are_reported_with_what_each_has() -> None:
    """Neither waits for itself, although it is alone in its own communicator."""
    verdict = conclude(job(leading(0, tag=0), leading(1, tag=1)))
    (found,) = verdict.findings
    assert found.cause is Cause.PARTNER
    assert verdict.outcome is Outcome.SUSPECTED
    assert found.sentence.endswith("rank 0 has remote_leader 1, tag 0; rank 1 has remote_leader 0, tag 1.")


def test_leaders_are_proved_by_their_traffic() -> None:
    """Each waits for a message that the other one does not send."""
    waits = [collective("MPI_Intercomm_create", source=1 - number, tag=-20 - number) for number in (0, 1)]
    verdict = conclude(job(leading(0, waits[0], tag=0), leading(1, waits[1], tag=1)))
    assert [(each.cause, each.certainty) for each in verdict.findings] == [(Cause.PARTNER, Certainty.PROVED)]


def test_a_leader_that_has_not_come_is_not_said_to_have_another_tag() -> None:
    """It is where it is; and it belongs to no communicator of the waiting leader's."""
    waits = leading(0, collective("MPI_Intercomm_create", source=1, tag=-20), tag=0)
    for other, cause in (
        (still(1), Cause.OUTSIDE),
        (still(1, receive(0, tag=5), call="MPI_Recv"), Cause.COLLECTIVE_MISSING),
    ):
        (found,) = conclude(job(waits, other)).findings
        assert (found.cause, found.processes, found.communicator_id) == (cause, (0, 1), None)


@pytest.mark.parametrize(
    ("call", "ends"),
    [
        ("MPI_Comm_accept", "a client calls MPI_Comm_connect with its port."),
        ("MPI_Comm_accept_c", "a client calls MPI_Comm_connect with its port."),
        ("MPI_Comm_connect", "the server calls MPI_Comm_accept on its port."),
        ("MPI_Comm_spawn", "all that it starts have called MPI_Init: rank 0 of world 1 (child) has not."),
    ],
)
def test_who_waits_for_other_jobs_says_for_what(call: str, ends: str) -> None:
    """It isn't known whether they will come, so nothing is proved."""
    child = rank(0, world=1, pid=2000, state=RankState.NOT_INITIALIZED, program="/bin/child")
    inside = [still(number, call=call, arguments=given(comm=None)) for number in (0, 1)]
    verdict = conclude(job(*inside, child, size=2))
    found = next(each for each in verdict.findings if each.cause is Cause.PARTNER)
    assert (verdict.outcome, found.certainty) == (Outcome.SUSPECTED, Certainty.SUSPECTED)
    assert found.sentence == f"Ranks [0-1] of world 0 are in {call} at solver.c:42, which ends when {ends}"


def test_those_are_named_that_were_started_and_are_not_known_to_have_called_mpi_init() -> None:
    """Not who has, nor one of the parents' own world, nor one without a process; names of programs are anybody's."""
    before = RankState.NOT_INITIALIZED
    children = (
        rank(0, world=1, pid=2000, program="/bin/child"),
        rank(1, world=1, pid=2001, state=before, program="/bin/wild\x1b[31m"),
        rank(2, world=1, pid=2002, state=RankState.UNREADABLE, why="it is no MPI program", program="/bin/sleep"),
        rank(3, world=1, pid=0, state=RankState.UNREADABLE, why="it was not found"),
        rank(1, state=before, program="/bin/parent"),
    )
    parent = still(0, call="MPI_Comm_spawn", arguments=given(comm=SELVES[0]), member_of=SELVES[:1])
    found = next(each for each in conclude(job(parent, *children)).findings if each.cause is Cause.PARTNER)
    assert found.sentence.endswith(r"MPI_Init: ranks [1-2] of world 1 (wild\x1b[31m, sleep) have not.")


def test_of_many_leaders_none_is_named() -> None:
    """A line for each of a job's processes helps nobody."""
    leaders = []
    for number in range(5):
        own = communicator("MPI_COMM_SELF", [number], unique_id=8 + number)
        arguments = given(local_comm=own, peer_comm=None, remote_leader=9, tag=number)
        leaders.append(still(number, call="MPI_Intercomm_create", arguments=arguments, member_of=[own]))
    (found,) = (each for each in conclude(job(*leaders)).findings if each.cause is Cause.PARTNER)
    assert found.sentence.endswith("each naming the other.")


def test_who_waits_for_other_jobs_is_suspected_whatever_its_traffic() -> None:
    """What an MPI sends among those who accept is no proof that nobody connects."""
    traffic = [collective("MPI_Comm_accept", source=1 - number) for number in (0, 1)]
    inside = [still(number, traffic[number], call="MPI_Comm_accept", arguments=given(comm=None)) for number in (0, 1)]
    found = next(each for each in conclude(job(*inside)).findings if each.cause is Cause.PARTNER)
    assert found.certainty is Certainty.SUSPECTED


def test_a_rank_that_is_not_known_may_wait_with_the_others() -> None:
    """It was not found: all that are known of the communicator are in the call."""
    inside = [still(number, call="MPI_Comm_accept", arguments=given(comm=None)) for number in (0, 1)]
    assert Cause.PARTNER in [each.cause for each in conclude(job(*inside, size=3)).findings]


def test_one_of_the_own_communicator_that_is_missing_comes_first() -> None:
    """What the others need beyond it isn't known before all of them are in the call."""
    inside = still(0, collective("MPI_Comm_spawn", source=1), call="MPI_Comm_spawn", arguments=given(comm=None))
    verdict = conclude(job(inside, still(1, receive(0, tag=3), call="MPI_Recv")))
    assert Cause.PARTNER not in [each.cause for each in verdict.findings]
    assert Cause.COLLECTIVE_MISSING in [each.cause for each in verdict.findings]


def _alone(*ranks: Rank) -> Job:
    """Return a job whose first process says that it is rank 0 of 1, as others do: they can't be distinguished."""
    read = job(*ranks, size=1)
    why = f"process 1001 {IS_ALONE} process 1000"
    rest = (replace(each, rank=None, state=RankState.UNREADABLE, why=why, samples=()) for each in read.processes[1:])
    return replace(read, processes=(read.processes[0], *rest))


def test_processes_that_are_alone_each_have_the_wrong_launcher() -> None:
    """It comes before what one of them waits for; where nothing is stuck it is worth a line."""
    stuck = conclude(_alone(still(0, receive(0, tag=3), call="MPI_Recv"), rank(1), rank(2)))
    assert stuck.findings[0].cause is Cause.LAUNCHER
    assert stuck.findings[0].certainty is Certainty.PROVED
    assert stuck.findings[0].sentence.startswith("Each of 3 processes that one launcher started")
    assert Cause.SELF not in [each.cause for each in stuck.findings]
    fine = conclude(_alone(still(0), rank(1)))
    assert [each.certainty for each in fine.findings if each.cause is Cause.LAUNCHER] == [Certainty.NOTED]
    other = rank(None, pid=77, state=RankState.UNREADABLE, why="it is no MPI program")
    assert not [each for each in conclude(job(still(0), other, size=1)).findings if each.cause is Cause.LAUNCHER]


def test_each_call_that_reaches_beyond_its_communicator_has_its_sentence() -> None:
    """The table of calls names them, the findings what each needs."""
    assert {call for call in calls.known() if calls.reaches_beyond(call)} == partners._PARTNERS.keys()


def test_who_was_seen_there_once_is_not_said_to_wait_for_others() -> None:
    """They may be about to come."""
    once = (rank(number, call="MPI_Comm_accept", arguments=given(comm=None)) for number in (0, 1))
    assert Cause.PARTNER not in [each.cause for each in conclude(job(*once)).findings]
