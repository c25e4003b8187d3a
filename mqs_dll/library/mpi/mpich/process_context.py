"""The process context: what every module that reads MPICH's objects reads from."""

from __future__ import annotations

from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.elf import LoadedLibrary
from mqs_dll.library.mpi.mpich.communicators import MpichCommunicators
from mqs_dll.library.mpi.mpich.datatypes import MpichDatatypes
from mqs_dll.library.mpi.mpich.groups import RankDecoder
from mqs_dll.library.mpi.mpich.pools import Pools
from mqs_dll.library.mpi.mpich.release import Release
from mqs_dll.library.mpi.mpich.requests import MpichRequests


class MpichProcessContext:
    """MPICH in one process: memory, library, layouts and pools, and the readers of what all devices need."""

    def __init__(
        self,
        image: TargetImage,
        memory: Memory,
        library: LoadedLibrary,
        layouts: Layouts,
        release: Release,
        pools: Pools,
        builtin: int | None,
        ranks: RankDecoder | None = None,
    ) -> None:
        """Take what was found in a process; ``builtin`` is the address of its predefined communicators, if any."""
        self.image = image
        self.memory = memory
        self.library = library
        self.layouts = layouts
        self.release = release
        self.pools = pools
        self.ranks = ranks or RankDecoder(memory, layouts)
        self.requests = MpichRequests(memory, layouts, pools)
        self.datatypes = MpichDatatypes(memory, layouts, pools)
        self.communicators = MpichCommunicators(memory, layouts, pools, builtin, self.ranks)
