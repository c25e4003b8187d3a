"""libfabric: what one endpoint holds, whatever MPI it works for.

Which provider an endpoint is of is believed once all that it shows of itself fits together: ``find_endpoint``.

- ``libfabric``: libfabric in a process: its release, and what is an object of it.
- ``endpoint``: what an endpoint tells, whatever provider it is of.
- ``lists``: its containers; ``buffers``: its pools.
- ``srx``: the shared receives that several providers match by.
- ``tcp``: that provider, and the members that are read of its structs, as in the next ones.
- ``shm``: that one; ``sm2``: that one; ``rxm``: that one; ``cxi``: that one; ``sockets``: that one.
- ``lnx``: what links endpoints of the others, and matches for them.
"""

from __future__ import annotations

from mqs_dll.contract.errors import LayoutError, MqsError, TooMuchError
from mqs_dll.library.fabric.ofi.cxi import Cxi
from mqs_dll.library.fabric.ofi.endpoint import Endpoint
from mqs_dll.library.fabric.ofi.libfabric import Libfabric
from mqs_dll.library.fabric.ofi.lnx import Lnx
from mqs_dll.library.fabric.ofi.rxm import OldRxm, Rxm
from mqs_dll.library.fabric.ofi.shm import Shm
from mqs_dll.library.fabric.ofi.sm2 import Sm2
from mqs_dll.library.fabric.ofi.sockets import Sockets
from mqs_dll.library.fabric.ofi.tcp import Tcp
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import of_fabric
from mqs_dll.library.layouts.selection import Identity, LayoutSelection

PROVIDERS = (Lnx, Tcp, Shm, Sm2, Rxm, OldRxm, Cxi)
"""Of endpoints that send and receive themselves; first the one that does it by endpoints of the others."""


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
    selection = LayoutSelection()
    for layouts in of_fabric("libfabric", mpi, library.release):
        found = selection.try_candidate(layouts.summary(), _believed, library, layouts, endpoint, receives, domain)
        if found is not None:
            if provider.endswith(found.provider):  # "tcp;ofi_rxm" tells more than "ofi_rxm"
                found.provider = provider
            title = ", ".join(filter(None, (f"{found.provider} of {library.name}", found.caveat)))
            found.fabric = Identity(title, layouts, checks=found.checks, refusals=tuple(selection.refusals))
            return found
    raise LayoutError(f"no known layout of {library.name} fits {provider or 'its provider'}")


def _believed(library: Libfabric, layouts: Layouts, endpoint: int, receives: int, domain: int) -> Endpoint:
    """Return the endpoint of the first provider that these layouts fit.

    Raises:
        LayoutError: they fit none.
        TooMuchError: the call may try no more of them.
    """
    candidates = ((each, endpoint) for each in PROVIDERS)
    for candidate, address in (*candidates, (Sockets, receives)):
        try:
            return candidate(library, layouts, address, domain)
        except TooMuchError:
            raise
        except MqsError:
            continue
    raise LayoutError("no provider's fits")
