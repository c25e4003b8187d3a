"""What is pending in a process, in words, whoever waits for it: its own sends and receives, and its collectives."""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import INVALID_RANK, Operation, Queue, Status
from mqs_dll.contract.escape import printable
from mqs_dll.contract.names import called
from mqs_dll.job.records import JobProcess
from mqs_dll.job.snapshot import CommunicatorSnapshot
from mqs_dll.report.process_text import peer_words, tag_words

_WORLD = b"MPI_COMM_WORLD"
_DIRECTIONS = {Queue.SENDS: "send to", Queue.RECEIVES: "receive from"}


def pending(process: JobProcess) -> tuple[str, ...]:
    """Return what a process has started and what isn't done yet, as it was seen last.

    Each is a phrase like "receive from rank 2 of 'halo', tag 7", or "MPI_Barrier on MPI_COMM_WORLD" for all parts of
    one collective operation.
    """
    shown = (each for sample in process.samples[-1:] for each in sample.snapshot.communicators)
    return tuple(dict.fromkeys(phrase for each in shown for phrase in _phrases(each)))


def _phrases(shown: CommunicatorSnapshot) -> Iterator[str]:
    for queue in shown.queues:
        for operation in queue.operations:
            if queue.queue in _DIRECTIONS and operation.status is not Status.COMPLETE:
                yield _phrase(queue.queue, operation, shown)


def _phrase(queue: Queue, operation: Operation, communicator: CommunicatorSnapshot) -> str:
    name = _name(communicator)
    collective = phrases.read(operation.extra_text).collective
    if collective is not None:
        return f"{collective} on {name}"
    known = operation.desired_local_rank != INVALID_RANK
    rank = f"rank {operation.desired_local_rank}" if known else f"{peer_words(queue, operation)} rank"
    return f"{_DIRECTIONS[queue]} {rank} of {name}, tag {tag_words(operation)}"


def _name(communicator: CommunicatorSnapshot) -> str:
    label = communicator.label
    if label.name:
        return printable(_WORLD) if label.name == _WORLD else f"'{printable(label.name)}'"
    return f"{printable(called(label)) or 'unnamed'} id {communicator.communicator.unique_id:#x}"
