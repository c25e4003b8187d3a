"""What each process waits for: from the MPI call that it is in, and from the operations that are pending in it.

Where the call is known but not which of several operations it waits for, all of them are named, and ``sure`` is false:
a proof then takes any one of them for enough to go on, a suspicion asks for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mqs_dll.contract.abi import Queue, Status
from mqs_dll.contract.names import is_of_owner
from mqs_dll.job import calls
from mqs_dll.job.calls import Blocks
from mqs_dll.job.records import CallStack, JobProcess, RankState, in_mpi
from mqs_dll.job.snapshot import Hidden
from mqs_dll.verdict.called import communicator_of, may_be_hidden, outside_of, stacks_of
from mqs_dll.verdict.collectives import add_missing
from mqs_dll.verdict.communicators import MemberBudget
from mqs_dll.verdict.evidence import Evidence, unknown_if
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.needs import EVERYBODY, Need, Needs
from mqs_dll.verdict.pending import Origin, Pending, users
from mqs_dll.verdict.progress import halt_of, polling, progressed_in
from mqs_dll.verdict.results import Mode, WaitKind
from mqs_dll.verdict.states import ProcessWait, State, ThreadWait
from mqs_dll.verdict.windows import JobWindows

_NEVER_AGAIN = frozenset({RankState.EXITED, RankState.FINALIZED})


class Waits:
    """The waits of all processes of a job, in their last samples."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._communicators = joined.communicators
        processes = joined.job.processes
        self.gone = {index for index, process in enumerate(processes) if _is_gone(process)}
        self._needs = Needs(joined, self.gone)
        self._disputed = {each.process for each in joined.disputes}
        self.windows = JobWindows(
            joined.job, joined.by_rank, [stacks_of(process) for process in processes], MemberBudget()
        )
        self.of_process = [self._of(index, process) for index, process in enumerate(processes)]
        for process, wait in zip(processes, self.of_process, strict=True):
            if halt_of(process) is not None and wait.state is not State.GONE:
                wait.state = State.STOPPED
        add_missing(self._communicators, self.of_process, [progressed_in(process) for process in processes])
        self._doubt_those_who_just_ended()

    def _doubt_those_who_just_ended(self) -> None:
        """Let what was sent by processes that ended since the sample before be under way to those who wait for them."""
        ended = {process for process in self.gone if _has_just_ended(self._joined.job.processes[process])}
        doubtful: dict[tuple[int | None, ...], bool] = {EVERYBODY: bool(ended)}
        for need in (
            each for wait in self.of_process if ended for thread in wait.threads for each in thread.all_needs()
        ):
            if need.peers not in doubtful:
                doubtful[need.peers] = not ended.isdisjoint(need.peers)
            need.satisfied |= unknown_if(doubtful[need.peers] and not need.delivery_confirmed)

    # ------------------------------------------------------------ one process

    def _of(self, index: int, process: JobProcess) -> ProcessWait:
        stacks = stacks_of(process)
        main = stacks[0] if stacks else None
        if index in self.gone:
            return ProcessWait(State.GONE, main, [])
        if not process.samples:
            return ProcessWait(State.NOT_READ, process.starts[-1].stack if process.starts else None, [])
        if main is None:
            return replace(self._without_stack(index), free_thread=True)  # nor are its other threads seen
        inside = [stack for stack in stacks if stack.call is not None]
        blocked = [(stack, stack.waits_in) for stack in inside if stack.waits_in and _blocks(stack.waits_in)]
        asking = None if blocked else polling(process)
        if asking is not None and asking.call is not None:
            return ProcessWait(State.POLLS, asking, [self._thread(index, asking, asking.call, alone=True)])
        if not blocked:
            return ProcessWait(_state_in(inside), inside[0] if inside else main, [])
        threads = [self._thread(index, *each, alone=len(blocked) == 1) for each in blocked]
        free = main.call is None or len(blocked) < len(inside) or bool(outside_of(process))
        return ProcessWait(State.BLOCKED, blocked[0][0], threads, free)

    def _thread(self, process: int, stack: CallStack, call: str, *, alone: bool) -> ThreadWait:
        """Return what a thread waits for in its call, by the best source that there is.

        collective or one-sided call    rules of their own
        marks of Open MPI               the requests that a thread waits for
        arguments of the call           its requests, where the queues have all of them or surely lack one
        queues                          all operations that such a call may wait for
        """
        blocks = calls.polled(call)
        if blocks in calls.COLLECTIVE:
            return self._collective(process, call, stack)
        if blocks is Blocks.WINDOW:
            return ThreadWait(call, Mode.ALL, True, [self.windows.need(process, stack)])
        pending = [each for each in users(self._open(process)) if not each.words.detached]
        marked = [each for each in pending if each.words.in_wait]
        has_unseen = self._has_unseen_request(process, stack, blocks)
        if marked and alone and calls.takes_requests(blocks):
            may_have_unseen = has_unseen or (blocks is Blocks.SOME and not stack.requests)
            return self._marked(process, call, marked, _MODES[blocks], unseen=may_have_unseen)
        if has_unseen:
            return self._with_unseen_request(process, stack, call, blocks)
        if waited := self._requested(process, stack, blocks):
            mode = Mode.ALL if len(waited) == 1 else _REQUESTED[blocks]
            return ThreadWait(call, mode, True, [self._needs.of(each, call) for each in waited])
        named = [each for each in pending if each.origin is not Origin.QUEUE] if alone else []
        candidates = named or [*self._candidates(process, call, blocks, pending, alone=alone)]
        return self._of_candidates(
            process, call, candidates, guessed=calls.takes_requests(blocks) and not stack.requests
        )

    def _with_unseen_request(self, process: int, stack: CallStack, call: str, blocks: Blocks) -> ThreadWait:
        """Return the wait for the requests of a call of which no queue has one: for that one, and for the others."""
        open_ones = [each for each in self._of_requests(process, stack) if each.status is not Status.COMPLETE]
        part = self._part_of_message(process, call)
        unseen = part or self.windows.requested(process, call) or self._needs.of_call(process, call)
        needs = [self._needs.of(each, call) for each in open_ones]
        return ThreadWait(call, _REQUESTED[blocks], True, [*needs, unseen])

    def _of_candidates(self, process: int, call: str, candidates: Iterable[Pending], *, guessed: bool) -> ThreadWait:
        """Return the wait of a call for operations that it may wait for, and for those that may be missing from them.

        Args:
            process: of the process.
            call: the call.
            candidates: the sends and receives that it may wait for; nonblocking collective operations are added.
            guessed: whether it isn't known which requests the call was given.
        """
        blocks = calls.polled(call)
        takes_requests, may_miss = calls.takes_requests(blocks), self._may_miss(process, blocks)
        needs = [self._needs.of(each, call) for each in candidates]
        for need in needs:
            need.satisfied |= unknown_if(process in self._disputed)
        parts = self._parts_of_collectives(process) if takes_requests else []
        if not needs and not may_miss and len({(each.number, each.communicator) for each in parts}) == 1:
            return ThreadWait(call, Mode.ALL, True, parts, communicator=parts[0].communicator)
        needs += parts
        if not needs or (takes_requests and may_miss):
            moves_data = blocks is not Blocks.PROBE or may_miss
            needs.append(self._needs.of_call(process, call, moves_data=moves_data))
        mode = Mode.ALL if len(needs) == 1 else _MODES[blocks]
        sure = len(needs) == 1 or blocks is Blocks.SOME
        for need in needs:
            need.perhaps = takes_requests and not sure
            need.satisfied |= unknown_if(guessed)
        return ThreadWait(call, mode, sure, needs, guessed=guessed)

    def _marked(
        self, process: int, call: str | None, marked: Sequence[Pending], mode: Mode, *, unseen: bool = False
    ) -> ThreadWait:
        """Return the wait for requests that Open MPI says a thread waits for, and for how many of them.

        Those of nonblocking collective operations are not seen: where one request is enough, it may be one of these;
        or another one that no queue has, where the call was given such or it isn't known which ones it was given.
        """
        what = call or _call_of(marked[0])
        counts = {each.words.needs for each in marked}
        count = counts.pop() if len(counts) == 1 else None
        needs = [self._needs.of(each, what) for each in marked]
        if mode is Mode.ANY or call is None:
            needs += self._parts_of_collectives(process)
        if unseen:
            needs.append(self._needs.of_call(process, what))
        if count is not None:
            mode = Mode.ALL if count >= len(needs) else Mode.ANY if count == 1 else Mode.UNKNOWN
        return ThreadWait(call, mode, mode is not Mode.UNKNOWN, needs)

    def _requested(self, process: int, stack: CallStack, blocks: Blocks) -> list[Pending]:
        """Return the operations that a call waits for by its requests; none where not all of them are known.

        Nor where it has what it waits for: one of several that is complete.
        """
        found = self._of_requests(process, stack)
        waited = [each for each in found if each.status is not Status.COMPLETE]
        is_known = stack.requests == {each.words.request for each in found}
        return waited if is_known and (blocks is not Blocks.SOME or waited == found) else []

    def _of_requests(self, process: int, stack: CallStack) -> list[Pending]:
        """Return the operations whose requests a call was given."""
        handles = stack.requests
        return [each for each in users(self._joined.operations[process]) if each.words.request in handles]

    def _has_unseen_request(self, process: int, stack: CallStack, blocks: Blocks) -> bool:
        """Return whether a call waits for a request that no queue has, whatever else is pending.

        It may be a file's, a window's, or a generalized one. Nor is that of a nonblocking collective operation in a
        queue: where parts of one are, it may be that.
        """
        if not calls.takes_requests(blocks) or self._parts_of_collectives(process):
            return False
        own = [each for each in users(self._joined.operations[process]) if each.queue is not Queue.UNEXPECTED]
        if any(each.words.request is None and calls.may_have_request(each.words.calls) for each in own):
            return False  # one whose request isn't known
        return not stack.requests <= {each.words.request for each in own}

    def _part_of_message(self, process: int, call: str) -> Need | None:
        """Return what a partitioned receive waits for, whose parts alone are in a queue: the MPI's own receives."""
        for each in self._open(process):
            if each.words.partitioned and each.words.internal and each.queue is Queue.RECEIVES:
                need = self._needs.of(each, call)
                need.communicator = None
                need.satisfied |= Evidence.UNKNOWN
                return need
        return None

    def _candidates(
        self, process: int, call: str, blocks: Blocks, pending: list[Pending], *, alone: bool
    ) -> Iterable[Pending]:
        """Return the operations that a call may wait for; of several threads, each may have posted any of theirs."""
        last_posted = _last_posted if alone else list[Pending]
        if calls.takes_requests(blocks):
            yield from (each for each in pending if calls.may_have_request(each.words.calls))
            return
        if blocks in (Blocks.RECEIVE, Blocks.BOTH):
            calls_of = ("MPI_Recv", "MPI_Irecv") if blocks is Blocks.BOTH else (call,)
            yield from last_posted(
                each
                for each in pending
                if each.queue is Queue.RECEIVES and _made_by(each, calls_of) and not each.words.probe
            )
        if blocks in (Blocks.SEND, Blocks.BOTH):
            calls_of = ("MPI_Send", "MPI_Isend") if blocks is Blocks.BOTH else (call,)
            yield from last_posted(each for each in pending if each.queue is Queue.SENDS and _made_by(each, calls_of))
        if blocks is Blocks.PROBE:
            yield from (each for each in pending if each.words.probe and not each.words.matched_message)
        if call == "MPI_Mrecv":
            yield from (each for each in pending if each.words.matched_message)

    def _parts_of_collectives(self, process: int) -> list[Need]:
        """Return what the nonblocking collective operations of a process wait for; each needs all parts that it has."""
        return [self._needs.of_part(each) for each in self._open(process) if each.words.nonblocking is not None]

    def _open(self, process: int) -> list[Pending]:
        """Return the sends and receives of a process that are not complete."""
        return [
            each
            for each in self._joined.operations[process]
            if each.queue is not Queue.UNEXPECTED and each.status is not Status.COMPLETE
        ]

    def _may_miss(self, process: int, blocks: Blocks) -> bool:
        """Return whether operations that a call may wait for may be missing from what was read of its process."""
        return may_be_hidden(self._joined.job.processes[process], with_request=calls.takes_requests(blocks))

    def _without_stack(self, process: int) -> ProcessWait:
        """Return what a process waits for by its operations alone; those that may be nonblocking ones show nothing."""
        pending = [each for each in self._open(process) if not each.words.detached and not each.words.cancelled]
        marked = [each for each in pending if each.words.in_wait]
        if marked:
            return ProcessWait(State.BLOCKED, None, [self._marked(process, None, marked, Mode.UNKNOWN)])
        inside = [each for each in pending if each.words.collective and each.queue is Queue.RECEIVES]
        if inside:
            what = inside[0].words.collective or "a collective call"
            thread = self._collective(process, what, None)
            thread.call = None
            return ProcessWait(State.BLOCKED, None, [thread])
        blocking = [each for each in users(pending) if _blocks_for_sure(each)]
        if not blocking:
            return ProcessWait(State.IDLE, None, [])
        needs = [self._needs.of(each, _call_of(each)) for each in blocking]
        mode = Mode.ALL if len(needs) == 1 else Mode.UNKNOWN
        return ProcessWait(State.BLOCKED, None, [ThreadWait(None, mode, len(needs) == 1, needs)])

    # ------------------------------------------------------------ collective calls

    def _collective(self, process: int, call: str, stack: CallStack | None) -> ThreadWait:
        traffic = [each for each in self._open(process) if each.words.internal and not each.words.detached]
        blocking = [each for each in traffic if each.words.collective] or traffic
        needs = [self._needs.of(each, call, WaitKind.COLLECTIVE) for each in blocking]
        candidates = self._communicator_of(process, stack) or self._candidate_communicators(process, call, blocking)
        communicator = candidates[0] if len(candidates) == 1 else None
        if not needs:
            needs.append(self._needs.of_call(process, call, WaitKind.COLLECTIVE))
            needs[0].communicator = communicator
            if communicator is not None and not calls.reaches_beyond(call):
                needs[0].peers = self._communicators.targets(communicator) or EVERYBODY
        mode = Mode.ALL if len(needs) == 1 else Mode.UNKNOWN
        return ThreadWait(call, mode, len(needs) == 1, needs, communicator=communicator, candidates=candidates)

    def _communicator_of(self, process: int, stack: CallStack | None) -> tuple[int, ...]:
        """Return the communicator of a collective call by its arguments; empty where they don't have it."""
        snapshot = self._joined.job.processes[process].samples[-1].snapshot
        known = None if stack is None else communicator_of(stack, snapshot.communicators)
        return () if known is None else (self._communicators.of_process[process][known],)

    def _candidate_communicators(self, process: int, call: str, traffic: Sequence[Pending]) -> tuple[int, ...]:
        """Return the communicators that a collective call can be on: by its traffic, else all that have others in them.

        A call on a window or a file is on the communicator that the MPI keeps for that: only its traffic shows it.
        Where no library could list them, MPI_COMM_WORLD is one of any number.
        """
        if self._joined.job.processes[process].samples[-1].snapshot.calls_only:
            return ()
        everyone = self._communicators.all
        if not calls.names_communicator(call):
            owned = {each.communicator for each in traffic if is_of_owner(everyone[each.communicator].description)}
            return (owned.pop(),) if len(owned) == 1 else ()
        usual = [
            each
            for each in self._communicators.of_process[process]
            if not everyone[each].internal and (everyone[each].size > 1 or everyone[each].remote_size is not None)
        ]
        seen = {self._communicators.whole(each.communicator) for each in traffic}
        known = seen.intersection(usual)
        if len(known) == 1:
            return (known.pop(),)
        return () if seen else tuple(usual)


_REQUESTED = {Blocks.ONE: Mode.ALL, Blocks.EVERY: Mode.ALL, Blocks.SOME: Mode.ANY}
"""Of calls whose requests are known."""

_MODES = {
    Blocks.SEND: Mode.UNKNOWN,
    Blocks.RECEIVE: Mode.UNKNOWN,
    Blocks.PROBE: Mode.UNKNOWN,
    Blocks.BOTH: Mode.ALL,
    Blocks.ONE: Mode.UNKNOWN,
    Blocks.EVERY: Mode.ALL,
    Blocks.SOME: Mode.ANY,
}


def _is_gone(process: JobProcess) -> bool:
    return process.state in _NEVER_AGAIN or _is_ending(stacks_of(process))


def _has_just_ended(process: JobProcess) -> bool:
    """Return whether a process that is in MPI_Finalize was not yet there in the sample before."""
    stacks = process.samples[-2].stacks if len(process.samples) > 1 else ()
    return not isinstance(stacks, Hidden) and bool(stacks) and not _is_ending(in_mpi(stacks))


def _is_ending(stacks: Iterable[CallStack]) -> bool:
    within = (stack.waits_in for stack in stacks)
    return any(call is not None and calls.what_ends(call) is Blocks.END for call in within)


def _blocks(call: str) -> bool:
    return calls.what_ends(call) not in (Blocks.NOTHING, Blocks.POLLS, Blocks.UNKNOWN)


def _state_in(inside: Sequence[CallStack]) -> State:
    if not inside:
        return State.OUTSIDE
    polls = all(stack.call is not None and calls.what_ends(stack.call) is Blocks.POLLS for stack in inside)
    return State.POLLS if polls else State.IN_MPI


def _made_by(pending: Pending, names: Iterable[str]) -> bool:
    return any(calls.may_be_made_by(pending.words.calls, name) for name in names)


def _last_posted(operations: Iterable[Pending]) -> list[Pending]:
    """Return those that can be a blocking call's: it posted its operation last, and lists are in that order.

    Receives are listed by communicator, sends by communicator and receiver; what has its message may be listed before.
    """
    last: dict[tuple[int, Queue, int | None], Pending] = {}
    matched = []
    for each in operations:
        if each.status is Status.MATCHED:
            matched.append(each)
        else:
            peer = each.peer_rank if each.queue is Queue.SENDS else None
            last[each.communicator, each.queue, peer] = each
    return [*matched, *last.values()]


def _blocks_for_sure(pending: Pending) -> bool:
    """Return whether only a blocking call can have made an operation: not "MPI_Recv or MPI_Irecv"."""
    return pending.words.probe and not pending.words.matched_message


def _call_of(pending: Pending) -> str:
    """Return how to call an operation whose call isn't known."""
    names = pending.words.calls
    if pending.words.collective:
        return pending.words.collective
    return " or ".join(names[:2]) if names else "a send" if pending.queue is Queue.SENDS else "a receive"
