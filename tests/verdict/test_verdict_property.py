"""Verdicts on random small jobs, against a simulator that tries every schedule, and on simulated healthy ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mqs_dll.contract import phrases
from mqs_dll.job.records import Argument, ArgumentEvidence
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Certainty, Outcome
from tests.support import made_up_job as made_up
from tests.support.healthy_job import sampled
from tests.support.message_passing import ANY, Does, Operation, Small, going_on, jobs, quiet

JOBS = 500
HEALTHY_JOBS = 200
FAIR = 60
"""Turns in which every rank gets on, whoever waits for whom."""

COLLECTIVE = 2
_PART = (made_up.RECV, phrases.NONBLOCKING_OR_MAKING(1))
_CALLS = {Does.ALL: "MPI_Waitall", Does.ANY: "MPI_Waitany", Does.FREE: None}


def _rank(small: Small, process: int, collective: int | None) -> made_up.Rank:
    """Return a process of a small job as Open MPI shows it: what it waits for is marked, with how many have to end.

    What has the tag of a nonblocking collective operation is a part of that, which is one request, and not marked.
    """
    does = small.does[process]
    if does is Does.GONE:
        return made_up.gone(process)
    of_program = [each for each in small.of(process) if each.tag != collective]
    requests = len(of_program) + (len(of_program) < len(small.of(process)))
    mark = made_up.in_wait(1 if does is Does.ANY else requests)
    shown = []
    for each in small.of(process):
        make = made_up.send if each.is_send else made_up.receive
        name = made_up.ISSEND if each.is_send else made_up.IRECV
        text = (name, mark) if does is not Does.FREE else (name,)
        shown.append(make(each.peer, tag=each.tag, text=_PART if each.tag == collective else text))
    for message in small.messages:
        if message.target == process:
            part = _PART if message.tag == collective else ()
            shown.append(made_up.unexpected(message.source, tag=message.tag, text=part))
    call = _CALLS[does] if of_program or does is not Does.ALL else "MPI_Wait"
    # all have the one handle that in_wait() writes, except for the collective's, which no queue has
    handles = {Does.ANY: (0x5561,)}.get(does, ())
    name = "request" if call == "MPI_Wait" else "array_of_requests"
    given = (Argument(name, 0x7FFC_0000, ArgumentEvidence.BOTH, elements=handles),)
    before = made_up.rank(process, *shown, call=call, arguments=given)
    return made_up.rank(process, *shown, call=call, arguments=given, earlier=before)


def _proved(small: Small, collective: int | None = None) -> set[int]:
    verdict = conclude(made_up.job(*(_rank(small, process, collective) for process in range(len(small.does)))))
    return {process for process, each in enumerate(verdict.activities) if each.certainty is Certainty.PROVED}


def _with_collective(small: Small) -> Small:
    """Return a job whose second tag is a nonblocking collective's: without wildcards, and waited for whole."""

    def changed(each: Operation) -> Operation:
        if each.tag == ANY or (each.tag == COLLECTIVE and (each.peer == ANY or small.does[each.owner] is Does.ANY)):
            return replace(each, tag=1)
        return each

    return replace(small, operations=[changed(each) for each in small.operations])


def _waiting(small: Small) -> set[int]:
    return {process for process, does in enumerate(small.does) if does in (Does.ALL, Does.ANY)}


def test_nobody_is_called_stuck_whom_some_schedule_lets_go_on() -> None:
    """Also where messages and receives that match have not met yet, and it depends on the order who gets which."""
    wrong = [number for number, small in jobs(1, JOBS) if _proved(small) & going_on(small)]
    assert wrong == []


def test_nor_is_anybody_who_waits_for_a_nonblocking_collective() -> None:
    """Which ends when all of its parts have; and there are those who never go on because of it."""
    proved_by_it = 0
    for number, small in ((number, _with_collective(small)) for number, small in jobs(200_000, JOBS)):
        proved = _proved(small, COLLECTIVE)
        assert not proved & going_on(small), number
        proved_by_it += any({each.tag for each in small.of(process)} == {COLLECTIVE} for process in proved)
    assert proved_by_it > JOBS // 50


def test_everybody_is_found_who_can_never_go_on() -> None:
    """Once all that matches has met, and all operations are seen, proofs are complete; and there are such jobs."""
    stuck_jobs = 0
    for number, small in jobs(100_000, JOBS):
        still = quiet(small, random.Random(number))
        dead = _waiting(still) - going_on(still)
        assert _proved(still) == dead, number
        stuck_jobs += bool(dead)
    assert stuck_jobs > JOBS // 10


@pytest.mark.parametrize("numbered", [True, False])
def test_nothing_is_said_against_a_job_that_had_its_time_between_the_samples(*, numbered: bool) -> None:
    """Messages of all sizes are under way, seen and unseen, whether the MPI numbers them or not."""
    verdicts = [conclude(sampled(seed, turns=FAIR, numbered=numbered)) for seed in range(HEALTHY_JOBS)]
    accused = {seed: each.headline for seed, each in enumerate(verdicts) if each.outcome is not Outcome.NOTHING_STUCK}
    assert accused == {}


@pytest.mark.parametrize("numbered", [True, False])
def test_nothing_is_proved_against_a_healthy_job_nor_a_size_that_is_wrong(*, numbered: bool) -> None:
    """However little time it had between the samples: one rank may not have run at all."""
    verdicts = [conclude(sampled(seed, turns=1, numbered=numbered)) for seed in range(HEALTHY_JOBS)]
    accused = {seed: each.headline for seed, each in enumerate(verdicts) if each.outcome is Outcome.PROVED}
    assert accused == {}
    assert Cause.TOO_SMALL not in {finding.cause for each in verdicts for finding in each.findings}
