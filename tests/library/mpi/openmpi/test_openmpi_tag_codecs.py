"""Tags that live processes of Open MPI 5.0.11 had, and what Open MPI itself said of their messages."""

from __future__ import annotations

import pytest

from mqs_dll.library.mpi.openmpi.tag_codecs import ACKNOWLEDGEMENT, PML_UCX, SYNCHRONOUS, mtl_ofi
from mqs_dll.library.mpi.tag_codec import TagCodec, TagParts

BESIDE = mtl_ofi(32, 0)
"""Over tcp: libfabric carries the rank beside the tag."""
INSIDE = mtl_ofi(32, 18)
"""With mtl_ofi_tag_mode ofi_tag_1."""

WORLD, SELF, FIELD = 0, 1, 3
"""Slots of communicators."""


@pytest.mark.parametrize(
    ("codec", "bits", "parts"),
    [
        (PML_UCX, 0x1E0000000000, TagParts(WORLD, 0, 30, 0)),
        (PML_UCX, 0x030000000001, TagParts(SELF, 0, 3, 0)),
        (PML_UCX, 0x3D0000100004, TagParts(4, 1, 61, 0)),
        (PML_UCX, 0x7FFF0000100003, TagParts(FIELD, 1, 32767, 0)),
        (PML_UCX, 0xFFFFF00000100007, TagParts(7, 1, -16, 0)),
        (PML_UCX, 0xFFFFDE000030000A, TagParts(10, 3, -34, 0)),
        (BESIDE, 0x100000003D, TagParts(4, 0, 61, 0)),
        (BESIDE, 0xC00007FFF, TagParts(FIELD, 0, 32767, 0)),
        (BESIDE, 0x1CFFFFFFF0, TagParts(7, 0, -16, 0)),
        (BESIDE, 0xE00000017, TagParts(FIELD, 0, 23, ACKNOWLEDGEMENT)),
        (INSIDE, 0x4000040000003D, TagParts(4, 1, 61, 0)),
        (INSIDE, 0x700004FFFFFFF0, TagParts(7, 1, -16, 0)),
        (INSIDE, 0xA00010FFFFFFDE, TagParts(10, 4, -34, 0)),
        (INSIDE, 0x30000400000009, TagParts(FIELD, 1, 9, 0)),
    ],
)
def test_a_tag_is_read_into_its_parts(codec: TagCodec, bits: int, parts: TagParts) -> None:
    """Open MPI's own tags are negative, whatever the width."""
    assert codec.read(bits) == parts


@pytest.mark.parametrize(
    ("codec", "ignore", "any_rank", "any_tag"),
    [
        (PML_UCX, 0, False, False),
        (PML_UCX, 0xFFFFF00000, True, False),
        (PML_UCX, 0x7FFFFF0000000000, False, True),
        (PML_UCX, 0x7FFFFFFFFFF00000, True, True),
        (BESIDE, 0x100000000, False, False),
        (BESIDE, 0x17FFFFFFF, False, True),
        (INSIDE, 0x100000000, False, False),
        (INSIDE, 0xFFFFD00000000, True, False),
        (INSIDE, 0xFFFFD7FFFFFFF, True, True),
    ],
)
def test_what_a_receive_ignores_says_whether_it_takes_any(
    codec: TagCodec, ignore: int, *, any_rank: bool, any_tag: bool
) -> None:
    """A receive of any tag leaves the sign of tags in force."""
    assert (codec.is_any_rank(ignore), codec.is_any_tag(ignore)) == (any_rank, any_tag)


def test_the_rank_is_in_a_tag_or_beside_it() -> None:
    """mtl/ofi's tags have bits for it where libfabric carries nothing beside them."""
    assert [codec.has_rank for codec in (PML_UCX, BESIDE, INSIDE)] == [True, False, True]


def test_a_receive_of_mtl_ofi_ignores_the_bit_of_synchronous_sends() -> None:
    """So it takes both kinds, and no acknowledgement."""
    assert BESIDE.read(0x100000000).protocol == SYNCHRONOUS
    assert not BESIDE.read(0x100000000).protocol & ACKNOWLEDGEMENT
