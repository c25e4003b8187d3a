"""Libraries that move messages for MPIs, and know nothing of them: from a worker or an endpoint to what it holds.

An MPI's adapter finds the worker, and reads the bits of tags into communicators, ranks and tags. The folders:

- ``ucx``: UCX, whose workers match messages for Open MPI's pml/ucx and for MPICH's ch4:ucx.
- ``ofi``: libfabric, whose providers do so for Open MPI's mtl/ofi and for MPICH's ch4:ofi.
"""

from __future__ import annotations

from typing import NamedTuple

from mqs_dll.library.layouts.layout import Layouts


class Fabric(NamedTuple):
    """One fabric in one process, its layouts believed."""

    title: str
    """The library and its release: "UCX 1.18.1"."""
    layouts: Layouts
    checks: tuple[str, ...]
    """Sentences: what held in the process."""
    refusals: tuple[str, ...]
    """Sentences: which layouts were tried before, and why they were refused."""
