"""What all modules of findings need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from mqs_dll.job import calls
from mqs_dll.job.records import CORE_FILES, GDB, CallStack
from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.called import outside_of, stacks_of
from mqs_dll.verdict.collectives import Begun
from mqs_dll.verdict.evidence import Evidence
from mqs_dll.verdict.graph import StuckGraph
from mqs_dll.verdict.naming import Names
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.progress import SECONDS_UNDER_WAY, Motion
from mqs_dll.verdict.results import Cause, Certainty, Finding, WaitKind
from mqs_dll.verdict.states import State

TWICE = "Take two samples, with --samples 2: a message that is under way in the first has arrived by the second."
HELD = {
    CORE_FILES: "Core files are of different moments: what was under way then does not show in them.",
    GDB: "gdb stopped the ranks at different moments: continue all for a second, interrupt them, and sample again.",
}
LOOPS = (
    "A loop may look like this twice: sample again, or let mqs count what calls return "
    "(sysctl kernel.perf_event_paranoid=2, or run it as root)."
)
NOT_COUNTED = "A loop may look like this twice: without --no-count it can be proved."
CALLS = "No queue of this MPI can be read: this stands on the calls that the ranks are in, and proves nothing."
RUNNING = "The ranks ran while they were read: without --no-stop it can be proved."


_MAX_THREADS = 3
MAX_ASKED = 32
"""Findings of which it is asked whom they keep: each takes as long as to solve the graph."""


BY_NETWORK = (
    "A message between nodes may be under way for longer than the time between two samples: "
    f"with --interval {SECONDS_UNDER_WAY:g}s it can be proved."
)


class Case:
    """A job's analysis with names for what is in it, for those who write findings."""

    def __init__(self, analysis: Analysis, names: Names) -> None:
        self.analysis = analysis
        self.names = names
        self.begun = Begun(analysis.joined)
        self.graph = StuckGraph(
            {process: analysis.unmet(process) for process in analysis.stuck},
            {process: analysis.waits.of_process[process].threads for process in analysis.stuck},
            analysis.waits.gone,
            len(analysis.job.processes),
        )
        self._asked = 0

    def finding(
        self,
        cause: Cause,
        certainty: Certainty,
        sentence: str,
        advice: str,
        processes: Collection[int],
        communicator: int | None = None,
        *,
        ends: Collection[Need] = (),
    ) -> Finding:
        """Return a finding, its sentence with a capital letter; a suspicion says what would help to be sure.

        ``ends`` are the needs that would be met if what is found were otherwise.
        """
        if certainty is Certainty.SUSPECTED:
            advice = f"{advice} {self._doubt(processes)}".strip()
        sentence = sentence[:1].upper() + sentence[1:]
        distinct = tuple(dict.fromkeys(processes))
        return Finding(cause, certainty, sentence, advice, distinct, communicator, self._frees(certainty, ends))

    def _frees(self, certainty: Certainty, ends: Collection[Need]) -> int:
        """Return how many stuck processes could go on if some needs were met; asked for the first findings alone."""
        if not ends or certainty is Certainty.NOTED or self._asked >= MAX_ASKED:
            return 0
        self._asked += 1
        analysis = self.analysis
        return (analysis.proved if certainty is Certainty.PROVED else analysis.suspected).frees(ends)

    def differing(self, processes: Iterable[int], call: str | None) -> str:
        """Return "rank 0 has count 4, rank 1 has count 8" for processes in one call; empty where nothing differs.

        It covers what has to be the same on all of them (MPI 4.1): the root, which is a number except for those on its
        own side of an inter-communicator (section 6.2.3); count, datatype and operation of a reduction (section 6.9),
        and the count of MPI_Bcast, where the datatype is (section 6.4).
        """
        given = {name: self._given(processes, call, name) for name in ("count", "datatype", "op", "root")}
        if call is None or not calls.reduces(call):
            is_alike = call in ("MPI_Bcast", "MPI_Bcast_c") and len(given["datatype"]) == 1
            given = {name: given[name] for name in (("count", "root") if is_alike else ("root",))}
        return ", ".join(
            f"{self.names.ranks(those)} {'has' if len(those) == 1 else 'have'} {name} {value}"
            for name, by_value in given.items()
            if len(by_value) > 1
            for value, those in by_value.items()
        )

    def _given(self, processes: Iterable[int], call: str | None, name: str) -> dict[str, list[int]]:
        """Return who has given which value to an argument of a call."""
        by_value: defaultdict[str, list[int]] = defaultdict(list)
        for process in processes:
            for stack in stacks_of(self.analysis.job.processes[process]):
                argument = stack.argument(name) if stack.call == call else None
                if argument is None:
                    continue
                is_number = name in ("count", "root")
                if is_number == (not argument.called) and not (is_number and argument.value < 0):
                    by_value[argument.called or str(argument.value)].append(process)
        return by_value

    def _doubt(self, processes: Iterable[int]) -> str:
        """Return what keeps a finding from being proved, and what to do about it; empty where nothing helps."""
        analysis, job = self.analysis, self.analysis.job
        if any(job.processes[index].starts for index in processes):
            return ""
        for index in processes:
            if others := outside_of(job.processes[index]):
                threads = self._of_threads(index, others)
                return threads[:1].upper() + threads[1:]
            if analysis.state(index) is State.BLOCKED and not stacks_of(job.processes[index]):
                return f"The call stacks of {self.names.ranks([index])} can't be seen: a thread of it may go on."
            if analysis.state(index) is State.POLLS and analysis.certainty(index):
                asking = analysis.waits.of_process[index].call
                return (
                    f"{self.names.ranks([index]).capitalize()} asks by {asking} again and again, and may stop asking."
                )
            if call := self._unseen(index):
                return f"What {self.names.ranks([index])} waits for in {call} is in no queue: it may end."
            if index in analysis.cut:
                return (
                    f"Not all that {self.names.ranks([index])} has in its queues was listed: the rest may change this."
                )
        if job.source in HELD:
            return HELD[job.source]
        if any(map(analysis.sees_calls_only, processes)):
            return CALLS
        if not job.stopped:
            return RUNNING
        samples = max((len(process.samples) for process in job.processes), default=0)
        if samples < 2:
            return TWICE
        for index in processes:
            if guessed := [thread.call for thread in analysis.waits.of_process[index].threads if thread.guessed]:
                who = self.names.ranks([index])
                return f"Which requests {who} gave {guessed[0]} is not known: one may be in no queue, and end."
        equal = [index for index in processes if analysis.certainty(index) and analysis.motions[index] is Motion.SAME]
        if all(map(analysis.stood_still, equal)):
            unmet = [(index, need) for index in equal for need in analysis.unmet(index) if not need.delivery_confirmed]
            return "" if all(analysis.has_arrived(*each) for each in unmet) else BY_NETWORK
        return LOOPS if job.counted else NOT_COUNTED

    def _unseen(self, process: int) -> str:
        """Return the call in which a process waits for a request that no queue has; empty where it doesn't."""
        needs = [need for thread in self.analysis.waits.of_process[process].threads for need in thread.needs]
        unseen = [
            need
            for need in needs
            if need.kind is WaitKind.CALL and need.pending is None and need.satisfied is Evidence.UNKNOWN
        ]
        return next((need.what for need in unseen if calls.takes_requests(calls.what_ends(need.what))), "")

    def _of_threads(self, process: int, others: Sequence[CallStack]) -> str:
        """Return what threads outside MPI may do, and where they are: the first ones that can be determined."""
        where = dict.fromkeys(filter(None, map(self.names.where, others)))
        listed = ", ".join(f"at {each}" for each in list(where)[:_MAX_THREADS])
        threads = "threads" if len(others) > 1 else "a thread"
        return (
            f"{self.names.ranks([process])} has {threads} outside MPI{listed and f', {listed}'}, and it isn't known "
            f"what {'these' if len(others) > 1 else 'that'} may still do."
        )

    def unmet(self, processes: Iterable[int]) -> list[Need]:
        """Return what several stuck processes wait for in vain."""
        return [need for process in processes for need in self.analysis.unmet(process)]

    def certainty(self, processes: Iterable[int]) -> Certainty:
        """Return PROVED when all of some processes are proved to be stuck, else SUSPECTED."""
        proved = all(process in self.analysis.proved.stuck for process in processes)
        return Certainty.PROVED if proved else Certainty.SUSPECTED


def waits(processes: Iterable[int]) -> str:
    """Return the verb for some processes."""
    return "waits" if len({*processes}) == 1 else "wait"


def are(processes: Iterable[int]) -> str:
    """Return the verb for some processes."""
    return "is" if len({*processes}) == 1 else "are"
