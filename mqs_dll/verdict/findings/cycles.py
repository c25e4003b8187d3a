"""Cycles, knots, and those who wait behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mqs_dll.verdict.findings.common import Case, waits
from mqs_dll.verdict.graph import any_cycle, shortest_cycle
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.pending import Pending
from mqs_dll.verdict.results import Cause, Certainty, Finding, WaitKind

MAX_LISTED = 4
"""Ranks of a cycle that are named one by one."""

_CYCLE_ADVICE = {
    WaitKind.SEND: "Post the receives before the sends (MPI_Irecv), or use MPI_Sendrecv or MPI_Isend.",
    WaitKind.RECEIVE: "Look for the send that should come first: one of them has to send before it receives.",
}
_MIXED_ADVICE = "Change the order of their calls, so that one of them comes to what another waits for."


def of_cycles(case: Case, explained: Collection[int]) -> Iterator[Finding]:
    """Yield a finding for each cycle of processes that wait for each other, and for each that waits for itself.

    Nobody but the process itself could end a call whose message is there already.

    Args:
        case: the job.
        explained: processes that a finding on a collective call has already.
    """
    known = {*explained}
    for component in case.graph.cyclic_components():
        if not known.isdisjoint(component):
            continue
        finding = _of_component(case, component)
        if finding is not None:
            yield finding
    for process in case.analysis.stuck:
        for need in case.analysis.unmet(process):
            if len(need.peers) == 1 and need.peers[0] == process:
                yield _self(case, process, need)
                break


def _of_component(case: Case, component: list[int]) -> Finding | None:
    """Return a cycle where one can be named in which each needs the next, else a knot of all.

    None where it isn't a knot since some wait for a process that isn't stuck: that is a finding on peers.
    """
    within = {*component}
    for process in component:
        if case.graph.single_peers(process):
            cycle = shortest_cycle(
                [process, *component], lambda node: [peer for peer in case.graph.single_peers(node) if peer in within]
            )
            if len(cycle) > 1:
                return _cycle(case, cycle)
            break
    cycle = any_cycle(component, lambda node: _next(case, node, within))
    if cycle:
        return _cycle(case, cycle)
    return None if case.graph.leads_out(component) else _knot(case, component)


def _next(case: Case, node: int, within: Collection[int]) -> int | None:
    """Return the first process of some without which another one can't go on."""
    return next((peer for peer in case.graph.single_peers(node) if peer in within and peer != node), None)


def _cycle(case: Case, cycle: list[int]) -> Finding:
    needs = []
    for process, following in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        needs.append(next(need for need in case.graph.firm(process) if need.peers[0] == following))
    kinds = {need.kind for need in needs}
    kind = kinds.pop() if len(kinds) == 1 else None
    communicators = {need.communicator for need in needs}
    communicator = communicators.pop() if len(communicators) == 1 else None
    advice = (_CYCLE_ADVICE.get(kind, "") if kind else "") or _one_sided_advice(needs) or _MIXED_ADVICE
    sentence = _listed(case, cycle, needs, kind) if len(cycle) <= MAX_LISTED else _ring(case, cycle, needs)
    return case.finding(Cause.CYCLE, case.certainty(cycle), sentence, advice, cycle, communicator, ends=needs)


def _one_sided_advice(needs: Sequence[Need]) -> str:
    missing = sorted(
        {need.one_sided.missing for need in needs if need.one_sided is not None and need.one_sided.missing}
    )
    if missing:
        return f"Look for the {' and '.join(missing)} that should come first."
    locks = all(need.one_sided is not None for need in needs)
    return "Each may hold a lock that the next one wants: all have to take locks in the same order." if locks else ""


def _listed(case: Case, cycle: list[int], needs: list[Need], kind: WaitKind | None) -> str:
    names = case.names
    parts = [
        f"{names.ranks([process])} {'waits ' if number == 0 else ''}in {names.need(need)}"
        for number, (process, need) in enumerate(zip(cycle, needs, strict=True))
    ]
    other = "the other" if len(cycle) == 2 else "the next"
    action = {WaitKind.SEND: " to receive", WaitKind.RECEIVE: " to send"}.get(kind, "") if kind else ""
    return f"{'; '.join(parts)}: each waits for {other}{action}."


def _ring(case: Case, cycle: list[int], needs: list[Need]) -> str:
    names = case.names
    steps = [
        f"{names.ranks([process])} for {names.ranks([following])}"
        for process, following in ((cycle[0], cycle[1]), (cycle[1], cycle[2]), (cycle[-1], cycle[0]))
    ]
    envelopes = {names.envelope(need) for need in needs}
    envelope = envelopes.pop() if len(envelopes) == 1 else ""
    calls = " or ".join(sorted({need.what for need in needs})[:3])
    return f"{names.ranks(cycle)} wait in a circle, in {calls}{envelope}: {steps[0]}, {steps[1]}, ..., {steps[2]}."


def _knot(case: Case, component: list[int]) -> Finding:
    names = case.names
    needs = case.unmet(component)
    envelopes = {(names.envelope(need)) for need in needs}
    envelope = envelopes.pop() if len(envelopes) == 1 else ""
    communicators = {need.communicator for need in needs}
    communicator = communicators.pop() if len(communicators) == 1 else None
    calls = " or ".join(sorted({need.what for need in needs})[:3])
    who = names.ranks(component, communicator)
    advice = ""
    if all(need.pending is not None and need.pending.any_source for need in needs):
        gone = any(not case.analysis.waits.gone.isdisjoint(need.peers) for need in needs[:1])
        fate = "wait too, or are gone" if gone else "wait too"
        sentence = f"each of {who} waits in {calls} from any source{envelope}, and all who could send {fate}."
        advice = "One of them has to send first: look for the send that some condition left out."
    elif all(need.pending is None and need.one_sided is None for need in needs):
        sentence = f"{who} wait in {calls}{envelope}, for what can't be seen, and nobody is left to end that."
    else:
        sentence = f"{who} wait for each other, in {calls}{envelope}: all who could end one of their waits wait too."
    return case.finding(Cause.KNOT, case.certainty(component), sentence, advice, component, communicator, ends=needs)


def _self(case: Case, process: int, need: Need) -> Finding:
    if need.pending is not None and need.pending.words.forgotten:
        return _forgotten(case, process, need, need.pending)
    action = "receive" if need.kind is WaitKind.SEND else "send"
    sentence = (
        f"{case.names.ranks([process])} waits in {case.names.need(need)}: for itself, which can't {action} meanwhile."
    )
    advice = "Use a nonblocking call for messages of a process to itself, or MPI_Sendrecv."
    return case.finding(
        Cause.SELF, case.certainty([process]), sentence, advice, [process], need.communicator, ends=[need]
    )


def _forgotten(case: Case, process: int, need: Need, receive: Pending) -> Finding:
    sender = "" if receive.peer is None else f" from {case.names.ranks([receive.peer], need.communicator)}"
    sentence = (
        f"{case.names.ranks([process], need.communicator)} waits in {need.what}{case.names.envelope(need)}, for a "
        f"message{sender} that is here: the MPI has lost sight of it, and doesn't end the call."
    )
    advice = "That is a fault of the MPI's: a receive that names its source, another transport or release may help."
    return case.finding(
        Cause.FORGOTTEN, case.certainty([process]), sentence, advice, [process], need.communicator, ends=[need]
    )


def behind(case: Case, named: Collection[int]) -> Iterator[Finding]:
    """Yield who is stuck only because others are, in one finding for those proved and one for those suspected."""
    known = {*named}
    for certainty, solution in (
        (Certainty.PROVED, case.analysis.proved),
        (Certainty.SUSPECTED, case.analysis.suspected),
    ):
        rest = sorted(solution.stuck - known)
        if rest:
            them = "them" if known else "something that can't be seen"
            sentence = f"{case.names.ranks(rest)} {waits(rest)} behind {them}, {case.names.do(rest)}."
            yield case.finding(Cause.BEHIND, certainty, sentence, "", rest)
