"""Which provider an endpoint is of: the first one that all that it shows of itself fits to."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain

from mqs_dll.contract.errors import LayoutError, MqsError
from mqs_dll.library.fabric import Fabric
from mqs_dll.library.fabric.ofi import releases
from mqs_dll.library.fabric.ofi.endpoint import Endpoint
from mqs_dll.library.fabric.ofi.libfabric import Libfabric
from mqs_dll.library.fabric.ofi.rxm import OldRxm, Rxm
from mqs_dll.library.fabric.ofi.shm import Shm
from mqs_dll.library.fabric.ofi.sockets import Sockets
from mqs_dll.library.fabric.ofi.srx import Sm2
from mqs_dll.library.fabric.ofi.tcp import Tcp
from mqs_dll.library.layouts.profiles import of_fabric

PROVIDERS = (Tcp, Shm, Sm2, Rxm, OldRxm)
"""Of endpoints that send and receive themselves."""


def find_endpoint(
    library: Libfabric, endpoint: int, receives: int, domain: int, mpi: str, provider: str = ""
) -> Endpoint:
    """Return what an MPI's endpoint is.

    Args:
        library: libfabric in this process.
        endpoint: the address of the MPI's endpoint (fid_ep).
        receives: of what it posts receives to: the same, or the receive context (class RECEIVES) of a scalable one.
        domain: of the MPI's domain.
        mpi: whose profiles may have a layout.
        provider: what the MPI knows of its name, for the error.

    Raises:
        LayoutError: no layout of a known provider fits, or the provider keeps its queues where they can't be read; the
            text names libfabric's release and, where it is known, the provider.
    """
    refusals: list[str] = []
    release = library.release
    for layouts in chain(of_fabric("libfabric", mpi, release), releases.nearest(release)):
        candidates = ((each, endpoint) for each in PROVIDERS)
        for candidate, address in (*candidates, (Sockets, receives)):
            with suppress(MqsError):
                found = candidate(library, layouts, address, domain)
                if provider.endswith(found.provider):  # "tcp;ofi_rxm" tells more than "ofi_rxm"
                    found.provider = provider
                title = f"{found.provider} of {library.name}"
                found.fabric = Fabric(title, layouts, found.checks, tuple(refusals))
                return found
        refusals.append(f"{layouts.summary()}: no provider's fits")
    raise LayoutError(f"no known layout of {library.name} fits {provider or 'its provider'}")
