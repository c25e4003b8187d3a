"""Views and layouts: a struct is declared once and read in one fetch, wherever its offsets came from."""

from __future__ import annotations

import struct

import pytest

from mqs_dll.contract.abi import LayoutOrigin
from mqs_dll.contract.errors import BrokenStructureError, LayoutError
from mqs_dll.library.layouts.layout import DEBUG_INFORMATION, Layouts, StructLayout, from_debugger
from mqs_dll.library.layouts.view import Rows, View, chars, inside, int32, pointer, uint8, uint16, wanted_members
from mqs_dll.library.memory import Memory
from tests.support.memory_image import MemoryImage, NoSymbols

BASE = 0x20000


class Base(View):
    """A struct."""

    struct = "base_t"
    count: int = int32()
    link: int = pointer()


class Derived(Base):
    """A struct that starts with a base_t."""

    struct = "derived_t"
    count: int = int32("base_t")
    link: int = pointer("base_t")
    flags: int = uint16(name="d_flags")
    second: int = uint8(name="pair.second")
    deep: int = int32("derived_t", "inner", "inner_t", name="value")
    items: int = inside()
    text: bytes = chars(4)
    newer: int | None = int32(optional=True)


LAYOUTS = Layouts(
    [
        StructLayout("base_t", 16, {"count": 0, "link": 8}, "test"),
        StructLayout(
            "derived_t", 64, {"d_flags": 16, "pair.second": 21, "inner": 24, "items": 40, "text": 56}, "profile test"
        ),
        StructLayout("inner_t", 8, {"value": 4}, "test"),
    ]
)


def _memory() -> tuple[Memory, MemoryImage]:
    data = struct.pack("<iiQHHBB2xiiQQQ4s", -3, 0, 0x1234, 0xBEEF, 0, 7, 9, 0, -5, 0, 0, 0, b"text")
    target = MemoryImage({BASE: data.ljust(0x4000, b"\0")})
    return Memory(target), target


def test_a_view_reads_its_struct_in_one_fetch() -> None:
    """Members of the struct, of the struct at its head and of a struct inside come with one read."""
    memory, target = _memory()
    view = Derived.bind(LAYOUTS).at(memory, BASE)
    assert (view.count, view.link, view.flags, view.second, view.deep) == (-3, 0x1234, 0xBEEF, 9, -5)
    assert (view.items, view.text, view.newer, view.address) == (40, b"text", None, BASE)
    assert len(target.fetches) == 1


def _rows(number: int, stride: int = 16) -> Rows:
    data = b"".join(struct.pack("<iiQ", -place, 7, 0x1000 + place) for place in range(3))
    return Rows(BASE, number, stride, b"before" + data, len(b"before"))


def test_a_column_is_a_member_of_many_structs() -> None:
    """Signs are kept, and each row is the view that it would be alone."""
    reader, rows = Base.bind(LAYOUTS), _rows(3)
    assert reader.column(rows, "count") == [0, -1, -2]
    assert reader.column(rows, "link") == [reader.row(rows, place).link for place in range(3)]
    assert (reader.row(rows, 2).count, reader.row(rows, 2).address) == (-2, BASE + 32)
    assert reader.column(_rows(0), "count") == []


@pytest.mark.parametrize("rows", [_rows(4), _rows(2, 20), _rows(2, 8)], ids=["too few bytes", "odd", "too close"])
def test_a_column_ends_with_the_bytes_that_were_read(rows: Rows) -> None:
    """Nothing is made up of what lies behind the structs, or of their neighbours."""
    with pytest.raises(BrokenStructureError, match="no room for link"):
        Base.bind(LAYOUTS).column(rows, "link")


def test_a_missing_member_is_refused_unless_it_is_optional() -> None:
    """Binding names the struct, the member and the source that lacks it."""
    lacking = Layouts([StructLayout("base_t", 16, {"count": 0}, "profile old")])
    with pytest.raises(LayoutError, match="base_t has no member link in profile old"):
        Base.bind(lacking)


def test_a_size_that_no_source_has_is_refused() -> None:
    """Nothing is read at a stride that would be made up."""
    assert LAYOUTS.size("derived_t") == 64
    with pytest.raises(LayoutError, match="the size of base_t"):
        Layouts([StructLayout("base_t", None, {}, "test")]).size("base_t")


def test_a_missing_struct_is_refused() -> None:
    """Binding names the struct that no source has."""
    with pytest.raises(LayoutError, match="nothing tells the layout of base_t"):
        Base.bind(Layouts())


def test_overlapping_members_are_refused() -> None:
    """Two members at the same place mean a wrong layout."""
    with pytest.raises(LayoutError, match="overlap"):
        Base.bind(Layouts([StructLayout("base_t", 16, {"count": 8, "link": 8}, "test")]))


def test_the_wanted_members_are_those_of_every_struct_on_the_way() -> None:
    """A source of layouts is asked for enclosing members too."""
    assert wanted_members((Derived,)) == {
        "base_t": ["count", "link"],
        "derived_t": ["d_flags", "pair.second", "inner", "items", "text", "newer"],
        "inner_t": ["value"],
    }


def test_the_first_source_of_a_struct_counts() -> None:
    """Debug information goes before a profile, struct by struct, and the origins say which was taken."""
    types = Layouts([StructLayout("a_t", 8, {"x": 0}, DEBUG_INFORMATION)])
    profile = Layouts([StructLayout("a_t", 8, {"x": 4}, "profile p"), StructLayout("b_t", 8, {"y": 4}, "profile p")])
    both = types.followed_by(profile)
    assert both.offset("a_t", "x") == 0
    assert both.offset("b_t", "y") == 4
    assert both.origins() == [LayoutOrigin("a_t", DEBUG_INFORMATION), LayoutOrigin("b_t", "profile p")]


def test_the_debugger_is_asked_for_types_and_keeps_what_it_knows() -> None:
    """A struct without one of the wanted members keeps the others; an unknown struct is left out."""

    class Types(NoSymbols):
        def find_type(self, name: str) -> object | None:
            return name if name == "known_t" else None

        def field_offset(self, handle: object, field: str) -> int | None:
            return {"a": 0, "b": 12}.get(field)

        def type_size(self, handle: object) -> int | None:
            return None

    layouts = from_debugger(Types(), {"known_t": ["a", "b", "gone"], "unknown_t": ["a"]})
    assert list(layouts) == [StructLayout("known_t", None, {"a": 0, "b": 12}, DEBUG_INFORMATION)]
