"""An MPI library, called from Python through cffi: no compiler, no header, and no mpi4py built for just that MPI.

A library has one of three binary interfaces. Handles are numbers with MPICH's constants, pointers with the constants of
the MPI standard's own ABI (MPI 5.0, appendix A), or addresses of variables that Open MPI exports; the layout of
MPI_Status goes with that, as facts of the public headers: mpi.h of MPICH 3.4 to 5.0 (also Intel MPI) and of Open MPI
4.1 to 5.0, mpi_abi.h of MPI 5.0.

    mpi = Mpi.load(Path("libmpi.so.12"))
    mpi.do("Init", NULL, NULL)
    duplicate = mpi.create("MPI_Comm", "Comm_dup", mpi.COMM_WORLD)
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cffi import FFI

from mqs_dll.calibrate.exports import mpi_exports
from mqs_dll.contract.errors import CalibrationError
from mqs_dll.job.bindings import MPI_ABI, MPICH, OPEN_MPI, constants, declaration

OBJECTS = ("Comm", "Datatype", "Group", "Info", "Request", "Win", "Errhandler", "Op", "Message", "Session")
HANDLES = tuple(f"MPI_{name}" for name in OBJECTS)

CALLBACKS = ("Comm_copy_attr", "Comm_delete_attr", "Comm_errhandler", "User")
"""Types of functions that MPI is given, and that calibration never has called: MPI_User_function."""

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
    family: str
    """Whose constants it has."""


PUBLIC = "int MPI_SOURCE; int MPI_TAG; int MPI_ERROR;"
MPICH_ABI = Abi("int", f"int count_lo; int count_hi_and_cancelled; {PUBLIC}", MPICH)
STANDARD_ABI = Abi("void *", f"{PUBLIC} int MPI_internal[5];", MPI_ABI)
OPEN_MPI_ABI = Abi("void *", f"{PUBLIC} int _cancelled; size_t _ucount;", OPEN_MPI)

MAX_TEXT_LENGTH = 8192
"""Bytes that the most talkative MPI writes: MPI_MAX_LIBRARY_VERSION_STRING, and 4096, MPI_MAX_ERROR_STRING."""

OPEN_MPI_HAS = "ompi_mpi_comm_world"
ALL_HAVE = "PMPI_Init"


def abi_of(library: Path) -> Abi:
    """Return the binary interface of a library, by its exported symbols and, for the standard's, its name.

    MPICH 5.0's libmpi.so has the standard ABI's functions too, but its own handles.

    Raises:
        CalibrationError: it is no MPI library.
    """
    found = mpi_exports(library, (OPEN_MPI_HAS, ALL_HAVE))
    if ALL_HAVE not in found:
        raise CalibrationError(f"{library} exports no {ALL_HAVE}: it is no MPI library")
    if "_abi" in library.name:
        return STANDARD_ABI
    return OPEN_MPI_ABI if OPEN_MPI_HAS in found else MPICH_ABI


class MpiError(CalibrationError):
    """An MPI function returned an error."""


class MpiBindings:
    """The functions and constants of one MPI library.

    Constants are attributes, without the prefix MPI_: ``COMM_WORLD``, ``ANY_TAG``.
    """

    def __init__(self, library: Path, abi: Abi) -> None:
        self.abi = abi
        self.ffi = ffi = FFI()
        for handle in HANDLES:
            ffi.cdef(f"typedef {abi.handle} {handle};")
        ffi.cdef(TYPES % abi.status + "".join(f"typedef void MPI_{name}_function;" for name in CALLBACKS))
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # an MPI's plugins want its symbols, cffi has no such flag
        self._library = ffi.dlopen(str(library), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
        self.NULL = ffi.NULL
        self._functions: set[str] = set()
        """Those that are declared."""

    def __getattr__(self, name: str) -> Any:
        """Return a constant, when it is first asked for."""
        for kind, constant, value in constants()[self.abi.family]:
            if constant == f"MPI_{name}":
                setattr(self, name, self._constant(kind, value))
                return getattr(self, name)
        raise AttributeError(f"MPI_{name} is no constant that is known here")

    def _constant(self, kind: str, value: str) -> Any:
        """Return a number, or the address that a handle is, of a variable of Open MPI's."""
        ffi = self.ffi
        if kind in HANDLES and self.abi.family == OPEN_MPI:
            ffi.cdef(f"extern char {value}[1];")
            return ffi.cast(kind, ffi.addressof(self._library, value))
        is_pointer = kind == "pointer" or (kind in HANDLES and self.abi.handle != "int")
        return ffi.cast("void *", int(value, 0)) if is_pointer else int(value, 0)

    @classmethod
    def load(cls, library: Path) -> MpiBindings:
        """Load a library into this process.

        Raises:
            CalibrationError: it is no MPI library, or can't be loaded.
        """
        try:
            return cls(library, abi_of(library))
        except OSError as error:
            raise CalibrationError(f"{library} can't be loaded: {error}") from error

    def has(self, function: str) -> bool:
        """Return whether the library has a function: "Psend_init"."""
        return self.function(function) is not None

    def function(self, name: str) -> Any:
        """Return a function, None where the library lacks it; it is declared when it is first asked for."""
        if name not in self._functions:
            self.ffi.cdef(f"int P{declaration(f'MPI_{name}')};")
            self._functions.add(name)
        return self.own(f"PMPI_{name}")

    def own(self, function: str) -> Any:
        """Return a function that was declared by its full name, None where the library lacks it."""
        return getattr(self._library, function, None)

    def do(self, function: str, *arguments: Any) -> None:
        """Call a function, named without MPI_.

        Raises:
            MpiError: it returned an error.
        """
        code = self.function(function)(*arguments)
        if code != 0:
            raise MpiError(f"MPI_{function}: {self._text_of(code)}")

    def _text_of(self, error: int) -> str:
        text = self.ffi.new("char[]", MAX_TEXT_LENGTH)
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

    def text(self, function: str, *arguments: Any) -> str:
        """Return the text that a function writes, whose last arguments are where it puts that and its length."""
        text = self.ffi.new("char[]", MAX_TEXT_LENGTH)
        self.do(function, *arguments, text, self.ffi.new("int *"))
        return str(self.ffi.string(text).decode("utf-8", "replace"))
