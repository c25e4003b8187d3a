"""The pools of point-to-point requests, one for each direction, which hold every request of the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from mqs_dll.errors import BrokenStructureError
from mqs_dll.layout import Layouts
from mqs_dll.memory import Memory, remembered
from mqs_dll.mpi.openmpi import cm_views, views
from mqs_dll.mpi.openmpi.containers import Containers
from mqs_dll.mpi.openmpi.symbols import Symbols
from mqs_dll.view import Reader

# ompi/request/request.h: ompi_request_state_t; 0 is a request that nobody uses
INACTIVE = 1
"""A persistent request that is not started."""
CANCELLED = 3

RequestT = TypeVar("RequestT", views.RecvRequest, views.SendRequest, cm_views.CmRecvRequest, cm_views.CmSendRequest)


class RequestPool(Generic[RequestT]):
    """The requests of one direction, read once in a sweep."""

    def __init__(
        self,
        view: type[RequestT],
        symbol: str,
        memory: Memory,
        symbols: Symbols,
        layouts: Layouts,
        containers: Containers,
    ) -> None:
        self._memory = memory
        self._containers = containers
        self._pool = symbols.need(symbol)
        self._reader: Reader[RequestT] = view.bind(layouts)

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

    @remembered
    def _class(self) -> int:
        return self._containers.pool_class(self._pool)

    @remembered
    def _read(self) -> dict[int, list[RequestT]]:
        """Return the requests that somebody owns, by the address of their communicator."""
        found: dict[int, list[RequestT]] = {}
        for address in self._containers.pool_elements(self._pool, self._reader.offsets["req_state"]):
            request = self.at(address)
            found.setdefault(request.req_comm, []).append(request)
        return found
