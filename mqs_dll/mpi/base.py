"""The contract between the session and an MPI's adapter.

Checklist for a new MPI:

1. A module (or package) ``mpi/NAME`` with an ``Adapter`` subclass, entered in ``mpi/__init__.ADAPTERS``.
2. ``detect`` by symbols that every build of that MPI exports, stripped ones included.
3. Views for all structs that the walkers read, under the MPI's own names, optional members where releases differ.
4. ``attach`` refuses with a reason before MPI_Init and after MPI_Finalize, and believes no layout whose
   invariants don't hold in this process.
5. Walkers are plain generators over views: every walk bounded, every object's class or handle checked, nothing
   made up; what can't be seen raises NoInformation with the transport's name and the way out.
6. Receives in matching order, unexpected messages in the order in which a receive finds them.
7. Programs under tests/programs run on it unchanged, and rows in docs/support-matrix.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from mqs_dll.abi import (
    INVALID_RANK,
    NUMBER_BITS,
    SEVERAL_WORLDS,
    Communicator,
    Datatype,
    Label,
    LayoutOrigin,
    MpiFacts,
    Operation,
    ProfileFacts,
    Queue,
    Recognition,
    Window,
)
from mqs_dll.errors import MqsError
from mqs_dll.interface import TargetImage
from mqs_dll.memory import Memory
from mqs_dll.mpi.elf import LoadedLibrary
from mqs_dll.names import marked
from mqs_dll.profiles import Profile


class CommunicatorEntry(ABC):
    """One communicator of a process, as the adapter found it at the last update."""

    def __init__(self, record: Communicator, label: Label) -> None:
        """Keep what is known of it.

        Args:
            record: its fields, without a name.
            label: what it is called.
        """
        self.record = record
        self.label = label
        self.internal = False
        """The MPI keeps it for itself: no handle of it was ever given to the program."""
        self.tell()

    def tell(self, **more: Any) -> None:
        """Learn more for the label (its fields by their names), and write it into the record's field."""
        self.label = self.label._replace(**more)
        self.record = self.record._replace(name=marked(self.label))

    @abstractmethod
    def world_ranks(self) -> Sequence[int]:
        """Return the MPI_COMM_WORLD rank of each process of the local group, -1 for one of another job.

        Raises:
            BrokenStructureError, TargetReadError: the group can't be decoded.
        """


class AttachedMpi(ABC):
    """An MPI in one process, its layouts known and checked. What it reads is that of the last ``communicators``."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line: the MPI's name and release, its transport, where the layouts came from."""

    @abstractmethod
    def facts(self) -> MpiFacts:
        """Return what is known of the MPI."""

    @abstractmethod
    def layout_origins(self) -> list[LayoutOrigin]:
        """Return where the layout of each struct came from."""

    @abstractmethod
    def checks(self) -> list[str]:
        """Return what was checked in this process before its layouts were believed, and held: a sentence each."""

    @abstractmethod
    def refusals(self) -> list[str]:
        """Return which layouts were tried before and refused, and why: a sentence each."""

    @abstractmethod
    def global_rank(self) -> int:
        """Return this process's rank in MPI_COMM_WORLD, -1 when it has none."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all that was read of the process: it may have run."""

    @abstractmethod
    def communicators(self) -> list[CommunicatorEntry]:
        """Return all live communicators, in the MPI's own order, the internal ones included.

        Raises:
            MqsError: the process is no longer between MPI_Init and MPI_Finalize, or its table can't be read.
        """

    @abstractmethod
    def operations(self, entry: CommunicatorEntry, queue: Queue) -> Iterator[Operation]:
        """Return a generator of one queue of one communicator.

        Raises:
            NoInformation: at once, when this transport hides the queue.
            BrokenStructureError: from the generator, after the operations that could be read.
        """

    def is_in_use(self, entry: CommunicatorEntry) -> bool:
        """Tell whether any operation is pending on a communicator; a queue that can't be read says nothing."""
        for queue in Queue:
            try:
                for _ in self.operations(entry, queue):
                    return True
            except MqsError:
                continue
        return False

    @abstractmethod
    def windows(self) -> list[Window]:
        """Return the one-sided windows of the process."""

    @abstractmethod
    def datatypes(self) -> list[Datatype]:
        """Return the datatypes that pending operations use."""


class Adapter(ABC):
    """One family of MPIs, for one image: what can be known from symbols and types, without memory."""

    name: ClassVar[str]
    refused_profiles: list[str]
    """Sentences: which of the user's files are no profiles, and why."""

    @classmethod
    @abstractmethod
    def detect(cls, image: TargetImage) -> bool:
        """Tell whether the image uses this MPI, by its symbols."""

    @abstractmethod
    def __init__(self, image: TargetImage) -> None:
        """Ask the debugger for the symbols and for the types that it has; missing ones are no failure yet."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line about what was found in the image."""

    @abstractmethod
    def check_symbols(self) -> None:
        """Return when the image has every symbol without which no queue can be read.

        Raises:
            LayoutError: one is missing that every build of the MPI exports.
        """

    @abstractmethod
    def recognise(self, memory: Memory) -> Recognition:
        """Return what can be told without an object of a running MPI: of a library's file, or of any process.

        Raises:
            LayoutError: a symbol that every build exports is missing.
        """

    @abstractmethod
    def attach(self, memory: Memory) -> AttachedMpi:
        """Find and check the layouts in a process.

        Raises:
            NotInitializedError, FinalizedError: the process is not between MPI_Init and MPI_Finalize.
            LayoutError: no layout fits; the text says what was tried.
        """


def join_id(number: int, lowest: int) -> int:
    """Return a unique_id: disjoint communicators may have one number, but then not one process in common.

    Args:
        number: the MPI's own for the communicator, the same in all its processes.
        lowest: of the MPI_COMM_WORLD ranks of all its processes, those of a remote group too; -1 where some aren't
            known, or are of another world.
    """
    return (lowest if 0 <= lowest < SEVERAL_WORLDS else SEVERAL_WORLDS) << NUMBER_BITS | number % (1 << NUMBER_BITS)


def world_rank(world: Sequence[int], rank: int) -> int:
    """Return the MPI_COMM_WORLD rank of a rank of a group; -1 for what is no rank of it, like MPI_ANY_SOURCE."""
    return world[rank] if 0 <= rank < len(world) else INVALID_RANK


def nearest_first(profiles: Iterable[Profile], build: str, release: str) -> list[Profile]:
    """Return profiles in the order to try them: those of exactly this build, of its release, all others.

    What is as near stays in its order, the user's first.
    """
    return sorted(profiles, key=lambda each: (build not in each.builds, release not in each.releases))


def of_machine(profiles: Iterable[Profile], library: LoadedLibrary) -> list[Profile]:
    """Return those of some profiles that are for the machine of a library."""
    return [profile for profile in profiles if library.machine in (profile.machine, "")]


def profile_facts(profile: Profile, build: str, release: str) -> ProfileFacts:
    """Return how near a profile is to a build and a release."""
    of_build, of_release = build in profile.builds, release in profile.releases
    return ProfileFacts(profile.name, profile.source, profile.of_user, of_build, of_release)
