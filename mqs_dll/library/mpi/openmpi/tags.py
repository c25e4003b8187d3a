"""Open MPI's internal tags: a negative tag other than MPI_ANY_TAG belongs to the MPI itself, mostly to a collective.

Source: ompi/mca/coll/base/coll_tags.h of 4.1.0 to 4.1.8 and of 5.0.0 to 5.0.11.
"""

from __future__ import annotations

from mqs_dll.contract import phrases

ANY_TAG = -1

_BLOCKING = {
    -10: "MPI_Allgather",
    -11: "MPI_Allgatherv",
    -12: "MPI_Allreduce",
    -13: "MPI_Alltoall",
    -14: "MPI_Alltoallv",
    -15: "MPI_Alltoallw",
    -16: "MPI_Barrier",
    -17: "MPI_Bcast",
    -18: "MPI_Exscan",
    -19: "MPI_Gather",
    -20: "MPI_Gatherv",
    -21: "MPI_Reduce",
    -22: "MPI_Reduce_scatter",
    -23: "MPI_Reduce_scatter_block",
    -24: "MPI_Scan",
    -25: "MPI_Scatter",
    -26: "MPI_Scatterv",
}

_CONTEXT_ID_5 = range(-9, -6)
"""Agreement on a context id over a bridge: below -31077 in 4.1, where it can't be told from nonblocking traffic."""

_FAULT_TOLERANCE_5 = range(-30, -26)
_NONBLOCKING_BASE_4 = -27
_NONBLOCKING_BASE_5 = -33
_NONBLOCKING_END = -1073741822
_NEIGHBORHOOD_END = -1073742847


def is_internal(tag: int) -> bool:
    """Tell whether a tag is one that no program can use."""
    return tag < 0 and tag != ANY_TAG


def label(tag: int, *, nonblocking_base: int) -> str:
    """Return what an internal tag stands for, within 63 characters.

    A collective may be made of others (an allreduce of a reduce and a bcast), and the tag tells the piece. The
    making of a communicator (MPI_Comm_dup, _split, ...) counts as a nonblocking collective on its parent.

    Args:
        tag: a tag for which is_internal holds.
        nonblocking_base: the first tag of nonblocking collectives, which differs by series.
    """
    name = _BLOCKING.get(tag)
    if name is not None:
        return phrases.COLLECTIVE(name)
    if _NONBLOCKING_END <= tag <= nonblocking_base:
        return phrases.NONBLOCKING_OR_MAKING(nonblocking_base - tag + 1)
    if _NEIGHBORHOOD_END <= tag < _NONBLOCKING_END:
        return phrases.NEIGHBORHOOD()
    if nonblocking_base == _NONBLOCKING_BASE_5:
        if tag in _CONTEXT_ID_5:
            return phrases.MAKING()
        if tag in _FAULT_TOLERANCE_5:
            return phrases.FAULT_TOLERANCE()
    return phrases.OTHER("Open MPI", tag)


def nonblocking_base(*, has_index: bool) -> int:
    """Return the first tag of nonblocking collectives; 5.0.0, which gave communicators a c_index, moved it."""
    return _NONBLOCKING_BASE_5 if has_index else _NONBLOCKING_BASE_4
