"""Persistent requests: each that is started has a request behind it, which does the work and is on the queues.

Source: src/include/mpir_request.h, src/mpid/ch3/src/mpid_startall.c of 3.4.3, src/mpid/ch4/src/ch4_persist.c of 4.0.3.
"""

from __future__ import annotations

from mqs_dll.mpi.mpich import views
from mqs_dll.mpi.mpich.requests import Kind, Requests

PERSISTENT = (Kind.PREQUEST_SEND, Kind.PREQUEST_RECV)

PERSISTENT_SENDS = {1: "MPI_Send_init", 2: "MPI_Bsend_init", 3: "MPI_Ssend_init"}
"""By the type of a persistent request of ch4 (MPIDI_ptype); one in the ready mode is like a standard one."""

SMALLEST_REQUEST = 128


def started(requests: Requests) -> dict[int, views.Request]:
    """Return the persistent request, whose handle the program has, by the address of the request behind it.

    A buffered send that was started is complete for the program, and what is behind it goes on like that of MPI_Bsend.
    """
    return {
        request.real_request: request
        for request in requests.live().values()
        if requests.kind(request) in PERSISTENT and request.real_request and _waits(request)
    }


def _waits(request: views.Request) -> bool:
    """Tell whether the completion of a persistent request is that of the one behind it, whose counter it points at."""
    return 0 <= request.cc_ptr - request.real_request < SMALLEST_REQUEST
