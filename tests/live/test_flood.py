"""Ranks with more messages than can be read while they may stand still."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from mqs_dll.commands.job import doubt_about
from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Queue
from mqs_dll.debugger import collect
from mqs_dll.debugger.collect import TOO_LONG, OpenQueues
from mqs_dll.debugger.job.find import find_job
from mqs_dll.debugger.job.read import Doubt, read_job
from mqs_dll.job.snapshot import QueueSnapshot
from mqs_dll.library.mpi.mpich import requests
from mqs_dll.library.session import Library
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.findings import remarks
from mqs_dll.verdict.results import Cause, Certainty, Outcome, WaitKind
from tests.support.gallery import Scene
from tests.support.jobs import Compiler, running
from tests.support.made_up_job import Pending, Rank, job, rank, receive, send, unexpected
from tests.support.mpis import CH3, INTEL_SHM, NETMOD_UCX, SHM, Transport, find_mpis

FLOOD = Scene("flood.c", 2, "50")
SENT = 50


def still(number: int, *operations: Pending, **facts: Any) -> Rank:
    """Return a rank that two samples saw in the same state, except for what else the first one saw."""
    earlier = facts.pop("earlier", operations)
    return rank(number, *operations, earlier=rank(number, *earlier, **facts), **facts)


# ---------------------------------------------------------------- reading


class _Endless:
    """A process whose unexpected messages don't end: what a library says of it."""

    def __init__(self) -> None:
        self.listed = 0

    def setup_operation_iterator(self, queue: Queue) -> None:
        """Start to list."""

    def next_operation(self) -> Any:
        """Return one more."""
        self.listed += 1
        return unexpected(0).operation


def test_a_long_queue_is_cut_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, with what helps; some operations are listed of any queue."""
    monkeypatch.setattr(collect, "_BETWEEN_LOOKS", 8)
    queues = _Endless()
    found = collect._Budget(time.monotonic()).queue(cast(Any, queues), Queue.UNEXPECTED)
    assert (len(found.operations), found.hidden, found.broken) == (8, None, TOO_LONG)
    assert "--limit" in found.remedy


def test_a_process_has_a_number_of_operations_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all of its queues together: a library that lists them without end keeps nobody."""
    monkeypatch.setattr(collect, "_MAX_OPERATIONS", 5)
    room = collect._Budget(time.monotonic() + 60)
    first, second = (room.queue(cast(Any, _Endless()), queue) for queue in (Queue.SENDS, Queue.UNEXPECTED))
    assert (len(first.operations), len(second.operations)) == (5, 0)
    assert first.broken == second.broken == "the library lists more than 5 operations"


DEVICES = [
    ("mpich-4.3.2-pypi", SHM),
    ("mpich-4.3.2-pypi", NETMOD_UCX),
    ("mpich-3.4.3.post1-pypi", CH3),
    ("impi-2021.19-pypi", INTEL_SHM),
]


@pytest.mark.parametrize(("name", "transport"), DEVICES, ids=lambda each: str(getattr(each, "name", each)))
def test_with_more_requests_than_are_read_no_queue_is_whole(
    name: str, transport: Transport, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever device of MPICH's: any of the others may be of any queue."""
    (mpi,) = (each for each in find_mpis() if each.name == name)
    if mpi.missing:
        pytest.skip(mpi.missing)

    def open_core(_: object) -> tuple[Library, None]:
        return Library(), None

    with running(compiler, mpi, transport, FLOOD.program, FLOOD.ranks, arguments=[FLOOD.variant]) as started:
        started.wait_until_ready()
        found = find_job(started.launcher.pid)
        whole = read_job(found, cast(OpenQueues, open_core))
        monkeypatch.setattr(requests, "MAX_LIVE", 0)
        cut = read_job(found, cast(OpenQueues, open_core))
    for each in _queues(whole):
        assert each.broken is None
    assert all(each.broken or each.hidden for each in _queues(cut))


def _queues(read: Any) -> list[QueueSnapshot]:
    (world,) = (
        each for each in read.processes[0].samples[-1].snapshot.communicators if each.label.name == b"MPI_COMM_WORLD"
    )
    return list(world.queues)


# ---------------------------------------------------------------- the verdict


@pytest.mark.parametrize("queue", Queue)
@pytest.mark.parametrize("cut", [0, 1])
def test_nothing_is_proved_by_what_a_cut_queue_does_not_show(queue: Queue, cut: int) -> None:
    """The message, the receive or the send that would end a circle may be beyond."""
    facts = [{"broken": [queue]} if number == cut else {} for number in (0, 1)]
    circle = (
        still(0, receive(1, tag=5), call="MPI_Recv", **facts[0]),
        still(1, send(0, tag=6), call="MPI_Ssend", **facts[1]),
    )
    verdict = conclude(job(*circle))
    assert verdict.outcome is Outcome.SUSPECTED
    assert all(wait.certainty is Certainty.SUSPECTED for wait in verdict.waits if wait.kind is not WaitKind.CALL)
    assert any(f"Not all that rank {cut} has in its queues was listed" in each.advice for each in verdict.findings)


def test_a_queue_that_is_cut_elsewhere_in_the_next_sample_is_no_progress() -> None:
    """As far as both samples go the operations are the same; where they differ before, it is."""
    few, more, other = ([send(1, tag=tag) for tag in tags] for tags in ((1, 2), (1, 2, 3), (1, 4, 3)))
    facts = {"call": "MPI_Waitall", "broken": [Queue.SENDS]}
    peer = still(1, receive(0, tag=9), call="MPI_Recv")
    for before, after, moved in ((few, more, False), (more, few, False), (few, other, True)):
        verdict = conclude(job(still(0, *after, earlier=before, **facts), peer))
        assert any("Rank 0 went on" in each.sentence for each in verdict.findings) is moved


def test_a_flood_of_messages_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its senders, the tag where all have one, and "at least" where not all were listed."""
    monkeypatch.setattr(remarks, "MANY", 3)
    same = [unexpected(1, 7) for _ in range(3)]
    other = [*same, unexpected(2, 8)]

    def sentence(messages: list[Pending], **facts: Any) -> str:
        verdict = conclude(job(still(0, *messages, **facts), still(1), still(2)))
        assert verdict.outcome is Outcome.NOTHING_STUCK
        return next((each.sentence for each in verdict.findings if each.cause is Cause.FLOOD), "")

    on = "on MPI_COMM_WORLD: its receives don't keep up."
    assert sentence(same) == f"Rank 0 has 3 unexpected messages of rank 1, tag 7 {on}"
    assert sentence(other) == f"Rank 0 has 4 unexpected messages of ranks [1-2] {on}"
    assert (
        sentence(same, broken=[Queue.UNEXPECTED]) == f"Rank 0 has at least 3 unexpected messages of rank 1, tag 7 {on}"
    )
    assert not sentence(same[1:])
    assert not sentence([*same[1:], unexpected(1, -16, text=(phrases.COLLECTIVE("MPI_Bcast"),))]), "the MPI's own"


def test_a_rank_that_is_flooded_is_not_stopped_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample takes seconds, and what it can't read stays unread; other suspicions are read again."""
    waits = [still(0, receive(1, tag=7), *(unexpected(1, 8) for _ in range(3)), call="MPI_Recv"), still(1)]
    assert doubt_about(job(*waits)) is Doubt.PASSES
    monkeypatch.setattr(remarks, "MANY", 3)
    assert doubt_about(job(*waits)) is Doubt.NONE
