"""What an endpoint of libfabric's tells, whatever provider it is of: receives, messages and sends that wait.

Processes are named by their address in the endpoint's table (fi_addr_t), a small number; tags are 64 bits of the MPI's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.fabric import Arrived, Posted, Received, Sent
from mqs_dll.library.layouts.selection import Identity
from mqs_dll.library.layouts.view import View, pointer


class UtilEndpoint(View):
    """What endpoints have in common."""

    struct = "util_ep"
    domain: int = pointer()


@dataclass(frozen=True)
class OfiSent(Sent):
    """A send that the provider is not done with."""

    tag: int
    """Libfabric never loses it."""
    data: int | None
    """As in Arrived: the sender's rank in the communicator."""
    context: int
    """As in Posted; 0 for none."""


class Endpoint(ABC):
    """An endpoint that was believed: its lists are read anew at each call."""

    provider: str
    """As libfabric calls it: "tcp", "sockets", "shm", "tcp;ofi_rxm" ..."""

    release: str
    """libfabric's name and release, like "libfabric 1.22"."""

    checks: ClassVar[tuple[str, ...]]
    """Sentences: what held before the layouts were believed."""

    caveat: ClassVar[str] = ""
    """What reports say beside that."""

    tag_bits: ClassVar[int] = 64
    """Of a tag, those that the provider leaves to the MPI."""

    fabric: Identity
    """The same for reports; find_endpoint fills it."""

    orders_sources: bool
    """Whether ``arrived`` is in the order in which messages came over all sources; else in that of each source."""

    numbers_receives: bool
    """Whether receives have numbers that count all that were ever posted; else a number is the place in a queue."""

    @abstractmethod
    def posted(self) -> list[Posted]:
        """Return the receives with a tag that wait, in the order of posting, which is that of matching.

        Raises:
            BrokenStructureError: the queues contradict themselves.
            TargetReadError: a queue can't be read.
        """

    @abstractmethod
    def arrived(self) -> Iterator[Arrived]:
        """Yield the messages with a tag that no receive has matched, in the order that ``orders_sources`` tells.

        Raises:
            BrokenStructureError: after those that could be reached.
        """

    def filling(self) -> Sequence[Received]:
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


def check_order(receives: list[Posted], following: int) -> list[Posted]:
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
