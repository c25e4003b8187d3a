"""The adapter for MPICH: ties its modules together for one image, and for one process."""

from __future__ import annotations

from mqs_dll.contract.abi import INVALID_RANK, MpiFacts, Recognition, Window
from mqs_dll.contract.errors import LayoutError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.profiles import available
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi import MPICH
from mqs_dll.library.mpi.base import Adapter, AttachedMpi
from mqs_dll.library.mpi.mpich import fitting, identity, views
from mqs_dll.library.mpi.mpich.communicators import WORLD, MpichEntry
from mqs_dll.library.mpi.mpich.device import Device, HiddenDevice
from mqs_dll.library.mpi.mpich.internal import MpichInternalCommunicators
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.romio import Files
from mqs_dll.library.mpi.mpich.windows import MpichWindows


class MpichAdapter(Adapter):
    """MPICH, or a derivative, in one image."""

    name = "MPICH"

    def __init__(self, image: TargetImage) -> None:
        self._image = image
        self.types = identity.types_of(image)
        self._profiles, self.refused_profiles = available("mpich")

    def check_symbols(self) -> None:
        """Return: all else is found from the one function that every build exports, which it was detected by."""
        _need_anchor(self._image)

    def recognise(self, image: TargetImage, memory: Memory) -> Recognition:
        """Return what the library's constants and the records of its pools tell."""
        anchor, symbols = _need_anchor(image), identity.symbols_of(image)
        return identity.recognise(memory, anchor, symbols, self.types, self._profiles)

    def attach(self, image: TargetImage, memory: Memory) -> AttachedMpich:
        """Find the layouts that hold in a process that is past MPI_Init."""
        anchor, symbols = _need_anchor(image), identity.symbols_of(image)
        return AttachedMpich(image, memory, identity.identify(memory, anchor, symbols, self.types, self._profiles))


def _need_anchor(image: TargetImage) -> int:
    anchor = image.find_function(MPICH)
    if anchor is None:
        raise LayoutError(f"MPICH's function {MPICH} is missing")
    return anchor


def select(mpi: MpichProcessContext) -> Device:
    """Return the reader for the device of a process's MPICH; only that one is imported."""
    if mpi.layouts.offset(views.MpirRequest.struct, "dev.match.parts.tag") is not None:
        from mqs_dll.library.mpi.mpich.ch3 import Ch3

        return Ch3(mpi)
    if views.LinkedExtension.struct in mpi.layouts and (
        mpi.layouts.offset(views.LinkedExtension.struct, "rreq.next") is not None
    ):
        from mqs_dll.library.mpi.mpich.intel import Intel

        return Intel(mpi)
    if mpi.layouts.offset(views.MpirRequest.struct, "dev.ch4.self.tag") is not None:
        from mqs_dll.library.mpi.mpich.ch4 import Ch4

        return Ch4(mpi)
    name = mpi.release.device or "an unknown device"
    return HiddenDevice(mpi, name, *fitting.refusal(mpi.layouts))


class AttachedMpich(AttachedMpi[MpichEntry]):
    """MPICH in one process."""

    def __init__(self, image: TargetImage, memory: Memory, identified: identity.MpichIdentity) -> None:
        known = identified
        mpi = MpichProcessContext(
            image, memory, known.library, known.common.layouts, known.release, known.pools, known.builtin
        )
        super().__init__(memory, known.common, select(mpi), mpi.datatypes)
        self.is_provisional = fitting.refusal(mpi.layouts) == fitting.NOT_SHOWN
        self._identity = identified
        self._pools = identified.pools
        self._ranks = mpi.ranks
        self._communicators = mpi.communicators
        self._windows = MpichWindows(mpi)
        files = Files(memory, identified.library, identified.heap_end)
        self._internal = MpichInternalCommunicators(self._communicators, self._windows, files)

    def facts(self) -> MpiFacts:
        """Return what is known of this MPICH."""
        known = self._identity
        return identity.facts_of(known.release, known.library, self._transport.name, known.common.profile)

    def global_rank(self) -> int:
        """Return the rank of this process in its MPI_COMM_WORLD."""
        world = self._communicators.predefined(WORLD)
        if world is not None and world.ref_count > 0:
            return world.rank
        for entry in self._communicators.read():  # of a session
            if 0 <= entry.view.rank < entry.size:
                return entry.world_ranks()[entry.view.rank]
        return INVALID_RANK

    def read_communicators(self) -> list[MpichEntry]:
        """Return the live communicators, with words for those that MPICH keeps for itself."""
        identity.check_running(self._memory, self._layouts, self._pools, self._identity.builtin)
        entries = self._communicators.read()
        self._internal.mark(entries)
        return entries

    def windows(self) -> list[Window]:
        """Return the windows that are alive."""
        return self._windows.read(self._communicators.read(), self.global_rank())
