"""The adapter for Open MPI: ties its rooms together for one image, and for one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from mqs_dll.abi import Datatype, LayoutOrigin, MpiFacts, Operation, Queue, Recognition, Window
from mqs_dll.errors import MqsError
from mqs_dll.interface import TargetImage
from mqs_dll.memory import Memory
from mqs_dll.mpi.base import Adapter, AttachedMpi, CommunicatorEntry
from mqs_dll.mpi.openmpi import identity, lineage
from mqs_dll.mpi.openmpi.communicators import Communicators, Entry
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.datatypes import Datatypes
from mqs_dll.mpi.openmpi.groups import Groups
from mqs_dll.mpi.openmpi.internal import InternalCommunicators
from mqs_dll.mpi.openmpi.symbols import NEEDED, Symbols
from mqs_dll.mpi.openmpi.transports import select
from mqs_dll.mpi.openmpi.windows import Windows
from mqs_dll.view import wanted_members


class OpenMpi(Adapter):
    """Open MPI in one image."""

    name = "Open MPI"

    @classmethod
    def detect(cls, image: TargetImage) -> bool:
        """Tell by the table of communicators, which every Open MPI exports."""
        return image.find_symbol("ompi_mpi_communicators") is not None

    def __init__(self, image: TargetImage) -> None:
        self._symbols = Symbols(image, wanted_members(identity.ALL_VIEWS))
        self._types = identity.types_of(image)
        self._profiles, self.refused_profiles = identity.profiles_for(self._symbols)

    def describe(self) -> str:
        """Return what was found in the image."""
        known = "with debug information" if list(self._types) else "without debug information"
        return f"{self.name} {known}"

    def check_symbols(self) -> None:
        """Return when the roots of the walks are there: a library with hidden symbols has but a few."""
        for name in NEEDED:
            self._symbols.need(name)

    def recognise(self, memory: Memory) -> Recognition:
        """Return what the library's constants and class descriptors tell."""
        return identity.recognise(memory, self._symbols, self._types, self._profiles)

    def attach(self, memory: Memory) -> AttachedOpenMpi:
        """Find the layouts that hold in a process that is past MPI_Init."""
        identity.check_running(memory, self._symbols)
        identified = identity.identify(memory, self._symbols, self._types, self._profiles)
        return AttachedOpenMpi(memory, self._symbols, identified)


class AttachedOpenMpi(AttachedMpi):
    """Open MPI in one process."""

    def __init__(self, memory: Memory, symbols: Symbols, identified: identity.Identity) -> None:
        self._memory = memory
        self._symbols = symbols
        self._identity = identified
        self._layouts = layouts = identified.layouts
        self._containers = Containers(memory, symbols, layouts)
        self._groups = Groups(memory, symbols, layouts)
        self._datatypes = Datatypes(memory, symbols, layouts)
        self._communicators = Communicators(memory, symbols, layouts, self._containers, self._groups)
        self._windows = Windows(memory, symbols, layouts, self._containers, self._groups)
        self._internal = InternalCommunicators(memory, symbols, layouts, self._containers)
        self._pml = select(memory, symbols, layouts, self._containers, self._datatypes, self._communicators)
        self._walks = {
            Queue.SENDS: self._pml.sends,
            Queue.RECEIVES: self._pml.receives,
            Queue.UNEXPECTED: self._pml.unexpected,
        }

    def describe(self) -> str:
        """Return the release, the transport and the source of the layouts."""
        return f"Open MPI {self._identity.release}, {self._pml.name}; layouts: {self._layouts.summary()}"

    def facts(self) -> MpiFacts:
        """Return what is known of this Open MPI."""
        known = self._identity
        return identity.facts(self._memory, self._symbols, known.release, self._pml.name, known.profile)

    def layout_origins(self) -> list[LayoutOrigin]:
        """Return where the layout of each struct came from."""
        return self._layouts.origins()

    def checks(self) -> list[str]:
        """Return what held before the layouts were believed."""
        return list(self._identity.checks)

    def refusals(self) -> list[str]:
        """Return which layouts were refused."""
        return list(self._identity.refusals)

    def global_rank(self) -> int:
        """Return the rank of this process in its MPI_COMM_WORLD."""
        return self._groups.own().vpid

    def forget(self) -> None:
        """Drop all that was read of the process."""
        self._memory.forget()
        self._groups.forget()
        self._datatypes.forget()
        self._pml.forget()

    def communicators(self) -> list[CommunicatorEntry]:
        """Return the live communicators; freed and internal ones are marked so.

        One that Open MPI keeps for itself no longer counts as internal while an operation is pending on it.
        """
        identity.check_running(self._memory, self._symbols)
        entries = self._communicators.read()
        lineage.describe(entries)
        self._internal.mark(entries)
        for entry in entries:
            entry.tell(freed=self._is_freed(entry), internal=entry.internal)
            if entry.internal:
                entry.internal = not self.is_in_use(entry)
        return cast(list[CommunicatorEntry], entries)

    def _is_freed(self, entry: Entry) -> bool:
        try:
            return entry.is_held_only_by(self._pml.requests_of(entry))
        except MqsError:
            return False

    def operations(self, entry: CommunicatorEntry, queue: Queue) -> Iterator[Operation]:
        """Return a generator of one queue of one communicator."""
        return self._walks[queue](cast(Entry, entry))

    def windows(self) -> list[Window]:
        """Return the windows that are alive."""
        return self._windows.read(self._communicators.read())

    def datatypes(self) -> list[Datatype]:
        """Return the datatypes of the requests in use, the most used first."""
        found = []
        for address, operations in Counter(self._pml.datatypes_in_use()).most_common():
            facts = self._datatypes.at(address)
            if facts is not None:
                found.append(Datatype(facts.name, facts.size, facts.predefined, operations, address))
        return found
