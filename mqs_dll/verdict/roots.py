"""Which rank a process takes for the root of MPI_Bcast or MPI_Reduce, by whom it sends to or waits for inside.

MPIs go by trees from the root, or to it. Source: ompi/mca/coll/base/coll_base_topo.c of Open MPI 4.1.4 and 5.0.11;
src/mpi/coll/bcast, src/mpi/coll/reduce of MPICH 4.3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial

from mqs_dll.contract.abi import Queue
from mqs_dll.job.records import ArgumentEvidence
from mqs_dll.verdict.called import communicator_of, stacks_of
from mqs_dll.verdict.join import Joined
from mqs_dll.verdict.pending import Pending

AWAY = {"MPI_Bcast": Queue.SENDS, "MPI_Reduce": Queue.RECEIVES}
"""For each call, what a process does with those below it in the tree; it does the other with the one above it."""

MAX_PROCESSES = 1 << 10
"""Of a communicator whose trees are searched."""

SHORT = 2048
"""Bytes that MPICH reduces by a tree whatever the count; more it may reduce in parts, in pairs of ranks."""


class Roots:
    """The roots of the calls of one job."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._communicators = joined.communicators
        self._open_mpi = joined.job.is_open_mpi

    def is_in_tree(self, process: int, call: str) -> bool:
        """Return whether a process in a call surely waits for those below it alone: never in a circle, if all agree."""
        return _plain(call) in AWAY and bool(self.below(process, call))

    def below(self, process: int, call: str) -> list[Pending]:
        """Return the messages by which a process waits for those below it; none where it deals with one above it too.

        In a tree it does one after the other: who does both at once is in none.
        """
        call = _plain(call)
        own = (each for each in self._joined.operations[process] if each.queue is not Queue.UNEXPECTED)
        parts = [each for each in own if each.words.collective == call]
        return parts if all(each.queue is AWAY[call] for each in parts) else []

    def given(self, index: int, call: str) -> int | None:
        """Return the process that one's call has as its root; None unless two sources agree.

        They are the MPI's frames and the caller, or one of them and the messages.
        """
        process = self._joined.job.processes[index]
        for stack in stacks_of(process):
            root = stack.argument("root") if stack.call == call else None
            known = communicator_of(stack, process.samples[-1].snapshot.communicators)
            if root is None or root.value < 0 or known is None:
                continue
            targets = self._communicators.targets(self._communicators.of_process[index][known])
            given = targets[root.value] if targets is not None and root.value < len(targets) else None
            by_tree = self._by_tree(index, call)
            return given if given in by_tree or (not by_tree and root.evidence is ArgumentEvidence.BOTH) else None
        return None

    def taken(self, process: int, call: str) -> frozenset[int]:
        """Return the processes that one may take for the root; none where it isn't known."""
        given = self.given(process, call)
        return self._by_tree(process, call) if given is None else frozenset({given})

    def _by_tree(self, process: int, call: str) -> frozenset[int]:
        """Return the same by the messages of a process alone."""
        call = _plain(call)
        if call not in AWAY:
            return frozenset()
        messages = self.below(process, call)
        where = {each.communicator for each in messages}
        if len(where) != 1 or any(each.peer_rank is None for each in messages):
            return frozenset()
        communicator = self._communicators.all[where.pop()]
        members, size = communicator.members, communicator.size
        whole = self._communicators.all[self._communicators.whole(communicator.index)]
        if not 1 < size <= MAX_PROCESSES or whole.size != size or None in members or process not in members:
            return frozenset()
        below = frozenset(each.peer_rank for each in messages if each.peer_rank is not None)
        rank = members.index(process)
        if not below <= {*range(size)} - {rank} or not self._is_by_tree(call, messages, size):
            return frozenset()
        found = self._roots(call, size, rank, below)
        ranks = () if len(found) == size else sorted(found)
        return frozenset(root for root in (members[each] for each in ranks) if root is not None)

    def _is_by_tree(self, call: str, messages: Iterable[Pending], size: int) -> bool:
        if self._open_mpi or call == "MPI_Bcast":
            return True
        return all(each.length is not None and each.length * size <= SHORT for each in messages)

    def _roots(self, call: str, size: int, rank: int, below: frozenset[int]) -> set[int]:
        families = OPEN_MPI if self._open_mpi else MPICH
        found = {root for tree in families for root in roots(tree, size, rank, below)}
        if call == "MPI_Bcast" and not self._open_mpi:
            found |= roots_by_leader(size, rank, below)
        return found


def _plain(call: str) -> str:
    return call.removesuffix("_c")


# ---------------------------------------------------------------- the trees


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
    start = 1
    for chain in range(chains):
        end = start + length + (chain < longer)
        if process < end:
            break
        start = end
    return 0 if process == start else process - 1


def _binary(process: int, size: int) -> int:
    """Return the parent where each level is dealt out to the one above in turn."""
    level = (process + 1).bit_length() - 1
    above = 1 << level - 1
    return (process - 2 * above + 1) % above + above - 1


def _high_bit(process: int, size: int) -> int:
    return process & ~(1 << process.bit_length() - 1)


def _low_digit(radix: int, process: int, size: int) -> int:
    digit_value = 1
    while process // digit_value % radix == 0:
        digit_value *= radix
    return process - process // digit_value % radix * digit_value


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
