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
)

TYPES = """
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;
typedef struct { %s } MPI_Status;
"""

FUNCTIONS = """
int PMPI_Init(int *, char ***);
int PMPI_Finalize(void);
int PMPI_Get_library_version(char *, int *);
int PMPI_Error_string(int, char *, int *);

int PMPI_Comm_rank(MPI_Comm, int *);
int PMPI_Comm_size(MPI_Comm, int *);
int PMPI_Comm_remote_size(MPI_Comm, int *);
int PMPI_Comm_dup(MPI_Comm, MPI_Comm *);
int PMPI_Comm_split(MPI_Comm, int, int, MPI_Comm *);
int PMPI_Comm_free(MPI_Comm *);
int PMPI_Comm_group(MPI_Comm, MPI_Group *);
int PMPI_Comm_remote_group(MPI_Comm, MPI_Group *);
int PMPI_Comm_set_name(MPI_Comm, const char *);
int PMPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler);
int PMPI_Comm_create_keyval(void *, void *, int *, void *);
int PMPI_Comm_set_attr(MPI_Comm, int, void *);
int PMPI_Comm_get_parent(MPI_Comm *);
int PMPI_Comm_spawn(const char *, char **, int, MPI_Info, int, MPI_Comm, MPI_Comm *, int *);
int PMPI_Intercomm_create(MPI_Comm, int, MPI_Comm, int, int, MPI_Comm *);
int PMPI_Intercomm_merge(MPI_Comm, int, MPI_Comm *);
int PMPI_Barrier(MPI_Comm);

int PMPI_Group_size(MPI_Group, int *);
int PMPI_Group_rank(MPI_Group, int *);
int PMPI_Group_incl(MPI_Group, int, const int *, MPI_Group *);
int PMPI_Group_free(MPI_Group *);
int PMPI_Group_translate_ranks(MPI_Group, int, const int *, MPI_Group, int *);

int PMPI_Type_contiguous(int, MPI_Datatype, MPI_Datatype *);
int PMPI_Type_vector(int, int, int, MPI_Datatype, MPI_Datatype *);
int PMPI_Type_create_resized(MPI_Datatype, MPI_Aint, MPI_Aint, MPI_Datatype *);
int PMPI_Type_commit(MPI_Datatype *);
int PMPI_Type_size(MPI_Datatype, int *);
int PMPI_Type_set_name(MPI_Datatype, const char *);

int PMPI_Op_create(void *, int, MPI_Op *);

int PMPI_Win_create(void *, MPI_Aint, int, MPI_Info, MPI_Comm, MPI_Win *);
int PMPI_Win_allocate(MPI_Aint, int, MPI_Info, MPI_Comm, void *, MPI_Win *);
int PMPI_Win_set_name(MPI_Win, const char *);

int PMPI_Buffer_attach(void *, int);
int PMPI_Send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
int PMPI_Isend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Issend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Irsend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Ibsend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Irecv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Send_init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Ssend_init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Bsend_init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Rsend_init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Recv_init(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int PMPI_Psend_init(const void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *);
int PMPI_Precv_init(void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *);
int PMPI_Start(MPI_Request *);
int PMPI_Cancel(MPI_Request *);
int PMPI_Request_free(MPI_Request *);
int PMPI_Request_get_status(MPI_Request, int *, MPI_Status *);
int PMPI_Wait(MPI_Request *, MPI_Status *);
int PMPI_Iprobe(int, int, MPI_Comm, int *, MPI_Status *);
int PMPI_Improbe(int, int, MPI_Comm, int *, MPI_Message *, MPI_Status *);
int PMPI_Get_count(const MPI_Status *, MPI_Datatype, int *);
int PMPI_Test_cancelled(const MPI_Status *, int *);
"""


@dataclass(frozen=True)
class Abi:
    """One binary interface of MPI libraries."""

    name: str
    handle: str
    """C type of handles: "int" or "void *"."""
    status: str
    """Members of MPI_Status."""
    numbers: Mapping[str, int]
    """Constants that are ints: ANY_SOURCE."""
    handles: Mapping[str, tuple[str, int | str]] = field(repr=False)
    """Constants that are handles: COMM_WORLD -> (MPI_Comm, its value, or the variable that it points to)."""
    in_place: int
    """MPI_IN_PLACE, as an address."""
    status_ignore: int
    """MPI_STATUS_IGNORE, as an address."""


MPICH_ABI = Abi(
    "MPICH",
    handle="int",
    status="int count_lo; int count_hi_and_cancelled; int MPI_SOURCE; int MPI_TAG; int MPI_ERROR;",
    numbers={"ANY_SOURCE": -2, "ANY_TAG": -1, "PROC_NULL": -1, "ROOT": -3, "UNDEFINED": -32766},
    handles={
        "COMM_NULL": ("MPI_Comm", 0x04000000),
        "COMM_WORLD": ("MPI_Comm", 0x44000000),
        "COMM_SELF": ("MPI_Comm", 0x44000001),
        "BYTE": ("MPI_Datatype", 0x4C00010D),
        "CHAR": ("MPI_Datatype", 0x4C000101),
        "INT": ("MPI_Datatype", 0x4C000405),
        "DOUBLE": ("MPI_Datatype", 0x4C00080B),
        "INFO_NULL": ("MPI_Info", 0x1C000000),
        "REQUEST_NULL": ("MPI_Request", 0x2C000000),
        "ERRORS_RETURN": ("MPI_Errhandler", 0x54000001),
    },
    in_place=-1,
    status_ignore=1,
)

STANDARD_ABI = Abi(
    "MPI standard",
    handle="void *",
    status="int MPI_SOURCE; int MPI_TAG; int MPI_ERROR; int MPI_internal[5];",
    numbers={
        "ANY_SOURCE": -1,
        "ANY_TAG": -2,
        "PROC_NULL": -3,
        "ROOT": -4,
        "UNDEFINED": -32766,
    },
    handles={
        "COMM_NULL": ("MPI_Comm", 0x100),
        "COMM_WORLD": ("MPI_Comm", 0x101),
        "COMM_SELF": ("MPI_Comm", 0x102),
        "BYTE": ("MPI_Datatype", 0x247),
        "CHAR": ("MPI_Datatype", 0x243),
        "INT": ("MPI_Datatype", 0x209),
        "DOUBLE": ("MPI_Datatype", 0x214),
        "INFO_NULL": ("MPI_Info", 0x130),
        "REQUEST_NULL": ("MPI_Request", 0x180),
        "ERRORS_RETURN": ("MPI_Errhandler", 0x143),
    },
    in_place=1,
    status_ignore=0,
)

OPEN_MPI_ABI = Abi(
    "Open MPI",
    handle="void *",
    status="int MPI_SOURCE; int MPI_TAG; int MPI_ERROR; int _cancelled; size_t _ucount;",
    numbers={"ANY_SOURCE": -1, "ANY_TAG": -1, "PROC_NULL": -2, "ROOT": -4, "UNDEFINED": -32766},
    handles={
        "COMM_NULL": ("MPI_Comm", "ompi_mpi_comm_null"),
        "COMM_WORLD": ("MPI_Comm", "ompi_mpi_comm_world"),
        "COMM_SELF": ("MPI_Comm", "ompi_mpi_comm_self"),
        "BYTE": ("MPI_Datatype", "ompi_mpi_byte"),
        "CHAR": ("MPI_Datatype", "ompi_mpi_char"),
        "INT": ("MPI_Datatype", "ompi_mpi_int"),
        "DOUBLE": ("MPI_Datatype", "ompi_mpi_double"),
        "INFO_NULL": ("MPI_Info", "ompi_mpi_info_null"),
        "REQUEST_NULL": ("MPI_Request", "ompi_request_null"),
        "ERRORS_RETURN": ("MPI_Errhandler", "ompi_mpi_errors_return"),
    },
    in_place=1,
    status_ignore=0,
)

LONGEST_ERROR = 4096
LONGEST_VERSION = 8192
"""Bytes that the most talkative MPI writes: MPI_MAX_ERROR_STRING, MPI_MAX_LIBRARY_VERSION_STRING."""

_OPEN_MPI = "ompi_mpi_comm_world"
_STANDARD = "MPI_Abi_get_version"
_MPI = "PMPI_Init"


def abi_of(library: Path) -> Abi:
    """Return the binary interface of a library, by its exported symbols and, for the standard's, its name.

    MPICH 5.0's libmpi.so has the standard ABI's functions too, but its own handles.

    Raises:
        CalibrationError: it is no MPI library.
    """
    found = exports(library, (_OPEN_MPI, _STANDARD, _MPI))
    if _MPI not in found:
        raise CalibrationError(f"{library} exports no {_MPI}: it is no MPI library")
    if _OPEN_MPI in found:
        return OPEN_MPI_ABI
    return STANDARD_ABI if "_abi." in library.name else MPICH_ABI


class MpiError(CalibrationError):
    """An MPI function returned an error."""


class Mpi:
    """The functions and constants of one MPI library.

    Constants are attributes, without the prefix MPI_: ``COMM_WORLD``, ``ANY_TAG``. ``IN_PLACE`` and ``STATUS_IGNORE``
    have the types that the functions want.
    """

    COMM_WORLD: Any
    COMM_SELF: Any
    COMM_NULL: Any
    BYTE: Any
    CHAR: Any
    INT: Any
    DOUBLE: Any
    INFO_NULL: Any
    REQUEST_NULL: Any
    ERRORS_RETURN: Any
    ANY_SOURCE: int
    ANY_TAG: int
    PROC_NULL: int
    ROOT: int
    UNDEFINED: int

    def __init__(self, library: Path, abi: Abi) -> None:
        self.abi = abi
        self.ffi = ffi = FFI()
        for handle in HANDLES:
            ffi.cdef(f"typedef {abi.handle} {handle};")
        ffi.cdef(TYPES % abi.status)
        ffi.cdef(FUNCTIONS)
        variables = [value for _, value in abi.handles.values() if isinstance(value, str)]
        for name in variables:
            ffi.cdef(f"extern char {name}[1];")
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # an MPI's plugins want its symbols, cffi has no such flag
        self._library = ffi.dlopen(str(library), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
        for name, number in abi.numbers.items():
            setattr(self, name, number)
        for name, (kind, value) in abi.handles.items():
            setattr(self, name, self._handle(kind, value))
        self.IN_PLACE = ffi.cast("void *", abi.in_place)
        self.STATUS_IGNORE = ffi.cast("MPI_Status *", abi.status_ignore)
        self.NULL = ffi.NULL

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

    def _handle(self, kind: str, value: int | str) -> Any:
        if isinstance(value, str):
            return self.ffi.cast(kind, self.ffi.addressof(self._library, value))
        return value if self.abi.handle == "int" else self.ffi.cast(kind, value)

    def has(self, function: str) -> bool:
        """Tell whether the library has a function: "Psend_init"."""
        return hasattr(self._library, f"PMPI_{function}")

    def do(self, function: str, *arguments: Any) -> None:
        """Call a function, named without MPI_.

        Raises:
            MpiError: it returned an error.
        """
        code = getattr(self._library, f"PMPI_{function}")(*arguments)
        if code != 0:
            raise MpiError(f"MPI_{function}: {self._text_of(code)}")

    def _text_of(self, error: int) -> str:
        text = self.ffi.new("char[]", LONGEST_ERROR)
        self._library.PMPI_Error_string(error, text, self.ffi.new("int *"))
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
