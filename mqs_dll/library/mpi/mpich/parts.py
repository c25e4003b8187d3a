"""What every room that reads MPICH's objects reads from, in one process."""

from __future__ import annotations

from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.elf import LoadedLibrary
from mqs_dll.library.mpi.mpich.communicators import Communicators
from mqs_dll.library.mpi.mpich.datatypes import Datatypes
from mqs_dll.library.mpi.mpich.groups import Ranks
from mqs_dll.library.mpi.mpich.pools import Pools
from mqs_dll.library.mpi.mpich.release import Release
from mqs_dll.library.mpi.mpich.requests import Requests


class Parts:
    """Memory, library, layouts and pools, and the rooms that know what is common to all devices."""

    def __init__(
        self,
        image: TargetImage,
        memory: Memory,
        library: LoadedLibrary,
        layouts: Layouts,
        release: Release,
        pools: Pools,
        builtin: int | None,
        ranks: Ranks | None = None,
    ) -> None:
        """Take what was found in a process; ``builtin`` is the address of its predefined communicators, if any."""
        self.image = image
        self.memory = memory
        self.library = library
        self.layouts = layouts
        self.release = release
        self.pools = pools
        self.ranks = ranks or Ranks(memory, layouts)
        self.requests = Requests(memory, layouts, pools)
        self.datatypes = Datatypes(memory, layouts, pools)
        self.communicators = Communicators(memory, layouts, pools, builtin, self.ranks)
