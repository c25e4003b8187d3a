"""Collective calls that a stuck rank has left out, or not come to: what others have sent it there lies unexpected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mqs_dll.contract.abi import Queue
from mqs_dll.job.calls import COLLECTIVE, what_ends
from mqs_dll.verdict.findings.common import Case
from mqs_dll.verdict.results import Cause, Certainty, Finding

_ADVICE = (
    "Either it should have made that call first, or what it waits for should have been sent before: compare the order "
    "of the calls on these ranks."
)


def of_left_out(case: Case) -> Iterator[Finding]:
    """Yield for each rank that is stuck in no collective call which ones others have been in without it.

    Where it waits for one of those it explains why that doesn't come.
    """
    analysis = case.analysis
    for process in analysis.stuck:
        call = analysis.waits.of_process[process].call
        if call is None or what_ends(call) in COLLECTIVE:
            continue
        left_out = _left_out(case, process)
        awaited = {peer for need in analysis.unmet(process) for peer in need.peers} if left_out else set()
        for (what, communicator), senders in left_out.items():
            explains = not awaited.isdisjoint(senders)
            yield _finding(case, process, what, communicator, senders, explains=explains)


def _left_out(case: Case, process: int) -> dict[tuple[str, int], list[int]]:
    """Return whose messages of which collective calls lie at a process.

    Not of those who are in a collective call: it may be that one, or made of it, and that it isn't entered by all is
    said elsewhere.
    """
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for each in case.analysis.joined.operations[process]:
        what, sender = each.words.collective, each.sender
        if each.queue is not Queue.UNEXPECTED or what is None or sender is None or each.match is not None:
            continue
        call = case.analysis.waits.of_process[sender].call
        if call is None or what_ends(call) not in COLLECTIVE:
            found[what, case.analysis.communicators.whole(each.communicator)].append(sender)
    return found


def _finding(case: Case, process: int, what: str, communicator: int, senders: list[int], *, explains: bool) -> Finding:
    names = case.names
    certainty = case.certainty([process]) if explains else Certainty.NOTED
    ends = case.analysis.unmet(process)
    sentence = (
        f"{names.ranks([process])} is {names.do([process])}, and has left out {what}{names.on(communicator)}, or not "
        f"come to it: what {names.ranks(senders)} sent it in that call, or in one that is made of it, lies unexpected."
    )
    return case.finding(Cause.LEFT_OUT, certainty, sentence, _ADVICE, (process, *senders), communicator, ends=ends)
