"""Verdicts on made-up jobs, made by hand: for tests of how they are shown, whatever verdict the job would get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mqs_dll.verdict.results import (
    Activity,
    Cause,
    Certainty,
    CommunicatorFacts,
    Finding,
    Mode,
    Outcome,
    Verdict,
    Wait,
    WaitKind,
)

PROVED, SUSPECTED, NOTED = Certainty.PROVED, Certainty.SUSPECTED, Certainty.NOTED


def wait(
    process: int,
    *peers: int,
    what: str = "MPI_Recv",
    tag: int | None = 7,
    on: int | None = 0,
    name: str | None = "MPI_COMM_WORLD",
    certainty: Certainty = PROVED,
    any_source: bool = False,
    any_tag: bool = False,
    kind: WaitKind = WaitKind.RECEIVE,
) -> Wait:
    """Return a wait of one process for others, by their places; ``on`` is the communicator's place in the verdict."""
    peer = peers[0] if len(peers) == 1 else None
    return Wait(process, kind, what, name, on, peers, any_source, peer, tag, any_tag, 8, certainty)


def barrier(process: int, peers: tuple[int, ...], certainty: Certainty = PROVED) -> Wait:
    """Return the wait of a process in a barrier of MPI_COMM_WORLD; thousands may share the tuple of peers."""
    kind = WaitKind.COLLECTIVE
    return Wait(process, kind, "MPI_Barrier", "MPI_COMM_WORLD", 0, peers, False, None, None, False, None, certainty)


def does(
    call: str | None = "MPI_Recv",
    certainty: Certainty | None = PROVED,
    *,
    phrase: str = "",
    where: str = "solver.c:42",
    mode: Mode = Mode.ALL,
) -> Activity:
    """Return what a process does; None is outside MPI."""
    return Activity(call, phrase or (f"in {call}" if call else "outside MPI"), where, mode, certainty)


OUTSIDE = does(None, None)


def finding(
    sentence: str, *processes: int, cause: Cause = Cause.CYCLE, certainty: Certainty = PROVED, advice: str = ""
) -> Finding:
    """Return a finding about processes, by their places."""
    return Finding(cause, certainty, sentence, advice, processes, None)


def verdict(
    activities: Sequence[Activity],
    *waits: Wait,
    findings: Iterable[Finding] = (),
    communicators: Iterable[tuple[str, tuple[int, ...]]] = (),
    outcome: Outcome = Outcome.PROVED,
    headline: str = "Stuck for good.",
) -> Verdict:
    """Return a verdict; the communicators are MPI_COMM_WORLD, and behind it others by name and members.

    Those of the same name are the parts of one split: they have the same id.
    """
    named = (("MPI_COMM_WORLD", tuple(range(len(activities)))), *communicators)
    ids = {name: number + 1 for number, (name, _) in reversed([*enumerate(named)])}
    facts = (CommunicatorFacts(name, ids[name], len(members), members, None) for name, members in named)
    return Verdict(outcome, headline, tuple(findings), waits, tuple(activities), tuple(facts))
