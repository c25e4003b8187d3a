"""The arguments of the MPI calls that threads are in, in terms of the job.

Beside the queues they are a second source. Where a queue has the operation of a call, both have to agree, or neither is
believed. Where no queue has it, the arguments stand for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Queue, Status
from mqs_dll.contract.phrases import Words
from mqs_dll.job import calls
from mqs_dll.job.bindings import Role, parameters
from mqs_dll.job.calls import Blocks
from mqs_dll.job.records import Argument, CallStack, JobProcess, in_mpi
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.verdict.communicators import JobCommunicators
from mqs_dll.verdict.pending import Origin, Pending
from mqs_dll.verdict.progress import polling

ANY_SOURCE, ANY_TAG = "MPI_ANY_SOURCE", "MPI_ANY_TAG"

_RECEIVE = (Queue.RECEIVES, "source", "tag")
_OPERATIONS = {
    Blocks.SEND: ((Queue.SENDS, "dest", "tag"),),
    Blocks.RECEIVE: (_RECEIVE,),
    Blocks.PROBE: (_RECEIVE,),
    Blocks.BOTH: ((Queue.SENDS, "dest", "sendtag"), (Queue.RECEIVES, "source", "recvtag")),
}
"""What blocking calls do: in which queue it would be, and the parameters for the peer and the tag."""
_MADE_BY = {
    (Blocks.BOTH, Queue.SENDS): ("MPI_Send", "MPI_Isend"),
    (Blocks.BOTH, Queue.RECEIVES): ("MPI_Recv", "MPI_Irecv"),
}


@dataclass(frozen=True)
class Dispute:
    """A call and a queue that don't agree: a bug of libmqs's, in one of the two."""

    process: int
    stack: CallStack
    called: Pending
    """What the call says."""
    queued: tuple[Pending, ...]
    """What the queue has instead."""


def stacks_of(process: JobProcess) -> tuple[CallStack, ...]:
    """Return the main thread's stack and those of threads in MPI, in the last sample; empty where they aren't known."""
    return in_mpi(all_stacks_of(process))


def outside_of(process: JobProcess) -> tuple[CallStack, ...]:
    """Return the stacks of other threads in the last sample that are outside MPI and might call it."""
    return tuple(stack for stack in all_stacks_of(process)[1:] if stack.call is None)


def all_stacks_of(process: JobProcess) -> tuple[CallStack, ...]:
    """Return all stacks of the last sample; empty where they aren't known."""
    if not process.samples or isinstance(process.samples[-1].stacks, Hidden):
        return ()
    return process.samples[-1].stacks


def communicator_of(stack: CallStack, snapshots: Sequence[CommunicatorSnapshot]) -> int | None:
    """Return which of a process's communicators a call is on, by its index among them; None where that isn't known."""
    return _index_of(stack.argument(_communicator_parameter(stack.call or "")), [each.handle for each in snapshots])


def window_of(stack: CallStack, handles: Sequence[int]) -> int | None:
    """Return which of a process's windows a call is on, by its index among their handles; None if not known."""
    return _index_of(stack.argument("win"), handles)


@cache
def _communicator_parameter(call: str) -> str:
    """Return the name of the parameter of a call that is its communicator; empty where none is."""
    handles = (each.name for each in parameters(call) or () if each.role is Role.COMMUNICATOR and not each.pointers)
    return next(handles, "")


def _index_of(argument: Argument | None, handles: Sequence[int]) -> int | None:
    """Return the index of the object that an argument is a handle of; None where several have that handle."""
    if argument is None or handles.count(argument.value) != 1:
        return None
    return handles.index(argument.value)


class Called:
    """Adds to the operations of a job what its calls say."""

    def __init__(self, communicators: JobCommunicators) -> None:
        self._communicators = communicators
        self.disputes: list[Dispute] = []

    def add(self, index: int, process: JobProcess, operations: list[Pending]) -> None:
        """Mark those operations of a process that its calls wait for; add those that its queues don't have."""
        stacks = stacks_of(process)
        asking = polling(process)  # the last sample may find it between two calls
        for stack in stacks if asking is None or asking in stacks else (*stacks, asking):
            for called in self._of_call(index, process, stack):
                self._add(stack, called, operations)

    def _add(self, stack: CallStack, called: Pending, operations: list[Pending]) -> None:
        blocks = calls.polled(stack.call or "")
        made_by = _MADE_BY.get((blocks, called.queue), (stack.call or "",))
        queued = [each for each in operations if _may_be(each, called, made_by)]
        agreeing = [each for each in queued if _agree(each, called)]
        if agreeing:
            agreeing[-1].origin = Origin.BOTH
            is_its_own = len(agreeing) == 1 and not called.is_hidden  # else it may be another one's
            if agreeing[-1].peer_rank is None and is_its_own and called.queue is Queue.SENDS:
                agreeing[-1].peer, agreeing[-1].peer_rank = called.peer, called.peer_rank
        elif queued and called.queue is Queue.RECEIVES and not called.is_hidden:
            self.disputes.append(Dispute(called.process, stack, called, tuple(queued)))
        elif blocks is not Blocks.BOTH:  # of those one half may be done, which only its queue shows
            operations.append(called)

    def _of_call(self, index: int, process: JobProcess, stack: CallStack) -> Iterator[Pending]:
        """Yield what a call waits for, by its arguments alone."""
        call = (stack.call or "").removesuffix("_c")
        snapshots = process.samples[-1].snapshot.communicators
        known = communicator_of(stack, snapshots)
        if known is None:
            return
        communicator = self._communicators.of_process[index][known]
        for queue, peer_name, tag_name in _OPERATIONS.get(calls.polled(call), ()):
            peer, tag = stack.argument(peer_name), stack.argument(tag_name)
            if peer is None:
                continue
            rank = None if peer.called == ANY_SOURCE else peer.value
            if rank is not None and not self._communicators.is_target(communicator, rank):
                continue
            targets = self._communicators.targets(communicator)
            is_known = tag is not None and tag.called != ANY_TAG
            yield Pending(
                process=index,
                communicator=communicator,
                channel=self._communicators.channel(communicator),
                queue=queue,
                status=Status.PENDING,
                peer=targets[rank] if targets is not None and rank is not None and rank < len(targets) else None,
                peer_rank=rank,
                any_source=rank is None,
                tag=tag.value if tag is not None and is_known else None,
                any_tag=tag is not None and not is_known,
                length=None,
                arrived=None,
                words=Words(calls=(call,)),
                origin=Origin.CALL,
                is_hidden=may_be_hidden(process),
            )


def may_be_hidden(process: JobProcess, *, with_request: bool = False) -> bool:
    """Return whether operations of a process, or only those with a request, may be missing from its queues as read."""
    return any(
        queue.broken is not None
        or (queue.hidden is not None and not (with_request and phrases.hides_no_request(queue.hidden.reason)))
        for each in process.samples[-1].snapshot.communicators
        for queue in each.queues
    )


def _may_be(queued: Pending, called: Pending, made_by: Iterable[str]) -> bool:
    """Return whether an operation of a queue can be that of a call, whatever its peer and tag."""
    return (
        queued.queue is called.queue
        and queued.communicator == called.communicator
        and queued.status is not Status.COMPLETE
        and not queued.words.internal
        and not queued.words.cancelled
        and not queued.words.matched_message
        and queued.words.probe == called.words.probe
        and any(calls.may_be_made_by(queued.words.calls, name) for name in made_by)
    )


def _agree(queued: Pending, called: Pending) -> bool:
    """Return whether a queue and a call don't contradict each other; what either doesn't know is no contradiction."""
    source_known = queued.any_source or queued.peer_rank is not None
    tag_known = (queued.any_tag or queued.tag is not None) and (called.any_tag or called.tag is not None)
    if queued.status is not Status.PENDING:  # it has what has come, not what was asked for
        source_known = source_known and not called.any_source
        tag_known = tag_known and not called.any_tag
    same_source = (queued.any_source, queued.peer_rank) == (called.any_source, called.peer_rank)
    same_tag = (queued.any_tag, queued.tag) == (called.any_tag, called.tag)
    return (same_source or not source_known) and (same_tag or not tag_known)
