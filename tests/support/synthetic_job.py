"""Made-up jobs of thousands of ranks that hang, each in two looks: what a verdict copes with on a large machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqs_dll.debugger.job.records import Job
from tests.support.made_up_job import (
    ANY,
    IRECV,
    Comm,
    Pending,
    Rank,
    collective,
    communicator,
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
    """Return a job whose ranks are in the same state in two looks.

    Args:
        size: how many.
        state: gives the MPI call of a rank, and what is pending in it.
        comm: a communicator of all.
    """
    return job(*(_still(number, *state(number)) for number in range(size)), communicators=[comm])


def _still(number: int, call: str | None, operations: list[Pending]) -> Rank:
    facts: dict[str, Any] = {"call": call, "where": "solver.c:42"}
    return rank(number, *operations, earlier=rank(number, *operations, **facts), **facts)
