"""Proofs of random small jobs against a simulator that tries every schedule."""

from __future__ import annotations

import random

from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.records import Certainty
from tests.support import made_up_job as made_up
from tests.support.message_passing import Does, Small, going_on, jobs, quiet

JOBS = 500

_CALLS = {Does.ALL: "MPI_Waitall", Does.ANY: "MPI_Waitany", Does.FREE: None}


def _rank(small: Small, process: int) -> made_up.Rank:
    """Return a process of a small job as Open MPI shows it: what it waits for is marked, with how many have to end."""
    does = small.does[process]
    if does is Does.GONE:
        return made_up.gone(process)
    needed = 1 if does is Does.ANY else len(small.of(process))
    mark = f"request 0x5561, in a wait for several requests, needs {needed} more of them"
    shown = []
    for each in small.of(process):
        make = made_up.send if each.is_send else made_up.receive
        name = "MPI_Issend, nonblocking" if each.is_send else "MPI_Irecv, nonblocking"
        shown.append(make(each.peer, tag=each.tag, text=(name, mark) if does is not Does.FREE else (name,)))
    shown += [made_up.unexpected(each.source, tag=each.tag) for each in small.messages if each.target == process]
    call = _CALLS[does]
    return made_up.rank(process, *shown, call=call, earlier=made_up.rank(process, *shown, call=call))


def _proved(small: Small) -> set[int]:
    verdict = conclude(made_up.job(*(_rank(small, process) for process in range(len(small.does)))))
    return {place for place, each in enumerate(verdict.activities) if each.certainty is Certainty.PROVED}


def _waiting(small: Small) -> set[int]:
    return {process for process, does in enumerate(small.does) if does in (Does.ALL, Does.ANY)}


def test_nobody_is_called_stuck_whom_some_schedule_lets_go_on() -> None:
    """Also where messages and receives that match have not met yet, and it depends on the order who gets which."""
    wrong = [number for number, small in jobs(1, JOBS) if _proved(small) & going_on(small)]
    assert wrong == []


def test_everybody_is_found_who_can_never_go_on() -> None:
    """Once all that matches has met, and all operations are seen, proofs are complete; and there are such jobs."""
    stuck_jobs = 0
    for number, small in jobs(100_000, JOBS):
        still = quiet(small, random.Random(number))
        dead = _waiting(still) - going_on(still)
        assert _proved(still) == dead, number
        stuck_jobs += bool(dead)
    assert stuck_jobs > JOBS // 10
