"""Collective calls that some entered and some did not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from mqs_dll.verdict.findings.common import Case, are
from mqs_dll.verdict.findings.peers import ADVICE, cause_of, state_words
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.records import Cause, Certainty, Finding, WaitKind
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
    """A collective call in which processes are stuck."""

    inside: list[int] = field(default_factory=list)
    missing: set[int] = field(default_factory=set)


def of_collectives(case: Case) -> Iterator[Finding]:
    """Yield for each collective call that is stuck who is missing, and what they do instead."""
    calls = _calls(case)
    entered = {place: key for key, call in calls.items() for place in call.inside}
    reported: set[frozenset[Entered]] = set()
    for key, call in calls.items():
        by_cause: defaultdict[Cause, list[int]] = defaultdict(list)
        for place in sorted(call.missing):
            cause = cause_of(case, place)
            if cause is not None:
                by_cause[cause].append(place)
            elif any(case.circles.parts.together(place, inside) for inside in call.inside[:1]):
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
                        yield _order(case, key, call, other, calls[other])
            else:
                yield _missing(case, key, call, cause, places)


def _calls(case: Case) -> dict[Entered, _Call]:
    """Return the collective calls in which processes are stuck, with those that they wait for."""
    calls: dict[Entered, _Call] = {}
    done: set[Entered] = set()
    stuck = sorted(case.analysis.proved.stuck | case.analysis.suspected.stuck)
    needs_of = []
    for place in stuck:
        needs = [need for need in case.analysis.unmet(place) if need.kind is WaitKind.COLLECTIVE]
        if not needs:
            continue
        thread = _thread_of(case, place, needs[0])
        key = (needs[0].what, thread.communicator if thread.call else needs[0].communicator)
        calls.setdefault(key, _Call()).inside.append(place)
        needs_of.append((key, needs))
    for key, needs in needs_of:
        call = calls[key]
        exact = [need for need in needs if need.every]
        if exact:
            if key not in done:
                call.missing.update(peer for need in exact for peer in need.peers if peer is not None)
                done.add(key)
        else:
            for need in needs:
                if need.pending is not None:
                    call.missing.update(peer for peer in need.peers if peer is not None)
    for call in calls.values():
        call.missing.difference_update(call.inside)
    return calls


def _thread_of(case: Case, place: int, need: Need) -> ThreadWait:
    threads = case.analysis.waits.of_process[place].threads
    return next(thread for thread in threads if need in thread.all_needs())


def _missing(case: Case, key: Entered, call: _Call, cause: Cause, places: list[int]) -> Finding:
    what, communicator = key
    names = case.names
    inside = names.ranks(call.inside, communicator)
    absent = names.ranks(places, communicator)
    certainty = case.certainty([*call.inside, *(places if cause is Cause.COLLECTIVE_MISSING else ())])
    if cause in (Cause.OUTSIDE, Cause.NOT_READ):
        certainty = Certainty.SUSPECTED
    if cause is Cause.COLLECTIVE_MISSING:
        absence = f"{'it is' if len(places) == 1 else 'they are'} {names.do(places)}"
        advice = _ADVICE
    else:
        absence = f"{'it' if len(places) == 1 else 'they'} {state_words(case, places)}"
        advice = ADVICE[cause]
    rest = f"{absent} {are(places)} not: {absence}"
    sentence = f"{inside} {are(call.inside)} in {what}{names.on(communicator)}, {rest}."
    return case.finding(cause, certainty, sentence, advice, (*call.inside, *places), communicator)


def _order(case: Case, key: Entered, call: _Call, other_key: Entered, other: _Call) -> Finding:
    names = case.names
    (what, communicator), (other_what, other_communicator) = key, other_key
    same = communicator == other_communicator
    on = "" if same else names.on(communicator)
    sentence = (
        f"{names.ranks(call.inside, communicator)} {are(call.inside)} in {what}{on}, "
        f"{names.ranks(other.inside, other_communicator)} in {other_what}{names.on(other_communicator)}: "
        "neither call can end before the other ranks make it too."
    )
    places = (*call.inside, *other.inside)
    return case.finding(
        Cause.COLLECTIVE_ORDER, case.certainty(places), sentence, _ORDER_ADVICE, places, communicator if same else None
    )
