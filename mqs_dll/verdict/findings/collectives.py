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
    has_all_missing: bool = False
    """Whether ``missing`` has all members that have not entered; processes inside share these: they are added once."""
    begun: set[int] = field(default_factory=set)
    """Of a nonblocking one: who has started it; empty for a blocking one."""
    needs: list[Need] = field(default_factory=list)


def of_collectives(case: Case) -> Iterator[Finding]:
    """Yield for each collective call that is stuck who is missing, and what they do instead.

    First who disagrees about one call, then who has left it with data outstanding; the rest of the missing by cause.
    """
    calls = _calls(case)
    for (what, communicator), call in calls.items():
        inside = {*call.inside}
        components = (each for each in case.graph.cyclic_components() if inside.issuperset(each))
        if any(case.analysis.disagree(component, what) for component in components):
            yield of_disagreement(case, what, communicator, call.inside)
    waiting_for_left: set[int] = set()
    for (what, communicator), call in calls.items():
        left = who_left(case, what, communicator, call.inside)
        if communicator is not None and left:
            yield from of_counts(case, what, communicator, left)
            call.missing.difference_update(left)
            waiting_for_left.update(process for processes in left.values() for process in processes)
    entered = {process: key for key, call in calls.items() for process in call.inside}
    reported: set[frozenset[Entered]] = set()
    for key, call in calls.items():
        call.missing -= waiting_for_left
        for cause, processes in _missing_by_cause(case, calls, key, entered).items():
            if cause is not Cause.COLLECTIVE_ORDER:
                yield _missing(case, key, call, cause, processes)
                continue
            for other in sorted({entered[process] for process in processes}, key=str):
                pair = frozenset({key, other})
                if pair not in reported:
                    reported.add(pair)
                    yield from _different(case, key, call, other, calls[other])


def _missing_by_cause(
    case: Case, calls: dict[Entered, _Call], key: Entered, entered: dict[int, Entered]
) -> dict[Cause, list[int]]:
    """Return who is missing in a call, by why; not those who are stuck behind it or in something else.

    Of those who wait for processes inside, as these do for them:

        rank 0 in MPI_Bcast, rank 1 in MPI_Reduce, each call lacks the other rank    COLLECTIVE_ORDER
        rank 0 in MPI_Bcast, rank 1 in MPI_Recv from rank 0                          COLLECTIVE_MISSING
    """
    by_cause: defaultdict[Cause, list[int]] = defaultdict(list)
    call, component_of = calls[key], case.graph.components.of_process
    components = {component_of.get(process) for process in call.inside}
    for process in sorted(call.missing):
        cause = cause_of(case, process)
        if cause is None and component_of.get(process) in components:
            elsewhere = entered.get(process)
            is_mutual = elsewhere is not None and not calls[elsewhere].missing.isdisjoint(call.inside)
            cause = Cause.COLLECTIVE_ORDER if is_mutual else Cause.COLLECTIVE_MISSING
        if cause is not None:
            by_cause[cause].append(process)
    return by_cause


def _different(case: Case, key: Entered, call: _Call, other_key: Entered, other: _Call) -> Iterator[Finding]:
    """Yield that ranks are in different calls, or in one of them with different roots."""
    pairs = ((key, call, other_key, other), (other_key, other, key, call))
    with_roots = [each for each in pairs if has_several_roots(case, each[0][0], each[1].inside)]
    for (what, communicator), inside, elsewhere, others in with_roots:
        rest = _inside(case, elsewhere, others, case.names.on(elsewhere[1]))
        yield of_several_roots(case, what, communicator, inside.inside, others.inside, rest)
    if not with_roots:
        yield _order(case, key, call, other_key, other)


def _calls(case: Case) -> dict[Entered, _Call]:
    """Return the collective calls in which processes are stuck, with those that they wait for."""
    calls: dict[Entered, _Call] = {}
    for process in case.analysis.stuck:
        collective = [need for need in case.analysis.unmet(process) if need.kind is WaitKind.COLLECTIVE]
        if not collective:
            continue
        first = collective[0]
        call = calls.setdefault(_entered(case, process, first), _Call())
        call.inside.append(process)
        if first.number is not None and first.communicator is not None and not call.begun:
            call.begun = case.begun.by(first.communicator, first.number)
        _add_missing(case, call, [need for need in collective if need.what == first.what])
    for call in calls.values():
        call.missing.difference_update(call.inside, call.begun)
    return calls


def _entered(case: Case, process: int, need: Need) -> Entered:
    """Return the call that a process with a need is in, or the nonblocking operation that it waits for."""
    thread = _thread_of(case, process, need)
    is_of_call = thread.call is not None and need.number is None
    return need.what, thread.communicator if is_of_call else need.communicator


def _add_missing(case: Case, call: _Call, needs: Sequence[Need]) -> None:
    """Add the needs of one process inside a call, and those whom they lack."""
    call.needs += needs
    all_missing = [need for need in needs if need.all_of]
    if all_missing and not call.has_all_missing:
        call.missing.update(peer for need in all_missing for peer in need.peers if peer is not None)
        call.has_all_missing = True
    if all_missing:
        return
    for need in needs:  # where the call's traffic can't be seen, only who is gone is known to be missing
        peers = need.peers if need.pending else case.analysis.waits.gone.intersection(need.peers)
        call.missing.update(peer for peer in peers if peer is not None)


def _thread_of(case: Case, process: int, need: Need) -> ThreadWait:
    threads = case.analysis.waits.of_process[process].threads
    return next(thread for thread in threads if need in thread.all_needs())


def _missing(case: Case, key: Entered, call: _Call, cause: Cause, processes: list[int]) -> Finding:
    """Return that processes are missing in a call, for one cause."""
    communicator = _communicator_with(case, key, processes)
    certainty = case.certainty([*call.inside, *(processes if cause is Cause.COLLECTIVE_MISSING else ())])
    if cause in (Cause.OUTSIDE, Cause.NOT_READ, Cause.STOPPED):
        certainty = Certainty.SUSPECTED
    if cause is Cause.COLLECTIVE_MISSING:
        _, compare = _or_left(case, key, call, processes) or ("", "")
        advice = _ADVICE + compare
    else:
        advice = advice_on(case, cause, processes)
    sentence = _missing_sentence(case, key, call, communicator, cause, processes)
    everybody = (*call.inside, *processes)
    return case.finding(cause, certainty, sentence, advice, everybody, communicator, ends=call.needs)


def _communicator_with(case: Case, key: Entered, processes: list[int]) -> int | None:
    """Return the communicator of a call; None where processes are not in it, as a leader of MPI_Intercomm_create."""
    what, communicator = key
    members = () if communicator is None else case.analysis.communicators.all[communicator].members
    return None if reaches_beyond(what) and not {*processes} <= {*members} else communicator


def _missing_sentence(
    case: Case, key: Entered, call: _Call, communicator: int | None, cause: Cause, processes: list[int]
) -> str:
    """Return who is in a call, who isn't, and what these do; of stopped ones only that the call waits for them."""
    names, absent = case.names, case.names.ranks(processes, communicator)
    if cause is Cause.STOPPED:  # they may have entered the call before
        inside, on = names.ranks(call.inside, communicator), names.on(communicator)
        waited_for = f"for {key[0]}{on}, and so for" if call.begun else f"in {key[0]}{on} for"
        return f"{inside} {waits(call.inside)} {waited_for} {absent}, which {state_words(case, processes)}."
    if cause is Cause.COLLECTIVE_MISSING:
        absence = f"{'it is' if len(processes) == 1 else 'they are'} {names.do(processes)}"
    else:
        absence = f"{'it' if len(processes) == 1 else 'they'} {state_words(case, processes)}"
    if call.begun:
        rest = f"begun by {names.ranks(call.begun, communicator)}, not by {absent}: {absence}"
    else:
        rest = f"{absent} {are(processes)} not: {absence}"
    return f"{_inside(case, key, call, names.on(communicator))}, {rest}."


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
    processes = (*call.inside, *other.inside)
    on, ends = communicator if same else None, (*call.needs, *other.needs)
    advice = _ORDER_ADVICE + compare
    return case.finding(Cause.COLLECTIVE_ORDER, case.certainty(processes), sentence, advice, processes, on, ends=ends)


def _or_left(case: Case, key: Entered, call: _Call, others: Sequence[int]) -> tuple[str, str] | None:
    """Return of a call that ranks which are missing may have made and left that they may, and what to compare then."""
    missing = [process for process in others if process in call.missing]
    compare = to_compare(case, *key, call.inside[0], missing[0]) if missing else ""
    if not compare:
        return None
    names = case.names
    why = (
        f"{names.ranks(call.inside, key[1])} {waits(call.inside)} for data of {names.ranks(missing, key[1])}, which "
        f"{'has' if len(missing) == 1 else 'have'} not made {key[0]}, or left it without sending that"
    )
    return why, f" If it was made: {compare[:1].lower()}{compare[1:]}"
