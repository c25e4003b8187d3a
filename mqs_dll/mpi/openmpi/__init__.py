"""Open MPI 4.1 and 5.0.

Rooms: ``identity`` (release, state, layouts), ``views``, ``containers``, ``groups``, ``communicators``, ``datatypes``;
``transports`` selects the point-to-point layer: ``ob1`` with ``matching``, ``requests`` and ``unexpected``, or ``cm``;
others are hidden (``pml``). ``adapter`` ties them together.
"""

from __future__ import annotations

from mqs_dll.mpi.openmpi.adapter import OpenMpi

__all__ = ["OpenMpi"]
