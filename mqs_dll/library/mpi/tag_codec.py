"""What the 64 bits of a fabric's tag carry for an MPI.

A module ``tag_codecs`` of each MPI says which bits are what there, and how a process's form of them is told.
"""

from __future__ import annotations

from typing import NamedTuple


class TagParts(NamedTuple):
    """What a fabric's tag carries."""

    context: int
    """The communicator: Open MPI's slot in its table, MPICH's context id."""
    rank: int
    """The sender's in the communicator; 0 where it is beside the tag."""
    tag: int
    """MPI's."""
    protocol: int
    """Bits of the MPI's own: of what kind a message is."""


class BitField(NamedTuple):
    """Some bits of a number that lie together."""

    first: int
    """The lowest of them."""
    width: int

    def of(self, bits: int) -> int:
        """Return what a number has there."""
        return bits >> self.first & (1 << self.width) - 1


NONE = BitField(0, 0)


class TagCodec(NamedTuple):
    """Which bits of a fabric's tag are what; all others carry nothing."""

    context: BitField
    rank: BitField
    tag: BitField
    protocol: BitField = NONE
    signed: bool = False
    """Whether the highest bit of MPI's tag is its sign: negative ones are the MPI's own."""

    @property
    def has_rank(self) -> bool:
        """Whether tags have the sender's rank; else it is beside them."""
        return bool(self.rank.width)

    def read(self, bits: int) -> TagParts:
        """Return what a tag carries, or what a receive ignores of each part."""
        tag = self.tag.of(bits)
        if self.signed and tag >> self.tag.width - 1:
            tag -= 1 << self.tag.width
        return TagParts(self.context.of(bits), self.rank.of(bits), tag, self.protocol.of(bits))

    def is_any_rank(self, ignore: int) -> bool:
        """Tell whether a receive that ignores these bits takes messages of any rank: MPIs ignore it whole, or not."""
        return bool(self.rank.of(ignore) & 1)

    def is_any_tag(self, ignore: int) -> bool:
        """Tell whether a receive that ignores these bits takes any tag of a program's.

        It ignores all bits that those have, or none of them; by the others an MPI tells its own tags.
        """
        return bool(self.tag.of(ignore) & 1)
