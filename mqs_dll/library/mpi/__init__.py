"""The MPIs that libmqs reads, each behind one contract.

- ``base``: the contract of an MPI's adapter, what all adapters do alike, and the checklist for a new MPI
- ``communicators``: a communicator as all MPIs have it
- ``transport``: what moves an MPI's messages, as a walker sees it: Open MPI's pml, MPICH's device
- ``envelopes``: operations, from what is asked for and what has come, with their lines of text
- ``tag_codec``: what the bits of a fabric's tag carry; each MPI's ``tag_codecs`` has its own
- ``elf``: a library's image in memory: where it begins, its segments, which build it is
- ``stack``: the stack of a process's first thread
- ``openmpi``: Open MPI
- ``mpich``: MPICH and its derivatives
"""

from __future__ import annotations

from mqs_dll.contract.interface import TargetImage
from mqs_dll.library.mpi.base import Adapter

OPEN_MPI = "ompi_mpi_communicators"
"""The table of communicators, which every Open MPI exports."""

MPICH = "MPIR_Err_create_code"
"""A function that every MPICH and derivative exports, no other MPI has, and no tool wraps."""


def detect(image: TargetImage) -> type[Adapter] | None:
    """Return the adapter for the MPI that an image uses, None when it uses none that libmqs knows.

    Only that one is imported: a debugger's user waits for it.
    """
    if image.find_symbol(OPEN_MPI) is not None:
        from mqs_dll.library.mpi.openmpi import OpenMpiAdapter

        return OpenMpiAdapter
    if image.find_function(MPICH) is not None:
        from mqs_dll.library.mpi.mpich import MpichAdapter

        return MpichAdapter
    return None
