"""Symbols and files by which a stack shows that it is inside MPI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MPI_FILES = ("libmpi", "libpmpi", "libfmpich", "libompi", "libopen-", "libpmix", "libprrte", "mca_")
"""How the names of an MPI's files start: its C library, its bindings for other languages, and what Open MPI loads."""

RUNTIME_FILES = (
    *("ld-linux", "libc.", "libc-", "libdl.", "libm.", "libpthread", "librt.", "libutil.", "linux-vdso", "[vdso]"),
    *(
        "libasan.",
        "libffi.",
        "libgcc_s.",
        "libgfortran.",
        "libgomp.",
        "libiomp5.",
        "libomp.",
        "libquadmath.",
        "libstdc++.",
    ),
)
"""How the names of what every program has start: the C library, and what compilers bring along."""

INTERPRETERS = ("libpython3", "python3")
"""How the names of modules start that hold Python's interpreter: a library, or the program itself."""

_IN_C = re.compile(r"P?(MPIX?_[A-Z]\w*?)(_c)?")
"""MPIX_ starts the names of what the standard lacks; MPI_Recv_c is MPI_Recv for large counts (MPI 4.0, 19.2)."""
_IN_FORTRAN = re.compile(r"p?mpi_([a-z]\w*?)(_f08(ts)?)?_{0,2}", re.IGNORECASE)
"""Names that compilers and MPIs make of MPI_RECV (MPI 4.0, section 19.1.5)."""

_ALONE_IN = {"ompi_mpi_finalize": "MPI_Finalize"}
"""Functions of an MPI's that one of the standard's does nothing but jump to, which leaves no frame.

Who jumps to that one too, as mpi4py does, has no call of it: on the stack there is nothing else (Open MPI 4.1 and 5.0:
ompi/mpi/c/finalize.c).
"""


class Call(NamedTuple):
    """An MPI function that a thread is in."""

    function: str
    place: int
    """Of its frame; of that of the function that it jumped to, where it left none."""


def find_call(frames: Iterable[tuple[str | None, bool]]) -> Call | None:
    """Return the MPI function that the program called; None where no frame shows one.

    MPIs, their bindings for other languages and profiling layers call MPI functions too. So it is the outermost one
    of those that are nearest to the innermost frame, with nothing but the MPI in between.

    Args:
        frames: of each the MPI function that it is of, if any, and whether it is the MPI's; innermost first.
    """
    found: Call | None = None
    for place, (function, is_of_mpi) in enumerate(frames):
        if function is not None:
            found = Call(function, place)
        elif found is not None and not is_of_mpi:
            break
    return found


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
