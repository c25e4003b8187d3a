"""MPI's functions with their parameters, as the C bindings of MPI 5.0 have them (Annex A.3), and MPIs' constants.

``bindings.txt`` has a line for each function, ``constants.txt`` one for each constant of each family of MPIs,
which tools/mpi_bindings.py writes from headers. Open MPI's handles are addresses of variables: there it has the names
of these.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("bindings.txt")
CONSTANTS = Path(__file__).with_name("constants.txt")

OPEN_MPI, MPICH, MPI_ABI = "Open MPI", "MPICH", "MPI ABI"
"""Families: whoever belongs to one has the same constants. The last is the standard's own since MPI 5.0."""

_DECLARATION = re.compile(r"(\w+) (\**)(\w+)((?:\[\])*)")
_POINTERS = 8
_SIGNED = frozenset({"int", "MPI_Count", "MPI_Aint", "MPI_Offset"})


class Role(Enum):
    """What an argument is for."""

    COMMUNICATOR = "communicator"
    WINDOW = "window"
    FILE = "file"
    GROUP = "group"
    DATATYPE = "datatype"
    OPERATION = "operation"
    REQUEST = "request"
    MESSAGE = "message"
    """Of MPI_Mprobe."""
    STATUS = "status"
    SOURCE = "source"
    """A rank that may be MPI_ANY_SOURCE or MPI_PROC_NULL."""
    DESTINATION = "destination"
    """A rank that may be MPI_PROC_NULL."""
    TARGET = "target"
    """The rank that a one-sided call is for, in the group of its window."""
    ROOT = "root"
    TAG = "tag"
    COUNT = "count"
    BUFFER = "buffer"
    """Which may be MPI_BOTTOM or MPI_IN_PLACE."""
    OTHER = "other"


_OF_TYPE = {
    "MPI_Comm": Role.COMMUNICATOR,
    "MPI_Win": Role.WINDOW,
    "MPI_File": Role.FILE,
    "MPI_Group": Role.GROUP,
    "MPI_Datatype": Role.DATATYPE,
    "MPI_Op": Role.OPERATION,
    "MPI_Request": Role.REQUEST,
    "MPI_Message": Role.MESSAGE,
    "MPI_Status": Role.STATUS,
}
_OF_NAME = {
    "source": Role.SOURCE,
    "dest": Role.DESTINATION,
    "target_rank": Role.TARGET,
    "root": Role.ROOT,
    "tag": Role.TAG,
    "sendtag": Role.TAG,
    "recvtag": Role.TAG,
}
_COUNTS = frozenset({"count", "incount", "sendcount", "recvcount", "origin_count", "target_count", "result_count"})
_OTHER_HANDLES = frozenset({"MPI_Info", "MPI_Errhandler", "MPI_Session"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an MPI function."""

    name: str
    """As the standard has it: "source", "array_of_requests"."""
    type: str
    """The C type of its value, or of what a pointer points at: "int", "MPI_Count", "MPI_Comm", "void"."""
    pointers: int
    """How many times it has to be followed to get there: 0 for a value, 1 for a pointer or an array."""
    role: Role
    """Of the value, or of what it points at."""
    length: str | None = None
    """Of an array, the parameter that says how many elements it has; None where none does."""

    @property
    def is_handle(self) -> bool:
        """Whether it is the handle of an MPI object, not a pointer to one."""
        return not self.pointers and (self.type in _OTHER_HANDLES or self.type in _OF_TYPE)

    @property
    def is_signed(self) -> bool:
        """Whether the argument may be negative."""
        return not self.pointers and self.type in _SIGNED

    def size(self, handles: int) -> int:
        """Return the bytes of the argument.

        Args:
            handles: the bytes of a handle: 4 in MPICH, 8 in Open MPI and in the standard's binary interface.
        """
        if self.is_handle and self.type != "MPI_File":  # MPICH's, of ROMIO, is a pointer
            return handles
        return 4 if self.type == "int" and not self.pointers else _POINTERS


@cache
def parameters(function: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of an MPI function in their order, None for one that is not in the standard.

    Args:
        function: its name without PMPI_: "MPI_Recv", "MPI_Recv_c".
    """
    inside = _lines().get(function)
    if inside is None:
        return None
    declared = _DECLARATION.findall(inside)
    length = next((each[2] for each in declared if each[2] in ("count", "incount")), None)
    return tuple(_parameter(function, kind, stars + brackets, name, length) for kind, stars, name, brackets in declared)


def declaration(function: str) -> str:
    """Return how C declares an MPI function that returns an error code, without const: "MPI_Barrier(MPI_Comm comm)".

    Raises:
        KeyError: it is not in the standard.
    """
    return f"{function}({_lines()[function]})"


def functions() -> tuple[str, ...]:
    """Return the names of all functions of the table."""
    return tuple(_lines())


@cache
def constants() -> Mapping[str, list[tuple[str, str, str]]]:
    """Return type, name and value of the constants of each family."""
    found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    family = ""
    for line in CONSTANTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            family = line.strip("[]")
        else:
            kind, name, value = line.split()
            found[family].append((kind, name, value))
    return found


@cache
def _lines() -> dict[str, str]:
    """Return the table: of each function what stands between its brackets."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {name: inside.rstrip(")") for name, _, inside in (line.partition("(") for line in lines)}


def _parameter(function: str, kind: str, follows: str, name: str, length: str | None) -> Parameter:
    pointers = follows.count("*") + follows.count("[")
    return Parameter(name, kind, pointers, _role(function, kind, name), length if name.startswith("array_of") else None)


def _role(function: str, kind: str, name: str) -> Role:
    if kind in _OF_TYPE:
        return _OF_TYPE[kind]
    if kind == "void":
        return Role.BUFFER
    if name == "rank" and function.startswith("MPI_Win_"):
        return Role.TARGET
    if name in _COUNTS or (kind == "MPI_Count" and name.endswith("count")):
        return Role.COUNT
    return _OF_NAME.get(name, Role.OTHER)
