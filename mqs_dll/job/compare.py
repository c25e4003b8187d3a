"""What differs between two jobs, or between one job and itself some time later.

Ranks are matched by their MPI_COMM_WORLD and rank in it, and compared as their last samples have them. What one of the
two jobs doesn't show is never said to have vanished: only what could be read in both is compared.

Addresses mean something within one process only. Where a rank is another process in the second job (the program was
started again), buffers and the handles of requests don't count.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from mqs_dll.contract.abi import Communicator, Label, Operation, Queue
from mqs_dll.job.changes import (
    CallChange,
    CommunicatorChange,
    FactChange,
    JobDiff,
    OperationChange,
    RankName,
    StateChange,
    VisibilityChange,
)
from mqs_dll.job.records import CallStack, Job, JobProcess
from mqs_dll.job.snapshot import QUEUES, CommunicatorSnapshot, Hidden, QueueSnapshot

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_ADDRESS = re.compile(rb"\b0x[0-9a-f]+")


Change = CallChange | CommunicatorChange | OperationChange | VisibilityChange


def compare(before: Job, after: Job) -> JobDiff:
    """Return what differs in the second of two jobs. Processes of unknown rank are left out."""
    first, second = _by_rank(before), _by_rank(after)
    names = sorted({*first, *second})
    both = [name for name in names if name in first and name in second]
    compared = [name for name in both if first[name].samples and second[name].samples]
    changes = [change for name in compared for change in _changes(name, first[name], second[name])]
    return JobDiff(
        facts=tuple(_fact_changes(before, after)),
        states=tuple(_state_changes(names, first, second)),
        calls=tuple(each for each in changes if isinstance(each, CallChange)),
        communicators=tuple(each for each in changes if isinstance(each, CommunicatorChange)),
        operations=tuple(each for each in changes if isinstance(each, OperationChange)),
        visibility=tuple(each for each in changes if isinstance(each, VisibilityChange)),
        compared=tuple(compared),
        restarted=tuple(name for name in compared if not _is_same_process(first[name], second[name])),
    )


def _by_rank(job: Job) -> dict[RankName, JobProcess]:
    return {RankName(each.world, each.rank): each for each in job.processes if each.rank is not None}


def _is_same_process(before: JobProcess, after: JobProcess) -> bool:
    return (before.host, before.pid) == (after.host, after.pid)


def _fact_changes(before: Job, after: Job) -> Iterator[FactChange]:
    pairs = [("the command line", before.title, after.title), ("the MPI", before.mpi, after.mpi)]
    for world in range(max(len(before.sizes), len(after.sizes))):
        sizes = (_size(before, world), _size(after, world))
        pairs.append((f"the size of MPI_COMM_WORLD no. {world}", *sizes))
    for what, one, other in pairs:
        if one != other:
            yield FactChange(what, one, other)


def _size(job: Job, world: int) -> str:
    if world >= len(job.sizes):
        return "none"
    size = job.sizes[world]
    return "not known" if size is None else str(size)


def _state_changes(
    names: Iterable[RankName], before: dict[RankName, JobProcess], after: dict[RankName, JobProcess]
) -> Iterator[StateChange]:
    for name in names:
        one = before[name].state if name in before else None
        other = after[name].state if name in after else None
        if one is not other:
            yield StateChange(name, one, other)


# ---------------------------------------------------------------- one rank


def _changes(name: RankName, before: JobProcess, after: JobProcess) -> Iterator[Change]:
    """Yield what differs in a rank that was read both times."""
    same_process = _is_same_process(before, after)
    one, other = before.samples[-1], after.samples[-1]
    yield from _call_changes(name, one.stacks, other.stacks)
    if one.snapshot.communicators == other.snapshot.communicators:
        return
    for was, now in _paired(one.snapshot.communicators, other.snapshot.communicators, same_process):
        yield from _communicator_changes(name, was, now, same_process)


def _call_changes(
    name: RankName, before: tuple[CallStack, ...] | Hidden, after: tuple[CallStack, ...] | Hidden
) -> Iterator[Change]:
    if isinstance(before, Hidden) or isinstance(after, Hidden):
        reasons = [each.reason if isinstance(each, Hidden) else None for each in (before, after)]
        if not _say_the_same(*reasons):
            yield VisibilityChange(name, "the call stacks", None, *reasons)
    elif before and after and _place(before[0]) != _place(after[0]):
        yield CallChange(name, _place(before[0]), _place(after[0]))


def _place(stack: CallStack) -> str:
    what = stack.call or "outside MPI"
    frame = stack.python or stack.caller
    if frame is None:
        return what
    function = f" in {frame.function}" if frame.function else ""
    line = "" if frame.file is None or frame.line is None else f" at {frame.file.rpartition('/')[2]}:{frame.line}"
    return f"{what}{function}{line}"


def _paired(
    before: Sequence[CommunicatorSnapshot], after: Sequence[CommunicatorSnapshot], same_process: bool
) -> Iterator[tuple[CommunicatorSnapshot | None, CommunicatorSnapshot | None]]:
    """Yield each communicator of a rank as it was and as it is, None where it isn't there.

    By number; a program that is started again may get other ones, and then by name.
    """
    lost, came = [], list(after)
    for was in before:
        now = _taken(came, was, lambda each: each.unique_id)
        if now is None:
            lost.append(was)
        else:
            yield was, now
    for was in lost:
        yield was, None if same_process else _taken(came, was, lambda each: each.name)
    for now in came:
        yield None, now


def _taken(
    candidates: list[CommunicatorSnapshot], wanted: CommunicatorSnapshot, key: Callable[[Communicator], Hashable]
) -> CommunicatorSnapshot | None:
    """Take what agrees in a key and in the members from the candidates: the number alone may be a later one's."""
    for place, each in enumerate(candidates):
        if key(each.communicator) == key(wanted.communicator) and _may_be_equal(each.group, wanted.group):
            return candidates.pop(place)
    return None


def _may_be_equal(group: tuple[int, ...] | Hidden, other: tuple[int, ...] | Hidden) -> bool:
    return isinstance(group, Hidden) or isinstance(other, Hidden) or group == other


def _communicator_changes(
    name: RankName, before: CommunicatorSnapshot | None, after: CommunicatorSnapshot | None, same_process: bool
) -> Iterator[Change]:
    known = after or before
    assert known is not None
    record = known.communicator
    names = [None if each is None else each.communicator.name for each in (before, after)]
    if _lasting(before) != _lasting(after):
        yield CommunicatorChange(name, record.unique_id, *names)
    for queue in Queue:
        yield from _queue_changes(name, record.name, _queue(before, queue), _queue(after, queue), same_process)


def _lasting(snapshot: CommunicatorSnapshot | None) -> Label | None:
    """Return what a communicator is called; the words for one without a name change with others' names."""
    return None if snapshot is None else snapshot.label._replace(description=b"")


def _queue(snapshot: CommunicatorSnapshot | None, queue: Queue) -> QueueSnapshot:
    """Return a queue; of a communicator that isn't there it is empty, and so is one that a library left out."""
    queues = () if snapshot is None else snapshot.queues
    return next((each for each in queues if each.queue is queue), QueueSnapshot(queue, ()))


def _queue_changes(
    name: RankName, communicator: bytes, before: QueueSnapshot, after: QueueSnapshot, same_process: bool
) -> Iterator[Change]:
    obstacles = _obstacle(before), _obstacle(after)
    if not _say_the_same(*obstacles):
        yield VisibilityChange(name, QUEUES[before.queue], communicator, *obstacles)
    for was, now in _matched(before.operations, after.operations, same_process):
        unseen = obstacles[0] if was is None else obstacles[1] if now is None else None
        if unseen is None:
            yield OperationChange(name, communicator, before.queue, was, now)


def _say_the_same(reason: str | None, other: str | None) -> bool:
    """Return whether two obstacles are one: PIDs, addresses and counts in them don't matter."""
    if reason is None or other is None:
        return reason is other
    return _NUMBER.sub("", reason) == _NUMBER.sub("", other)


def _obstacle(queue: QueueSnapshot) -> str | None:
    return queue.hidden.reason if queue.hidden else queue.broken


# ---------------------------------------------------------------- operations


def _matched(
    before: Sequence[Operation], after: Sequence[Operation], same_process: bool
) -> Iterator[tuple[Operation | None, Operation | None]]:
    """Yield operations that differ, as they were and as they are; those that are as before cancel each other out."""
    gone = _less(before, after, same_process)
    come = _less(after, before, same_process)
    waiting: defaultdict[Hashable, list[Operation]] = defaultdict(list)
    for operation in come:
        waiting[_key(operation, same_process)].append(operation)
    for operation in gone:
        partners = waiting[_key(operation, same_process)]
        yield operation, partners.pop(0) if partners else None
    for partners in waiting.values():
        for operation in partners:
            yield None, operation


def _less(operations: Iterable[Operation], others: Iterable[Operation], same_process: bool) -> list[Operation]:
    """Return the operations that the others don't have, or not as often."""
    counts = Counter(_comparable(other, same_process) for other in others)
    left = []
    for operation in operations:
        form = _comparable(operation, same_process)
        if counts[form] > 0:
            counts[form] -= 1
        else:
            left.append(operation)
    return left


def _comparable(operation: Operation, same_process: bool) -> Operation:
    """Return an operation without the addresses that mean nothing in another process."""
    if same_process:
        return operation
    return operation._replace(buffer=0, extra_text=tuple(_ADDRESS.sub(b"", line) for line in operation.extra_text))


def _key(operation: Operation, same_process: bool) -> Hashable:
    """Return what identifies an operation, however far it is."""
    return (
        operation.desired_local_rank,
        operation.desired_global_rank,
        operation.tag_wild,
        operation.desired_tag,
        operation.desired_length,
        operation.buffer if same_process else 0,
    )
