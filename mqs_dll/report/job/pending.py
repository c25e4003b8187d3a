"""What is pending in a process, in words, whoever waits for it: its own sends and receives, and its collectives."""

from __future__ import annotations

from collections.abc import Iterator

from mqs_dll.abi import COLLECTIVE, Communicator, Operation, Queue, Status
from mqs_dll.debugger.job.records import JobProcess
from mqs_dll.debugger.snapshot import CommunicatorSnapshot
from mqs_dll.report.escape import printable
from mqs_dll.report.text import peer_words, tag_words

_WORLD = b"MPI_COMM_WORLD"
_DIRECTIONS = {Queue.SENDS: "send to", Queue.RECEIVES: "receive from"}


def pending(process: JobProcess) -> tuple[str, ...]:
    """Return what a process has begun and what isn't done yet, as it was seen last.

    Each is a phrase like "receive from rank 2 of 'halo', tag 7", or "MPI_Barrier on MPI_COMM_WORLD" for all parts of
    one collective operation.
    """
    shown = (each for sample in process.samples[-1:] for each in sample.snapshot.communicators)
    return tuple(dict.fromkeys(phrase for each in shown for phrase in _phrases(each)))


def _phrases(shown: CommunicatorSnapshot) -> Iterator[str]:
    for queue in shown.queues:
        for operation in queue.operations:
            if queue.queue in _DIRECTIONS and operation.status is not Status.COMPLETE:
                yield _phrase(queue.queue, operation, shown.communicator)


def _phrase(queue: Queue, operation: Operation, communicator: Communicator) -> str:
    name = _name(communicator)
    collective = next((line for line in operation.extra_text if line.startswith(COLLECTIVE.encode())), None)
    if collective is not None:
        return f"{printable(collective[len(COLLECTIVE) :]).partition(',')[0]} on {name}"
    peer = peer_words(queue, operation, operation.desired_local_rank, operation.actual_local_rank)
    rank = f"rank {peer}" if peer.isdigit() else f"{peer.partition(':')[0]} rank"
    return f"{_DIRECTIONS[queue]} {rank} of {name}, tag {tag_words(operation)}"


def _name(communicator: Communicator) -> str:
    if communicator.name == _WORLD:
        return printable(_WORLD)
    return f"'{printable(communicator.name)}'" if communicator.name else f"unnamed id {communicator.unique_id:#x}"
