"""Peers that never come, or have not come yet: gone, outside MPI, not read."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mqs_dll.contract.escape import visible
from mqs_dll.job import calls
from mqs_dll.job.records import JobProcess, RankState
from mqs_dll.job.shared import grouped
from mqs_dll.verdict.findings.common import Case, are, waits
from mqs_dll.verdict.naming import ends_python, in_function
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.progress import Motion, halt_of
from mqs_dll.verdict.results import Cause, Certainty, Finding, WaitKind
from mqs_dll.verdict.states import State
from mqs_dll.verdict.windows import ACCESS

SECONDS_TO_START = 3.0
"""So long ranks may wait in MPI_Init for others of their job that are on their way to it."""
ADVICE = {
    Cause.GONE: "Look at why it ended: its output, its exit code, a core file; or for the message that it left out.",
    Cause.OUTSIDE: "Look at what it does there.",
    Cause.NOT_READ: "",
}
_OF_PYTHON = (
    "Look at why it ended: if an exception did it, Python has written that to the standard error of {} before; or for "
    "the message that it left out."
)
"""In Py_RunMain of CPython 3.11 (Modules/main.c) the exception is printed before the interpreter ends."""
_ONE_SIDED_ADVICE = (
    "Some MPIs grant locks and move one-sided data only while the target calls MPI: it may have to do so now and then."
)
_UNSTUCK = {
    State.STOPPED: Cause.STOPPED,
    State.GONE: Cause.GONE,
    State.NOT_READ: Cause.NOT_READ,
    State.OUTSIDE: Cause.OUTSIDE,
    State.POLLS: Cause.OUTSIDE,
    State.IN_MPI: Cause.OUTSIDE,
    State.IDLE: Cause.OUTSIDE,
}


@dataclass
class _Absence:
    """Processes that wait for the same thing of peers that are in the same state."""

    needs: list[Need]
    cause: Cause
    waiters: list[int] = field(default_factory=list)
    peers: set[int] = field(default_factory=set)


def cause_of(case: Case, peer: int) -> Cause | None:
    """Return why a peer doesn't come; None for one that is stuck itself."""
    if case.analysis.certainty(peer) is not None:
        return None
    return _UNSTUCK.get(case.analysis.state(peer))


class _Peers:
    """The peers of needs that are not stuck themselves, by why they don't come; searched once for each set."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._known: dict[tuple[int | None, ...], dict[Cause, frozenset[int]]] = {}

    def absent(self, need: Need) -> dict[Cause, frozenset[int]]:
        """Return them by cause; of several any of which would do, gone ones only when there is nobody else."""
        if need.peers not in self._known:
            self._known[need.peers] = self._by_cause(need)
        return self._known[need.peers]

    def _by_cause(self, need: Need) -> dict[Cause, frozenset[int]]:
        by_cause: dict[Cause, set[int]] = {}
        stuck = 0
        for peer in need.peers:
            cause = None if peer is None else cause_of(self._case, peer)
            if peer is None or cause is None:
                stuck += 1
            else:
                by_cause.setdefault(cause, set()).add(peer)
        only_itself = stuck <= 1 if len(need.peers) > 1 else stuck == 0
        if not only_itself or len(by_cause) > 1:
            by_cause.pop(Cause.GONE, None)
        return {cause: frozenset(peers) for cause, peers in by_cause.items()}


def of_peers(case: Case) -> Iterator[Finding]:
    """Yield what point-to-point operations wait for in vain, merged where that is the same."""
    found: dict[tuple[object, ...], _Absence] = {}
    peers_of = _Peers(case)
    for process in case.analysis.stuck:
        for need in case.analysis.unmet(process):
            is_kept = need.pending is not None and need.pending.matched_message is not None  # a finding of its own
            if need.kind is WaitKind.COLLECTIVE or not need.peers or is_kept:
                continue
            for cause, peers in peers_of.absent(need).items():
                pending = need.pending
                key = (
                    case.analysis.certainty(process), cause, need.kind, need.what, need.communicator, need.one_sided,
                    pending and pending.tag, pending and pending.any_source, state_words(case, [min(peers)]),
                )  # fmt: skip
                absence = found.setdefault(key, _Absence([], cause))
                absence.needs.append(need)
                absence.waiters.append(process)
                if len(peers) == 1 or not absence.peers:
                    absence.peers |= peers
    for absence in found.values():
        yield _finding(case, absence)


def of_epochs(case: Case) -> Iterator[Finding]:
    """Yield who waits for the end of another's epoch, or for its MPI_Win_post, where that went into a collective call.

    The call that it left out comes first: by the collective call alone it would seem to be the waiter's fault.
    """
    names, analysis = case.names, case.analysis
    for process in analysis.stuck:
        for need in analysis.unmet(process):
            if need.one_sided is None or not need.one_sided.missing:
                continue
            peers = [peer for peer in need.peers if peer is not None and _is_in_collective(case, peer)]
            if not peers:
                continue
            without = f"{names.ranks(peers)} went without that into {names.do(peers).removeprefix('in ')}"
            sentence = f"{names.ranks([process])} waits in {names.need(need)}; {without}."
            advice = f"Look for the {need.one_sided.missing} that should come before that call."
            yield case.finding(Cause.EPOCH, case.certainty([process]), sentence, advice, (process, *peers), ends=[need])


def _is_in_collective(case: Case, process: int) -> bool:
    return any(need.kind is WaitKind.COLLECTIVE for need in case.analysis.unmet(process))


def of_stopped(case: Case, named: Collection[int]) -> Iterator[Finding]:
    """Yield who is stopped but isn't ``named`` by a finding on those who wait: one finding for what stopped them."""
    stopped = (
        process
        for process in range(len(case.analysis.job.processes))
        if case.analysis.state(process) is State.STOPPED and process not in named
    )
    for processes in grouped((case.names.halt([process]), process) for process in stopped).values():
        sentence = f"{case.names.ranks(processes)} {state_words(case, processes)}."
        advice = advice_on(case, Cause.STOPPED, processes)
        yield case.finding(Cause.STOPPED, Certainty.SUSPECTED, sentence, advice, processes)


def of_finalize(case: Case) -> Iterator[Finding]:
    """Yield who hasn't called MPI_Finalize, where all others of an MPI_COMM_WORLD have: it ends when all have.

    That it is collective says MPI 4.1, section 11.2.2. Where a process has left it and exited, it doesn't wait.
    """
    analysis = case.analysis
    for processes in _worlds(case):
        ended = [process for process in processes if analysis.state(process) is State.GONE]
        others = sorted({*processes} - {*ended})
        waiting = all(analysis.job.processes[process].state is not RankState.EXITED for process in ended)
        outside = all(
            cause_of(case, process) is Cause.OUTSIDE and analysis.motions[process] in (Motion.SAME, Motion.COMPUTES)
            for process in others
        )
        if ended and others and waiting and outside:
            sentence = (
                f"{case.names.ranks(ended)} called MPI_Finalize, {case.names.ranks(others)} did not: "
                f"{'it' if len(others) == 1 else 'they'} {state_words(case, others)}."
            )
            advice = f"MPI_Finalize ends when all have called it. {ADVICE[Cause.OUTSIDE]}"
            yield case.finding(Cause.OUTSIDE, Certainty.SUSPECTED, sentence, advice, (*ended, *others))


def of_init(case: Case) -> Iterator[Finding]:
    """Yield who waits in MPI_Init, and who of their MPI_COMM_WORLD has not called it.

    A job that is just starting is like this for a while: it is suspected where it lasts for SECONDS_TO_START.
    """
    processes = case.analysis.job.processes
    for indices in _worlds(case):
        starting = [process for process in indices if processes[process].starts]
        inside = [process for process in starting if all(start.inside for start in processes[process].starts)]
        outside = [process for process in starting if not any(start.inside for start in processes[process].starts)]
        exited = [process for process in indices if processes[process].state is RankState.EXITED]
        missing = outside or exited
        if not inside or not missing:
            continue
        lasting = min(_seconds_of_start(processes[process]) for process in (*inside, *outside))
        sentence = f"{case.names.ranks(inside)} {waits(inside)} in MPI_Init; {case.names.ranks(missing)} "
        sentence += "exited without it." if not outside else f"{'has' if len(missing) == 1 else 'have'} not called it"
        if outside:
            sentence += f"{_before_init(case, outside)}."
        certainty = Certainty.SUSPECTED if lasting >= SECONDS_TO_START else Certainty.NOTED
        cause = Cause.OUTSIDE if outside else Cause.GONE
        advice = f"MPI_Init ends when all ranks have called it. {ADVICE[cause]}"
        yield case.finding(cause, certainty, sentence, advice, (*inside, *missing))


def _worlds(case: Case) -> Collection[list[int]]:
    """Return the processes of each MPI_COMM_WORLD."""
    return grouped((process.world, index) for index, process in enumerate(case.analysis.job.processes)).values()


def _seconds_of_start(process: JobProcess) -> float:
    return process.starts[-1].at - process.starts[0].at


def _before_init(case: Case, processes: Sequence[int]) -> str:
    """Return ": it is in nanosleep at solver.c:42", where all are at one line; else an empty string."""
    found = set()
    for process in processes:
        stack = case.analysis.job.processes[process].starts[-1].stack
        found.add("" if stack is None else f"{in_function(stack)}{case.names.at([process])}")
    words = found.pop() if len(found) == 1 else ""
    return words and f": {'it is' if len(processes) == 1 else 'they are'}{words}"


def of_unexplained(case: Case) -> Iterator[Finding]:
    """Yield who surely stood in one call of which it isn't known what it waits for."""
    analysis = case.analysis
    by_call: dict[str, list[int]] = {}
    for process, wait in enumerate(analysis.waits.of_process):
        if wait.call is None or analysis.certainty(process) or not _is_unexplained(wait.call):
            continue
        if analysis.motions[process] is Motion.SAME and analysis.job.processes[process].samples[-1].watched:
            by_call.setdefault(wait.call, []).append(process)
    for call, processes in by_call.items():
        at = case.names.at(processes) if len(processes) == 1 else ""
        sentence = (
            f"{case.names.ranks(processes)} {are(processes)} in {call}{at}, and did not leave it between two samples; "
            "what it waits for is in no queue."
        )
        advice = "It may end by itself: sample again, and look at the ranks, files or nodes that it is about."
        yield case.finding(Cause.UNEXPLAINED, Certainty.SUSPECTED, sentence, advice, processes)


def _is_unexplained(call: str) -> bool:
    """Return whether what a call waits for isn't known, or whether it was to return at once but for its data."""
    return calls.what_ends(call) is calls.Blocks.UNKNOWN or call.removesuffix("_c") in ACCESS


def advice_on(case: Case, cause: Cause, peers: Iterable[int]) -> str:
    """Return what to do about peers that don't come."""
    if cause is Cause.GONE and _end_python(case, peers):
        return _OF_PYTHON.format(case.names.ranks(peers))
    if cause is not Cause.STOPPED:
        return ADVICE[cause]
    processes = [case.analysis.job.processes[index] for index in sorted(peers)]
    halts = [halt for process in processes if (halt := halt_of(process)) is not None]
    pids = " ".join(str(process.pid) for process in processes)
    frozen = sorted({halt.frozen for halt in halts})
    if all(frozen):
        more = "; ..." if len(frozen) > MAX_FILES else ""
        return f"{_THAW} {'; '.join(map(_thaws, frozen[:MAX_FILES]))}{more}"
    held = all(halt.tracer for halt in halts)
    return "Let it go on in that debugger, or quit it." if held else f"To let it go on: kill -CONT {pids}."


MAX_FILES = 3
_THAW = "Whoever froze it, mostly the batch system, lets it go on; or by hand:"


def _thaws(file: str) -> str:
    """Return the command that lets the processes of a cgroup go on, by the file that froze them."""
    return f"echo {'THAWED' if file.endswith('/freezer.state') else '0'} > {shlex.quote(visible(file))}"


def _finding(case: Case, absence: _Absence) -> Finding:
    names, need = case.names, absence.needs[0]
    certainty = case.certainty(absence.waiters)
    any_source = need.pending is not None and need.pending.any_source
    peer = names.direction(need) + ("any source" if any_source else names.ranks(absence.peers, need.communicator))
    who_could = "of those who could send, " if any_source else ""
    waiting = names.need(need) if need.pending is None else f"{need.what}{peer}{names.envelope(need)}"
    sentence = (
        f"{names.ranks(absence.waiters, need.communicator)} {waits(absence.waiters)} in {waiting}, "
        f"but {who_could}{names.ranks(absence.peers)} {state_words(case, absence.peers)}."
    )
    processes = (*absence.waiters, *sorted(absence.peers))
    advice = advice_on(case, absence.cause, absence.peers)
    if need.one_sided is not None and not need.one_sided.missing and absence.cause is Cause.OUTSIDE:
        advice = f"{advice} {_ONE_SIDED_ADVICE}"
    return case.finding(absence.cause, certainty, sentence, advice, processes, need.communicator, ends=absence.needs)


def state_words(case: Case, peers: Collection[int]) -> str:
    """Return what peers that aren't stuck do, as the end of a sentence: "exited", "is outside MPI at solver.c:42"."""
    analysis, names = case.analysis, case.names
    peer = min(peers)
    process, state = analysis.job.processes[peer], analysis.state(peer)
    verb = are(peers)
    if state is State.GONE:
        if process.state is RankState.EXITED:
            return "exited"
        ending = _end_python(case, peers)
        its = "its Python interpreter is" if len(peers) == 1 else "their Python interpreters are"
        return f"called MPI_Finalize{f': {its} ending' if ending else ''}"
    if state is State.NOT_READ:
        return f"{verb} not read" if process.state is RankState.UNREADABLE else f"{verb} before MPI_Init"
    if state is State.STOPPED and len(peers) > 1:
        return f"{verb} {names.halt(peers)}"
    at = names.at(peers) if len(peers) == 1 else ""
    moves = {Motion.SAME: ", and did not move between two samples", Motion.COMPUTES: ", and computes"}
    lock = names.lock(peer) if len(peers) == 1 else ""
    return f"{verb} {names.does(peer)}{at}{moves.get(analysis.motions[peer], '')}{lock}"


def _end_python(case: Case, processes: Iterable[int]) -> bool:
    """Return whether processes are all where their Python interpreters end."""
    return all(ends_python(case.analysis.waits.of_process[process].stack) for process in processes)
