"""Whether a process went on between two samples.

One sample can't prove a deadlock. A message that is under way shows on neither side, and a job that is stopped rank
after rank nearly always has one. What stays the same in two samples, while everybody had time to answer, is a proof.
"""

from __future__ import annotations

import itertools
from enum import Enum

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Operation, Queue
from mqs_dll.job.calls import Blocks, what_ends
from mqs_dll.job.records import CallStack, Halt, JobProcess, Sample, in_mpi
from mqs_dll.job.snapshot import Hidden, QueueSnapshot

SECONDS_UNDER_WAY = 3.0
"""For as long a message between two machines counts as possibly under way, where nothing numbers it: TCP sends what was
lost again after 0.2, 0.6 and 1.4 s (RFC 6298 with Linux's least timeout of 200 ms), fabrics sooner."""

MAX_SLICES_ASLEEP = 5
"""Time slices of a thread that sleeps all the time between two samples: a stop wakes it, and it runs once more when it
is let go. Of 900 pairs of samples 890 had two, the others three; a loop of sleeps has one for each of them besides."""


class Motion(Enum):
    """What the last two samples of a process say together."""

    CHANGED = "went on"
    SAME = "did not go on"
    COMPUTES = "computes, and made no progress in MPI"
    """It is outside MPI, or asks MPI again and again whether something has happened; its operations are the same."""
    UNKNOWN = "seen once"
    """Or it had no chance to go on, because something else had stopped it."""


def halt_of(process: JobProcess) -> Halt | None:
    """Return what keeps a process standing, as its last sample has it; None where nothing does."""
    return process.samples[-1].halt if process.samples else None


def motion(process: JobProcess) -> Motion:
    """Return whether a process went on between its last two samples."""
    return Motion.UNKNOWN if len(process.samples) < 2 else _motion(*process.samples[-2:])


def stayed(process: JobProcess) -> bool:
    """Return whether a process did not go on between any two of its samples."""
    between = itertools.starmap(_motion, itertools.pairwise(process.samples))
    return len(process.samples) > 1 and all(each is Motion.SAME for each in between)


def standing(process: JobProcess, *, watched: bool) -> float:
    """Return for how many seconds before its last sample a process surely did not go on.

    Args:
        process: which one.
        watched: whether two samples that are the same prove nothing, unless it was watched between them.
    """
    seconds = 0.0
    for before, after in zip(process.samples[-2::-1], process.samples[:0:-1], strict=True):
        if _motion(before, after) is not Motion.SAME or (watched and not after.watched):
            break
        seconds = process.samples[-1].at - before.at
    return seconds


def _motion(before: Sample, after: Sample) -> Motion:
    if after.halt is not None:
        return Motion.UNKNOWN
    waited = not _is_free(before) and not any(map(_only_asks, _inside(before)))
    if (after.progressed and waited) or not _has_same_operations(before, after):
        return Motion.CHANGED  # where a thread only asks, it may be what came back: that is no progress
    moved = _moved(before, after)
    if not moved and _ran_outside(before, after):
        return Motion.COMPUTES
    if not moved:
        return Motion.SAME if before.halt is None else Motion.UNKNOWN
    inside = [*_inside(before), *_inside(after)]
    asking, waiting = ({each.thread for each in inside if _only_asks(each) is asks} for asks in (True, False))
    only_asked = moved <= asking - waiting or (_is_free(before) and _is_free(after))
    return Motion.COMPUTES if only_asked else Motion.CHANGED


def progressed_in(process: JobProcess) -> frozenset[str]:
    """Return the MPI calls that a process was in at the sample before, where it went on since, or was called back.

    It may have left them, or have something to pass on in them to those who are inside still.
    """
    if len(process.samples) < 2:
        return frozenset()
    before, after = (_inside(sample) for sample in process.samples[-2:])
    stood = motion(process) is Motion.SAME and all(stack.callback is None for stack in after)
    return frozenset() if stood else frozenset(stack.call for stack in before if stack.call is not None)


def polling(process: JobProcess) -> CallStack | None:
    """Return the call that a process makes again and again to ask for the same; None where it isn't seen to.

    It was in that call in two samples at least, each time from the same place with the same variables there, elsewhere
    at most outside MPI, and its operations were the same in all of them.
    """
    asking: list[CallStack] = []
    for before, after in itertools.pairwise(process.samples):
        if after.halt is not None or not (_is_free(before) and _is_free(after) and _has_same_operations(before, after)):
            return None
    for sample in process.samples:
        stacks = () if isinstance(sample.stacks, Hidden) else in_mpi(sample.stacks)
        asking += [stack for stack in stacks if stack.waits_in is not None]
    alike = {(stack.thread, stack.call, stack.caller, stack.fingerprint) for stack in asking}
    return asking[-1] if len(asking) > 1 and len(alike) == 1 and asking[-1].fingerprint else None


def _moved(before: Sample, after: Sample) -> set[int]:
    """Return the threads that are somewhere else; none where one of the two samples has no stacks."""
    if isinstance(before.stacks, Hidden) or isinstance(after.stacks, Hidden):
        return set()
    first, second = (
        {(stack.thread, stack.call, stack.fingerprint) for stack in in_mpi(stacks)}
        for stacks in (before.stacks, after.stacks)
    )
    return {thread for thread, _, _ in first ^ second}


def _ran_outside(before: Sample, after: Sample) -> bool:
    """Tell whether the main thread, outside MPI in both samples, ran between them: in a loop of sleeps, or computing.

    Where another thread waits in MPI it doesn't count: that one did not go on.
    """
    for each in (before, after):
        if isinstance(each.stacks, Hidden) or not _is_free(each) or any(stack.call for stack in each.stacks[:1]):
            return False
    return before.slices > 0 and after.slices - before.slices > MAX_SLICES_ASLEEP


def _inside(sample: Sample) -> list[CallStack]:
    """Return the stacks of threads that are in an MPI call."""
    stacks = () if isinstance(sample.stacks, Hidden) else sample.stacks
    return [stack for stack in stacks if stack.call is not None]


def _only_asks(stack: CallStack) -> bool:
    """Return whether a call only asks, or has called back: to come back from it is no progress."""
    return stack.waits_in is None or what_ends(stack.waits_in) is Blocks.POLLS


def _is_free(sample: Sample) -> bool:
    """Return whether no thread is in an MPI call but one that only asks, or that has called back."""
    return all(map(_only_asks, _inside(sample)))


def _has_same_operations(before: Sample, after: Sample) -> bool:
    if before.snapshot.communicators == after.snapshot.communicators:  # as nearly always: most of it is one object
        return True
    first, second = _queues(before), _queues(after)
    return [key for key, _ in first] == [key for key, _ in second] and all(
        _has_same(one, other) for (_, one), (_, other) in zip(first, second, strict=True)
    )


def _queues(sample: Sample) -> list[tuple[tuple[int, int], QueueSnapshot]]:
    """Return the sends and receives of a process; what lies unexpected in it is the doing of others."""
    return [
        ((each.communicator.unique_id, each.communicator.local_rank), queue)
        for each in sample.snapshot.communicators
        for queue in each.queues
        if queue.queue is not Queue.UNEXPECTED
    ]


def _has_same(before: QueueSnapshot, after: QueueSnapshot) -> bool:
    """Return whether a queue has the same operations; of one whose list breaks off, as far as both go."""
    first, second = before.operations, after.operations
    if before.broken or after.broken:
        both = min(len(first), len(second))
        first, second = first[:both], second[:both]
    return [*map(_own, first)] == [*map(_own, second)]


def _own(operation: Operation) -> Operation:
    """Return an operation with those lines alone that its own process changes."""
    own = phrases.own(operation.extra_text)
    return operation if len(own) == len(operation.extra_text) else operation._replace(extra_text=own)
