"""MPICH's internal tags: what a message is for whose context id says that it belongs to a collective operation.

Tags alone tell nothing: a program may use the same numbers. Ask contexts.is_collective first.
Source: src/include/mpir_tags.h, src/mpid/common/sched/mpidu_sched.c, src/mpi/comm/contextid.c of 3.4.3 to 5.0.1.
"""

from __future__ import annotations

from mqs_dll.contract import phrases

_BLOCKING = {
    1: "MPI_Barrier",
    2: "MPI_Bcast",
    3: "MPI_Gather",
    4: "MPI_Gatherv",
    5: "MPI_Scatter",
    6: "MPI_Scatterv",
    7: "MPI_Allgather",
    8: "MPI_Allgatherv",
    9: "MPI_Alltoall",
    10: "MPI_Alltoallv",
    11: "MPI_Reduce",
    14: "MPI_Allreduce",
    17: "MPI_Reduce_scatter",
    20: "MPI_Scan",
    24: "MPI_Exscan",
    25: "MPI_Alltoallw",
    26: "MPI_Dist_graph_create",
    27: "MPI_Dist_graph_create",
    28: "MPI_Reduce_scatter_block",
}
"""The names of the others of mpir_tags.h are used by no code."""

_FAULT_TOLERANCE = range(29, 31)
_HCOLL = range(31, 287)
_FIRST_NONBLOCKING = 287
_LOWEST_BIT = 28
"""The bit that marks the agreement of a group on a context id is 28 where two bits tell of errors, else 30."""


def is_collectives(tag: int) -> bool:
    """Return whether messages of collective operations have a tag: one that has lost its context id may be of one."""
    return tag in _BLOCKING or tag >= _FAULT_TOLERANCE.start


def label(tag: int) -> str:
    """Return what the tag of a collective operation's message stands for, within 63 characters.

    A collective may be made of others (MPI_Comm_dup of an allreduce, an allreduce of a reduce and a bcast), and the tag
    tells the piece. Neighborhood collectives are made like nonblocking ones, and are counted with them.
    """
    name = _BLOCKING.get(tag)
    if name is not None:
        return phrases.COLLECTIVE(name)
    if _FIRST_NONBLOCKING <= tag < 1 << _LOWEST_BIT:
        return phrases.NONBLOCKING_OR_NEIGHBORHOOD(tag - _FIRST_NONBLOCKING + 1)
    if tag >= 1 << _LOWEST_BIT:
        return phrases.MAKING()
    if tag in _FAULT_TOLERANCE:
        return phrases.FAULT_TOLERANCE()
    if tag in _HCOLL:
        return phrases.BY_LIBRARY("HCOLL")
    return phrases.OTHER("MPICH", tag)
