"""Symbols and files by which a stack shows that it is inside MPI."""

from __future__ import annotations

import re

MPI_FILES = ("libmpi", "libpmpi", "libfmpich", "libompi", "libopen-", "libpmix", "libprrte", "mca_")
"""How the files of an MPI begin: its C library, its bindings for other languages, and what Open MPI loads."""

_IN_C = re.compile(r"P?(MPIX?_[A-Z]\w*?)(_c)?")
"""MPIX_ begins the names of what the standard lacks; MPI_Recv_c is MPI_Recv for large counts (MPI 4.0, 19.2)."""
_IN_FORTRAN = re.compile(r"p?mpi_([a-z]\w*?)(_f08(ts)?)?_{0,2}", re.IGNORECASE)
"""Names that compilers and MPIs make of MPI_RECV (MPI 4.0, section 19.1.5)."""

_ALONE_IN = {"ompi_mpi_finalize": "MPI_Finalize"}
"""Functions of an MPI's that one of the standard's does nothing but jump to, which leaves no frame.

Who jumps to that one too, as mpi4py does, has no call of it: on the stack there is nothing else (Open MPI 4.1 and 5.0:
ompi/mpi/c/finalize.c).
"""


def standard_names(symbol: str) -> list[str]:
    """Return the MPI functions that a symbol may stand for, as the standard spells them, the likeliest first."""
    if symbol in _ALONE_IN:
        return [_ALONE_IN[symbol]]
    names = []
    if in_c := _IN_C.fullmatch(symbol):
        names += [in_c[1], in_c[1] + (in_c[2] or "")]
    if in_fortran := _IN_FORTRAN.fullmatch(symbol):
        names.append("MPI_" + in_fortran[1].lower().capitalize())
    return names
