"""Open MPI as its calibration calls it: functions beyond those of bindings.py."""

from __future__ import annotations

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

LONGEST_NAME = 256


class OpenMpiLibrary(Mpi):
    """Open MPI, called from Python."""

    def __init__(self, library: Path) -> None:
        """Load the library."""
        super().__init__(library, OPEN_MPI_ABI)
        self.ffi.cdef(FUNCTIONS)

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
