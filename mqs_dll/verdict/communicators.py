"""The communicators of a job, joined from what each process says of its own.

A unique_id is the same in all processes of a communicator, but both sides of an inter-communicator share it, and with a
vendor's library the parts of one split: the group distinguishes them. Groups are ranks of the process's own
MPI_COMM_WORLD, -1 for a process of another one: spawned processes are joined by unique_id and local ranks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mqs_dll.contract.abi import INVALID_RANK, NUMBER_BITS
from mqs_dll.contract.names import is_of_owner
from mqs_dll.job.records import Job
from mqs_dll.job.shared import Shared
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.verdict.results import CommunicatorFacts

MAX_MEMBERS = 1 << 22
"""Of all communicators and windows of a job: forty of each of a hundred thousand ranks. A few bytes of a file, or of a
process, can name a group of millions again and again; whatever is beyond this has members that aren't known."""

PART_BITS = 0xF
"""Of MPICH's number in a unique_id, those that distinguish a part from the whole: of a node's processes, ..."""


@dataclass
class JobCommunicator:
    """One communicator of the job, or one side of an inter-communicator."""

    index: int
    unique_id: int
    size: int
    world: int
    remote_size: int | None
    """None for an intra-communicator."""
    internal: bool
    group: tuple[int, ...] | None
    """Ranks of the world of its processes; None where no process knows."""
    members: list[int | None] = field(default_factory=list)
    """Processes by local rank; None where it isn't known which one that is. Where nobody knows those of the
    last ranks, one None stands for them all."""
    names: Counter[tuple[bytes, bytes]] = field(default_factory=Counter)
    """Its name and description, as its processes have them."""
    remote: int | None = None
    """For one side of an inter-communicator, the index of the other side."""

    @cached_property
    def known_members(self) -> Shared[int | None]:
        """The members, once all processes have said what they have."""
        return Shared(self.members)

    @property
    def name(self) -> bytes:
        """The name that most of its processes have for it; empty where they have none."""
        return self._said()[0]

    @property
    def description(self) -> bytes:
        """What libmqs says of one that most of its processes have no name for."""
        return self._said()[1]

    def _said(self) -> tuple[bytes, bytes]:
        if len(self.names) == 1:
            return next(iter(self.names))
        return self.names.most_common(1)[0][0] if self.names else (b"", b"")


class MemberBudget:
    """How many members may still be listed."""

    def __init__(self, most: int = MAX_MEMBERS) -> None:
        self._left = most

    def charge(self, count: int) -> bool:
        """Take so many from the budget; return False, and take none, where fewer are left."""
        if count > self._left:
            return False
        self._left -= count
        return True


class JobCommunicators:
    """All communicators of a job, and which process has which of them."""

    def __init__(self, job: Job, by_rank: dict[tuple[int, int], int], budget: MemberBudget) -> None:
        """Join them.

        Args:
            job: the job.
            by_rank: the processes, by MPI_COMM_WORLD and rank.
            budget: of members.
        """
        self._job = job
        self._budget = budget
        self._by_rank = by_rank
        self._by_key: dict[Hashable, int] = {}
        self._groups: dict[tuple[int, ...], tuple[int, bool]] = {}
        self.all: list[JobCommunicator] = []
        self.of_process: list[list[int]] = [
            self._of(index, process.world, process.samples[-1].snapshot.communicators) if process.samples else []
            for index, process in enumerate(job.processes)
        ]
        """By process, the indices of its communicators in ``all``, in the order of its snapshot."""
        for each in self.all:
            if len(each.members) < each.size:
                each.members.append(None)
        self._whole = self._find_wholes()
        self._pair_sides()

    def _of(self, process: int, world: int, snapshots: Sequence[CommunicatorSnapshot]) -> list[int]:
        return [self._join(process, world, snapshot) for snapshot in snapshots]

    def _join(self, process: int, world: int, snapshot: CommunicatorSnapshot) -> int:
        """Return the communicator of the job that a process speaks of, a new one where it is the first to do so."""
        record, group = snapshot.communicator, snapshot.group
        key = self._key(world, snapshot)
        found = self._by_key.get(key)
        rank = record.local_rank
        if found is not None and not self._has_room(self.all[found], rank, process):
            key, found = (*key, process), None  # two processes claim the same rank: it can't be one communicator
        if found is None:
            found = self._by_key[key] = self._new(world, snapshot)
        communicator = self.all[found]
        communicator.names[snapshot.label.name, snapshot.label.description] += 1
        if 0 <= rank < communicator.size:
            self._put(communicator.members, rank, process)
        if communicator.group is None and not isinstance(group, Hidden):
            communicator.group = group
        return found

    def _put(self, members: list[int | None], rank: int, process: int) -> None:
        beyond = rank + 1 - len(members)
        if beyond > 0 and self._budget.charge(beyond):
            members += [None] * beyond
        if rank < len(members):
            members[rank] = process

    def _key(self, world: int, snapshot: CommunicatorSnapshot) -> tuple[Hashable, ...]:
        record, group = snapshot.communicator, snapshot.group
        marks = snapshot.label
        if isinstance(group, Hidden):
            return ("hidden", record.unique_id, record.size, record.name)
        number, has_strangers = self._number_of(group)
        if has_strangers:
            return ("worlds", record.unique_id, record.size, marks.remote)
        return ("group", world, record.unique_id, number, marks.remote)

    def _number_of(self, group: tuple[int, ...]) -> tuple[int, bool]:
        """Return a number that stands for a group, and whether others than those of one world are in it."""
        known = self._groups.get(group)
        if known is None:
            known = self._groups[group] = (len(self._groups), INVALID_RANK in group and len(group) > 1)
        return known

    @staticmethod
    def _has_room(communicator: JobCommunicator, rank: int, process: int) -> bool:
        if not 0 <= rank < len(communicator.members):
            return True
        return communicator.members[rank] in (None, process)

    def _new(self, world: int, snapshot: CommunicatorSnapshot) -> int:
        record, group = snapshot.communicator, snapshot.group
        marks = snapshot.label
        known = None if isinstance(group, Hidden) else group
        members: list[int | None] = []
        if known is not None and self._budget.charge(len(known)):
            members += [self._by_rank.get((world, rank)) for rank in known]
        index = len(self.all)
        self.all.append(
            JobCommunicator(index, record.unique_id, record.size, world, marks.remote, marks.internal, known, members)
        )
        return index

    def _pair_sides(self) -> None:
        """Find the two sides of each inter-communicator, where sizes leave no doubt."""
        sides: defaultdict[tuple[int, int, int], list[JobCommunicator]] = defaultdict(list)
        for each in self.all:
            if each.remote_size is not None:
                smaller, larger = sorted((each.size, each.remote_size))
                sides[each.unique_id, smaller, larger].append(each)
        for both in sides.values():
            if len(both) == 2 and both[0].size == both[1].remote_size:
                both[0].remote, both[1].remote = both[1].index, both[0].index

    def _find_wholes(self) -> dict[int, int]:
        """Return the program's communicator for each of those that the MPI made within it for its collective calls.

        MPICH numbers such a part like the whole, except for the lowest bits (mpir_contextid.h). Of others it is known
        only where one communicator alone has the same processes.
        """
        numbered = not self._job.is_open_mpi
        wholes: dict[int, int] = {}
        for indices in self.of_process:
            own = [self.all[index] for index in indices]
            for part in own:
                if part.internal and part.index not in wholes and not is_of_owner(part.description):
                    others = [each for each in own if not each.internal and each.remote_size is None]
                    twins = [each for each in others if each.group is not None and each.group == part.group]
                    number = part.unique_id % (1 << NUMBER_BITS) & ~PART_BITS
                    whole = [each for each in others if numbered and each.unique_id % (1 << NUMBER_BITS) == number]
                    found = whole or twins
                    if len(found) == 1:
                        wholes[part.index] = found[0].index
        return wholes

    # ------------------------------------------------------------ questions

    def whole(self, communicator: int) -> int:
        """Return the program's communicator that one of the MPI's own is a part of; itself for any other."""
        return self._whole.get(communicator, communicator)

    def channel(self, communicator: int) -> int:
        """Return a number that both sides of an inter-communicator share: messages go from one to the other."""
        remote = self.all[communicator].remote
        return communicator if remote is None else min(communicator, remote)

    def targets(self, index: int) -> tuple[int | None, ...] | None:
        """Return the processes that messages on a communicator come from and go to, by rank; None if not known."""
        communicator = self.all[index]
        if communicator.remote_size is None:
            return communicator.known_members
        return None if communicator.remote is None else self.all[communicator.remote].known_members

    def is_target(self, index: int, rank: int) -> bool:
        """Return whether messages on a communicator may go to a rank: it has as many."""
        remote = self.all[index].remote
        size = self.all[index if remote is None else remote].size
        return 0 <= rank < (size if self.all[index].remote_size is None or remote is not None else rank + 1)

    def facts(self, printed: Sequence[str], descriptions: Sequence[str]) -> tuple[CommunicatorFacts, ...]:
        """Return what a verdict reports of each, with their names and descriptions as they are printed."""
        return tuple(
            CommunicatorFacts(name, each.unique_id, each.size, each.known_members, each.remote, description)
            for name, description, each in zip(printed, descriptions, self.all, strict=True)
        )
