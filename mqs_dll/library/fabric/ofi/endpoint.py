"""What an endpoint of libfabric's tells, whatever provider it is of: receives, messages and sends that wait.

Processes are named by their address in the endpoint's table (fi_addr_t), a small number; tags are 64 bits of the MPI's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.layouts.selection import Identity

ANY = (1 << 64) - 1
"""The source of a receive from anybody, or of a message of which the provider doesn't keep it (FI_ADDR_UNSPEC)."""


class OfiPosted(NamedTuple):
    """A receive that waits for a message."""

    address: int
    """Of the provider's entry."""
    tag: int
    ignore: int
    """The bits of the tag that don't count."""
    source: int
    """The address of the sender in the table, ANY from anybody."""
    number: int
    """In the order of posting, over all sources; where the provider counts none, the place in its queue."""
    buffer: int
    """Of its first piece; a copy's where the MPI receives data in pieces."""
    length: int
    """Bytes of all pieces."""
    in_pieces: bool
    context: int
    """The MPI's own: the address of the struct fi_context in its request."""


class OfiArrived(NamedTuple):
    """A message that no receive has matched."""

    tag: int
    source: int
    """The address of the sender in the table, ANY where the provider doesn't keep it."""
    data: int | None
    """What the sender gave with it beside the tag (both MPIs: its rank in the communicator); None for nothing."""
    length: int
    """Bytes of the whole message."""
    here: int
    """Bytes of it that have come, as far as that is known."""
    address: int
    """Of those bytes, 0 where none is here or where isn't known."""
    claimed: bool
    """A matched probe (FI_CLAIM) holds it: no receive will find it."""
    rendezvous: bool
    """Its data are still with the sender, who waits for the match."""

    def how(self) -> str:
        """Return how much of it is here, in words."""
        if self.rendezvous:
            return f"rendezvous: its {self.length} bytes are with the sender"
        return f"eager: {'all' if self.here == self.length else 'a part'} of it is here"


class Filling(NamedTuple):
    """A receive that has got its message and is no longer among those that wait: the provider fills it just now."""

    context: int
    """As in OfiPosted."""
    message: OfiArrived


class OfiSent(NamedTuple):
    """A send that the provider is not done with."""

    address: int
    """Of the provider's entry."""
    tag: int
    destination: int
    """The address of the receiver in the table, ANY where that isn't known."""
    data: int | None
    """As in OfiArrived: the sender's rank in the communicator."""
    length: int
    buffer: int
    """Of the program or of a copy, 0 where it isn't kept."""
    context: int
    """The MPI's own, as in OfiPosted; 0 for none."""
    waits_for_ack: bool
    """All of it has left; the receiver has not said that it has come (which is no match)."""


class Endpoint(ABC):
    """An endpoint that was believed: its lists are read anew at each call."""

    provider: str
    """As libfabric calls it: "tcp", "sockets", "shm", "tcp;ofi_rxm" ..."""

    release: str
    """libfabric's name and release, like "libfabric 1.22"."""

    checks: ClassVar[tuple[str, ...]]
    """Sentences: what held before the layouts were believed."""

    fabric: Identity
    """The same for reports; find_endpoint fills it."""

    orders_sources: bool
    """Whether ``arrived`` is in the order in which messages came over all sources; else in that of each source."""

    numbers_receives: bool
    """Whether receives have numbers that count all that were ever posted; else a number is the place in a queue."""

    @abstractmethod
    def posted(self) -> list[OfiPosted]:
        """Return the receives with a tag that wait, in the order of posting, which is that of matching.

        Raises:
            BrokenStructureError: the queues contradict themselves.
            TargetReadError: a queue can't be read.
        """

    @abstractmethod
    def arrived(self) -> Iterator[OfiArrived]:
        """Yield the messages with a tag that no receive has matched, in the order that ``orders_sources`` tells.

        Raises:
            BrokenStructureError: after those that could be reached.
        """

    def filling(self) -> Sequence[Filling]:
        """Return the receives whose message comes in just now, where the provider keeps them apart from the others.

        Raises:
            BrokenStructureError, TargetReadError: they can't be read.
        """
        return ()

    def full(self) -> Sequence[int]:
        """Return the addresses in the table of the peers of which more messages may have come than ``arrived`` yields.

        tcp takes in 64 messages of a peer, and leaves those behind the 65th, whatever they are, in the connection.
        """
        return ()

    def connecting(self) -> Sequence[int]:
        """Return the addresses in the table of the peers that messages wait for until they take up a connection.

        Nothing is kept of these messages: the MPI tries to send them again and again.
        """
        return ()

    @abstractmethod
    def sends(self) -> list[OfiSent]:
        """Return the sends with a tag that the provider is not done with, by destination.

        A message that was copied, or handed to the kernel, or that the receiver has taken in, has no entry any more.

        Raises:
            NoInformation: this provider's sends can't be read; the text says whose.
            BrokenStructureError, TargetReadError: the lists contradict themselves, or can't be read.
        """


def check_order(receives: list[OfiPosted], following: int) -> list[OfiPosted]:
    """Return receives of several queues in the order of posting.

    Args:
        receives: each with its number.
        following: the number that the next one will have.

    Raises:
        BrokenStructureError: two have one number, or one has a number that was never given.
    """
    found = sorted(receives, key=lambda each: each.number)
    if any(one.number == other.number for one, other in pairwise(found)) or (found and found[-1].number >= following):
        raise BrokenStructureError("the numbers of libfabric's receives contradict each other")
    return found
