"""Made-up jobs of thousands of ranks that hang, each in two samples: what a verdict copes with on a large machine.

Ranks that wait alike differ as true ones do: in addresses, handles, what was read, and in MPI_COMM_SELF.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Operation
from mqs_dll.job.records import Argument, CallStack, Job, JobProcess, Sample
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from tests.support.made_up_job import (
    ANY,
    IRECV,
    Comm,
    Pending,
    Rank,
    collective,
    communicator,
    given,
    in_wait,
    job,
    rank,
    receive,
    unexpected,
)

HALO = "halo exchange"
WRONG_TAG, RIGHT_TAG = 7777, 7776


def ring(size: int) -> Job:
    """Return a job in which each rank waits for the message of the one before it."""
    comm = communicator("ring", range(size))
    return _job(size, lambda number: ("MPI_Recv", [receive((number - 1) % size, tag=5, on=comm)]), comm)


def any_source(size: int) -> Job:
    """Return a job in which each rank waits for any message of any other."""
    comm = communicator("work", range(size))
    return _job(size, lambda number: ("MPI_Recv", [receive(ANY, tag=1, on=comm)]), comm)


def barrier(size: int) -> Job:
    """Return a job in which all but one are in a barrier, as a tree of messages, and that one is outside MPI."""
    comm = communicator("all", range(size))
    straggler = size // 2

    def state(number: int) -> tuple[str | None, list[Pending]]:
        if number == straggler:
            return None, []
        return "MPI_Barrier", [collective("MPI_Barrier", source=(number + size // 2) % size, on=comm)]

    return _job(size, state, comm)


def halo(size: int) -> Job:
    """Return a job of a ring of neighbours, each in an exchange with both, one of which receives with a wrong tag.

    Whoever is nearer to that one waits for it, or for others that do: each has the message of its farther neighbour.
    """
    comm = communicator(HALO, range(size))
    wrong = size // 3

    def state(number: int) -> tuple[str, list[Pending]]:
        text = (IRECV, in_wait(1))
        before, after = (number - 1) % size, (number + 1) % size
        if number == wrong:
            late = receive(before, tag=WRONG_TAG, on=comm, text=text)
            return "MPI_Waitall", [late, unexpected(before, tag=RIGHT_TAG, on=comm)]
        nearer = after if (wrong - number) % size <= size // 2 else before
        return "MPI_Waitall", [receive(nearer, tag=RIGHT_TAG, on=comm, text=text)]

    return _job(size, state, comm)


SCENARIOS: dict[str, Callable[[int], Job]] = {
    "a ring of receives": ring,
    "receives from any source": any_source,
    "a barrier with one straggler": barrier,
    "a halo exchange with one wrong tag": halo,
}


def _job(size: int, state: Callable[[int], tuple[str | None, list[Pending]]], comm: Comm) -> Job:
    """Return a job whose ranks are in the same state in two samples.

    Args:
        size: how many.
        state: gives the MPI call of a rank, and what is pending in it.
        comm: a communicator of all.
    """
    made = job(*(_still(number, *state(number)) for number in range(size)), communicators=[comm])
    return replace(made, processes=tuple(map(_own, made.processes)))


def _still(number: int, call: str | None, operations: list[Pending]) -> Rank:
    itself = communicator("MPI_COMM_SELF", [number], unique_id=number << 40 | 1)
    facts: dict[str, Any] = {"call": call, "where": "solver.c:42", "member_of": [itself]}
    if call == "MPI_Recv":
        operation, on = operations[0].operation, operations[0].on
        source, tag = operation.desired_local_rank, operation.desired_tag
        facts["arguments"] = given(buf=operation.buffer, count=2, source=source, tag=tag, comm=on, status=0)
    return rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)


# ---------------------------------------------------------------- what no two processes have in common


def _own(process: JobProcess) -> JobProcess:
    """Return a process with addresses of its own, where the system put its heap and its stack."""
    own = zlib.crc32(b"%d" % process.pid)
    return replace(process, samples=tuple(_with_group(sample, process.pid, own) for sample in process.samples))


def _with_group(sample: Sample, pid: int, own: int) -> Sample:
    assert not isinstance(sample.stacks, Hidden)
    communicators = tuple(_communicator(each, own) for each in sample.snapshot.communicators)
    snapshot = replace(
        sample.snapshot, communicators=communicators, reads=13 + own % 5, bytes_read=4096 * (40 + own % 9)
    )
    return replace(sample, snapshot=snapshot, stacks=tuple(_stack(each, pid, own) for each in sample.stacks))


def _communicator(snapshot: CommunicatorSnapshot, own: int) -> CommunicatorSnapshot:
    queues = tuple(
        replace(queue, operations=tuple(_operation(each, own) for each in queue.operations))
        for queue in snapshot.queues
    )
    return replace(snapshot, queues=queues, handle=snapshot.handle + (own << 12))


def _operation(operation: Operation, own: int) -> Operation:
    made = operation.extra_text
    if made:  # of a message that has arrived nothing is said
        request = in_wait(1) if phrases.read(made).in_wait else phrases.request(0x5561, in_wait=False)
        lines = (
            line.encode() for line in ("MPI_INT x 2, 8 bytes", request.replace("0x5561", f"{own << 12 | 0x40:#x}"))
        )
        made = (*(line for line in made if not line.startswith(b"request ")), *lines)
    return operation._replace(buffer=operation.buffer + (own << 12), extra_text=made)


def _stack(stack: CallStack, pid: int, own: int) -> CallStack:
    arguments = tuple(_argument(each, own) for each in stack.arguments)
    frame = None if stack.call is None else (0x7FFC_0000_0F80 + (own << 12), 56)
    return replace(stack, thread=pid, fingerprint=f"{own:032x}", call_frame=frame, arguments=arguments)


def _argument(argument: Argument, own: int) -> Argument:
    is_address = argument.name in ("buf", "comm")
    return argument._replace(value=argument.value + (own << 12)) if is_address else argument
