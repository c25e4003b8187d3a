"""The processes that a process has an ompi_proc_t of, and what its transports keep of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mqs_dll.contract.errors import MqsError
from mqs_dll.library.memory import WORD
from mqs_dll.library.mpi.openmpi import cm_views, views
from mqs_dll.library.mpi.openmpi.groups import ProcName
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext


class OmpiProcList:
    """The list of processes."""

    def __init__(self, mpi: OmpiProcessContext) -> None:
        """Begin.

        Raises:
            LayoutError: the layout of ompi_proc_t isn't known.
        """
        self._memory = mpi.memory
        self._containers = mpi.containers
        self._proc = views.Proc.bind(mpi.layouts)
        self._list = mpi.symbols.need("ompi_proc_list")
        self._first = cm_views.Endpoints.bind(mpi.layouts).constant("proc_endpoints")
        self._slots = max(0, mpi.class_size("ompi_proc_t") - self._first) // WORD

    def endpoints(self) -> Iterator[tuple[ProcName, tuple[int, ...]]]:
        """Yield the name of each process, and the pointers that its transports keep there, as far as they can be read.

        How many there are depends on the components that Open MPI was built with; some are NULL, or another's.
        """
        with suppress(MqsError):
            for address in self._containers.list_items(self._list, "the list of processes"):
                proc = self._proc.at(self._memory, address)
                yield ProcName(proc.jobid, proc.vpid), self._memory.pointers(address + self._first, self._slots)
