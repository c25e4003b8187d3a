"""The MPIs that libmqs reads, each behind the contract of base.py."""

from __future__ import annotations

from mqs_dll.interface import TargetImage
from mqs_dll.mpi.base import Adapter
from mqs_dll.mpi.mpich import Mpich
from mqs_dll.mpi.openmpi import OpenMpi

ADAPTERS: tuple[type[Adapter], ...] = (OpenMpi, Mpich)


def detect(image: TargetImage) -> type[Adapter] | None:
    """Return the adapter for the MPI that an image uses, None when it uses none that libmqs knows."""
    return next((adapter for adapter in ADAPTERS if adapter.detect(image)), None)
