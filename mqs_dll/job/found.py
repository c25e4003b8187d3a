"""What finding a job gives: frozen records of what is to be read, and of what is known already not to be readable."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from mqs_dll.job.records import RankState


@dataclass(frozen=True, slots=True)
class FoundRank:
    """One rank of a job, as its launcher and its environment have it."""

    world: int
    """Which MPI_COMM_WORLD it belongs to: 0 is what the launcher started, others were spawned, in order of start."""
    rank: int | None
    """In its MPI_COMM_WORLD; None where only its memory has it."""
    pid: int
    """On ``host``; 0 where it isn't known."""
    program: str
    """The file that it runs, for a Python program the script."""
    host: str
    state: RankState | None = None
    """None for a rank that is to be read; else what is known without."""
    why: str = ""
    """A sentence: what is in the way of reading it; empty where nothing is."""
    remedy: str = ""
    """What to do about that; empty where nothing helps."""
    started: int | None = None
    """When the process was started (proc.Stat): the number may be another's by the time it is read. None where that
    isn't known."""


@dataclass(frozen=True, slots=True)
class FoundWorld:
    """One MPI_COMM_WORLD of a job."""

    size: int | None
    """As the launcher says; None where it doesn't."""
    here: bool
    """Whether the launcher started all of it on this machine, or on those that were searched, as far as it says."""
    key: str = field(default="", compare=False)
    """What its parts on all machines have in common."""
    local: int | None = field(default=None, compare=False)
    """How many of its ranks were started on this machine, where their environment says."""


@dataclass(frozen=True, slots=True)
class FoundJob:
    """One job: what a launcher started and what that spawned, or one program that nobody launched."""

    launcher: int | None
    """Its PID; None where there is none, or it has ended."""
    title: str
    """The launcher's command line, or the program's."""
    user: str
    """Whose it is: the name, or the number of a user who has none; empty where it isn't known."""
    started: float
    """When its launcher, or its oldest rank, was started: seconds since the epoch; 0 where it isn't known."""
    host: str
    """This machine's name."""
    worlds: tuple[FoundWorld, ...]
    """In order of start."""
    ranks: tuple[FoundRank, ...]
    """By world, then by rank."""
    members: frozenset[int]
    """The PIDs of its processes on this machine: ranks, what is between them and the launcher, launcher, daemons, what
    ranks have started."""
    marks: frozenset[str] = frozenset()
    """What its parts on all machines have in common, and no other job has (elsewhere.marks_of)."""
    hosts: tuple[str, ...] = ()
    """Other machines that its launcher names (elsewhere.hosts_of)."""
    claimed: tuple[str, ...] = ()
    """Those that its processes' environment names, which anybody may set (elsewhere.claimed_hosts)."""
    slurm: str = ""
    """The number of the Slurm job that its ranks belong to, empty where they belong to none."""
    nodes: tuple[str, ...] = ()
    """Of a job that was put together from several machines: the names of those that were searched."""
    lost: tuple[str, ...] = ()
    """Sentences: which machines of it could not be searched, and why."""
    remedy: str = ""
    """What to do about that; empty where nothing helps."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each MPI_COMM_WORLD, as its ranks' environment has it, else how many ranks were found."""
        started = Counter(rank.world for rank in self.ranks)
        return tuple(world.size or started[number] for number, world in enumerate(self.worlds))


class SlurmJob(NamedTuple):
    """A job of Slurm's that runs."""

    number: str
    name: str
    user: str
    since: str
    """As squeue prints it."""
    nodes: str
    """As Slurm writes lists of nodes."""
