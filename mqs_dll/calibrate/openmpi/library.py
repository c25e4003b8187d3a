"""Open MPI as its calibration calls it: functions and constants beyond those of bindings.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mqs_dll.calibrate.bindings import OPEN_MPI_ABI, Mpi

FUNCTIONS = {
    "Comm_get_name": "MPI_Comm, char *, int *",
    "Comm_test_inter": "MPI_Comm, int *",
    "Comm_c2f": "MPI_Comm",
    "Comm_get_attr": "MPI_Comm, int, void *, int *",
    "Comm_dup_with_info": "MPI_Comm, MPI_Info, MPI_Comm *",
    "Comm_set_info": "MPI_Comm, MPI_Info",
    "Comm_create_errhandler": "void *, MPI_Errhandler *",
    "Cart_create Graph_create": "MPI_Comm, int, const int *, const int *, int, MPI_Comm *",
    "Session_init": "MPI_Info, MPI_Errhandler, MPI_Session *",
    "Group_from_session_pset": "MPI_Session, const char *, MPI_Group *",
    "Comm_create_from_group": "MPI_Group, const char *, MPI_Info, MPI_Errhandler, MPI_Comm *",
    "Group_excl": "MPI_Group, int, const int *, MPI_Group *",
    "Group_c2f": "MPI_Group",
    "Info_create": "MPI_Info *",
    "Info_set": "MPI_Info, const char *, const char *",
    "Type_create_hindexed": "int, const int *, const MPI_Aint *, MPI_Datatype, MPI_Datatype *",
    "Type_get_extent Type_get_true_extent": "MPI_Datatype, MPI_Aint *, MPI_Aint *",
    "Type_get_name": "MPI_Datatype, char *, int *",
    "Type_c2f": "MPI_Datatype",
    "Win_get_group": "MPI_Win, MPI_Group *",
    "Win_get_name": "MPI_Win, char *, int *",
    "Win_set_errhandler": "MPI_Win, MPI_Errhandler",
    "Win_lock": "int, int, int, MPI_Win",
    "Win_unlock": "int, MPI_Win",
    "Win_c2f": "MPI_Win",
    "Pack_external": "const char *, const void *, int, MPI_Datatype, void *, MPI_Aint, MPI_Aint *",
}
"""Names without MPI_, and the parameters of all of them; each returns an error code."""

OTHER_FUNCTIONS = """
double PMPI_Wtime(void);
MPI_Group PMPI_Group_f2c(int);
int ompi_group_incl_strided(MPI_Group, int, const int *, MPI_Group *);
int ompi_group_incl_bmap(MPI_Group, int, const int *, MPI_Group *);
"""

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
        self.ffi.cdef("typedef void * MPI_Session;" + OTHER_FUNCTIONS)
        self._declare(FUNCTIONS, CONSTANTS)

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
