"""Messages that match and are not delivered: held back by a matched probe, or by what is broken between two ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mqs_dll.contract.escape import visible
from mqs_dll.verdict.evidence import Evidence
from mqs_dll.verdict.findings.common import Case
from mqs_dll.verdict.findings.common import waits as waits_in
from mqs_dll.verdict.findings.peers import state_words
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.results import Cause, Finding, WaitKind

_MATCHED_PROBE = "Receive what MPI_Mprobe or MPI_Improbe matched with MPI_Mrecv or MPI_Imrecv: no other call gets it."


def of_undelivered(case: Case) -> Iterator[Finding]:
    """Yield a send and a receive that match where neither moved in any sample, though their ranks wait for both."""
    names, processes = case.names, case.analysis.job.processes
    for each in case.analysis.undelivered:
        sender, receiver = processes[each.sender], processes[each.receiver]
        sentence = (
            f"{names.ranks([each.sender])} waits in {names.need(each.send)}, {names.ranks([each.receiver])} in "
            f"{names.need(each.receive)}: matched, not delivered."
        )
        if sender.host == receiver.host:
            advice = "Look at the MPI's output, and at its transport: what connects these ranks may be broken."
        else:
            advice = (
                f"Look at the network between {visible(sender.host)} and {visible(receiver.host)}: a link may be "
                "broken."
            )
        both = (each.sender, each.receiver)
        on, ends = each.send.communicator, (each.send, each.receive)
        yield case.finding(Cause.UNDELIVERED, case.certainty(both), sentence, advice, both, on, ends=ends)


def of_matched_probes(case: Case) -> Iterator[Finding]:
    """Yield who is stuck in a send because a matched probe took its message, and nobody has received it since."""
    names, analysis = case.names, case.analysis
    for process in analysis.stuck:
        for need in analysis.unmet(process):
            message = None if need.pending is None else need.pending.matched_message
            if message is None:
                continue
            keeper = message.process
            sentence = (
                f"{names.ranks([process])} waits in {names.need(need)}: {names.ranks([keeper])} has matched its "
                f"message by MPI_Mprobe or MPI_Improbe, and has not received it with MPI_Mrecv; it "
                f"{state_words(case, [keeper])}."
            )
            processes = (process, keeper)
            certainty = case.certainty([process])
            on = need.communicator
            yield case.finding(Cause.UNDELIVERED, certainty, sentence, _MATCHED_PROBE, processes, on, ends=[need])


def of_parts(case: Case) -> Iterator[Finding]:
    """Yield who waits for a partitioned message whose ranks match: what keeps it is a part that isn't marked ready."""
    names, analysis = case.names, case.analysis
    waits: defaultdict[tuple[int, int], list[tuple[int, Need]]] = defaultdict(list)
    for process in analysis.stuck:
        for need in analysis.unmet(process):
            pending = need.pending
            if pending is None or not pending.words.partitioned or pending.peer is None:
                continue
            if need.satisfied is Evidence.YES or pending.words.internal:
                key = (process, pending.peer) if need.kind is WaitKind.SEND else (pending.peer, process)
                waits[key].append((process, need))
    for (sender, receiver), both in waits.items():
        waiting, calls = [process for process, _ in both], " and ".join(sorted({need.what for _, need in both}))
        between = f"of {names.ranks([sender])} to {names.ranks([receiver])}"
        last = both[-1][1]
        envelope = "" if last.communicator is None else names.envelope(last)
        sentence = (
            f"{names.ranks(waiting)} {waits_in(waiting)} in {calls} for a partitioned message {between}{envelope}: not "
            "all of its parts have come."
        )
        advice = (
            f"Look for a part that {names.ranks([sender])} doesn't mark ready: MPI_Start wants MPI_Pready for each."
        )
        processes, ends = (sender, receiver), [need for _, need in both]
        yield case.finding(
            Cause.PART, case.certainty(waiting), sentence, advice, processes, last.communicator, ends=ends
        )
