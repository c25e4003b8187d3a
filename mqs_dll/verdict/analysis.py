"""Who can never go on: the wait-for graph of a job, solved once for proofs and once for suspicions."""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.job.records import Job
from mqs_dll.job.shared import Shared
from mqs_dll.verdict.answers import may_be_answered
from mqs_dll.verdict.delivery import undelivered, waits_for_parts
from mqs_dll.verdict.evaluation import Evaluator
from mqs_dll.verdict.evidence import Evidence, unknown_if
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.needs import Need
from mqs_dll.verdict.progress import SECONDS_UNDER_WAY, Motion, motion, standing, stayed
from mqs_dll.verdict.results import Certainty, WaitKind
from mqs_dll.verdict.roots import Roots
from mqs_dll.verdict.states import State
from mqs_dll.verdict.waits import Waits


class Analysis:
    """A job, joined, with what each process waits for, and who is stuck."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.joined = Joined(job)
        self.communicators = self.joined.communicators
        self.roots = Roots(self.joined)
        self.motions = [motion(process) for process in job.processes]
        self.cut = {
            index
            for index, process in enumerate(job.processes)
            if process.samples and process.samples[-1].snapshot.is_broken
        }
        """Processes of which a list breaks off: what is missing may match anything that others have."""
        self.waits = Waits(self.joined)
        self._by_network = job.by_network
        self._quiet: dict[int, bool] = {}
        self._arrived: dict[tuple[int | None, ...] | None, bool] = {}
        self._known_peers: dict[tuple[int | None, ...], Shared[int]] = {}
        still = [index for index, each in enumerate(job.processes) if self.stood_still(index) and stayed(each)]
        self.undelivered = undelivered(self.joined, self.waits.of_process, still)
        self.unmoved = {need for each in self.undelivered for need in (each.send, each.receive)}
        """Needs that are satisfied as soon as something moves, which it didn't in any sample."""
        of_still = (need for index in still for thread in self.waits.of_process[index].threads for need in thread.needs)
        self.unmoved.update(need for need in of_still if (need.moves and need.peers) or waits_for_parts(need))
        self.proved = Evaluator(self, unknown=True).solve()
        asking = may_be_answered(self.waits.of_process, self.motions, self._is_counted)
        self.suspected = Evaluator(self, unknown=False, apart_from=asking).solve()
        self.suspected.stuck -= self.proved.stuck
        self.unclear = asking & Evaluator(self, unknown=False).solve().stuck if asking else asking
        """Processes that ask for something again and again: they are stuck, or were answered between the samples."""
        self.stuck = sorted(self.proved.stuck | self.suspected.stuck)
        """Processes that are proved or suspected to be stuck."""

    def stood_still(self, process: int) -> bool:
        """Return whether a process was surely in one and the same call from one sample to the next.

        A loop may make the same call again and again, and appear the same in every sample, with a message under way
        each time. That is ruled out where its returns were watched for, or where its operations are numbered.
        """
        if self.motions[process] is not Motion.SAME:
            return False
        return self.job.processes[process].samples[-1].watched or self._is_counted(process)

    def stood_for(self, process: int) -> float:
        """Return for how many seconds before its last sample a process was surely in one and the same call."""
        if not self.stood_still(process):
            return 0.0
        stood = self.job.processes[process]
        return standing(stood, watched=False) if self._is_counted(process) else stood.samples[-1].watched_for

    def _is_counted(self, process: int) -> bool:
        """Return whether each call that a process is in has an operation with a number of its own."""
        return all(
            any(need.pending is not None and need.pending.words.counted for need in thread.needs)
            for thread in self.waits.of_process[process].threads
        )

    def has_arrived(self, process: int, need: Need) -> bool:
        """Return whether no message for a need can be under way any more: who could send stood for too long.

        A process that has exited is taken for one that did long ago: nothing of it is known since.
        """
        if not self._by_network:
            return True
        key = need.peers if need.peers else None
        if key not in self._arrived:
            peers = range(len(self.motions)) if key is None else self.known_peers(need)
            self._arrived[key] = all(map(self._is_quiet, peers))
        return self._is_quiet(process) and self._arrived[key]

    def _is_quiet(self, index: int) -> bool:
        """Return whether a process has sent nothing for as long as a message may take to another one."""
        process = self.job.processes[index]
        if not process.samples:
            return True
        if index not in self._quiet:
            watched = not self._is_counted(index)
            self._quiet[index] = standing(process, watched=watched) >= SECONDS_UNDER_WAY
        return self._quiet[index]

    # ------------------------------------------------------------ evidence

    def goes_on(self, process: int) -> Evidence:
        """Return whether a process goes on whatever it waits for: NO where only what satisfies its needs helps."""
        wait = self.waits.of_process[process]
        if wait.state is State.GONE:
            return Evidence.NO
        if self.motions[process] is Motion.CHANGED:
            return Evidence.YES
        is_known = self.job.stopped and not self.sees_calls_only(process) and process not in self.cut
        return unknown_if(not is_known or wait.state is not State.BLOCKED or wait.free_thread)

    def satisfied(self, process: int, need: Need) -> Evidence:
        """Return whether a need of a process is satisfied without its peers, as all samples together show.

        What is under way may satisfy it where nobody knows that it has come. A send to a process that is stopped
        doesn't end by itself though its receive is there; nor does what matches, and did not move.
        """
        if need.satisfied is Evidence.YES:
            to_stopped = need.kind is WaitKind.SEND and any(
                peer is not None and self.state(peer) is State.STOPPED for peer in need.peers[:1]
            )
            return Evidence.UNKNOWN if to_stopped or need in self.unmoved else Evidence.YES
        has_come = need.delivery_confirmed or (self.stood_still(process) and self.has_arrived(process, need))
        return need.satisfied | unknown_if(not has_come)

    # ------------------------------------------------------------ what else is known of processes

    def sees_calls_only(self, process: int) -> bool:
        """Return whether no library could read a process: its call alone proves nothing."""
        samples = self.job.processes[process].samples
        return bool(samples) and samples[-1].snapshot.calls_only

    def disagree(self, part: Sequence[int], call: str) -> bool:
        """Return whether processes that wait for each other in a call can't do so if all have the same root: in a tree.

        Who is in an earlier one of two such calls never waits for who is in the later one, so it is the same call.
        """
        if not all(map(self.stood_still, part)):
            return False
        given = {self.roots.given(process, call) for process in part}
        several = len(given - {None}) > 1
        return several or all(self.roots.is_in_tree(process, call) for process in part)

    def certainty(self, process: int) -> Certainty | None:
        """Return PROVED or SUSPECTED for a process that is stuck, else None."""
        if process in self.proved.stuck:
            return Certainty.PROVED
        return Certainty.SUSPECTED if process in self.suspected.stuck else None

    def unmet(self, process: int) -> list[Need]:
        """Return what a stuck process waits for in vain."""
        return self.proved.unmet.get(process) or self.suspected.unmet.get(process, [])

    def known_peers(self, need: Need) -> tuple[int, ...]:
        """Return the peers of a need that are known; the same tuple for all who wait for the same set.

        Of a message that the MPI has lost sight of it is the sender, who can do nothing about it.
        """
        if need.pending is not None and need.pending.words.forgotten:
            return () if need.pending.peer is None else (need.pending.peer,)
        if need.peers not in self._known_peers:
            self._known_peers[need.peers] = Shared(peer for peer in need.peers if peer is not None)
        return self._known_peers[need.peers]

    def state(self, process: int) -> State:
        """Return what a process does."""
        return self.waits.of_process[process].state
