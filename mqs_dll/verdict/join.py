"""The operations of a job, each with the process that it waits for, and with what could match it."""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, UNKNOWN, Operation, Queue, Status
from mqs_dll.contract.names import PART_WORDS
from mqs_dll.job.records import Job, JobProcess
from mqs_dll.job.snapshot import CommunicatorSnapshot, is_note, leaves_peer_open
from mqs_dll.verdict.called import Called
from mqs_dll.verdict.communicators import JobCommunicators, MemberBudget
from mqs_dll.verdict.matching import pair
from mqs_dll.verdict.order import set_other_ends, set_standings
from mqs_dll.verdict.pending import Pending


class Joined:
    """A job with its operations joined across its processes, as they were in the last sample."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.by_rank = _by_rank(job)
        self.communicators = JobCommunicators(job, self.by_rank, MemberBudget())
        self.overtaken: set[tuple[int, int, int]] = set()
        """By process, communicator and peer's rank (or any): a message is under way that later ones have overtaken."""
        self.whole: set[tuple[int, int]] = set()
        """Processes and channels: where all messages that lie there are known."""
        self.operations: list[list[Pending]] = [
            list(self._operations(index, process)) for index, process in enumerate(job.processes)
        ]
        """By process: its sends, receives and unexpected messages, notes left out; and what only its calls say."""
        called = Called(self.communicators)
        for index, process in enumerate(job.processes):
            called.add(index, process, self.operations[index])
        self.disputes = called.disputes
        self.to_process: list[list[Pending]] = [[] for _ in job.processes]
        """By process: the pending sends of others, and its own, that go to it."""
        for each in self.pending(Queue.SENDS):
            if each.peer is not None:
                self.to_process[each.peer].append(each)
        everything = [each for operations in self.operations for each in operations]
        self.under_way = set_standings(everything)
        """Senders, receivers and channels with messages under way that no queue has."""
        set_other_ends(everything, self.whole)
        pair(everything)

    def pending(self, queue: Queue) -> Iterator[Pending]:
        """Yield what is in one queue of all processes."""
        for operations in self.operations:
            for each in operations:
                if each.queue is queue:
                    yield each

    # ------------------------------------------------------------ what there is

    def _operations(self, index: int, process: JobProcess) -> Iterator[Pending]:
        if not process.samples:
            return
        snapshots = process.samples[-1].snapshot.communicators
        for communicator, snapshot in zip(self.communicators.of_process[index], snapshots, strict=True):
            yield from self._of_communicator(index, process.world, communicator, snapshot)

    def _of_communicator(
        self, process: int, world: int, communicator: int, snapshot: CommunicatorSnapshot
    ) -> Iterator[Pending]:
        for queue in snapshot.queues:
            if queue.queue is Queue.UNEXPECTED and queue.hidden is None and queue.broken is None:
                self.whole.add((process, self.communicators.channel(communicator)))
            for operation in queue.operations:
                if not is_note(queue.queue, operation):
                    yield self._pending(process, world, communicator, queue.queue, operation)
                elif operation.desired_local_rank >= 0:
                    for rank in (operation.desired_local_rank, INVALID_RANK):
                        self.overtaken.add((process, communicator, rank))

    def _pending(self, process: int, world: int, communicator: int, queue: Queue, operation: Operation) -> Pending:
        got = queue is Queue.RECEIVES and operation.status is not Status.PENDING
        rank = operation.desired_local_rank
        world_rank = operation.desired_global_rank
        if rank == INVALID_RANK and got:
            rank, world_rank = operation.actual_local_rank, operation.actual_global_rank
        tag = operation.desired_tag
        if (operation.tag_wild or tag == UNKNOWN) and got:
            tag = operation.actual_tag
        words = phrases.read(operation.extra_text)
        if self.communicators.all[communicator].description == PART_WORDS:
            words = words._replace(partitioned=True, internal=True)
        known_tag = tag != UNKNOWN and not (operation.tag_wild and not got)
        return Pending(
            process=process,
            communicator=communicator,
            channel=self.communicators.channel(communicator),
            queue=queue,
            status=operation.status,
            peer=self._peer(world, communicator, rank, world_rank),
            peer_rank=rank if rank >= 0 else None,
            any_source=rank == INVALID_RANK and leaves_peer_open(queue, operation),
            tag=tag if known_tag else None,
            any_tag=operation.tag_wild and not got,
            length=operation.desired_length if operation.desired_length >= 0 else None,
            arrived=operation.actual_length if got and operation.actual_length >= 0 else None,
            words=words,
        )

    def _peer(self, world: int, communicator: int, rank: int, world_rank: int) -> int | None:
        targets = self.communicators.targets(communicator)
        if targets is not None and 0 <= rank < len(targets) and targets[rank] is not None:
            return targets[rank]
        return self.by_rank.get((world, world_rank)) if world_rank >= 0 else None


def _by_rank(job: Job) -> dict[tuple[int, int], int]:
    """Return a job's processes by MPI_COMM_WORLD and rank."""
    return {(each.world, each.rank): process for process, each in enumerate(job.processes) if each.rank is not None}
