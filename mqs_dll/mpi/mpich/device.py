"""What MPICH's devices (ch3, ch4) have in common for a reader."""

from __future__ import annotations

from dataclasses import dataclass

from mqs_dll.errors import NoInformation
from mqs_dll.interface import TargetImage
from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory
from mqs_dll.mpi.elf import LoadedLibrary
from mqs_dll.mpi.mpich.communicators import Communicators, Entry
from mqs_dll.mpi.mpich.datatypes import Datatypes
from mqs_dll.mpi.mpich.release import Release
from mqs_dll.mpi.mpich.requests import Requests
from mqs_dll.mpi.transport import HiddenTransport, Transport


@dataclass(frozen=True)
class Parts:
    """What every device reads from, in one process."""

    image: TargetImage
    memory: Memory
    library: LoadedLibrary
    layouts: Layouts
    release: Release
    requests: Requests
    datatypes: Datatypes
    communicators: Communicators


class Device(Transport[Entry]):
    """One device in one process; what ``Parts`` have read is not its own to forget."""

    def more_references(self, entry: Entry) -> int:
        """Return how many requests refer to a communicator without pointing at it."""
        return 0


class HiddenDevice(HiddenTransport[Entry], Device):
    """A device whose queues can't be seen."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, lambda what: NoInformation(f"{what} can't be seen: {why} ({name})"))
