"""Libraries that move messages for MPIs, and know nothing of them: from a worker or an endpoint to what it holds.

An MPI's adapter finds the worker, and reads the bits of tags into communicators, ranks and tags. What a fabric holds is
told by the records here, whichever fabric it is. The folders:

- ``ucx``: UCX, whose workers match messages for Open MPI's pml/ucx and for MPICH's ch4:ucx.
- ``ofi``: libfabric, whose providers do so for Open MPI's mtl/ofi and for MPICH's ch4:ofi.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mqs_dll.contract import phrases

ALL_BITS = (1 << 64) - 1
"""Of a tag."""

ANY = ALL_BITS
"""A receive's source that is anybody; a peer that the fabric doesn't keep, or doesn't know (libfabric's
FI_ADDR_UNSPEC)."""


class Posted(NamedTuple):
    """A receive that waits for a message."""

    address: int
    """Of the fabric's record."""
    tag: int
    """64 bits of the MPI's making."""
    ignore: int
    """The bits of the tag that don't count; UCX keeps those that do, its mask."""
    number: int
    """In the order of posting: UCX's of a worker, libfabric's of an endpoint; where a provider of libfabric's counts
    none, the place in its queue."""
    buffer: int
    """Of its first piece; a copy's where the MPI receives data in pieces."""
    length: int
    """Bytes of all pieces."""
    context: int
    """What the MPI gave to know it by: in libfabric the address of the struct fi_context in its request, in UCX any
    number; 0 for none, and where UCX's layout doesn't tell."""
    source: int = ANY
    """The address of the sender in libfabric's table; UCX keeps none, for the MPI has the sender in the tag."""
    freed: bool = False
    """The MPI has given the request back: nobody waits for it. Only UCX keeps that."""


class Arrived(NamedTuple):
    """A message that no receive has matched, or that is coming into one."""

    tag: int
    length: int
    """Bytes of the whole message."""
    here: int
    """Bytes of it that have come, as far as that is known."""
    address: int
    """Of those bytes, 0 where none is here or where isn't known."""
    rendezvous: bool
    """Its data are still with the sender, who waits for the match."""
    source: int = ANY
    """As in Posted."""
    data: int | None = None
    """What the sender gave beside the tag (both MPIs: its rank in the communicator); None for nothing, as in UCX."""
    claimed: bool = False
    """Libfabric: a matched probe (FI_CLAIM) holds it, and no receive will find it. UCX takes it from its list then."""
    synchronous: bool = False
    """UCX: the sender waits for the match; of a rendezvous that isn't told. Over libfabric the MPI's tag tells it."""
    request: int = 0
    """UCX: the address of the sender's request; 0 where it doesn't tell, since the sender waits for nothing."""

    def how(self) -> str:
        """Return how much of it is here, in words."""
        part = f"{'all' if self.here == self.length else 'a part'} of it is here"
        if self.request:
            return phrases.MESSAGE(self.request, "rendezvous with the data at the sender" if self.rendezvous else part)
        return f"rendezvous: its {self.length} bytes are with the sender" if self.rendezvous else f"eager: {part}"


class Received(NamedTuple):
    """A receive that waits no more: its message is coming in; or has come, and UCX still has the MPI's request."""

    address: int
    """Of the fabric's record."""
    context: int
    """As in Posted."""
    message: Arrived | None
    """None where the MPI keeps what it got, and the fabric nothing: in UCX, once it is done."""
    asked: Posted | None = None
    """What it asked for; None where that isn't kept: in libfabric, and in UCX of a receive that found its whole message
    there (ucp_tag_recv_common in src/ucp/tag/tag_recv.c, 1.13.1 to 1.20.1), which is in ``message``."""
    in_pieces: bool = False
    """UCX: its data, which still come, don't lie in one piece."""
    freed: bool = False
    """As in Posted."""

    @property
    def tag(self) -> int:
        """What it asked for; that of its message where that isn't kept."""
        known = self.asked or self.message
        return known.tag if known else 0


@dataclass(frozen=True)
class Sent:
    """A send that the fabric is not done with; each fabric knows more of it, of its own kind."""

    address: int
    """Of the fabric's record."""
    tag: int | None
    """None where the fabric has lost it."""
    destination: int
    """Libfabric's address of the receiver in the table, ANY where that isn't known; the address of UCX's endpoint."""
    length: int
    buffer: int
    """Of the program or of a copy, 0 where it isn't kept."""
    has_left: bool
    """All of it has left. It waits for its receiver: in UCX for the match, in libfabric only to have taken it in."""
