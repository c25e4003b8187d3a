"""The trees by which MPIs broadcast and reduce: whom a process sends to, or receives from, for each root.

Source: ompi/mca/coll/base/coll_base_topo.c of Open MPI 4.1.4 and 5.0.11; src/mpi/coll/bcast, src/mpi/coll/reduce of
MPICH 4.3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial

Parent = Callable[[int, int], int]
"""Return the parent of a process (not 0) in the tree with root 0, of a number of processes."""

CHAINS = 4
"""The chains that Open MPI makes behind the root."""

RADIX = 4
"""Of the k-nomial trees of Open MPI 5."""


def _flat(process: int, size: int) -> int:
    return 0


def _line(process: int, size: int) -> int:
    return process - 1


def _chains(process: int, size: int) -> int:
    """Return the process before it: the first chains are one longer where there are some left over."""
    chains = min(CHAINS, size - 1)
    length, longer = divmod(size - 1, chains)
    begin = 1
    for chain in range(chains):
        end = begin + length + (chain < longer)
        if process < end:
            break
        begin = end
    return 0 if process == begin else process - 1


def _binary(process: int, size: int) -> int:
    """Return the parent where each level is dealt out to the one above in turn."""
    level = (process + 1).bit_length() - 1
    above = 1 << level - 1
    return (process - 2 * above + 1) % above + above - 1


def _high_bit(process: int, size: int) -> int:
    return process & ~(1 << process.bit_length() - 1)


def _low_digit(radix: int, process: int, size: int) -> int:
    place = 1
    while process // place % radix == 0:
        place *= radix
    return process - process // place % radix * place


_BINOMIAL: Parent = partial(_low_digit, 2)
OPEN_MPI: tuple[Parent, ...] = (_flat, _line, _chains, _binary, _high_bit, _BINOMIAL, partial(_low_digit, RADIX))
MPICH: tuple[Parent, ...] = (_BINOMIAL,)


@lru_cache(maxsize=256)
def children(parent: Parent, size: int) -> Mapping[int, frozenset[int]]:
    """Return the children of each process in the tree with root 0."""
    found: dict[int, set[int]] = {process: set() for process in range(size)}
    for process in range(1, size):
        found[parent(process, size)].add(process)
    return {process: frozenset(below) for process, below in found.items()}


def roots(tree: Parent, size: int, rank: int, below: frozenset[int]) -> set[int]:
    """Return the roots with which a rank has all of some others directly below it in a tree."""
    within = children(tree, size)
    return {root for root in range(size) if {(each - root) % size for each in below} <= within[(rank - root) % size]}


def roots_by_leader(size: int, rank: int, below: frozenset[int]) -> set[int]:
    """Return the same where the root hands its data to rank 0, which then broadcasts it (MPICH, within a node)."""
    within = children(_BINOMIAL, size)
    return {root for root in range(size) if below <= within[rank] | ({0} if rank == root != 0 else set())}
