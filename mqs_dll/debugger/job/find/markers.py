"""What a process's environment says of its place in a job: the variables that launchers set for each rank.

Sources: Open MPI 4's orte/mca/schizo/ompi and 5's PRRTE, "Environment variables that Open MPI sets"; PMIx's server;
MPICH's hydra, pm/hydra/proxy/pmip_cb.c (PMI_RANK with PMI_FD, or PMI_ID with PMI_PORT); the manuals of srun, flux-run
and PALS. A program inherits them to all that it starts, so they alone make nobody a rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Marker(NamedTuple):
    """The place that one family of variables gives a process."""

    rank: int
    """In its MPI_COMM_WORLD."""
    world: str
    """What only ranks of the same MPI_COMM_WORLD have in common; empty where the family has no such thing."""
    spawned: bool
    """Whether MPI_Comm_spawn started it, where ``world`` is empty."""
    size: int | None
    """Of its MPI_COMM_WORLD."""
    local_size: int | None
    """How many of that are on this machine."""
    sure: bool
    """Whether only ranks have these variables: a batch system gives its own to a user's shell too."""

    @property
    def job(self) -> str:
        """What all worlds of its job have in common."""
        return job_of_world(self.world)


class _Family(NamedTuple):
    rank: Sequence[str]
    """The first that is there counts."""
    world: Sequence[str]
    """All that are there, together."""
    size: str = ""
    local_size: str = ""
    sure: bool = True


_FAMILIES = (
    _Family(
        ("OMPI_COMM_WORLD_RANK", "PMIX_RANK"),
        ("PMIX_NAMESPACE",),
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Family(("PMI_RANK", "PMI_ID"), ("PMI_JOBID",), "PMI_SIZE", "MPI_LOCALNRANKS"),
    _Family(("FLUX_TASK_RANK",), ("FLUX_JOB_ID",), "FLUX_JOB_SIZE", sure=False),
    _Family(("PALS_RANKID",), ("PALS_APID",), sure=False),
    _Family(("SLURM_PROCID",), ("SLURM_JOB_ID", "SLURM_STEP_ID"), "SLURM_STEP_NUM_TASKS", sure=False),
)
"""In this order, because batch systems start the launchers of MPIs, which leave their variables in place."""

_MAX_DIGITS = 20
"""Of a number of PMIx's, which has 32 bits; Python refuses to read one of thousands."""

_LARGEST = 1 << 31
"""No rank and no size is an int of C that is as large."""


def marker_of(environment: Mapping[str, str], launcher: Mapping[str, str]) -> Marker | None:
    """Return what an environment says, None when it says nothing.

    Args:
        environment: the process's.
        launcher: that of the launcher or daemon which started it: what is the same there was inherited from an outer
            job, unless nothing else is there.
    """
    found = [(family, marker) for family in _FAMILIES if (marker := _read(family, environment)) is not None]
    own = [marker for family, marker in found if _read(family, launcher) != marker]
    return next(iter(own), found[0][1] if found else None)


def job_of_world(world: str) -> str:
    """Return what the worlds of one job have in common: the start of "name@1", the upper bits of a number (PMIx)."""
    if len(world) <= _MAX_DIGITS and world.isascii() and world.isdigit():
        return str(int(world) >> 16)
    return world.rpartition("@")[0] or world


def _read(family: _Family, environment: Mapping[str, str]) -> Marker | None:
    rank = next((_number(environment[name]) for name in family.rank if name in environment), None)
    if rank is None:
        return None
    return Marker(
        rank=rank,
        world=" ".join(environment[name] for name in family.world if name in environment),
        spawned=environment.get("PMI_SPAWNED") == "1",
        size=_number(environment.get(family.size, "")),
        local_size=_number(environment.get(family.local_size, "")),
        sure=family.sure,
    )


def _number(text: str) -> int | None:
    """Return a count that a launcher wrote, None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 and int(text) < _LARGEST else None
