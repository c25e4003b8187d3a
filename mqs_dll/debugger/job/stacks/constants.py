"""What MPIs call the values of arguments: MPI_ANY_SOURCE, MPI_COMM_WORLD, MPI_DOUBLE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mqs_dll.contract.interface import TargetImage, has_standard_handles
from mqs_dll.job.bindings import MPI_ABI, MPICH, OPEN_MPI, Parameter, Role, constants, parameters
from mqs_dll.job.records import Argument

_SENT_TO = ("MPI_PROC_NULL",)
_OF_ROLE: Mapping[Role, tuple[str, ...]] = {
    Role.SOURCE: ("MPI_ANY_SOURCE", "MPI_PROC_NULL"),
    Role.DESTINATION: _SENT_TO,
    Role.TARGET: _SENT_TO,
    Role.ROOT: ("MPI_ROOT", "MPI_PROC_NULL"),
    Role.TAG: ("MPI_ANY_TAG",),
    Role.BUFFER: ("MPI_IN_PLACE",),
    Role.STATUS: ("MPI_STATUS_IGNORE", "MPI_STATUSES_IGNORE"),
}
_OF_NAME: Mapping[str, tuple[str, ...]] = {
    "lock_type": ("MPI_LOCK_EXCLUSIVE", "MPI_LOCK_SHARED"),
    "color": ("MPI_UNDEFINED",),
    "split_type": ("MPI_COMM_TYPE_SHARED", "MPI_UNDEFINED"),
}
POINTERS = frozenset({"MPI_IN_PLACE", "MPI_STATUS_IGNORE", "MPI_STATUSES_IGNORE"})
NUMBERS = frozenset(name for names in (*_OF_ROLE.values(), *_OF_NAME.values()) for name in names) - POINTERS
"""Those that the table has besides handles."""

_NUMBERS = frozenset({Role.SOURCE, Role.DESTINATION, Role.TARGET, Role.ROOT, Role.TAG, Role.COUNT})
"""What isn't negative, unless that has a name."""

_POINTER = 1 << 64
_WORD = 8
"""Bytes: Open MPI's handles are addresses of objects."""

HANDLE_SIZES = {OPEN_MPI: 8, MPICH: 4, MPI_ABI: 8}
"""Bytes of a handle in each family."""


class Constants:
    """The constants of the MPI that a process runs."""

    def __init__(self, family: str, image: TargetImage) -> None:
        """Take those of a family; of Open MPI, look up where its objects lie."""
        self.family = family
        self.handle_size = HANDLE_SIZES[family]
        self._names: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._kinds: defaultdict[str, set[int]] = defaultdict(set)
        for kind, name, value in constants()[family]:
            number = _number(value, image)
            if number is not None:
                number = number % _POINTER if kind == "pointer" else number
                self._names[kind].setdefault(number, name)
                self._names[name][number] = name
                self._kinds[kind].add(_kind(number))

    def named(self, function: str, arguments: Iterable[Argument]) -> tuple[Argument, ...]:
        """Return the arguments of a function with what their values are called."""
        known = {each.name: each for each in parameters(function) or ()}
        return tuple(each._replace(called=self.name(known[each.name], each.value)) for each in arguments)

    def may_be(self, function: str, arguments: Iterable[Argument]) -> bool:
        """Return whether a function may have been called with these arguments, and still be at it.

        A count is never negative, nor is a rank or a tag that has no name; a handle is one of its type.
        """
        known = {each.name: each for each in parameters(function) or ()}
        return all(self._may_be(known[each.name], each.value) for each in arguments)

    def _may_be(self, parameter: Parameter, value: int) -> bool:
        if parameter.is_handle and parameter.type != "MPI_File":
            kinds = self._kinds[parameter.type]
            if self.family == MPICH:
                return not kinds or _kind(value) in kinds
            return self.family != OPEN_MPI or (value > 0 and value % _WORD == 0)
        is_number = parameter.role in _NUMBERS and not parameter.pointers
        return not is_number or value >= 0 or bool(self.name(parameter, value))

    @property
    def world(self) -> int:
        """The handle of MPI_COMM_WORLD; 0 where the MPI lacks what it stands for."""
        return next(iter(self._names["MPI_COMM_WORLD"]), 0)

    @property
    def null_request(self) -> int | None:
        """The handle of MPI_REQUEST_NULL; None where the MPI lacks what it stands for."""
        return next(iter(self._names["MPI_REQUEST_NULL"]), None)

    def name(self, parameter: Parameter, value: int) -> str:
        """Return what a parameter's argument is called; empty where it has no name, and is what it is."""
        if parameter.is_handle:
            return self._names[parameter.type].get(value, "")
        names = _OF_NAME.get(parameter.name) or _OF_ROLE.get(parameter.role, ())
        found = [name for name in names if value in self._names[name]]
        if parameter.role is Role.STATUS:  # both have one value
            found = found[-1:] if parameter.length else found[:1]
        return found[0] if found else "NULL" if parameter.pointers and value == 0 else ""


def constants_of(image: TargetImage) -> Constants | None:
    """Return the constants of the MPI that a process runs, None for an unknown one.

    MPICH's derivatives have its handles.
    """
    if image.find_symbol("ompi_mpi_comm_world") is not None:
        return Constants(MPI_ABI if has_standard_handles(image) else OPEN_MPI, image)
    if image.find_function("MPIR_Dup_fn") is not None:
        return Constants(MPICH, image)
    if image.find_function("MPI_Abi_get_version") is not None:
        return Constants(MPI_ABI, image)
    return None


def _kind(handle: int) -> int:
    """Return which type a handle of MPICH is of: four bits, below those for how it was made (mpir_objects.h)."""
    return handle >> 26 & 0xF


def _number(value: str, image: TargetImage) -> int | None:
    """Return a value as the program has it; None of a variable that this release lacks."""
    try:
        return int(value, 0)
    except ValueError:
        return image.find_symbol(value)
