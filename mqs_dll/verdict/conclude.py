"""From a job to a verdict: the one call that reports and commands need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from mqs_dll.contract.escape import visible
from mqs_dll.job.calls import Blocks, what_ends
from mqs_dll.job.records import LIVE, Job, RankState
from mqs_dll.job.shared import garbage_left_alone
from mqs_dll.verdict import findings
from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.naming import Names
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.pending import Origin
from mqs_dll.verdict.progress import Motion
from mqs_dll.verdict.results import Activity, Cause, Certainty, Finding, Mode, Outcome, Verdict, Wait, WaitKind
from mqs_dll.verdict.states import State, ThreadWait


@garbage_left_alone()
def conclude(job: Job) -> Verdict:
    """Return what is wrong with a job, as far as what was read of it shows; takes time linear in that."""
    analysis = Analysis(job)
    names = Names(analysis)
    found = tuple(findings.find(analysis, names))
    outcome = _outcome(analysis, found)
    return Verdict(
        outcome=outcome,
        headline=_headline(analysis, names, outcome, found),
        findings=found,
        waits=tuple(_waits(analysis, names)),
        activities=tuple(_activity(analysis, names, process) for process in range(len(job.processes))),
        communicators=analysis.communicators.facts(names.communicators, names.descriptions),
    )


# ---------------------------------------------------------------- the answer


def _outcome(analysis: Analysis, found: tuple[Finding, ...]) -> Outcome:
    certainties = {finding.certainty for finding in found}
    if Certainty.PROVED in certainties:
        return Outcome.PROVED
    if Certainty.SUSPECTED in certainties:
        return Outcome.SUSPECTED
    return Outcome.NOTHING_STUCK if _saw_enough(analysis) else Outcome.NOT_READ


def _saw_enough(analysis: Analysis) -> bool:
    """Return whether each rank was seen to progress, or to be where it can go on without others; else one may be stuck.

    What is pending in a rank whose stack can't be seen doesn't show whether it waits for that.
    """
    doubtful = _doubtful(analysis) | analysis.unclear
    seen = [
        bool(process.samples) and analysis.state(index) is not State.IDLE and index not in doubtful
        for index, process in enumerate(analysis.job.processes)
        if process.state not in (RankState.EXITED, RankState.FINALIZED)
    ]
    return bool(seen) and all(seen)


def _doubtful(analysis: Analysis) -> set[int]:
    """Return who wasn't seen to leave a call that ends only if all is right, or nobody knows how.

    It may have left it and made it again.
    """
    in_progress = {process for part in analysis.suspected.in_progress for process in part}
    return {
        process
        for process, wait in enumerate(analysis.waits.of_process)
        if (process in in_progress or (wait.call is not None and what_ends(wait.call) is Blocks.UNKNOWN))
        and analysis.motions[process] is not Motion.CHANGED
    }


def _headline(analysis: Analysis, names: Names, outcome: Outcome, found: tuple[Finding, ...]) -> str:
    if outcome is Outcome.PROVED:
        return f"Stuck for good: {_begin_small(found[0].sentence)}{_hint(found)}"
    if outcome is Outcome.SUSPECTED:
        stuck = analysis.proved.stuck or analysis.suspected.stuck or found[0].cause in (Cause.OUTSIDE, Cause.GONE)
        return f"{'Seems stuck' if stuck else 'Looks wrong'}: {_begin_small(found[0].sentence)}{_hint(found)}"
    job, processes = analysis.job, analysis.job.processes
    read = sum(bool(process.samples) for process in processes)
    of_all = f"{read} of {len(processes)} ranks" if read < len(processes) else _ranks(read)
    unclear = sum(wait.state is State.IDLE for wait in analysis.waits.of_process)
    unseen = f"; the call stacks of {unclear} can't be seen" if unclear else ""
    if doubtful := len(_doubtful(analysis)):
        unseen += f"; whether {doubtful} of them went on in the call that they are in, isn't known"
    if asking := len(analysis.unclear):
        unseen += f"; whether {asking} of them got what they ask for again and again, isn't known"
    if outcome is Outcome.NOTHING_STUCK:
        blocked = sum(bool(wait.threads) for wait in analysis.waits.of_process)
        waiting = f", {blocked} of them in a call that waits" if blocked else ""
        return f"Nothing is stuck: {of_all} read{waiting}."
    if read and job.source == LIVE and not job.stopped:
        return f"Nothing is known to be stuck, but no rank was stopped, as it takes to see its calls: {of_all} read."
    if read:
        return f"Nothing is known to be stuck, but too little could be seen: {of_all} read{unseen}."
    if processes and all(process.state is RankState.EXITED for process in processes):
        launcher = f" Its launcher is still there: {visible(job.launcher_waits)}." if job.launcher_waits else ""
        return f"The job is over: {_ranks(len(processes))} exited.{launcher}"
    return f"Nothing can be said: none of {_ranks(len(processes))} could be read."


def _hint(found: tuple[Finding, ...]) -> str:
    """Return the sentence on a message that may be what the first finding is about, though that isn't sure."""
    cause = {*found[0].processes}
    hints = (
        finding.sentence
        for finding in found[1:]
        if finding.cause in (Cause.TAG, Cause.COMMUNICATOR, Cause.SOURCE)
        and finding.certainty is Certainty.SUSPECTED
        and cause.issuperset(finding.processes)
    )
    return "".join(f" {hint}" for hint in itertools.islice(hints, 1))


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def _begin_small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


# ---------------------------------------------------------------- what each does


def _activity(analysis: Analysis, names: Names, process: int) -> Activity:
    wait = analysis.waits.of_process[process]
    mode = wait.threads[0].mode if wait.threads else Mode.ALL
    halt = names.halt([process]) if wait.state is State.STOPPED else ""
    return Activity(wait.call, names.does(process), names.where(wait.stack), mode, analysis.certainty(process), halt)


def _waits(analysis: Analysis, names: Names) -> Iterator[Wait]:
    for process, process_wait in enumerate(analysis.waits.of_process):
        unmet = {*analysis.unmet(process)}
        certainty = analysis.certainty(process)
        for thread in process_wait.threads:
            for need in _telling(thread):
                known = certainty if certainty is not None and need in unmet else Certainty.NOTED
                yield _wait(analysis, names, process, need, known)


def _telling(thread: ThreadWait) -> Iterator[Need]:
    """Yield what a thread waits for, but no message of a collective from anybody where it is known who is missing."""
    for need in thread.all_needs():
        from_anybody = need.kind is WaitKind.COLLECTIVE and not need.all_of and len(need.peers) != 1
        if not (thread.also and from_anybody):
            yield need


def _wait(analysis: Analysis, names: Names, process: int, need: Need, certainty: Certainty) -> Wait:
    pending = need.pending
    communicator = None if need.communicator is None else analysis.communicators.whole(need.communicator)
    return Wait(
        process=process,
        kind=need.kind,
        what=need.what,
        communicator=None if communicator is None else names.communicators[communicator],
        communicator_id=communicator,
        peers=analysis.known_peers(need),
        any_source=len(need.peers) > 1 and not need.all_of,
        peer_rank=None if pending is None else pending.peer_rank,
        tag=None if pending is None or need.kind is WaitKind.COLLECTIVE else pending.tag,
        any_tag=pending is not None and pending.any_tag,
        length=None if pending is None else pending.length,
        certainty=certainty,
        window=None if need.one_sided is None else names.window(need.one_sided.window),
        from_call=pending is not None and pending.origin is Origin.CALL,
    )
