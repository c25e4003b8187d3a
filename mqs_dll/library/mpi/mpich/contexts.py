"""Context ids: the number that messages carry, and that tells their communicator and their kind of traffic.

Source: src/include/mpir_contextid.h of 3.4.3 to 5.0.1. Bit 0: traffic of collectives; bits 2-1: a communicator that
MPICH makes inside another (of a node's processes, of the nodes' first processes); bit 3: the local half of an
inter-communicator. All processes of a communicator have agreed on the rest.
"""

from __future__ import annotations

ID_BITS = 20
"""No MPICH has longer ones: 16 bits, or 20 with ch4 over UCX or libfabric."""

COLLECTIVE = 0x1
INTRANODE = 0x2
LOCAL_HALF = 0x8
SUBCOMM = 0x6
"""Both bits: which of the communicators within another, 0 for none."""


def is_internal(context_id: int) -> bool:
    """Tell whether MPICH keeps the communicator with this id for itself, as a part of another."""
    return bool(context_id & (SUBCOMM | LOCAL_HALF))


def is_collective(context_id: int) -> bool:
    """Tell whether a message or request with this id belongs to a collective operation."""
    return bool(context_id & COLLECTIVE)


def communicator_of(context_id: int) -> int:
    """Return the id of the communicator that a message or request with this id belongs to."""
    return context_id & ~COLLECTIVE


def whole_of(context_id: int) -> int:
    """Return the id of the communicator that the one with this id is a part of; its own where it is no part."""
    return context_id & ~(COLLECTIVE | SUBCOMM | LOCAL_HALF)


def parts_of(context_id: int) -> range:
    """Return the ids that parts of a communicator can have, none where it is a part itself."""
    last = SUBCOMM | LOCAL_HALF
    return range(context_id + INTRANODE, context_id + last + 1, INTRANODE) if not context_id & last else range(0)
