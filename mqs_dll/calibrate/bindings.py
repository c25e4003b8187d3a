"""An MPI library, called from Python through cffi: no compiler, no header, and no mpi4py built for just that MPI.

A library has one of three binary interfaces. Handles are numbers with MPICH's constants, pointers with the constants of
the MPI standard's own ABI (MPI 5.0, appendix A), or addresses of variables that Open MPI exports; the layout of
MPI_Status goes with that. The numbers are facts of the public headers: mpi.h of MPICH 3.4 to 5.0 (also Intel MPI) and
of Open MPI 4.1 to 5.0, mpi_abi.h of MPI 5.0.

    mpi = Mpi.load(Path("libmpi.so.12"))
    mpi.do("Init", NULL, NULL)
    duplicate = mpi.create("MPI_Comm", "Comm_dup", mpi.COMM_WORLD)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cffi import FFI

from mqs_dll.calibrate.exports import exports
from mqs_dll.debugger.job.bindings import declaration
from mqs_dll.errors import CalibrationError

HANDLES = (
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Group",
    "MPI_Info",
    "MPI_Request",
    "MPI_Win",
    "MPI_Errhandler",
    "MPI_Op",
    "MPI_Message",
    "MPI_Session",
)

CALLBACKS = (
    "MPI_Comm_copy_attr_function",
    "MPI_Comm_delete_attr_function",
    "MPI_Comm_errhandler_function",
    "MPI_User_function",
)
"""Types of functions that MPI is given, and that calibration never has called."""

TYPES = """
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;
typedef struct { %s } MPI_Status;
"""


@dataclass(frozen=True)
class Abi:
    """One binary interface of MPI libraries."""

    handle: str
    """C type of handles: "int" or "void *"."""
    status: str
    """Members of MPI_Status."""
    constants: Mapping[str, tuple[str, int | str]] = field(repr=False)
    """COMM_WORLD -> (MPI_Comm, its value, or the variable that it points to)."""


CONSTANTS: Mapping[str, tuple[str, int, int, int | str]] = {
    "COMM_NULL": ("MPI_Comm", 0x04000000, 0x100, "ompi_mpi_comm_null"),
    "COMM_WORLD": ("MPI_Comm", 0x44000000, 0x101, "ompi_mpi_comm_world"),
    "COMM_SELF": ("MPI_Comm", 0x44000001, 0x102, "ompi_mpi_comm_self"),
    "BYTE": ("MPI_Datatype", 0x4C00010D, 0x247, "ompi_mpi_byte"),
    "CHAR": ("MPI_Datatype", 0x4C000101, 0x243, "ompi_mpi_char"),
    "INT": ("MPI_Datatype", 0x4C000405, 0x209, "ompi_mpi_int"),
    "DOUBLE": ("MPI_Datatype", 0x4C00080B, 0x214, "ompi_mpi_double"),
    "INFO_NULL": ("MPI_Info", 0x1C000000, 0x130, "ompi_mpi_info_null"),
    "ERRORS_RETURN": ("MPI_Errhandler", 0x54000001, 0x143, "ompi_mpi_errors_return"),
    "ANY_SOURCE": ("int", -2, -1, -1),
    "ANY_TAG": ("int", -1, -2, -1),
    "UNDEFINED": ("int", -32766, -32766, -32766),
    "STATUS_IGNORE": ("MPI_Status *", 1, 0, 0),
}
"""Type of each constant, and its value in MPICH, in the MPI standard's ABI, and in Open MPI: or there the variable that
it points to."""

_MPICH, _STANDARD, _OPEN_MPI = range(3)


def _constants(which: int) -> dict[str, tuple[str, int | str]]:
    return {name: (kind, values[which]) for name, (kind, *values) in CONSTANTS.items()}


MPICH_ABI = Abi(
    handle="int",
    status="int count_lo; int count_hi_and_cancelled; int MPI_SOURCE; int MPI_TAG; int MPI_ERROR;",
    constants=_constants(_MPICH),
)
STANDARD_ABI = Abi(
    handle="void *",
    status="int MPI_SOURCE; int MPI_TAG; int MPI_ERROR; int MPI_internal[5];",
    constants=_constants(_STANDARD),
)
OPEN_MPI_ABI = Abi(
    handle="void *",
    status="int MPI_SOURCE; int MPI_TAG; int MPI_ERROR; int _cancelled; size_t _ucount;",
    constants=_constants(_OPEN_MPI),
)

LONGEST_ERROR = 4096
LONGEST_VERSION = 8192
"""Bytes that the most talkative MPI writes: MPI_MAX_ERROR_STRING, MPI_MAX_LIBRARY_VERSION_STRING."""

OPEN_MPI_HAS = "ompi_mpi_comm_world"
ALL_HAVE = "PMPI_Init"


def abi_of(library: Path) -> Abi:
    """Return the binary interface of a library, by its exported symbols and, for the standard's, its name.

    MPICH 5.0's libmpi.so has the standard ABI's functions too, but its own handles.

    Raises:
        CalibrationError: it is no MPI library.
    """
    found = exports(library, (OPEN_MPI_HAS, ALL_HAVE))
    if ALL_HAVE not in found:
        raise CalibrationError(f"{library} exports no {ALL_HAVE}: it is no MPI library")
    if OPEN_MPI_HAS in found:
        return OPEN_MPI_ABI
    return STANDARD_ABI if "_abi." in library.name else MPICH_ABI


class MpiError(CalibrationError):
    """An MPI function returned an error."""


class Mpi:
    """The functions and constants of one MPI library.

    Constants are attributes, without the prefix MPI_: ``COMM_WORLD``, ``ANY_TAG``.
    """

    def __init__(self, library: Path, abi: Abi) -> None:
        self.abi = abi
        self.ffi = ffi = FFI()
        for handle in HANDLES:
            ffi.cdef(f"typedef {abi.handle} {handle};")
        ffi.cdef(TYPES % abi.status + "".join(f"typedef void {name};" for name in CALLBACKS))
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # an MPI's plugins want its symbols, cffi has no such flag
        self._library = ffi.dlopen(str(library), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
        self.NULL = ffi.NULL
        self._functions: set[str] = set()
        """Those that are declared."""
        self._add(abi.constants)

    def _add(self, constants: Mapping[str, tuple[str, int | str]]) -> None:
        ffi = self.ffi
        numbers = ("int", *HANDLES) if self.abi.handle == "int" else ("int",)
        for name, (kind, value) in constants.items():
            if isinstance(value, str):
                ffi.cdef(f"extern char {value}[1];")
                setattr(self, name, ffi.cast(kind, ffi.addressof(self._library, value)))
            else:
                setattr(self, name, value if kind in numbers else ffi.cast(kind, value))

    def __getattr__(self, name: str) -> Any:
        """Say which constant there is not; those that there are, are found without this."""
        raise AttributeError(f"MPI_{name} is no constant that is known here")

    @classmethod
    def load(cls, library: Path) -> Mpi:
        """Load a library into this process.

        Raises:
            CalibrationError: it is no MPI library, or can't be loaded.
        """
        try:
            return cls(library, abi_of(library))
        except OSError as error:
            raise CalibrationError(f"{library} can't be loaded: {error}") from error

    def has(self, function: str) -> bool:
        """Tell whether the library has a function: "Psend_init"."""
        return self.function(function) is not None

    def function(self, name: str) -> Any:
        """Return a function, None where the library lacks it; it is declared when it is first asked for."""
        if name not in self._functions:
            self.ffi.cdef(f"int P{declaration(f'MPI_{name}')};")
            self._functions.add(name)
        return getattr(self._library, f"PMPI_{name}", None)

    def do(self, function: str, *arguments: Any) -> None:
        """Call a function, named without MPI_.

        Raises:
            MpiError: it returned an error.
        """
        code = self.function(function)(*arguments)
        if code != 0:
            raise MpiError(f"MPI_{function}: {self._text_of(code)}")

    def _text_of(self, error: int) -> str:
        text = self.ffi.new("char[]", LONGEST_ERROR)
        self.function("Error_string")(error, text, self.ffi.new("int *"))
        return " ".join(self.ffi.string(text).decode("utf-8", "replace").split())

    def create(self, kind: str, function: str, *arguments: Any) -> Any:
        """Call a function whose last argument is where it puts its result; return that.

        Args:
            kind: C type of the result: "MPI_Comm", "int".
            function: as for ``do``.
            arguments: all but the last one.
        """
        result = self.ffi.new(f"{kind} *")
        self.do(function, *arguments, result)
        return result[0]

    def change(self, kind: str, function: str, handle: Any, *arguments: Any) -> Any:
        """Call a function whose first argument is a handle that it may replace; return what it is then."""
        place = self.ffi.new(f"{kind} *", handle)
        self.do(function, place, *arguments)
        return place[0]

    def number_of(self, handle: Any) -> int:
        """Return a handle as an unsigned number: where it is a pointer, its address."""
        return handle % (1 << 32) if isinstance(handle, int) else int(self.ffi.cast("uintptr_t", handle))

    def version(self) -> str:
        """Return what MPI_Get_library_version says."""
        text = self.ffi.new("char[]", LONGEST_VERSION)
        self.do("Get_library_version", text, self.ffi.new("int *"))
        return str(self.ffi.string(text).decode("utf-8", "replace"))
