"""How receives that shared memory and a network's library have are listed together, on memory made for the purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from mqs_dll.contract.abi import INVALID_RANK, Operation, Status
from mqs_dll.contract.errors import MqsError, NoInformation
from mqs_dll.library.fabric import Posted
from mqs_dll.library.mpi import envelopes
from mqs_dll.library.mpi.envelopes import NOTHING, Envelope
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.ch4.netmod import Netmod, NetmodMessage, NetmodReceive, NetmodSend
from mqs_dll.library.mpi.mpich.ch4.tag_codecs import UCX
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.mpich.persistent import Started
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind
from mqs_dll.library.mpi.tag_codec import TagCodec
from tests.support.mpich_process import FIRST_HANDLE, SIZE, MpichProcess, layouts_with

Shared = tuple[int, Operation]
"""A receive over shared memory, with the address of its request."""


class NoRequests:
    """The requests of a process that has none past waiting."""

    def __init__(self, mpi: MpichProcessContext) -> None:
        self.started = Started(mpi)

    def others(self, comm: int) -> Sequence[views.MpirRequest]:
        """Return none."""
        return ()


class Waiting(Netmod):
    """A netmod whose library has receives that wait, each with MPICH's request and a tag, and nothing else."""

    def __init__(self, mpi: MpichProcessContext, receives: Sequence[tuple[int, int]]) -> None:
        super().__init__(mpi, NoRequests(mpi))
        self._receives = receives

    def find_way(self) -> None:
        """Search for nothing."""

    def codecs(self) -> Sequence[TagCodec]:
        """Return UCX's."""
        return (UCX,)

    def posted(self, entry: MpichEntry) -> Iterable[NetmodReceive]:
        """Yield them."""
        for address, tag in self._receives:
            yield self.asking(Posted(0x1000, tag, 0, 1, 0x2000, 8, 0), INVALID_RANK, self._request(address), None)

    def with_message(self, entry: MpichEntry) -> Iterable[NetmodReceive]:
        """Return none."""
        return ()

    def held(self, request: views.MpirRequest) -> Envelope | None:
        """Return nothing."""
        return None

    def sent(self, entry: MpichEntry) -> Iterable[NetmodSend]:
        """Return none."""
        return ()

    def lost_sends(self) -> NoInformation | None:
        """Return that none are lost."""
        return None

    def arrived(self) -> tuple[Mapping[int, Sequence[NetmodMessage]], MqsError | None]:
        """Return none."""
        return {}, None


class Both:
    """A process whose receives are posted to shared memory, to the network, or to both."""

    def __init__(self) -> None:
        self._process = MpichProcess(layouts_with("MPIDIG_req_ext_t", "send_async.offset"))
        self._network: list[tuple[int, int]] = []
        self._shared: list[Shared] = []

    def over_network(self, tag: int, partner: int = 0) -> int:
        """Post a receive to the network; ``partner`` is the other half's request, of one from any source."""
        address = self._process.request(self._process.kind(RequestKind.RECV), anysrc_partner=partner)
        self._network.append((address, tag))
        return address

    def past_waiting(self) -> int:
        """Make the request of a receive over shared memory that waits no more."""
        return self._process.request(self._process.kind(RequestKind.RECV))

    def over_shared_memory(self, tag: int) -> int:
        """Post a receive to shared memory."""
        address = self._process.request(self._process.kind(RequestKind.RECV))
        asked = Envelope(INVALID_RANK, tag, 8)
        shown = envelopes.receive(Status.PENDING, asked, NOTHING, range(SIZE), 0x2000, "over shared memory")
        self._shared.append((address, shown))
        return address

    def shown(self) -> list[Operation]:
        """Return the receives of MPI_COMM_WORLD, in the order in which they are shown."""
        netmod = Waiting(self._process.parts("ch4:ofi"), self._network)
        return list(netmod.receives(self._process.entry(self._process.world), self._shared))

    def tags(self) -> list[int]:
        """Return their tags."""
        return [each.desired_tag for each in self.shown()]


@pytest.fixture
def both() -> Both:
    """Return a process without receives."""
    return Both()


A, B, C, X, Y, P, Q = range(7)


def test_receives_of_both_sides_are_listed_once_in_the_order_of_both(both: Both) -> None:
    """One from any source is posted to both sides, and stands where both have it."""
    _, x, _, y, _ = (both.over_shared_memory(tag) for tag in (A, X, B, Y, C))
    both.over_network(P)
    both.over_network(X, partner=x)
    both.over_network(Q)
    both.over_network(Y, partner=y)
    assert both.tags() == [P, A, X, Q, B, Y, C]


def test_halves_are_joined_by_their_request_and_not_by_what_they_look_like(both: Both) -> None:
    """Of two receives that ask for the same, the network has a half of the second one."""
    both.over_shared_memory(X)
    second = both.over_shared_memory(X)
    both.over_network(X, partner=second)
    both.over_network(X)
    shown = both.shown()
    assert [b"over shared memory" in each.extra_text for each in shown] == [True, True, False]
    assert [each.desired_tag for each in shown] == [X, X, X]


def test_a_half_whose_other_side_is_not_shown_is_listed_with_that_side_s_request(both: Both) -> None:
    """The program has the request of the side of shared memory, whose receive may have its message already."""
    both.over_network(X, partner=both.past_waiting())
    (shown,) = both.shown()
    assert f"request {FIRST_HANDLE:#x}".encode() in b" ".join(shown.extra_text)


def test_sides_that_contradict_each_other_show_each_receive_once(both: Both) -> None:
    """A receive was posted or matched between the reads of both: the order is that of shared memory."""
    x, y = both.over_shared_memory(X), both.over_shared_memory(Y)
    both.over_network(Y, partner=y)
    both.over_network(X, partner=x)
    assert both.tags() == [X, Y]
