"""Who can go on in the end, and who can't: the wait-for graph, evaluated under one reading of what isn't known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mqs_dll.verdict.evidence import Evidence
from mqs_dll.verdict.graph import AndOrGraph, Components
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.results import WaitKind
from mqs_dll.verdict.states import ProcessWait, State, ThreadWait

if TYPE_CHECKING:
    from mqs_dll.verdict.analysis import Analysis


@dataclass
class Evaluation:
    """The wait-for graph, solved under one reading of what isn't known."""

    stuck: set[int]
    """Processes that can't go on."""
    unmet: dict[int, list[Need]]
    """By stuck process, its needs that can't be met."""
    in_progress: list[list[int]]
    """Processes that wait for each other inside one collective call, in which nobody is missing."""
    frees: Callable[[Iterable[Need]], int]
    """Returns how many stuck processes could go on if some needs were met."""


class Evaluator:
    """Makes an AND/OR graph of what processes wait for, and solves it.

    A proof reads what isn't known as if it let processes go on, a suspicion as if it didn't.
    """

    def __init__(self, analysis: Analysis, *, unknown: bool, apart_from: Collection[int] = ()) -> None:
        """Prepare it.

        Args:
            analysis: what is known of the job.
            unknown: whether what isn't known lets processes go on.
            apart_from: processes of which nothing is said; like one outside MPI they don't help others.
        """
        self._analysis = analysis
        self._unknown = unknown
        self._apart_from = apart_from
        self._processes = analysis.waits.of_process
        self._graph = AndOrGraph(len(self._processes))
        self._shared: dict[tuple[tuple[int | None, ...], bool], int] = {}
        self._need_nodes: dict[int, list[tuple[Need, int]]] = {}

    def solve(self) -> Evaluation:
        """Return who is stuck.

        A collective in progress ends by itself, but each of its processes waits for others of it. So it is searched for
        among those who seem stuck, and released, until there is none left:

            free -> fixpoint -> unmet needs -> strongly connected components -> collectives in progress
              ^                                                                          |
              +------------------------------- released ---------------------------------+
        """
        free = {process for process in range(len(self._processes)) if self._holds(self._analysis.goes_on(process))}
        unasked = {*free, *self._apart_from}
        candidates = [
            process for process, wait in enumerate(self._processes) if process not in unasked and _waits(wait)
        ]
        for process in candidates:
            self._need_nodes[process] = []
            self._graph.set(process, 1, [self._thread(process, thread) for thread in self._processes[process].threads])
        in_progress: list[list[int]] = []
        while True:
            unmet = self._unmet(candidates, free)
            components = Components(unmet, len(self._processes)).all
            released = [component for component in components if self._is_in_progress(component, unmet)]
            if not released:
                return Evaluation({*unmet}, unmet, in_progress, partial(self._frees, free, unmet))
            in_progress += released
            free.update(process for component in released for process in component)

    def _unmet(self, candidates: Iterable[int], free: Collection[int]) -> dict[int, list[Need]]:
        """Return the needs that can't be met of those candidates that can't go on, if some processes are free."""
        live = self._graph.fixpoint(free)
        return {
            process: [need for need, node in self._need_nodes[process] if not live[node]]
            for process in candidates
            if not live[process]
        }

    def _frees(self, free: Collection[int], unmet: Mapping[int, list[Need]], met: Iterable[Need]) -> int:
        """Return how many of the processes with unmet needs could go on if some needs were met."""
        met = {*met}
        nodes = [node for process in unmet for need, node in self._need_nodes[process] if need in met]
        live = self._graph.fixpoint([*free, *nodes])
        return sum(live[process] for process in unmet)

    def _is_in_progress(self, component: Sequence[int], unmet: Mapping[int, list[Need]]) -> bool:
        """Return whether processes wait for each other only inside one collective call: that ends by itself.

        A sample shows one moment of the call's traffic, and a loop over such a call may appear the same every time.
        """
        within = {*component}
        if len(within) == 1 or not all(_is_inside(need, within) for process in component for need in unmet[process]):
            return False
        waits = [
            (thread, need)
            for process in component
            for thread in self._processes[process].threads
            for need in thread.needs
        ]
        calls = {(need.what, thread.communicator) for thread, need in waits}
        return len(calls) == 1 and not self._analysis.disagree(component, calls.pop()[0])

    def _thread(self, process: int, thread: ThreadWait) -> int:
        needs = [self._need(process, need) for need in thread.needs]
        also = [self._need(process, need) for need in thread.also]
        count = len(needs) if self._needs_all(thread) else 1
        parts = [self._graph.add(count, needs), *also]
        if thread.either:
            parts.append(self._graph.add(1, [self._need(process, need) for need in thread.either]))
        return self._graph.add(len(parts), parts)

    def _need(self, process: int, need: Need) -> int:
        if self._holds(self._analysis.satisfied(process, need)):
            node = self._graph.add(0, ())
        elif len(need.peers) == 1 and need.peers[0] is not None:
            node = self._graph.add(1, (need.peers[0],))
        else:
            node = self._graph.add(1, (self._group(need.peers, need.all_of),))
        self._need_nodes[process].append((need, node))
        return node

    def _group(self, peers: tuple[int | None, ...], all_of: bool) -> int:
        """Return the node of a set of processes; one for all who wait for the same set."""
        if (peers, all_of) not in self._shared:
            known = [peer for peer in peers if peer is not None] if peers else range(len(self._processes))
            self._shared[peers, all_of] = self._graph.add(len(known) if all_of else 1, known)
        return self._shared[peers, all_of]

    def _needs_all(self, thread: ThreadWait) -> bool:
        """Return whether a thread needs all that it may wait for; where that isn't known, a proof lets one do."""
        return thread.needs_all.read(unknown=not self._unknown)

    def _holds(self, evidence: Evidence) -> bool:
        return evidence.read(unknown=self._unknown)


def _waits(wait: ProcessWait) -> bool:
    """Return whether it is known what a process waits for; not of what it would do if nothing kept it standing."""
    return bool(wait.threads) and wait.state is not State.STOPPED


def _is_inside(need: Need, processes: Collection[int]) -> bool:
    """Return whether a need is for traffic of a collective call that some processes may have among themselves."""
    waits_for_other = len(need.peers) == 1 and need.peers[0] not in processes
    return need.kind is WaitKind.COLLECTIVE and not need.all_of and not waits_for_other
