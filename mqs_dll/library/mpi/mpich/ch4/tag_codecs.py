"""The tags of ch4's messages over UCX and over libfabric, and how it is told which form of them a process has.

Source: ucx/ucx_types.h, ucx_impl.h, ofi/ofi_types.h, ofi_pre.h, ofi_impl.h in src/mpid/ch4/netmod of 4.0.3 to 5.0.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from mqs_dll.library.fabric import ALL_BITS, Posted
from mqs_dll.library.mpi.tag_codec import NONE, BitField, TagCodec

# ---------------------------------------------------------------- ucx

_UCX_CONTEXT, _UCX_RANK = BitField(48, 16), BitField(32, 16)
OLD_UCX = TagCodec(_UCX_CONTEXT, _UCX_RANK, tag=BitField(0, 29))
"""To 4.2: bits 29 and 30 tell of errors in collectives, and receives ignore both."""
UCX = TagCodec(_UCX_CONTEXT, _UCX_RANK, tag=BitField(0, 30))
"""Since 4.3: bit 30 alone does, and receives don't ignore it."""

UCX_RELEASES = {"4.0": OLD_UCX, "4.1": OLD_UCX, "4.2": OLD_UCX, "4.3": UCX, "5.0": UCX}

ERROR_30 = 1 << 30


def ucx_codecs(ignore: int | None, release: str) -> Sequence[TagCodec]:
    """Return those that a process can have.

    Args:
        ignore: the bits that one of its receives ignores, which tells it; None without a receive.
        release: of MPICH, which tells it then.
    """
    if ignore is not None:
        return (OLD_UCX,) if ignore & ERROR_30 else (UCX,)
    known = UCX_RELEASES.get(release[:3])
    return (known,) if known else (OLD_UCX, UCX)


# ---------------------------------------------------------------- ofi

TAG_BITS = 64
"""Of a tag of libfabric's, whole."""

SSEND_ACK = 1
"""Of the protocol's bits: the answer to a synchronous send (MPIDI_OFI_SYNC_SEND_ACK)."""

BESIDE = TagCodec(context=BitField(31, 20), rank=NONE, tag=BitField(0, 31), protocol=BitField(51, 13))
"""To 4.1 of all providers, later of tcp, sockets and shm: the sender's rank is beside the tag."""
OLD_INSIDE = TagCodec(context=BitField(43, 16), rank=BitField(20, 23), tag=BitField(0, 20), protocol=BitField(59, 5))
"""In 4.2 of the other providers."""
INSIDE = TagCodec(context=BitField(42, 16), rank=BitField(19, 23), tag=BitField(0, 19), protocol=BitField(58, 6))
"""The same since 4.3."""
NARROW = TagCodec(context=BitField(20, 20), rank=NONE, tag=BitField(0, 20), protocol=BitField(40, 24))
"""Since 4.1 of cxi, which leaves 48 bits (MPIDI_OFI_TAG_BITS_CXI in ofi/ofi_capability_sets.h); no process was seen."""


class OfiTagForm(NamedTuple):
    """What a tag of libfabric's is made of."""

    codec: TagCodec
    synchronous: int
    """Of the protocol's bits: the sender waits for an answer."""

    @property
    def in_parts(self) -> int:
        """Of the protocol's bits: the message comes in several parts."""
        return 2 * self.synchronous

    @property
    def of_sends(self) -> int:
        """Both: what a receive of the program's ignores of the protocol, which tells one form from all others."""
        return self.synchronous | self.in_parts

    def is_receive(self, ignore: int) -> bool:
        """Tell whether a receive ignores what the program's do: all or nothing of each part of a tag."""
        ignored, whole = self.codec.read(ignore), self.codec.read(ALL_BITS)
        of_parts = ignored.tag in (0, whole.tag), ignored.rank in (0, whole.rank), not ignored.context
        return all(of_parts) and ignored.protocol == self.of_sends

    def is_answer(self, posted: Posted) -> bool:
        """Tell whether a receive is MPICH's own, for the answer to a synchronous send: that has the receiver's rank."""
        return not posted.ignore and self.codec.read(posted.tag).protocol == SSEND_ACK


_FIRST, _SECOND, _NOW = (
    (OfiTagForm(BESIDE, 4),),
    (OfiTagForm(BESIDE, 8), OfiTagForm(OLD_INSIDE, 8)),
    (OfiTagForm(BESIDE, 8), OfiTagForm(INSIDE, 8)),
)
OFI_RELEASES = {"4.0": _FIRST, "4.1": _FIRST, "4.2": _SECOND, "4.3": _NOW, "5.0": _NOW}
"""The forms of each, by itself the first."""

_NARROW, ALL_NARROW = {"4.1": 4}, (OfiTagForm(NARROW, 4), OfiTagForm(NARROW, 8))
"""What tells a synchronous send in narrow tags, 8 since 4.2; both forms."""


class OfiTagForms(NamedTuple):
    """The forms that a process can have."""

    own: Sequence[OfiTagForm]
    """Of its release, none where that isn't known."""
    every: Sequence[OfiTagForm]
    """Of all releases, those of its own first."""
    by_release: bool = True
    """Whether the release tells it where no receive does."""

    @classmethod
    def of(cls, release: str, tag_bits: int = TAG_BITS) -> OfiTagForms:
        """Return those of a release of MPICH over a provider that leaves it some bits.

        Where these are few, the MPICH may be that of the network's makers, whose own bits aren't known.
        """
        own = OFI_RELEASES.get(release[:3], ())
        if tag_bits < TAG_BITS:
            mine = OfiTagForm(NARROW, _NARROW.get(release[:3], 8))
            return cls((mine,) if own else (), ALL_NARROW, by_release=False)
        return cls(own, tuple(dict.fromkeys(chain(own, *OFI_RELEASES.values()))))

    def choose(self, endpoints: Iterable[tuple[Sequence[Posted], Iterable[int | None]]]) -> OfiTagForm | None:
        """Return the one that a process has, by the first receive, message or send that tells it; None where none does.

        A receive tells it whatever the release; the others leave several forms, of which the release has one.

        Args:
            endpoints: of each the receives that wait, and what its messages and its sends have beside the tag.
        """
        if len(self.every) == 1:
            return self.every[0]
        left, is_told = self.every, self.by_release
        for posted, beside in endpoints:
            for form in self.every:
                if any(form.is_receive(each.ignore) for each in posted):
                    return form
            answering = [form for form in left if any(map(form.is_answer, posted))]
            left, is_told = (answering, True) if answering else (left, is_told)
            for data in beside:
                left = [form for form in left if form.codec.has_rank == (data is None)] or left
                break
        own = [form for form in left if form in self.own]
        if not is_told:
            return None
        return own[0] if own else left[0] if len(left) == 1 else None
