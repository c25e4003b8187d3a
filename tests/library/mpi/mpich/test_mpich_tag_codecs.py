"""Tags that live processes of MPICH 4.0.2 to 4.3.2 and Intel MPI had, and what these said of their messages."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mqs_dll.library.fabric import Posted
from mqs_dll.library.mpi.mpich.ch4.tag_codecs import (
    BESIDE,
    INSIDE,
    NARROW,
    OFI_RELEASES,
    OLD_INSIDE,
    OLD_UCX,
    SSEND_ACK,
    UCX,
    OfiTagForm,
    OfiTagForms,
    ucx_codecs,
)
from mqs_dll.library.mpi.mpich.intel.ofi import FORM
from mqs_dll.library.mpi.tag_codec import TagCodec, TagParts

INTEL = FORM.codec
WORLD, FIELD, DUP = 0, 0x1F0, 0x1E0
"""Context ids."""
EARLY, LATE = OfiTagForm(BESIDE, 4), OfiTagForm(BESIDE, 8)
"""Of 4.0 and 4.1, and since 4.2."""
OLD_RXM, RXM = OfiTagForm(OLD_INSIDE, 8), OfiTagForm(INSIDE, 8)


@pytest.mark.parametrize(
    ("codec", "bits", "parts"),
    [
        (OLD_UCX, 0x1E, TagParts(WORLD, 0, 30, 0)),
        (OLD_UCX, 0x1E000010000003D, TagParts(DUP, 1, 61, 0)),
        (OLD_UCX, 0x1F0000100007FFF, TagParts(FIELD, 1, 32767, 0)),
        (OLD_UCX, 0x19100040000011F, TagParts(0x191, 4, 287, 0)),
        (UCX, 0x1E000010000003D, TagParts(DUP, 1, 61, 0)),
        (BESIDE, 0xF00000003D, TagParts(DUP, 0, 61, 0)),
        (BESIDE, 0x2000F800000017, TagParts(FIELD, 0, 23, EARLY.synchronous)),
        (BESIDE, 0x4000F800000017, TagParts(FIELD, 0, 23, LATE.synchronous)),
        (BESIDE, 0x800F800000017, TagParts(FIELD, 0, 23, SSEND_ACK)),
        (OLD_INSIDE, 0xF00000010003D, TagParts(DUP, 1, 61, 0)),
        (OLD_INSIDE, 0xF800000107FFF, TagParts(FIELD, 1, 32767, 0)),
        (INSIDE, 0x780000008003D, TagParts(DUP, 1, 61, 0)),
        (INSIDE, 0x2007C00000000018, TagParts(FIELD, 0, 24, RXM.synchronous)),
        (INSIDE, 0x407C00000000017, TagParts(FIELD, 0, 23, SSEND_ACK)),
        (INTEL, 0x1001E00003D, TagParts(DUP, 1, 61, 0)),
        (INTEL, 0x100002001F000018, TagParts(FIELD, 2, 24, SSEND_ACK)),
    ],
)
def test_a_tag_is_read_into_its_parts(codec: TagCodec, bits: int, parts: TagParts) -> None:
    """In the answer to a synchronous send over Intel MPI the rank is the receiver's."""
    assert codec.read(bits) == parts


@pytest.mark.parametrize(
    ("codec", "ignore", "any_rank", "any_tag"),
    [
        (OLD_UCX, 0x60000000, False, False),
        (OLD_UCX, 0xFFFF60000000, True, False),
        (OLD_UCX, 0x6FFFFFFF, False, True),
        (OLD_UCX, 0xFFFF6FFFFFFF, True, True),
        (UCX, 0, False, False),
        (UCX, 0xFFFF00000000, True, False),
        (UCX, 0xFFFF3FFFFFFF, True, True),
        (BESIDE, 0xC0000000000000, False, False),
        (BESIDE, 0xC000007FFFFFFF, False, True),
        (OLD_INSIDE, 0xC00007FFFFF00000, True, False),
        (OLD_INSIDE, 0xC00007FFFFFFFFFF, True, True),
        (INSIDE, 0x600003FFFFF80000, True, False),
        (INSIDE, 0x600003FFFFFFFFFF, True, True),
        (INTEL, 0x6000000000000000, False, False),
        (INTEL, 0x6FFFFF00000FFFFF, True, True),
    ],
)
def test_what_a_receive_ignores_says_whether_it_takes_any(
    codec: TagCodec, ignore: int, *, any_rank: bool, any_tag: bool
) -> None:
    """One of any tag leaves bit 28 of MPICH 4.0's in force, by which MPICH tells messages of its own."""
    assert (codec.is_any_rank(ignore), codec.is_any_tag(ignore)) == (any_rank, any_tag)


# ---------------------------------------------------------------- which form a process has


@pytest.mark.parametrize(
    ("ignore", "release", "codecs"),
    [
        (0x60000000, "9.9.9", [OLD_UCX]),
        (0xFFFF6FFFFFFF, "9.9.9", [OLD_UCX]),
        (0, "9.9.9", [UCX]),
        (0xFFFF3FFFFFFF, "4.0.2", [UCX]),
        (None, "4.0.2", [OLD_UCX]),
        (None, "4.3.2", [UCX]),
        (None, "9.9.9", [OLD_UCX, UCX]),
    ],
)
def test_a_receive_of_ucx_tells_the_form_before_the_release_does(
    ignore: int | None, release: str, codecs: Sequence[TagCodec]
) -> None:
    """It ignores the bits that tell of errors, or has them in force; without both the form is not known."""
    assert list(ucx_codecs(ignore, release)) == codecs


RECEIVES = {
    EARLY: (0x60000000000000, 0x6000007FFFFFFF),
    LATE: (0xC0000000000000, 0xC000007FFFFFFF),
    OLD_RXM: (0xC000000000000000, 0xC00007FFFFF00000, 0xC00007FFFFFFFFFF),
    RXM: (0x6000000000000000, 0x600003FFFFF80000, 0x600003FFFFFFFFFF),
}
"""What receives ignored over each."""


def receive(ignore: int, tag: int = 0) -> Posted:
    """Return a receive that ignores these bits."""
    return Posted(0x1000, tag, ignore, 1, 0, 0, 0)


@pytest.mark.parametrize("release", ["4.0.3", "4.2.3", "4.3.2", "9.9.9"])
@pytest.mark.parametrize(("form", "ignore"), [(form, each) for form, found in RECEIVES.items() for each in found])
def test_any_receive_tells_the_form_of_libfabrics_tags(form: OfiTagForm, ignore: int, release: str) -> None:
    """It fits one form alone, and counts for more than the release."""
    assert OfiTagForms.of(release).choose([([], []), ([receive(ignore)], [])]) == form


@pytest.mark.parametrize(
    ("release", "posted", "beside", "form"),
    [
        ("4.3.2", [], [], LATE),
        ("4.3.2", [], [1], LATE),
        ("4.3.2", [], [None], RXM),
        ("4.2.3", [], [None, 1], OLD_RXM),
        ("4.3.2", [receive(0, 0x407C00000000017)], [], RXM),
        ("4.3.2", [receive(0, 0x800F800000017)], [], LATE),
        ("4.0.3", [receive(0, 0x800F800000017)], [], EARLY),
        ("9.9.9", [receive(0, 0x407C00000000017)], [], RXM),
        ("9.9.9", [receive(0, 0x800F800000017)], [], None),
        ("9.9.9", [], [None], None),
        ("9.9.9", [], [], None),
    ],
)
def test_without_a_receive_answers_and_ranks_beside_tags_leave_some_forms(
    release: str, posted: Sequence[Posted], beside: Sequence[int | None], form: OfiTagForm | None
) -> None:
    """Of these the release has one; where it isn't known, and there are several, nothing is made up."""
    assert OfiTagForms.of(release).choose([(posted, beside)]) == form


def test_a_release_has_its_own_forms_first() -> None:
    """Others are tried behind them: a process may say another release than it has."""
    for release, own in OFI_RELEASES.items():
        forms = OfiTagForms.of(f"{release}.1")
        assert tuple(forms.every[: len(own)]) == own
        assert set(forms.every) == {EARLY, LATE, OLD_RXM, RXM}


@pytest.mark.parametrize("release", ["4.1.3", "4.3.2", "9.9.9"])
@pytest.mark.parametrize(
    ("posted", "form"),
    [
        ([receive(0xC0000000000)], OfiTagForm(NARROW, 4)),
        ([receive(0x180000000000)], OfiTagForm(NARROW, 8)),
        ([receive(0x1800000FFFFF)], OfiTagForm(NARROW, 8)),
        ([receive(0xC0000000000000)], None),
        ([], None),
    ],
)
def test_in_48_bits_only_a_receive_tells_what_a_tag_is_made_of(
    release: str, posted: Sequence[Posted], form: OfiTagForm | None
) -> None:
    """A release doesn't: who makes such a network has an MPICH of its own."""
    assert OfiTagForms.of(release, tag_bits=48).choose([(posted, [1])]) == form


def test_in_48_bits_an_answer_leaves_the_rest_to_the_release() -> None:
    """To a synchronous send: it has the bit of answers alone, above a communicator and a tag."""
    answer = receive(0, 1 << 40 | FIELD << 20 | 23)
    chosen = [OfiTagForms.of(release, tag_bits=48).choose([([answer], [])]) for release in ("4.1.3", "5.0.2", "9.9.9")]
    assert chosen == [OfiTagForm(NARROW, 4), OfiTagForm(NARROW, 8), None]
    assert NARROW.read(answer.tag) == TagParts(FIELD, 0, 23, SSEND_ACK)


@pytest.mark.parametrize(
    ("form", "ignore"),
    [
        (LATE, 0xC0000000000000 | 1 << 31),
        (LATE, 0xC0000000000000 | 0xFF),
        (RXM, 0x6000000000000000 | 1 << 42),
        (RXM, 0x6000000000000000 | 1 << 19),
        (LATE, 0),
        (LATE, 0x40000000000000),
    ],
    ids=["a context", "a part of a tag", "a context over rxm", "a part of a rank", "no protocol", "half of it"],
)
def test_what_ignores_anything_else_is_no_receive_of_the_programs(form: OfiTagForm, ignore: int) -> None:
    """It ignores a rank and a tag whole or not at all, never a communicator, and always which kind of send it is."""
    assert not form.is_receive(ignore)
