"""Open MPI as its calibration calls it: functions and constants beyond those of bindings.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mqs_dll.calibrate.bindings import OPEN_MPI_ABI, Mpi

FUNCTIONS = """
int PMPI_Comm_c2f(MPI_Comm);
int PMPI_Group_c2f(MPI_Group);
int PMPI_Type_c2f(MPI_Datatype);
int PMPI_Win_c2f(MPI_Win);
double PMPI_Wtime(void);
MPI_Group PMPI_Group_f2c(int);
int ompi_group_incl_strided(MPI_Group, int, const int *, MPI_Group *);
int ompi_group_incl_bmap(MPI_Group, int, const int *, MPI_Group *);
"""
"""Those that return no error code, and Open MPI's own."""

CONSTANTS: Mapping[str, tuple[str, int | str]] = {
    "GROUP_NULL": ("MPI_Group", "ompi_mpi_group_null"),
    "GROUP_EMPTY": ("MPI_Group", "ompi_mpi_group_empty"),
    "ERRORS_ARE_FATAL": ("MPI_Errhandler", "ompi_mpi_errors_are_fatal"),
    "SHORT": ("MPI_Datatype", "ompi_mpi_short"),
    "LONG": ("MPI_Datatype", "ompi_mpi_long"),
    "PACKED": ("MPI_Datatype", "ompi_mpi_packed"),
    "TAG_UB": ("int", 0),
    "LOCK_SHARED": ("int", 2),
}
"""Constants beyond those of bindings.py: numbers, and addresses of variables (mpi.h, the same in 4.1 and 5.0)."""

LONGEST_NAME = 256


class OpenMpiLibrary(Mpi):
    """Open MPI, called from Python."""

    def __init__(self, library: Path) -> None:
        """Load the library."""
        super().__init__(library, OPEN_MPI_ABI)
        self.ffi.cdef(FUNCTIONS)
        self._add(CONSTANTS)

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function that returns its answer, and no error code: "Comm_c2f"."""
        return getattr(self._library, f"PMPI_{function}")(*arguments)

    def own(self, function: str) -> Any:
        """Return one of Open MPI's own functions, None where a build lacks it."""
        return getattr(self._library, function, None)

    def name(self, function: str, handle: Any) -> str:
        """Return an object's name, asked for with one of MPI's functions."""
        text, length = self.ffi.new("char[]", LONGEST_NAME), self.ffi.new("int *")
        self.do(function, handle, text, length)
        return bytes(self.ffi.buffer(text, length[0])).decode("utf-8", "replace")
