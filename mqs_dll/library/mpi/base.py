"""The contract between the session and an MPI's adapter, and what all adapters do alike.

Checklist for a new MPI:

1. A module (or package) ``mpi/NAME`` with an ``Adapter`` subclass, and a way to it in ``mpi.detect``.
2. ``mpi.detect`` knows it by symbols that every build of that MPI exports, stripped ones included.
3. Views for all structs that the walkers read, under the MPI's own names, optional members where releases differ.
4. ``attach`` asks for every address again: it is that in one process. It refuses with a reason before MPI_Init and
   after MPI_Finalize, and believes no layout whose invariants don't hold in this process.
5. Walkers are plain generators over views: every walk bounded, every object's class or handle checked, nothing
   made up; what can't be seen raises NoInformation with the transport's name and the remedy.
6. Receives in matching order, unexpected messages in the order in which a receive finds them.
7. Programs under tests/programs run on it unchanged, and rows in docs/support-matrix.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol

from mqs_dll.contract.abi import INVALID_RANK, Datatype, LayoutOrigin, MpiFacts, Operation, Queue, Recognition, Window
from mqs_dll.contract.errors import BrokenStructureError, MqsError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.selection import Identity
from mqs_dll.library.memory import Memory, cached_per_sweep
from mqs_dll.library.mpi.envelopes import DatatypeFacts
from mqs_dll.library.mpi.transport import EntryT, Transport

MAX_LISTED = 1 << 14
"""Operations of a queue that are kept for the next sweep."""

MAX_LENGTH = (1 << 63) - 1
"""Bytes of a message that the interface can express; counts and sizes of types may both be absurd."""


_NONE: tuple[Operation, ...] = ()
"""What is listed of each queue of a communicator that surely has no operation."""


class DatatypeReader(Protocol):
    """What knows an MPI's datatypes."""

    def at(self, handle: int) -> DatatypeFacts | None:
        """Return what is known of the datatype with a handle; None when there is none."""

    def address_of(self, handle: int) -> int:
        """Return the address of a datatype's struct, 0 for one without."""


class AttachedMpi(ABC, Generic[EntryT]):
    """An MPI in one process, its layouts known and checked. What it reads is that of the last ``communicators``."""

    is_provisional = False
    """Whether a part of the layouts is missing that the process, or another one of its job, may show later."""

    def __init__(
        self, memory: Memory, identity: Identity, transport: Transport[EntryT], datatypes: DatatypeReader
    ) -> None:
        self._memory = memory
        fabric = transport.fabric or Identity("", Layouts())
        self._layouts = identity.layouts.followed_by(fabric.layouts)
        self._transport = transport
        self._datatypes = datatypes
        self._title = identity.title
        self.checks: Sequence[str] = (*identity.checks, *fabric.checks)
        """What was checked in this process before its layouts were believed, and held: a sentence each."""
        self.refusals: Sequence[str] = (*identity.refusals, *fabric.refusals)
        """Which layouts were tried before and refused, and why: a sentence each."""

    def describe(self) -> str:
        """Return one line: the MPI's name and release, its transport, where the layouts came from."""
        return f"{self._title}, {self._transport.name}; layouts: {self._layouts.summary()}"

    def layout_origins(self) -> list[LayoutOrigin]:
        """Return where the layout of each struct came from."""
        return self._layouts.origins()

    def forget(self) -> None:
        """Drop all that was read of the process: it may have run."""
        self._memory.forget()

    def revalidate(self) -> None:
        """Start a sweep: keep what is known of the process where its memory is the same as in the last one."""
        self._memory.revalidate()

    @abstractmethod
    def facts(self) -> MpiFacts:
        """Return what is known of the MPI."""

    @abstractmethod
    def global_rank(self) -> int:
        """Return this process's rank in MPI_COMM_WORLD, -1 when it has none."""

    @abstractmethod
    def windows(self) -> list[Window]:
        """Return the one-sided windows that are alive."""

    @abstractmethod
    def read_communicators(self) -> list[EntryT]:
        """Return all live communicators, in the MPI's own order, those that it keeps for itself marked ``internal``.

        Raises:
            MqsError: the process is no longer between MPI_Init and MPI_Finalize, or its table can't be read.
        """

    @cached_per_sweep
    def communicators(self) -> list[EntryT]:
        """Return the same; those that the program has freed are marked in their names, and internal ones too.

        One that the MPI keeps for itself no longer counts as internal while an operation is pending on it.
        """
        entries = self.read_communicators()
        for entry in entries:
            freed = entry.is_held_only_by(self._transport.requests_of(entry))
            if freed or entry.internal:
                entry.relabel(freed=freed, internal=entry.internal)
            entry.internal = entry.internal and not self._is_in_use(entry)
        return entries

    def _is_in_use(self, entry: EntryT) -> bool:
        """Return whether any operation is pending on a communicator; a queue that can't be read says nothing."""
        for queue in Queue:
            try:
                for _ in self.operations(entry, queue):
                    return True
            except MqsError:
                continue
        return False

    def operations(self, entry: EntryT, queue: Queue) -> Iterator[Operation]:
        """Return a generator of one queue of one communicator.

        Raises:
            NoInformation: at once, when this transport hides the queue.
            BrokenStructureError: from the generator, after the operations that could be read.
        """
        listed = self._memory.cache.get((entry, queue))
        if listed is None and self._is_empty(entry):
            listed = _NONE
            self._memory.cache.update({(entry, each): _NONE for each in Queue})
        return self._walk(entry, queue) if listed is None else iter(listed)

    def is_known_empty(self, entry: EntryT) -> bool:
        """Return whether this sweep knows that a communicator has no operation in any queue."""
        return self._memory.cache.get((entry, Queue.SENDS)) is _NONE

    def _is_empty(self, entry: EntryT) -> bool:
        """Return whether a communicator surely has no operation."""
        excesses = self._memory.excesses
        try:
            return self._transport.is_empty(entry) and self._memory.excesses == excesses
        except MqsError:
            return False

    def _walk(self, entry: EntryT, queue: Queue) -> Iterator[Operation]:
        if queue is Queue.SENDS:
            walk = self._transport.sends(entry)
        elif queue is Queue.RECEIVES:
            walk = self._transport.receives(entry)
        else:
            walk = self._transport.unexpected(entry)
        return self._listing(walk, entry, queue)

    def _listing(self, walk: Iterator[Operation], entry: EntryT, queue: Queue) -> Iterator[Operation]:
        """Yield the operations of a walk; one that comes to its end need not be gone again in this sweep.

        Raises:
            NoInformation: after them, there are more operations than are read of a process.
            BrokenStructureError: what the walk raises; or an operation names a rank that its communicator doesn't have,
                or has more bytes than there can be.
        """
        listed: list[Operation] | None = []
        made, excesses = self._memory.cache, self._memory.excesses
        ranks = max(entry.size, entry.label.remote or 0)
        for operation in walk:
            _, asked, _, _, _, wanted, _, _, other, _, _, length, _ = operation  # there may be a hundred thousand
            if not (INVALID_RANK <= asked < ranks and INVALID_RANK <= other < ranks):
                wrong = other if INVALID_RANK <= asked < ranks else asked
                raise BrokenStructureError(f"the queue is broken: an operation names rank {wrong} of {ranks}")
            if wanted > MAX_LENGTH or length > MAX_LENGTH:
                raise BrokenStructureError(
                    "the queue is broken: an operation says that it has more bytes than memory has"
                )
            if listed is not None:
                listed.append(operation)
                if len(listed) > MAX_LISTED:
                    listed = None
            yield operation
        self._transport.check_whole()
        if listed is not None and self._memory.excesses == excesses:
            made[entry, queue] = listed

    def datatypes(self) -> list[Datatype]:
        """Return the datatypes that pending operations use, the most used first."""
        used = Counter(self._transport.datatypes_in_use()).most_common()
        known = ((self._datatypes.at(handle), handle, operations) for handle, operations in used)
        return [
            Datatype(facts.name, facts.size, facts.predefined, operations, self._datatypes.address_of(handle))
            for facts, handle, operations in known
            if facts is not None
        ]


class Adapter(ABC):
    """One family of MPIs, for one image: what holds for all processes of it.

    No address does: each process of an image has its libraries elsewhere, and the debugger answers for the process
    that a call is about. So at image time a symbol is there or not, and addresses are asked for at process time.
    """

    name: ClassVar[str]
    types: Layouts
    """What is known from the debugger's debug information."""
    refused_profiles: list[str]
    """Sentences: which of the user's files are no profiles, and why."""

    @abstractmethod
    def __init__(self, image: TargetImage) -> None:
        """Ask the debugger for the types that it has; missing ones are no failure yet."""

    def describe(self) -> str:
        """Return one line about what was found in the image."""
        return f"{self.name} {'with' if list(self.types) else 'without'} debug information"

    @abstractmethod
    def check_symbols(self) -> None:
        """Return when the image has every symbol without which no queue can be read.

        Raises:
            LayoutError: one is missing that every build of the MPI exports.
        """

    @abstractmethod
    def recognise(self, image: TargetImage, memory: Memory) -> Recognition:
        """Return what can be determined without an object of a running MPI: of a library's file, or of any process.

        Args:
            image: that the process runs; its addresses are those in this process.
            memory: of the process.

        Raises:
            LayoutError: a symbol that every build exports is missing.
        """

    @abstractmethod
    def attach(self, image: TargetImage, memory: Memory) -> AttachedMpi[Any]:
        """Find and check the layouts in a process.

        Args:
            image: that the process runs; its addresses are those in this process.
            memory: of the process.

        Raises:
            NotInitializedError, FinalizedError: the process is not between MPI_Init and MPI_Finalize.
            LayoutError: no layout fits; the text says what was tried.
        """
