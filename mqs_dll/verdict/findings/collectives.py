"""Collective calls that some entered and some did not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mqs_dll.job.calls import reaches_beyond
from mqs_dll.verdict.findings.common import Case, are, waits
from mqs_dll.verdict.findings.counts import of_counts, to_compare, who_left
from mqs_dll.verdict.findings.peers import advice_on, cause_of, state_words
from mqs_dll.verdict.findings.roots import has_several_roots, of_disagreement, of_several_roots
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.results import Cause, Certainty, Finding, WaitKind
from mqs_dll.verdict.states import ThreadWait

_ADVICE = (
    "All processes of the communicator have to make the call, in the same order: look for the branch that left it out."
)
_ORDER_ADVICE = (
    "All processes have to make the collective calls of a communicator in the same order, "
    "and those of several communicators in an order that can't make a circle."
)

Entered: TypeAlias = "tuple[str, int | None]"
"""A collective call, and its communicator where it is known."""


@dataclass
class _Call:
    """A collective operation that processes are stuck in, or in a wait for it."""

    inside: list[int] = field(default_factory=list)
    missing: set[int] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)
    """Of a nonblocking one: who has begun it; empty for a blocking one."""
    needs: list[Need] = field(default_factory=list)


def of_collectives(case: Case) -> Iterator[Finding]:
    """Yield for each collective call that is stuck who is missing, and what they do instead."""
    calls = _calls(case)
    parts = case.graph.components
    entered = {place: key for key, call in calls.items() for place in call.inside}
    reported: set[frozenset[Entered]] = set()
    for key, call in calls.items():
        inside = {*call.inside}
        parts_inside = (part for part in case.graph.circles() if inside.issuperset(part))
        if any(case.analysis.disagree(part, key[0]) for part in parts_inside):
            yield of_disagreement(case, *key, call.inside)
    waiting_for_left: set[int] = set()
    for (what, communicator), call in calls.items():
        left = who_left(case, what, communicator, call.inside)
        if communicator is not None and left:
            yield from of_counts(case, what, communicator, left)
            call.missing.difference_update(left)
            waiting_for_left.update(place for places in left.values() for place in places)
    for key, call in calls.items():
        call.missing -= waiting_for_left
        by_cause: defaultdict[Cause, list[int]] = defaultdict(list)
        circles = {parts.of_process.get(inside) for inside in call.inside}
        for place in sorted(call.missing):
            cause = cause_of(case, place)
            if cause is not None:
                by_cause[cause].append(place)
            elif parts.of_process.get(place) in circles:
                elsewhere = entered.get(place)
                mutual = elsewhere is not None and calls[elsewhere].missing.intersection(call.inside)
                by_cause[Cause.COLLECTIVE_ORDER if mutual else Cause.COLLECTIVE_MISSING].append(place)
        for cause, places in by_cause.items():
            if cause is Cause.COLLECTIVE_ORDER:
                others = sorted({entered[place] for place in places}, key=str)
                for other in others:
                    pair = frozenset({key, other})
                    if pair not in reported:
                        reported.add(pair)
                        yield from _different(case, key, call, other, calls[other])
            else:
                yield _missing(case, key, call, cause, places)


def _different(case: Case, key: Entered, call: _Call, other_key: Entered, other: _Call) -> Iterator[Finding]:
    """Yield that ranks are in different calls, or in one of them with different roots."""
    pairs = ((key, call, other_key, other), (other_key, other, key, call))
    told = [each for each in pairs if has_several_roots(case, each[0][0], each[1].inside)]
    for (what, communicator), inside, elsewhere, others in told:
        rest = _inside(case, elsewhere, others, case.names.on(elsewhere[1]))
        yield of_several_roots(case, what, communicator, inside.inside, others.inside, rest)
    if not told:
        yield _order(case, key, call, other_key, other)


def _calls(case: Case) -> dict[Entered, _Call]:
    """Return the collective calls in which processes are stuck, with those that they wait for."""
    calls: dict[Entered, _Call] = {}
    done: set[Entered] = set()
    needs_of = []
    for place in case.analysis.stuck:
        needs = [need for need in case.analysis.unmet(place) if need.kind is WaitKind.COLLECTIVE]
        if not needs:
            continue
        thread = _thread_of(case, place, needs[0])
        of_call = thread.call is not None and needs[0].number is None
        key = (needs[0].what, thread.communicator if of_call else needs[0].communicator)
        call = calls.setdefault(key, _Call())
        call.inside.append(place)
        if needs[0].number is not None and needs[0].communicator is not None and not call.begun:
            call.begun = case.begun.by(needs[0].communicator, needs[0].number)
        needs_of.append((key, [need for need in needs if need.what == needs[0].what]))
    for key, needs in needs_of:
        call = calls[key]
        call.needs += needs
        exact = [need for need in needs if need.all_of]
        if exact:
            if key not in done:
                call.missing.update(peer for need in exact for peer in need.peers if peer is not None)
                done.add(key)
        else:
            for need in needs:
                gone = case.analysis.waits.gone.intersection(need.peers)  # where the call's traffic can't be seen
                call.missing.update(peer for peer in (need.peers if need.pending else gone) if peer is not None)
    for call in calls.values():
        call.missing.difference_update(call.inside, call.begun)
    return calls


def _thread_of(case: Case, place: int, need: Need) -> ThreadWait:
    threads = case.analysis.waits.of_process[place].threads
    return next(thread for thread in threads if need in thread.all_needs())


def _missing(case: Case, key: Entered, call: _Call, cause: Cause, places: list[int]) -> Finding:
    communicator, names = key[1], case.names
    members = () if communicator is None else case.analysis.communicators.all[communicator].members
    if reaches_beyond(key[0]) and not {*places} <= {*members}:
        communicator = None  # the other leader of MPI_Intercomm_create is none of it
    absent = names.ranks(places, communicator)
    certainty = case.certainty([*call.inside, *(places if cause is Cause.COLLECTIVE_MISSING else ())])
    if cause in (Cause.OUTSIDE, Cause.NOT_READ, Cause.STOPPED):
        certainty = Certainty.SUSPECTED
    if cause is Cause.STOPPED:  # it may have entered the call before
        inside = names.ranks(call.inside, communicator)
        what = f"for {key[0]}" if call.begun else f"in {key[0]}"
        sentence = (
            f"{inside} {waits(call.inside)} {what}{names.on(communicator)}{', and so' if call.begun else ''} for "
            f"{absent}, which {state_words(case, places)}."
        )
        advice = advice_on(case, cause, places)
        everybody = (*call.inside, *places)
        return case.finding(cause, certainty, sentence, advice, everybody, communicator, ends=call.needs)
    if cause is Cause.COLLECTIVE_MISSING:
        absence = f"{'it is' if len(places) == 1 else 'they are'} {names.do(places)}"
        _, compare = _or_left(case, key, call, places) or ("", "")
        advice = _ADVICE + compare
    else:
        absence = f"{'it' if len(places) == 1 else 'they'} {state_words(case, places)}"
        advice = advice_on(case, cause, places)
    if call.begun:
        rest = f"begun by {names.ranks(call.begun, communicator)}, not by {absent}: {absence}"
    else:
        rest = f"{absent} {are(places)} not: {absence}"
    sentence = f"{_inside(case, key, call, names.on(communicator))}, {rest}."
    everybody = (*call.inside, *places)
    return case.finding(cause, certainty, sentence, advice, everybody, communicator, ends=call.needs)


def _inside(case: Case, key: Entered, call: _Call, on: str, *, brief: bool = False) -> str:
    """Return "ranks [0-2] are in MPI_Barrier on 'solver'", or that they wait for a nonblocking operation.

    In brief without "are", behind another one of the kind.
    """
    verb = f"{waits(call.inside)} for" if call.begun else "in" if brief else f"{are(call.inside)} in"
    return f"{case.names.ranks(call.inside, key[1])} {verb} {key[0]}{on}"


def _order(case: Case, key: Entered, call: _Call, other_key: Entered, other: _Call) -> Finding:
    communicator, names = key[1], case.names
    same = communicator == other_key[1]
    elsewhere = _inside(case, other_key, other, names.on(other_key[1]), brief=not call.begun)
    left = _or_left(case, key, call, other.inside) or _or_left(case, other_key, other, call.inside)
    why, compare = left or ("neither call can end before the other ranks make it too", "")
    sentence = f"{_inside(case, key, call, '' if same else names.on(communicator))}, {elsewhere}: {why}."
    for what, inside in ((key[0], call.inside), (other_key[0], other.inside)):
        if differing := case.differing(inside, what):
            sentence += f" {names.ranks(inside).capitalize()} disagree about the arguments of {what}: {differing}."
    places = (*call.inside, *other.inside)
    on, ends = communicator if same else None, (*call.needs, *other.needs)
    advice = _ORDER_ADVICE + compare
    return case.finding(Cause.COLLECTIVE_ORDER, case.certainty(places), sentence, advice, places, on, ends=ends)


def _or_left(case: Case, key: Entered, call: _Call, others: Sequence[int]) -> tuple[str, str] | None:
    """Return of a call that ranks which are missing may have made and left that they may, and what to compare then."""
    missing = [place for place in others if place in call.missing]
    compare = to_compare(case, *key, call.inside[0], missing[0]) if missing else ""
    if not compare:
        return None
    names = case.names
    why = (
        f"{names.ranks(call.inside, key[1])} {waits(call.inside)} for data of {names.ranks(missing, key[1])}, which "
        f"{'has' if len(missing) == 1 else 'have'} not made {key[0]}, or left it without sending that"
    )
    return why, f" If it was made: {compare[:1].lower()}{compare[1:]}"
