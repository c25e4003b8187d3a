"""The search for layouts near known ones, on memory that is made up: what is found, left out and refused."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from mqs_dll.calibrate.search import NOTHING, Score, near, proven
from mqs_dll.library.layouts.layout import Layouts, StructLayout

Offsets = Mapping[str, Mapping[str, int]]

KNOWN: Offsets = {"list": {"head": 0, "count": 16}, "entry": {"tag": 8, "length": 16, "buffer": 24, "worker": 40}}


def layouts(offsets: Offsets, size: int | None = None) -> Layouts:
    """Return layouts, with a size of the entry."""
    return Layouts(StructLayout(name, size if name == "entry" else None, at, "made up") for name, at in offsets.items())


def offsets(found: Layouts) -> Offsets:
    """Return the offsets of layouts."""
    return {each.name: dict(each.offsets) for each in found}


def changed(**moves: int) -> Offsets:
    """Return what is known with members moved."""
    return {
        struct: {name: at + moves.get(name, 0) for name, at in members.items()} for struct, members in KNOWN.items()
    }


def memory(true: Offsets, size: int, same: tuple[int, ...] = ()) -> Score:
    """Return what counts the members that layouts read right, or NOTHING where the entry has another size.

    Args:
        true: where each member lies, whose value is unlike all else.
        size: of the entry.
        same: where else in the entry the value of its worker lies.
    """
    values = {name: 1000 + place for place, name in enumerate(name for each in true.values() for name in each)}
    bytes_of = {}
    for name, members in true.items():
        room = bytearray(256)
        for member, at in members.items():
            struct.pack_into("<Q", room, at, values[member])
        for at in same if name == "entry" else ():
            struct.pack_into("<Q", room, at, values["worker"])
        bytes_of[name] = bytes(room)

    def score(tried: Layouts) -> int:
        if tried.struct("entry").size not in (None, size):
            return NOTHING
        return sum(
            struct.unpack_from("<Q", bytes_of[each.name], at)[0] == values[member]
            for each in tried
            for member, at in each.offsets.items()
        )

    return score


@pytest.mark.parametrize(
    "moves",
    [
        {},
        {"worker": 8},
        {"buffer": 16, "worker": 16},
        {"tag": 64, "length": 64, "buffer": 64, "worker": 64},
        {"count": 24, "buffer": 16, "worker": 24},
        {"worker": -8},
    ],
    ids=str,
)
def test_members_that_moved_together_are_found(moves: Mapping[str, int]) -> None:
    """In several steps and structs, too; and the size of a struct, whatever it is in what is known."""
    true = changed(**moves)
    score = memory(true, 96)
    most, found = near([layouts(KNOWN, 80)], score)
    made, doubtful = proven(found, most, score, {"entry": 80})
    assert (most, offsets(made), doubtful) == (6, true, [])
    assert made.struct("entry").size == 96


def test_an_arm_of_a_union_moves_alone() -> None:
    """What lies behind its members in another arm stays."""
    known = {"list": {"head": 0}, "entry": {"id": 0, "send.tag": 8, "send.end": 40, "recv.tag": 16, "recv.end": 48}}
    true = {**known, "entry": {**known["entry"], "send.tag": 24, "send.end": 56}}
    score = memory(true, 96)
    most, found = near([layouts(known)], score)
    assert (most, offsets(proven(found, most, score, {})[0])) == (6, true)


def test_a_member_that_two_places_would_do_for_is_left_out() -> None:
    """Others are found all the same."""
    true = changed(buffer=8, worker=8)
    score = memory(true, 88, same=(56,))
    most, found = near([layouts(KNOWN, 80)], score)
    made, doubtful = proven(found, most, score, {"entry": 80})
    assert doubtful == ["entry.worker"]
    assert offsets(made) == {**true, "entry": {name: at for name, at in true["entry"].items() if name != "worker"}}


def test_members_that_may_lie_elsewhere_together_are_left_out() -> None:
    """Though none of them may alone."""

    def score(tried: Layouts) -> int:
        at = tried.struct("entry").offsets
        return (at["id"] == 0) + 2 * ((at.get("tag"), at.get("end")) in ((8, 16), (16, 24)))

    most, found = near([layouts({"entry": {"id": 0, "tag": 8, "end": 16}})], score)
    made, doubtful = proven(found, most, score, {})
    assert (most, offsets(made), doubtful) == (3, {"entry": {"id": 0}}, ["entry.tag", "entry.end"])


def test_of_structs_that_nothing_is_seen_of_no_member_is_left() -> None:
    """Nor has what is made such a struct."""
    known = {**KNOWN, "other": {"one": 0, "two": 8}}
    score = memory(changed(worker=8), 88)

    def of_two(tried: Layouts) -> int:
        return score(Layouts(each for each in tried if each.name != "other"))

    most, found = near([layouts(known)], of_two)
    made, doubtful = proven(found, most, of_two, {})
    assert (offsets(made), doubtful) == (changed(worker=8), ["other"])


def test_members_in_another_order_are_not_found() -> None:
    """What is reached shows less than all, and nothing where no candidate is believed."""
    swapped: Offsets = {**KNOWN, "entry": {"tag": 40, "length": 8, "buffer": 16, "worker": 24}}
    most, _ = near([layouts(KNOWN, 80)], memory(swapped, 80))
    assert most < 6
    assert near([layouts(KNOWN)], lambda tried: NOTHING)[0] == NOTHING
