"""What MPICH's devices (ch3, ch4, Intel MPI's) have in common for a reader."""

from __future__ import annotations

from mqs_dll.contract.errors import NoInformation
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import MAX_LIVE
from mqs_dll.library.mpi.transport import HiddenTransport, Transport


class Device(Transport[MpichEntry]):
    """One device in one process."""

    def __init__(self, mpi: MpichProcessContext, name: str) -> None:
        self.name = name
        self._mpi = mpi
        self._memory = mpi.memory

    def requests_of(self, entry: MpichEntry) -> int:
        """Return how many requests refer to a communicator.

        Raises:
            BrokenStructureError, TargetReadError: their pool can't be read.
        """
        return self._mpi.requests.references(entry.view.address)

    def check_whole(self) -> None:
        """Make sure that every request was read: operations of any queue may be among the others.

        Raises:
            NoInformation: there are too many.
        """
        requests = self._mpi.requests
        requests.live()
        if requests.are_cut:
            raise NoInformation(f"the process has more than {MAX_LIVE} requests, and the others were not read")


class HiddenDevice(HiddenTransport[MpichEntry], Device):
    """A device that libmqs knows no walker of, or that can't be read for another reason."""

    def __init__(self, mpi: MpichProcessContext, name: str, why: str = "", remedy: str = "") -> None:
        Device.__init__(self, mpi, name)
        why = why or f"libmqs knows no walker of it ({name})"
        HiddenTransport.__init__(self, name, lambda what: NoInformation(f"{what} can't be seen: {why}", remedy))
