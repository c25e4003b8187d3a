"""Views: each declares, once, the members of an MPI's struct that a walker needs, under the MPI's own names.

    class Group(View):
        struct = "ompi_group_t"
        grp_proc_count: int = int32()
        grp_proc_pointers: int = pointer()

``Group.bind(layouts)`` compiles the declaration against the layouts of one process; ``reader.at(memory, address)``
then reads the whole struct in one fetch and returns a Group whose attributes are the members' values.
A member may belong to a struct that lies at the head of this one (C's way of inheriting), ``int32("ompi_request_t")``,
or inside one of its members, ``int32("ompi_request_t", "req_status", "ompi_status_public_t")``; and an attribute may
have another name than the member, ``uint32(name="proc_name")``.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from mqs_dll.contract.errors import BrokenStructureError, LayoutError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.memory import Memory


class Member(NamedTuple):
    """A member of a struct: its C type, and the structs that lead to it."""

    code: str
    """Of the struct module, without byte order."""
    path: tuple[str, ...]
    """(struct, member, ..., struct): the enclosing members, then the struct that has this one; may be empty."""
    name: str | None
    """As the MPI calls it; None where the view's attribute has the same name."""
    optional: bool
    """Some releases of the MPI don't have it: it reads as None there."""

    def steps(self, struct: str, attribute: str) -> tuple[tuple[str, str], ...]:
        """Return the (struct, member) pairs whose offsets add up to this member's, in a view of ``struct``."""
        path = (*(self.path or (struct,)), self.name or attribute)
        return tuple(zip(path[::2], path[1::2], strict=True))


def int32(*path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare an int."""
    return Member("i", path, name, optional)


def uint32(*path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare an unsigned int, or a set of flags."""
    return Member("I", path, name, optional)


def uint16(*path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare an unsigned short."""
    return Member("H", path, name, optional)


def uint8(*path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare an unsigned char, or a bool."""
    return Member("B", path, name, optional)


def uint64(*path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare a 64-bit unsigned number, or a size_t."""
    return Member("Q", path, name, optional)


def pointer(*path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare a pointer; its value is an address, 0 for NULL."""
    return Member("Q", path, name, optional)


def chars(size: int, *path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare ``size`` raw bytes."""
    return Member(f"{size}s", path, name, optional)


def inside(*path: str, name: str | None = None, optional: bool = False) -> Any:
    """Declare a struct inside the struct; its value is its offset in bytes, for other views to read it."""
    return Member("0s", path, name, optional)


class View:
    """The base of all views; an instance is one struct as it was read, and equal to itself alone.

    The values lie in the order of their offsets, as struct.unpack gives them, which differs between layouts: a Reader
    makes instances of a subclass that is a tuple, too, and whose attributes know their places.
    """

    __slots__ = ()
    struct: ClassVar[str]
    members: ClassVar[dict[str, Member]] = {}
    steps: ClassVar[dict[str, tuple[tuple[str, str], ...]]] = {}
    """By attribute, the (struct, member) pairs whose offsets add up to the member's."""
    address: int
    """Where the struct lies in the target."""

    def __init_subclass__(cls) -> None:
        own = {attribute: value for attribute, value in vars(cls).items() if isinstance(value, Member)}
        cls.members = {**cls.members, **own}
        if hasattr(cls, "struct"):  # else it is what several views have in common
            cls.steps = {name: member.steps(cls.struct, name) for name, member in cls.members.items()}

    @classmethod
    def bind(cls: type[ViewT], layouts: Layouts) -> Reader[ViewT]:
        """Return a reader of this view for one process's layouts.

        Raises:
            LayoutError: a struct, or a member that isn't optional, is in no layout.
        """
        found: Reader[ViewT] | None = layouts.readers.get(cls)
        if found is None:
            found = layouts.readers[cls] = Reader(cls, layouts)
        return found

    @classmethod
    def wanted(cls) -> list[tuple[str, str]]:
        """Return the (struct, member) pairs that the view needs to know the offsets of."""
        return [step for steps in cls.steps.values() for step in steps]


ViewT = TypeVar("ViewT", bound=View)


class Rows(NamedTuple):
    """Structs that lie one behind the other, as they were read."""

    address: int
    """Of the first in the target."""
    number: int
    stride: int
    """Bytes from one to the next."""
    data: bytes
    offset: int
    """Where in them the first one starts."""


class Reader(Generic[ViewT]):
    """A view bound to the layouts of one process."""

    def __init__(self, view: type[ViewT], layouts: Layouts) -> None:
        offsets: dict[str, int] = {}
        self._constants: dict[str, int | None] = {}
        for name, member in view.members.items():
            offset = _offset(view.steps[name], layouts, member)
            if offset is None or member.code == "0s":
                self._constants[name] = offset
            else:
                offsets[name] = offset
        self._view = view
        self.offsets = offsets
        self.start = min(offsets.values(), default=0)
        """Offset of the first byte that is read."""
        self._names = sorted(offsets, key=lambda name: offsets[name])
        self._format = self._compile(view)
        self.end = self.start + self._format.size
        """Offset behind the last byte that is read."""
        self._constant_values = tuple(self._constants.values())
        self._record: Callable[[tuple[Any, ...]], ViewT] = _record(view, ("address", *self._names, *self._constants))

    def _compile(self, view: type[ViewT]) -> struct_module.Struct:
        layout = "<"
        end = self.start
        for name in self._names:
            code = view.members[name].code
            gap = self.offsets[name] - end
            if gap < 0:
                raise LayoutError(f"members of {view.struct} overlap at {name}")
            layout += f"{gap}x{code}"
            end += gap + struct_module.calcsize("<" + code)
        return struct_module.Struct(layout)

    def at(self, memory: Memory, address: int) -> ViewT:
        """Read the struct at ``address``.

        Raises:
            TargetReadError: it can't be read.
        """
        values = memory.unpack(self._format, address + self.start)
        return self._record((address, *values, *self._constant_values))

    def values(self, memory: Memory, *attributes: str) -> Callable[[int], tuple[Any, ...]]:
        """Return what reads the struct at an address as ``at`` does, and returns these members alone, in this order.

        It takes half the time, where there may be very many structs.
        """
        format, start, unpack = self._format, self.start, memory.unpack
        pick = itemgetter(*map(self._names.index, attributes))
        return lambda address: pick(unpack(format, address + start))

    def within(self, data: bytes, offset: int, address: int) -> ViewT:
        """Return the struct at ``address``, which was read before: it begins at an offset of some bytes."""
        values = self._format.unpack_from(data, offset + self.start)
        return self._record((address, *values, *self._constant_values))

    def row(self, rows: Rows, place: int) -> ViewT:
        """Return one of some structs, by its place among them."""
        distance = place * rows.stride
        return self.within(rows.data, rows.offset + distance, rows.address + distance)

    def column(self, rows: Rows, attribute: str) -> list[int]:
        """Return a number of each of some structs, in a tenth of the time that it takes to make views of them.

        Raises:
            BrokenStructureError: the structs, or the bytes that were read, are too short for it.
        """
        if not rows.number:
            return []
        code = self._view.members[attribute].code
        size = struct_module.calcsize(code)
        first = rows.offset + self.offsets[attribute]
        end = first + (rows.number - 1) * rows.stride + size
        if self.offsets[attribute] + size > rows.stride or rows.stride % size or end > len(rows.data):
            raise BrokenStructureError(
                f"{rows.number} structs at {rows.address:#x}, {rows.stride} bytes apart, have no room for {attribute}"
            )
        cells: memoryview[int] = memoryview(rows.data)[first:end].cast(code)  # type: ignore[call-overload]
        return cells[:: rows.stride // size].tolist()

    def constant(self, attribute: str) -> int:
        """Return the offset in bytes of a struct inside this one (``inside``), without reading it."""
        offset = self._constants[attribute]
        if offset is None:
            raise LayoutError(f"{self._view.struct} has no {attribute} in this MPI")
        return offset


_records: dict[tuple[type, tuple[str, ...]], Any] = {}


def _record(view: type, names: tuple[str, ...]) -> Any:
    """Return what makes a view of its values, which come in a certain order."""
    if (view, names) in _records:
        return _records[view, names]
    places = {name: property(itemgetter(place)) for place, name in enumerate(names)}
    itself = {"__slots__": (), "__eq__": object.__eq__, "__hash__": object.__hash__}
    made = _records[view, names] = type(view.__name__, (view, tuple), {**itself, **places})
    return made


def _offset(steps: Iterable[tuple[str, str]], layouts: Layouts, member: Member) -> int | None:
    total = 0
    for struct, name in steps:
        offset = layouts.offset(struct, name)
        if offset is None:
            if member.optional:
                return None
            raise LayoutError(f"{struct} has no member {name} in {layouts.struct(struct).origin}")
        total += offset
    return total


@cache
def wanted_members(views: tuple[type[View], ...]) -> Mapping[str, Sequence[str]]:
    """Return the members of each struct that some views need, for layout.from_debugger and the profiles' producer."""
    wanted: dict[str, list[str]] = {}
    for view in views:
        for struct, member in view.wanted():
            members = wanted.setdefault(struct, [])
            if member not in members:
                members.append(member)
    return wanted
