"""What one rank's snapshot, or the failure to take one, says of its job."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from mqs_dll.contract.errors import FinalizedError, MqsError, NoSuchProcessError, NotInitializedError
from mqs_dll.job.records import JobProcess, RankState
from mqs_dll.job.snapshot import Hidden, Snapshot

MAX_RANKS = 1 << 24
"""More than any job has: a process, or a file, that claims them is not believed, and loops over ranks end."""

MAX_MISSING = 1 << 17
"""Ranks of a job that nobody found and that are listed all the same: the size of MPI_COMM_WORLD may be nonsense, and a
record of each takes memory."""

_WORLD = b"MPI_COMM_WORLD"


IS_ALONE = "has an MPI_COMM_WORLD of its own, as has"
"""Why a process can't be distinguished from another one that its launcher has started: each is rank 0 of 1."""


class Obstacle(NamedTuple):
    """What is in the way of reading a rank."""

    state: RankState
    why: str
    remedy: str
    """Empty where nothing helps."""


def explain(error: MqsError) -> Obstacle:
    """Return what an error makes of a rank."""
    if isinstance(error, NoSuchProcessError):
        return Obstacle(RankState.EXITED, str(error), "")
    if isinstance(error, NotInitializedError):
        return Obstacle(RankState.NOT_INITIALIZED, str(error), "")
    if isinstance(error, FinalizedError):
        return Obstacle(RankState.FINALIZED, str(error), "")
    hidden = Hidden.by(error)
    return Obstacle(RankState.UNREADABLE, hidden.reason, hidden.remedy)


def without_node(process: JobProcess) -> str:
    """Return why a process could not be read, in words that are the same on all nodes with the same reason."""
    if not process.host:
        return process.why
    return re.sub(rf"(?<![\w.-]){re.escape(process.host)}(?![\w-])", "its node", process.why)


def missing_ranks(worlds: Iterable[tuple[int | None, Container[int | None]]]) -> list[list[int]]:
    """Return the ranks that worlds have and nobody found, those of all worlds together up to a bound.

    Args:
        worlds: of each the size, None where it isn't known, and the ranks that are known.
    """
    left = MAX_MISSING
    found = []
    for size, known in worlds:
        found.append(list(islice((rank for rank in range(size or 0) if rank not in known), left)))
        left -= len(found[-1])
    return found


def world_rank(snapshot: Snapshot) -> int | None:
    """Return the rank in MPI_COMM_WORLD as the process's memory has it, None where it isn't there."""
    rank = snapshot.global_rank
    if rank is None:  # a vendor's library
        named = [each.communicator for each in snapshot.communicators if each.communicator.name == _WORLD]
        rank = named[0].local_rank if named else None
    return rank if rank is not None and 0 <= rank < MAX_RANKS else None


def world_size(snapshot: Snapshot) -> int | None:
    """Return the size of MPI_COMM_WORLD, which may have been renamed; None where it isn't known.

    It is the largest communicator whose local ranks are those of MPI_COMM_WORLD.
    """
    sizes = [
        each.communicator.size
        for each in snapshot.communicators
        if each.communicator.name == _WORLD or each.communicator.size == _in_order(each.group)
    ]
    size = max(sizes, default=0)
    return size if 0 < size <= MAX_RANKS else None


@lru_cache(maxsize=256)
def _in_order(group: tuple[int, ...] | Hidden) -> int | None:
    """Return the length of a group that is 0, 1, 2, ..., else None; a thousand nodes have the same group."""
    return len(group) if isinstance(group, tuple) and group == tuple(range(len(group))) else None


def sizes_by_handle(snapshot: Snapshot) -> dict[int, int]:
    """Return the sizes of a process's intra-communicators by their handles, as the program has them."""
    own = (each for each in snapshot.communicators if each.handle and each.label.remote is None)
    return {each.handle: each.communicator.size for each in own}


def mpi_name(snapshot: Snapshot) -> str:
    """Return the MPI as the library calls it: "Open MPI 4.1.4, pml/ob1"."""
    return snapshot.process_message.partition("; ")[0]
