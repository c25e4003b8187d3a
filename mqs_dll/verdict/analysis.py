"""Who can never go on: the wait-for graph of a job, solved once for proofs and once for suspicions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqs_dll.debugger.job.records import Job
from mqs_dll.debugger.job.shared import Shared
from mqs_dll.verdict.delivery import undelivered, waits_for_parts
from mqs_dll.verdict.graph import Gates
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.parts import Parts
from mqs_dll.verdict.progress import Motion, motion, stayed
from mqs_dll.verdict.results import Certainty, Mode, WaitKind
from mqs_dll.verdict.roots import Roots
from mqs_dll.verdict.states import ProcessWait, State, ThreadWait
from mqs_dll.verdict.waits import Waits


@dataclass
class Solution:
    """The wait-for graph, solved under one way of looking at what isn't known."""

    stuck: set[int]
    """Processes that can't go on."""
    unmet: dict[int, list[Need]]
    """By stuck process, its needs that can't be met."""
    turning: list[list[int]]
    """Processes that wait for each other inside one collective call, in which nobody is missing."""


class Analysis:
    """A job, joined, with what each process waits for, and who is stuck."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.joined = Joined(job)
        self.communicators = self.joined.communicators
        self.roots = Roots(self.joined)
        self.motions = [motion(process) for process in job.processes]
        self.waits = Waits(self.joined)
        still = [place for place, each in enumerate(job.processes) if self.stood_still(place) and stayed(each)]
        self.undelivered = undelivered(self.joined, self.waits.of_process, still)
        self.unmoved = {need for each in self.undelivered for need in (each.send, each.receive)}
        """Needs that are met as soon as something moves, which it didn't in any sample."""
        of_still = (need for place in still for thread in self.waits.of_process[place].threads for need in thread.needs)
        self.unmoved.update(need for need in of_still if (need.moves and need.peers) or waits_for_parts(need))
        self.proved = _Proof(self).solve()
        self.suspected = _Suspicion(self).solve()
        self.suspected.stuck -= self.proved.stuck
        self._known_peers: dict[tuple[int | None, ...], Shared[int]] = {}

    def stood_still(self, place: int) -> bool:
        """Tell whether a process was surely in one and the same call from one look to the next.

        A loop may make the same call again and again, and look the same in every look, with a message under way each
        time. That is ruled out where its returns were watched for, or where its operations are numbered.
        """
        if self.motions[place] is not Motion.SAME:
            return False
        threads = self.waits.of_process[place].threads
        return self.job.processes[place].samples[-1].watched or all(
            any(need.pending is not None and need.pending.words.counted for need in thread.needs) for thread in threads
        )

    def sees_calls_only(self, place: int) -> bool:
        """Tell whether no library could read a process: its call alone proves nothing."""
        samples = self.job.processes[place].samples
        return bool(samples) and samples[-1].snapshot.calls_only

    def disagree(self, part: Sequence[int], call: str) -> bool:
        """Tell whether processes that wait for each other in a call can't do so if all have the same root: in a tree.

        Who is in an earlier one of two such calls never waits for who is in the later one, so it is the same call.
        """
        if not all(map(self.stood_still, part)):
            return False
        given = {self.roots.given(place, call) for place in part}
        several = len(given - {None}) > 1
        return several or all(self.roots.is_in_tree(place, call) for place in part)

    def certainty(self, place: int) -> Certainty | None:
        """Return PROVED or SUSPECTED for a process that is stuck, else None."""
        if place in self.proved.stuck:
            return Certainty.PROVED
        return Certainty.SUSPECTED if place in self.suspected.stuck else None

    def unmet(self, place: int) -> list[Need]:
        """Return what a stuck process waits for in vain."""
        return self.proved.unmet.get(place) or self.suspected.unmet.get(place, [])

    def known_peers(self, need: Need) -> tuple[int, ...]:
        """Return the peers of a need that are known; the same tuple for all who wait for the same set.

        Of a message that the MPI has lost sight of it is the sender, who can do nothing about it.
        """
        if need.pending is not None and need.pending.words.forgotten:
            return () if need.pending.peer is None else (need.pending.peer,)
        if need.peers not in self._known_peers:
            self._known_peers[need.peers] = Shared(peer for peer in need.peers if peer is not None)
        return self._known_peers[need.peers]

    def state(self, place: int) -> State:
        """Return what a process does."""
        return self.waits.of_process[place].state


class _Graph:
    """Makes gates of the waits; subclasses say what is taken for granted."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._processes = analysis.waits.of_process
        self._gates = Gates(len(self._processes))
        self._shared: dict[tuple[tuple[int | None, ...], bool], int] = {}
        self._need_gates: dict[int, list[tuple[Need, int]]] = {}

    def solve(self) -> Solution:
        """Return who is stuck."""
        candidates = [place for place, wait in enumerate(self._processes) if self._may_be_stuck(place, wait)]
        for place in candidates:
            self._add(place, self._processes[place])
        free = {place for place in range(len(self._processes)) if self._is_free(place)}
        turning: list[list[int]] = []
        while True:
            live = self._gates.solve(free)
            unmet = {
                place: [need for need, gate in self._need_gates[place] if not live[gate]]
                for place in candidates
                if not live[place]
            }
            released = [part for part in Parts(unmet, len(self._processes)).all if self._turns(part, unmet)]
            if not released:
                return Solution({*unmet}, unmet, turning)
            turning += released
            free.update(place for part in released for place in part)

    def _turns(self, part: Sequence[int], unmet: dict[int, list[Need]]) -> bool:
        """Tell whether processes wait for each other only inside one collective call: that ends by itself.

        What one look shows of it is a moment of its traffic, and a loop over such a call may look the same every time.
        """
        calls: set[tuple[str, int | None]] = set()
        within = {*part}
        for place in part:
            threads = self._processes[place].threads
            calls.update((need.what, thread.communicator) for thread in threads for need in thread.needs)
            for need in unmet[place]:
                waits_for_other = len(need.peers) == 1 and need.peers[0] not in within
                if need.kind is not WaitKind.COLLECTIVE or need.every or waits_for_other:
                    return False
        return len(calls) == 1 and len(part) > 1 and not self._analysis.disagree(part, calls.pop()[0])

    def _add(self, place: int, wait: ProcessWait) -> None:
        self._need_gates[place] = []
        threads = [self._thread(place, thread) for thread in wait.threads]
        self._gates.set(place, 1, threads)

    def _thread(self, place: int, thread: ThreadWait) -> int:
        needs = [self._need(place, need) for need in thread.needs]
        also = [self._need(place, need) for need in thread.also]
        parts = [self._gates.add(self._count(thread), needs), *also]
        if thread.either:
            parts.append(self._gates.add(1, [self._need(place, need) for need in thread.either]))
        return self._gates.add(len(parts), parts)

    def _need(self, place: int, need: Need) -> int:
        if self._is_met(place, need):
            gate = self._gates.add(0, ())
        elif len(need.peers) == 1 and need.peers[0] is not None:
            gate = self._gates.add(1, (need.peers[0],))
        else:
            gate = self._gates.add(1, (self._group(need.peers, need.every),))
        self._need_gates[place].append((need, gate))
        return gate

    def _group(self, peers: tuple[int | None, ...], every: bool) -> int:
        """Return the gate of a set of processes; one for all who wait for the same set."""
        if (peers, every) not in self._shared:
            known = [peer for peer in peers if peer is not None] if peers else range(len(self._processes))
            self._shared[peers, every] = self._gates.add(len(known) if every else 1, known)
        return self._shared[peers, every]

    def _may_be_stuck(self, place: int, wait: ProcessWait) -> bool:
        raise NotImplementedError

    def _is_free(self, place: int) -> bool:
        raise NotImplementedError

    def _is_met(self, place: int, need: Need) -> bool:
        raise NotImplementedError

    def _count(self, thread: ThreadWait) -> int:
        raise NotImplementedError


class _Proof(_Graph):
    """Whatever isn't known may let a process go on; and nothing is known of a job that ran while it was read."""

    def _may_be_stuck(self, place: int, wait: ProcessWait) -> bool:
        blocked = wait.state is State.BLOCKED and not wait.free_thread and not self._analysis.sees_calls_only(place)
        return blocked and self._analysis.job.stopped and self._analysis.motions[place] is not Motion.CHANGED

    def _is_free(self, place: int) -> bool:
        wait = self._processes[place]
        return wait.state is not State.GONE and not self._may_be_stuck(place, wait)

    def _is_met(self, place: int, need: Need) -> bool:
        moment = not need.lasting and not self._analysis.stood_still(place)
        return need.done or need.maybe or need.opened or moment

    def _count(self, thread: ThreadWait) -> int:
        return len(thread.needs) if thread.sure and thread.mode is Mode.ALL else 1


class _Suspicion(_Graph):
    """Whatever isn't known doesn't help; only who was seen to go on does, and those who wait for nobody else.

    A send to a process that is stopped doesn't end by itself, though its receive is there; nor does what matches, and
    did not move.
    """

    def _may_be_stuck(self, place: int, wait: ProcessWait) -> bool:
        return bool(wait.threads) and wait.state is not State.STOPPED

    def _is_free(self, place: int) -> bool:
        return self._analysis.motions[place] is Motion.CHANGED

    def _is_met(self, place: int, need: Need) -> bool:
        to_stopped = need.kind is WaitKind.SEND and any(
            peer is not None and self._processes[peer].state is State.STOPPED for peer in need.peers[:1]
        )
        return need.done and not to_stopped and need not in self._analysis.unmoved

    def _count(self, thread: ThreadWait) -> int:
        return 1 if thread.mode is Mode.ANY else len(thread.needs)
