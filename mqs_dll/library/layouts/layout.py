"""Layouts: where each member of the MPI's structs lies, and how we know.

A StructLayout comes whole from one source and says which. The first source is the debugger's debug information,
read here; the second are the profiles (profiles.py). Walkers see neither, only views (view.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mqs_dll.contract.abi import LayoutOrigin
from mqs_dll.contract.errors import LayoutError
from mqs_dll.contract.interface import TargetImage

DEBUG_INFORMATION = "debug information"


class StructLayout(NamedTuple):
    """Offsets in bytes of the members of one struct."""

    name: str
    size: int | None
    """Bytes of the whole struct; None where the source can't tell."""
    offsets: Mapping[str, int]
    origin: str


class Layouts:
    """The layouts of one MPI in one process: the first one that was given for a struct counts."""

    def __init__(self, structs: Iterable[StructLayout] = ()) -> None:
        self._structs: dict[str, StructLayout] = {}
        for struct in structs:
            self._structs.setdefault(struct.name, struct)
        self.readers: dict[type, Any] = {}
        """What was compiled of these layouts, by view: a job has many processes of the same ones."""

    def __iter__(self) -> Iterator[StructLayout]:
        return iter(self._structs.values())

    def __contains__(self, struct: str) -> bool:
        return struct in self._structs

    def followed_by(self, others: Layouts) -> Layouts:
        """Return these layouts, completed by those of ``others`` for the structs that are missing here."""
        return Layouts([*self, *others]) if self._structs else others

    def named(self, origin: str) -> Layouts:
        """Return these layouts with another name for where they come from."""
        return Layouts(struct._replace(origin=origin) for struct in self)

    def struct(self, name: str) -> StructLayout:
        """Return the layout of one struct.

        Raises:
            LayoutError: no source has it.
        """
        try:
            return self._structs[name]
        except KeyError:
            raise LayoutError(f"nothing tells the layout of {name}") from None

    def size(self, struct: str) -> int:
        """Return the bytes of a whole struct.

        Raises:
            LayoutError: no source has the struct, or its size.
        """
        size = self.struct(struct).size
        if size is None:
            raise LayoutError(f"nothing gives the size of {struct}")
        return size

    def offset(self, struct: str, member: str) -> int | None:
        """Return the offset of a member in bytes, None when that struct has no such member in this MPI.

        Raises:
            LayoutError: no source has the struct.
        """
        return self.struct(struct).offsets.get(member)

    def origins(self) -> list[LayoutOrigin]:
        """Return where each layout came from, in alphabetical order of the structs."""
        return [LayoutOrigin(struct.name, struct.origin) for struct in sorted(self, key=lambda each: each.name)]

    def summary(self) -> str:
        """Return the sources in a few words, the most used first: "profile openmpi-4.1-x86_64"."""
        counts: dict[str, int] = {}
        for struct in self:
            counts[struct.origin] = counts.get(struct.origin, 0) + 1
        return ", ".join(sorted(counts, key=lambda origin: -counts[origin]))


def from_debugger(image: TargetImage, wanted: Mapping[str, Iterable[str]]) -> Layouts:
    """Ask the debugger for the members of each struct in ``wanted``; what it doesn't know is left out.

    A struct that it knows without a wanted member keeps the members that it has: an older or newer release
    of the MPI lacks some.
    """
    found = []
    for name, members in wanted.items():
        handle = image.find_type(name)
        if handle is None:
            continue
        offsets = {member: image.field_offset(handle, member) for member in members}
        known = {member: offset for member, offset in offsets.items() if offset is not None}
        if known:
            found.append(StructLayout(name, image.type_size(handle), known, DEBUG_INFORMATION))
    return Layouts(found)
