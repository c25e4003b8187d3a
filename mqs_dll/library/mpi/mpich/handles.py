"""MPICH's handles: a word that names an object by its class, its pool and its place in the pool.

Source: src/include/mpir_objects.h of 3.4.3 to 5.0.1: bits 31-30 tell the kind, bits 29-26 the class, the
rest the place.
"""

from __future__ import annotations

# kinds of handle
BUILTIN = 1
DIRECT = 2
INDIRECT = 3

# classes of objects (MPII_Object_kind)
COMM = 1
GROUP = 2
DATATYPE = 3
WIN = 8
REQUEST = 0xB

CLASSES = {COMM: "MPIR_Comm", GROUP: "MPIR_Group", DATATYPE: "MPIR_Datatype", WIN: "MPIR_Win", REQUEST: "MPIR_Request"}
"""Classes that the walkers read, and their structs."""

COMM_WORLD = 0x44000000
COMM_SELF = 0x44000001
BUILTIN_COMMS = 3
"""MPI_COMM_WORLD, MPI_COMM_SELF, and before 5.0 one that MPICH keeps for itself (src/mpi/comm/commutil.c)."""


def first(kind: int, cls: int) -> int:
    """Return the handle of the first object of a class: 0x44000000 is MPI_COMM_WORLD."""
    return kind << 30 | cls << 26


def null(cls: int) -> int:
    """Return the null handle of a class: 0x2c000000 is MPI_REQUEST_NULL.

    4.1 gives it to each request with which MPI_Comm_free receives a message that nobody has received, and to the next
    operation that uses the same request (src/mpi/comm/commutil.c, MPIR_Wait).
    """
    return cls << 26


def kind_of(handle: int) -> int:
    """Return BUILTIN, DIRECT, INDIRECT, or 0 for a null handle."""
    return handle >> 30


def class_of(handle: int) -> int:
    """Return the class of the object that a handle names."""
    return handle >> 26 & 0xF


def index_of(handle: int) -> int:
    """Return the place of a builtin or a direct object in its array."""
    return handle & 0x03FFFFFF
