"""The adapter for Open MPI: ties its modules together for one image, and for one process."""

from __future__ import annotations

from mqs_dll.contract.abi import MpiFacts, Recognition, Window
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.profiles import available
from mqs_dll.library.layouts.selection import Identity
from mqs_dll.library.layouts.view import wanted_members
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.base import Adapter, AttachedMpi
from mqs_dll.library.mpi.openmpi import identity, lineage
from mqs_dll.library.mpi.openmpi.communicators import OmpiCommunicators, OmpiEntry
from mqs_dll.library.mpi.openmpi.internal import OmpiInternalCommunicators
from mqs_dll.library.mpi.openmpi.pml import select
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.symbols import NEEDED, Symbols, missing
from mqs_dll.library.mpi.openmpi.windows import OmpiWindows


class OpenMpiAdapter(Adapter):
    """Open MPI in one image."""

    name = identity.PRODUCT

    def __init__(self, image: TargetImage) -> None:
        self._image = image
        self.types = identity.types_of(image)
        self._profiles, self.refused_profiles = available("openmpi")

    def check_symbols(self) -> None:
        """Return when the roots of the walks are there: a library with hidden symbols has but a few."""
        for name in NEEDED:
            if self._image.find_symbol(name) is None:
                raise missing(name)

    def recognise(self, image: TargetImage, memory: Memory) -> Recognition:
        """Return what the library's constants and class descriptors tell."""
        symbols = _symbols_of(image)
        return identity.recognise(memory, symbols, self.types, identity.profiles_for(symbols, self._profiles))

    def attach(self, image: TargetImage, memory: Memory) -> AttachedOpenMpi:
        """Find the layouts that hold in a process that is past MPI_Init."""
        symbols = _symbols_of(image)
        identity.check_running(memory, symbols)
        profiles = identity.profiles_for(symbols, self._profiles)
        return AttachedOpenMpi(memory, symbols, identity.identify(memory, symbols, self.types, profiles))


def _symbols_of(image: TargetImage) -> Symbols:
    return Symbols(image, wanted_members(identity.ALL_VIEWS))


class AttachedOpenMpi(AttachedMpi[OmpiEntry]):
    """Open MPI in one process."""

    def __init__(self, memory: Memory, symbols: Symbols, identified: Identity) -> None:
        mpi = OmpiProcessContext(memory, symbols, identified.layouts)
        super().__init__(memory, identified, select(mpi), mpi.datatypes)
        self._symbols = symbols
        self._profile = identified.profile
        self._groups = mpi.groups
        self._communicators = OmpiCommunicators(mpi)
        self._windows = OmpiWindows(mpi)
        self._internal = OmpiInternalCommunicators(mpi, self._windows)

    def facts(self) -> MpiFacts:
        """Return what is known of this Open MPI."""
        return identity.facts_of(self._memory, self._symbols, self._transport.name, self._profile)

    def global_rank(self) -> int:
        """Return the rank of this process in its MPI_COMM_WORLD."""
        return self._groups.own().vpid

    def read_communicators(self) -> list[OmpiEntry]:
        """Return the live communicators, with words for those without a name."""
        identity.check_running(self._memory, self._symbols)
        entries = self._communicators.read()
        lineage.describe(entries)
        self._internal.mark(entries)
        return entries

    def windows(self) -> list[Window]:
        """Return the windows that are alive."""
        return self._windows.read(self._communicators.read())
