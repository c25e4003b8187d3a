"""What is worth a line without being wrong: progress between samples, ranks that were not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mqs_dll.contract.abi import Queue
from mqs_dll.contract.escape import visible
from mqs_dll.job.calls import LONG_CALL
from mqs_dll.job.facts import without_node
from mqs_dll.job.records import RankState
from mqs_dll.verdict.findings.common import Case, waits
from mqs_dll.verdict.pending import Pending
from mqs_dll.verdict.progress import Motion
from mqs_dll.verdict.results import Cause, Certainty, Finding

_SAME_CALL = "If it never ends, compare its arguments on the ranks: root, count, datatype."
_LOOPS = "A loop over that call looks like this too."
_TAKES_LONG = "It may move much data, or have to wait for busy cores."

MANY = 10_000
"""Messages without a receive that are a flood."""

_FLOOD = (
    "Each takes memory of the receiver's, and receives look through them: let the sender "
    "wait now and then (MPI_Ssend, MPI_Barrier), or post the receives that are left out."
)
_MAX_QUEUED = 3
_OUR_BUG = (
    "This is a bug of libmqs's. Please report it with the file that `mqs job --save` writes, what `mqs doctor PID` says"
    " of that rank, and its MPI's library."
)


def of_progress(case: Case, *, trouble: bool) -> Iterator[Finding]:
    """Yield who went on between the samples; without other trouble also who computes, and who waits for them."""
    analysis = case.analysis
    kinds = (Motion.CHANGED,) if trouble else (Motion.CHANGED, Motion.COMPUTES)
    moved = [process for process, motion in enumerate(analysis.motions) if motion in kinds]
    if not moved:
        return
    waiting = [
        process
        for process, wait in enumerate(analysis.waits.of_process)
        if wait.threads and not trouble and analysis.motions[process] not in kinds
    ]
    sentence = f"{case.names.ranks(moved)} went on between the samples"
    if waiting:
        sentence += f"; {case.names.ranks(waiting)} {waits(waiting)} for that: slow, not stuck"
    yield case.finding(Cause.PROGRESS, Certainty.NOTED, f"{sentence}.", "", moved)


def of_collectives_in_progress(case: Case) -> Iterator[Finding]:
    """Yield the collective calls in which all wait, and nobody is missing: they end by themselves, if all is right.

    Where all surely stood still between two samples nothing moves; else a loop over the call may look like this. What
    moves much data takes some seconds; so only what lasted for longer is suspected, or what the ranks disagree about.
    """
    analysis = case.analysis
    for part in analysis.suspected.in_progress:
        if any(analysis.motions[process] is not Motion.SAME for process in part):
            continue
        threads = [thread for process in part for thread in analysis.waits.of_process[process].threads]
        stood_still = all(analysis.stood_still(process) for process in part)
        first = threads[0]
        what = f"{first.needs[0].what}{case.names.on(first.communicator)}"
        same = all(thread.communicator is not None for thread in threads)
        where = ": nobody is missing, but" if same else ", on what communicators can't be determined, and"
        moves = "moves" if stood_still else "is seen to move"
        sentence = f"{case.names.ranks(part)} are all in {what} in both samples{where} nothing {moves}"
        differing = case.differing(part, first.call) if stood_still else ""
        sentence += f"; they disagree about its arguments: {differing}." if differing else "."
        lasted = differing or all(analysis.stood_for(process) >= LONG_CALL for process in part)
        certainty = Certainty.SUSPECTED if lasted else Certainty.NOTED
        else_it = "" if lasted else f"{_TAKES_LONG if stood_still else _LOOPS} "
        advice = f"{else_it}{_SAME_CALL}"
        yield case.finding(Cause.KNOT, certainty, sentence, advice, part, first.communicator)


def of_disputes(case: Case) -> Iterator[Finding]:
    """Yield where a queue and the call that a rank surely was in all the time contradict each other."""
    names = case.names
    for dispute in case.analysis.joined.disputes:
        if not case.analysis.stood_still(dispute.process):
            continue
        queued = " or ".join(_asked(case, each) for each in dispute.queued[:_MAX_QUEUED])
        sentence = (
            f"{names.ranks([dispute.process])} is in {dispute.stack.call} {_asked(case, dispute.called)} by the call's "
            f"arguments, but {queued} by its queue: neither is believed."
        )
        yield case.finding(
            Cause.DISPUTE, Certainty.NOTED, sentence, _OUR_BUG, [dispute.process], dispute.called.communicator
        )


def _asked(case: Case, receive: Pending) -> str:
    """Return "from rank 1, tag 7 on 'halo'"."""
    source = "any source" if receive.any_source else f"rank {receive.peer_rank}"
    tag = "any tag" if receive.any_tag else "" if receive.tag is None else f"tag {receive.tag}"
    return f"from {', '.join(filter(None, (source, tag)))}{case.names.on(receive.communicator)}"


def of_floods(case: Case) -> Iterator[Finding]:
    """Yield where very many messages of the program's lie without a receive: they take memory, and matching time."""
    names = case.names
    for process, operations in enumerate(case.analysis.joined.operations):
        lying: defaultdict[int, list[Pending]] = defaultdict(list)
        for each in operations:
            if each.queue is Queue.UNEXPECTED and not each.words.internal:
                lying[each.communicator].append(each)
        for communicator, messages in lying.items():
            if len(messages) < MANY:
                continue
            senders = {each.sender for each in messages if each.sender is not None}
            tags = {each.tag for each in messages}
            tag = f", tag {tags.pop()}" if len(tags) == 1 and None not in tags else ""
            source = f" of {names.ranks(senders, communicator)}{tag}" if senders else ""
            whole = (process, case.analysis.communicators.channel(communicator)) in case.analysis.joined.whole
            count = f"{'' if whole else 'at least '}{len(messages):,}"
            sentence = (
                f"{names.ranks([process])} has {count} unexpected messages{source}"
                f"{names.on(communicator)}: its receives don't keep up."
            )
            yield case.finding(Cause.FLOOD, Certainty.NOTED, sentence, _FLOOD, (process, *senders), communicator)


def of_unread(case: Case) -> Iterator[Finding]:
    """Yield which ranks could not be read, merged by the reason."""
    by_reason: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, process in enumerate(case.analysis.job.processes):
        if process.state is RankState.UNREADABLE:
            by_reason[without_node(process), process.remedy].append(index)
    for (alike, remedy), processes in by_reason.items():
        why = alike if len(processes) > 1 else case.analysis.job.processes[processes[0]].why
        reason = f": {visible(why)}" if why else "."
        sentence = f"{case.names.ranks(processes)} could not be read{reason}"
        yield case.finding(Cause.NOT_READ, Certainty.NOTED, sentence, visible(remedy), processes)
