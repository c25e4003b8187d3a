"""Ranks that were read one by one, from core files or by a debugger, put together as one Job.

A process has its rank in the MPI's memory, but not its job: every job has an MPI_COMM_WORLD, and they
are alike. What the launcher gave each process, its environment, distinguishes them, with most launchers. Where ranks
contradict each other, they are refused together: a verdict on two jobs at once would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mqs_dll.contract.errors import MixedRanksError
from mqs_dll.job.facts import missing_ranks
from mqs_dll.job.records import Job, JobProcess, RankState

if TYPE_CHECKING:
    from mqs_dll.debugger.job.find.markers import Marker


@dataclass(frozen=True)
class RankRead:
    """What is known of one rank."""

    name: str
    """What its user knows it by: the core file's path."""
    process: JobProcess
    command: str = ""
    marker: Marker | None = None
    size: int | None = None
    """Of its MPI_COMM_WORLD."""
    mpi: str = ""
    written: float = 0.0
    """When its core file was last written: seconds since the epoch."""


def put_together(ranks: Sequence[RankRead], *, title: str, source: str, taken: str, stopped: bool, absent: str) -> Job:
    """Return the job of some ranks, with a process for each of them, and for each rank that isn't among them.

    Args:
        ranks: what was read of each, once.
        title: the job's, where no rank has its command.
        source: Job.source.
        taken: when they were read, as ISO 8601 in UTC.
        stopped: whether all stood still while they were read.
        absent: a sentence: why a rank that must be there isn't among them.

    Raises:
        MixedRanksError: they are of several jobs, or two are of the same rank.
    """
    worlds = _worlds(ranks)
    sizes = tuple(_size(world) for world in worlds)
    return Job(
        title=next((each.command for each in ranks if each.command), title),
        source=source,
        host="",
        taken=taken,
        mpi=next((each.mpi for each in ranks if each.mpi), ""),
        launcher=None,
        stopped=stopped,
        stop_time=0.0,
        interval=0.0,
        sizes=sizes,
        processes=tuple(_processes(worlds, sizes, absent)),
    )


def _worlds(ranks: Sequence[RankRead]) -> list[list[RankRead]]:
    """Return the ranks by their MPI_COMM_WORLD, the one that the launcher started first.

    Raises:
        MixedRanksError: they are of several jobs.
    """
    marked = sorted({_key(each.marker) for each in ranks if each.marker}, key=lambda key: (key[0], len(key[1]), key[1]))
    first = {each.marker.job: each for each in ranks if each.marker}
    if len(first) > 1:
        one, another = list(first.values())[:2]
        raise MixedRanksError(f"{one.name} and {another.name} are of different jobs")
    keys = marked or [(False, "")]
    worlds: list[list[RankRead]] = [[] for _ in keys]
    for each in ranks:
        worlds[keys.index(_key(each.marker)) if each.marker else 0].append(each)
    return worlds


def _key(marker: Marker) -> tuple[bool, str]:
    return marker.spawned, marker.world


def _size(world: Sequence[RankRead]) -> int | None:
    """Return the size of an MPI_COMM_WORLD, None where no rank of it could be read.

    Raises:
        MixedRanksError: its ranks say different sizes.
    """
    known = [each for each in world if each.size is not None]
    for each in known[1:]:
        if each.size != known[0].size:
            raise MixedRanksError(
                f"{known[0].name} is of a job of {known[0].size} ranks and {each.name} of one of {each.size}"
            )
    return known[0].size if known else None


def _processes(worlds: Sequence[Sequence[RankRead]], sizes: Sequence[int | None], absent: str) -> Iterator[JobProcess]:
    all_by_rank = [_by_rank(world) for world in worlds]
    all_missing = missing_ranks(zip(sizes, all_by_rank, strict=True))
    for number, (world, by_rank, missing) in enumerate(zip(worlds, all_by_rank, all_missing, strict=True)):
        for rank in sorted([*by_rank, *missing]):
            if rank in by_rank:
                yield replace(by_rank[rank].process, world=number)
            else:
                yield JobProcess(number, rank, "", 0, "", RankState.UNREADABLE, absent, "", ())
        yield from (replace(each.process, world=number) for each in world if each.process.rank is None)


def _by_rank(world: Sequence[RankRead]) -> dict[int, RankRead]:
    found: dict[int, RankRead] = {}
    for each in world:
        rank = each.process.rank
        if rank is None:
            continue
        if rank in found:
            raise MixedRanksError(f"{found[rank].name} and {each.name} are both of rank {rank}")
        found[rank] = each
    return found
