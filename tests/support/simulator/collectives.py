"""Blocking collective calls, as the messages of their algorithms: which ones is the MPI's choice (MPI 4.1, 6.1).

Successive calls on one communicator use the same tags: all ranks make them in the same order (6.14).
"""

from __future__ import annotations

import random

from tests.support.simulator.programs import Collective
from tests.support.simulator.state import Phase

TAGS = {"MPI_Barrier": -16, "MPI_Bcast": -17, "MPI_Reduce": -21, "MPI_Allreduce": -12}
"""Of their messages, whatever the communicator."""

ENDS_WHEN_ALL_HAVE_ENTERED = ("MPI_Barrier", "MPI_Allreduce")
"""By what they are: a result that all get has a part of each."""


def phases_of(act: Collective, rank: int, algorithm: int) -> tuple[Phase, ...]:
    """Return what a rank does in a call, by one of two algorithms, which has to be the same on all ranks."""
    if act.call == "MPI_Bcast":
        return _from_root(act, rank, algorithm)
    if act.call == "MPI_Reduce":
        return _to_root(act, rank)
    if algorithm % 2:
        return _by_doubling(act, rank)
    if act.call == "MPI_Barrier":
        return tuple(Phase(each.sends, each.receives, act.call) for each in _there_and_back(act, rank))
    return _there_and_back(act, rank)


def _there_and_back(act: Collective, rank: int) -> tuple[Phase, ...]:
    """Reduce to the first rank, and send the result to all from there."""
    first = act.comm.members[0]
    piece = Collective("MPI_Reduce", act.comm, first, act.turns)
    return (*_to_root(piece, rank), *_from_root(Collective("MPI_Bcast", act.comm, first), rank, 0))


def _to_root(act: Collective, rank: int) -> tuple[Phase, ...]:
    others = tuple(each for each in act.comm.members if each != act.root)
    if rank != act.root:
        return (Phase((act.root,), (), "MPI_Reduce"),)
    return (Phase((), others, "MPI_Reduce"), *([Phase((), (), "MPI_Reduce", act.turns)] if act.turns else []))


def _from_root(act: Collective, rank: int, algorithm: int) -> tuple[Phase, ...]:
    """Send from the root to all at once, or from each to the next."""
    members = act.comm.members
    place = (members.index(rank) - members.index(act.root)) % len(members)
    if algorithm % 2:
        following = members[(members.index(rank) + 1) % len(members)]
        before, after = (members[members.index(rank) - 1],), [following] if place + 1 < len(members) else []
    else:
        after = [each for each in members if each != act.root] if place == 0 else []
        before = (act.root,)
    receives = () if place == 0 else (Phase((), before, "MPI_Bcast"),)
    return (*receives, *([Phase(tuple(after), (), "MPI_Bcast")] if after else []))


def _by_doubling(act: Collective, rank: int) -> tuple[Phase, ...]:
    """Hear of twice as many others in each round."""
    members = act.comm.members
    place, step, found = members.index(rank), 1, []
    while step < len(members):
        to, source = members[(place + step) % len(members)], members[place - step]
        found.append(Phase((to,), (source,), act.call))
        step *= 2
    return (*found, *([Phase((), (), act.call, act.turns)] if act.turns else []))


def algorithms(numbers: random.Random) -> int:
    """Return the choice of an MPI for one job."""
    return numbers.randrange(2)
