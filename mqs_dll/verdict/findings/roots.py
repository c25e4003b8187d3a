"""Ranks that have different roots for the rooted collective call that they are in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from mqs_dll.verdict.findings.common import Case, are
from mqs_dll.verdict.results import Cause, Finding

_ADVICE = "All processes have to give the same root: look at what it is computed from."
_ADVICE_ON_TWO = f"{_ADVICE} If these are two calls, one after the other, look for who left one out."
_ADVICE_ON_ALL = "All processes have to give the same root, count and datatype: compare them on the ranks."


def has_several_roots(case: Case, call: str, processes: Sequence[int]) -> bool:
    """Return whether some of those who are in a call surely take different ranks for its root."""
    return any(one.isdisjoint(other) for one, other in combinations(_taken(case, call, processes), 2))


def of_disagreement(case: Case, call: str, communicator: int | None, processes: Sequence[int]) -> Finding:
    """Return the finding for those who wait for each other in one call, which they would not if all agreed."""
    names = case.names
    sure = has_several_roots(case, call, processes)
    about = "" if sure else ", or about how much is sent"
    disagreement = _roots_words(case, call, communicator, processes)
    sentence = (
        f"{names.ranks(processes, communicator)} {are(processes)} in {call}{names.on(communicator)}, "
        f"and disagree about its root{about}{f': {disagreement}' if disagreement else ''}."
    )
    advice = _ADVICE if sure else _ADVICE_ON_ALL
    return case.finding(
        Cause.ROOTS, case.certainty(processes), sentence, advice, processes, communicator, ends=case.unmet(processes)
    )


def of_several_roots(
    case: Case, call: str, communicator: int | None, processes: Sequence[int], others: Sequence[int], rest: str
) -> Finding:
    """Return the finding for those who are in a call with different roots.

    Args:
        case: the job.
        call: what they are in.
        communicator: its own.
        processes: who is in it, and stuck.
        others: who is stuck elsewhere, waits for these, and is waited for.
        rest: what those do.
    """
    names = case.names
    sentence = (
        f"{names.ranks(processes, communicator)} {are(processes)} in {call}{names.on(communicator)} with different "
        f"roots: {_roots_words(case, call, communicator, processes)}; {rest}."
    )
    everybody = (*processes, *others)
    return case.finding(
        Cause.ROOTS,
        case.certainty(everybody),
        sentence,
        _ADVICE_ON_TWO,
        everybody,
        communicator,
        ends=case.unmet(processes),
    )


def _roots_words(case: Case, call: str, communicator: int | None, processes: Sequence[int]) -> str:
    """Return "rank 0 takes rank 0 or 2 for it, rank 1 takes rank 1 for it"; empty where it isn't known."""
    return ", ".join(
        f"{case.names.ranks(who, communicator)} {'takes' if len(who) == 1 else 'take'} {_one_of(case, roots)} for it"
        for roots, who in _taken(case, call, processes).items()
    )


def _taken(case: Case, call: str, processes: Sequence[int]) -> dict[frozenset[int], list[int]]:
    """Return who may take which processes for the root."""
    found: defaultdict[frozenset[int], list[int]] = defaultdict(list)
    for process in processes:
        roots = case.analysis.roots.taken(process, call)
        if roots:
            found[roots].append(process)
    return found


def _one_of(case: Case, roots: frozenset[int]) -> str:
    """Return "rank 0", or "rank 0, 2 or 4"."""
    *others, last = (case.names.ranks([root]) for root in sorted(roots))
    listed = ", ".join((*others[:1], *(each.removeprefix("rank ") for each in others[1:])))
    return f"{listed} or {last.removeprefix('rank ')}" if others else last
