"""Equal things together; and which processes are drawn as one node, so that 10,000 ranks fit a picture."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from mqs_dll.job.shared import grouped
from mqs_dll.report.words import RankView
from mqs_dll.verdict.results import Cause, Finding, Verdict, Wait

MAX_GROUPS = 16
"""Of processes that aren't drawn alone: more nodes than that, with their arrows, nobody wants to follow."""

_ENOUGH_GROUPS = 8
"""Details, like tags, are no reason for more than these."""

SMALL_JOB = 8
"""In a job of so many processes those alone share a node that are equal in all that is known of them."""

_MAX_NAMED = 8
"""A finding about more processes than that is about a crowd: its ranks are merged, though not with others."""

_OF_CROWDS = frozenset({Cause.COLLECTIVE_MISSING, Cause.COLLECTIVE_ORDER, Cause.BEHIND, Cause.PROGRESS, Cause.NOT_READ})
"""Findings in which ranks that do the same are as good as one."""

_MAX_CYCLE_LENGTH = 24
"""In a cycle each process waits for another one: every one is worth a node, as long as one can follow it."""

_MAX_ALONE = 24
"""Processes that all findings together keep alone."""


def groups(ranks: Sequence[RankView], verdict: Verdict) -> list[tuple[int, ...]]:
    """Return a job's processes in few groups, in the order of their first ones.

    What distinguishes processes is taken one after the other, the weightiest first, as long as the groups stay few.
    """
    group_of = _numbered(_alone(ranks, verdict))
    if len(ranks) <= SMALL_JOB:
        return _members(_numbered(zip(group_of, _all_of(ranks, verdict), strict=True)))
    alone = max(group_of, default=0)
    for most, traits in ((MAX_GROUPS, _traits(ranks, verdict)), (_ENOUGH_GROUPS, _details(ranks))):
        for trait in traits:
            group_of = _split(group_of, trait(group_of), alone + most)
    return _members(group_of)


def _alone(ranks: Sequence[RankView], verdict: Verdict) -> list[Hashable]:
    """Return a value for each process that is its own where it must be drawn alone."""
    alone: set[int] = set()
    for finding in verdict.findings:
        together = alone.union(finding.processes)
        if len(finding.processes) <= _most_named(finding) and len(together) <= _MAX_ALONE:
            alone = together
    return [process if process in alone else None for process in range(len(ranks))]


def _most_named(finding: Finding) -> int:
    if finding.cause in _OF_CROWDS:
        return 1
    return _MAX_CYCLE_LENGTH if finding.cause is Cause.CYCLE else _MAX_NAMED


def _all_of(ranks: Sequence[RankView], verdict: Verdict) -> Iterable[Hashable]:
    """Yield all that is known of each process, but which one it is."""
    for (_, process, does, waits), named in zip(ranks, _named_by(ranks, verdict), strict=True):
        waits_of_any = tuple(replace(wait, process=0) for wait in waits)
        yield process.state, process.world, process.program, does, named, waits_of_any


Trait = Callable[[Sequence[int]], Iterable[Hashable]]
"""What distinguishes processes, given the groups so far: one value for each process."""


def _traits(ranks: Sequence[RankView], verdict: Verdict) -> Iterable[Trait]:
    """Yield the important differences between processes, the weightiest first."""
    yield lambda _: ((rank.process.state, rank.activity.certainty) for rank in ranks)
    yield lambda _: ((rank.process.world, rank.process.program) for rank in ranks)
    yield lambda _: (rank.activity.call for rank in ranks)
    yield lambda _: _named_by(ranks, verdict)
    yield lambda _: _each(ranks, lambda wait: (wait.kind, wait.what, wait.communicator_id, wait.certainty))
    yield lambda group_of: _targets(group_of, ranks)


def _details(ranks: Sequence[RankView]) -> Iterable[Trait]:
    """Yield the other differences between processes, the weightiest first."""
    yield lambda _: (rank.activity.phrase if rank.activity.call is None else "" for rank in ranks)
    yield lambda _: (rank.activity.where for rank in ranks)
    yield lambda _: _each(ranks, lambda wait: (wait.tag, wait.any_tag, wait.any_source))
    yield lambda group_of: _targets(group_of, ranks)


def _each(ranks: Sequence[RankView], what: Callable[[Wait], Hashable]) -> list[Hashable]:
    return [frozenset(map(what, rank.waits)) for rank in ranks]


def _named_by(ranks: Sequence[RankView], verdict: Verdict) -> list[Hashable]:
    """Return for each process the findings that name it."""
    named: list[list[int]] = [[] for _ in ranks]
    for number, finding in enumerate(verdict.findings):
        for process in finding.processes:
            named[process].append(number)
    return [tuple(numbers) for numbers in named]


def _targets(group_of: Sequence[int], ranks: Sequence[RankView]) -> list[Hashable]:
    """Return for each process the groups that it waits for."""

    @cache
    def groups_of(peers: tuple[int, ...]) -> frozenset[int]:
        return frozenset(group_of[peer] for peer in peers)

    return [frozenset(groups_of(wait.peers) for wait in rank.waits if not wait.any_source) for rank in ranks]


def _split(group_of: list[int], trait: Iterable[Hashable], most: int) -> list[int]:
    """Return the groups split by a trait; as they were where these are too many."""
    finer = _numbered(zip(group_of, trait, strict=True))
    return finer if max(finer, default=0) < most else group_of


def _numbered(values: Iterable[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _members(group_of: Sequence[int]) -> list[tuple[int, ...]]:
    members = grouped((number, process) for process, number in enumerate(group_of))
    return [tuple(processes) for processes in members.values()]
