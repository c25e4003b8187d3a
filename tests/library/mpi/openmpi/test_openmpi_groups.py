"""Open MPI's sparse groups in made-up memory: few builds store any, so that no MPI of the matrix shows them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import pytest

from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.mpi.openmpi.groups import BITMAP, SPORADIC, STRIDED, Groups
from tests.support.made_up_groups import CHILD, TABLE, bitmap, groups_of, ranges, strided


@pytest.mark.parametrize(
    ("make", "ranks"),
    [
        (partial(groups_of, 4, 0, 3, b""), (0, 1, 2)),
        (partial(strided, 10, 1, 3), (1, 4, 7)),
        (partial(ranges, 10, [(7, 2), (0, 3)]), (7, 8, 0, 1, 2)),
        (partial(bitmap, 20, [0, 7, 8, 19]), (0, 7, 8, 19)),
    ],
    ids=["dense", "strided", "ranges", "bitmap"],
)
def test_each_way_of_storing_a_group_is_decoded(make: Callable[[], Groups], ranks: tuple[int, ...]) -> None:
    """A sparse group's processes are those of its parent that its table names, in its order."""
    assert make().world_ranks(CHILD) == ranks


@pytest.mark.parametrize(
    "make",
    [
        partial(ranges, 10, [(0, 3)], count=4),
        partial(ranges, 10, [(8, 3)]),
        partial(ranges, 10, [(-1, 2)]),
        partial(ranges, 10, [(0, 1 << 30)], count=4),
        partial(ranges, 10, [(0, 5), (0, -1)], count=4),
        partial(groups_of, 10, SPORADIC, 4, struct.pack("<Qi", TABLE, 1 << 24)),
        partial(bitmap, 10, [0, 1], count=3),
        partial(bitmap, 10, [0, 15]),
        partial(groups_of, 10, BITMAP, 4, struct.pack("<Qi", TABLE, 1 << 24)),
    ],
)
def test_a_table_that_does_not_fit_the_group_is_refused(make: Callable[[], Groups]) -> None:
    """Numbers that don't agree with the group's size or with its parent are an error, however large they are."""
    with pytest.raises(BrokenStructureError, match="doesn't fit its parent"):
        make().world_ranks(CHILD)


def test_a_group_that_is_made_of_itself_is_refused() -> None:
    """A chain of parents ends within a bound, or is an error."""
    groups = groups_of(10, STRIDED, 4, struct.pack("<3i", 0, 1, 0), parent_flags=STRIDED)
    with pytest.raises(BrokenStructureError, match="more than 64 ancestors"):
        groups.world_ranks(CHILD)
