"""The pools of point-to-point requests, one for each direction, which hold every request of the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from mqs_dll.contract.errors import BrokenStructureError, MqsError
from mqs_dll.library.layouts.view import Reader
from mqs_dll.library.memory import cached_per_sweep
from mqs_dll.library.mpi.openmpi import cm_views, tags, views
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.transport import Transport

# ompi/request/request.h: ompi_request_state_t; 0 is a request that nobody uses
INACTIVE = 1
"""A persistent request that is not started."""
CANCELLED = 3

RecvT = TypeVar("RecvT", views.RecvRequest, cm_views.CmRecvRequest)
SendT = TypeVar("SendT", views.SendRequest, cm_views.CmSendRequest)
RequestT = TypeVar("RequestT", views.RecvRequest, views.SendRequest, cm_views.CmRecvRequest, cm_views.CmSendRequest)


class RequestPool(Generic[RequestT]):
    """The requests of one direction, read once in a sweep."""

    def __init__(self, view: type[RequestT], symbol: str, mpi: OmpiProcessContext) -> None:
        self._memory = mpi.memory
        self._containers = mpi.containers
        self._pool = mpi.symbols.need(symbol)
        self._reader: Reader[RequestT] = view.bind(mpi.layouts)

    def at(self, address: int) -> RequestT:
        """Read one request.

        Raises:
            BrokenStructureError: there is no request of this direction.
        """
        request = self._reader.at(self._memory, address)
        if request.obj_class != self._class():
            raise BrokenStructureError(f"there is no request at {address:#x}")
        return request

    def of(self, communicator: int) -> Sequence[RequestT]:
        """Return the requests in use on the communicator at an address, in the order of the pool.

        A persistent request that is not started is not in use.
        """
        return [each for each in self._read().get(communicator, ()) if each.req_state != INACTIVE]

    def references(self, communicator: int) -> int:
        """Return how many requests refer to the communicator at an address, persistent ones not started included."""
        return len(self._read().get(communicator, ()))

    def all(self) -> list[RequestT]:
        """Return the requests in use on all communicators."""
        return [request for communicator in self._read() for request in self.of(communicator)]

    @cached_per_sweep
    def _class(self) -> int:
        return self._containers.pool_class(self._pool)

    @cached_per_sweep
    def _read(self) -> dict[int, list[RequestT]]:
        """Return the requests that somebody owns, by the address of their communicator."""
        found: dict[int, list[RequestT]] = {}
        for request in self._containers.pool_elements(self._pool, self._reader):
            found.setdefault(request.req_comm, []).append(request)
        return found


class PooledPml(Transport[OmpiEntry], Generic[RecvT, SendT]):
    """A point-to-point layer that takes its requests from these pools."""

    def __init__(self, mpi: OmpiProcessContext, receives: type[RecvT], sends: type[SendT]) -> None:
        """Initialize, with the views of the layer's requests.

        Raises:
            LayoutError: their layouts are missing.
        """
        self._memory = mpi.memory
        self._datatypes = mpi.datatypes
        self._recv: RequestPool[RecvT] = RequestPool(receives, "mca_pml_base_recv_requests", mpi)
        self._send: RequestPool[SendT] = RequestPool(sends, "mca_pml_base_send_requests", mpi)
        self._nonblocking_base = tags.nonblocking_base(
            has_index=mpi.layouts.offset("ompi_communicator_t", "c_index") is not None
        )

    def requests_of(self, entry: OmpiEntry) -> int:
        """Return how many requests refer to a communicator, started or not; 0 where they can't be read."""
        try:
            return self._recv.references(entry.view.address) + self._send.references(entry.view.address)
        except MqsError:
            return 0
