"""What the adapters of all MPIs do alike: which communicators count, and which operations are believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, cast

import pytest

from mqs_dll.contract.abi import NUMBER_BITS, UNKNOWN, Label, MpiFacts, Operation, Queue, Status, Window
from mqs_dll.contract.errors import BrokenStructureError, NoInformation
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.selection import Identity
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi import base
from mqs_dll.library.mpi.base import AttachedMpi, DatatypeReader
from mqs_dll.library.mpi.communicators import CommunicatorEntry, join_id
from mqs_dll.library.mpi.transport import Transport
from tests.support.memory_image import MemoryImage


class Entry(CommunicatorEntry):
    """A communicator of two processes, and of some in a remote group."""

    unique_id, local_rank, size = 1, 0, 2

    def world_ranks(self) -> Sequence[int]:
        """Return both."""
        return (0, 1)

    def peers(self) -> Sequence[int]:
        """Return the remote group's, after these."""
        return range(2, 2 + (self.label.remote or 0))

    def is_held_only_by(self, requests: int) -> bool:
        """Return that the program has it."""
        return False


class Pending(Transport[Entry]):
    """One whose receives are from some ranks, and which hides its sends."""

    name = "made up"

    def __init__(self, *sources: int) -> None:
        """Keep whom they are from."""
        self._sources = sources

    def sends(self, entry: Entry) -> NoReturn:
        """Refuse."""
        raise NoInformation("sends are hidden")

    def receives(self, entry: Entry) -> Iterator[Operation]:
        """Yield them."""
        for source in self._sources:
            yield Operation(Status.PENDING, source, source, False, 7, 8, False, 0, *(UNKNOWN,) * 4, ())

    def unexpected(self, entry: Entry) -> Iterator[Operation]:
        """Yield nothing."""
        return iter(())

    def datatypes_in_use(self) -> list[int]:
        """Return none."""
        return []


class MadeUpMpi(AttachedMpi[Entry]):
    """An MPI with one communicator."""

    def __init__(self, entry: Entry, *sources: int) -> None:
        """Start, with the sources of its receives."""
        identity, datatypes = Identity("made up", Layouts()), cast(DatatypeReader, None)
        super().__init__(Memory(MemoryImage({})), identity, Pending(*sources), datatypes)
        self._entry = entry

    def facts(self) -> MpiFacts:
        """Return what nobody asks for."""
        raise NotImplementedError

    def global_rank(self) -> int:
        """Return the first."""
        return 0

    def windows(self) -> list[Window]:
        """Return none."""
        return []

    def read_communicators(self) -> list[Entry]:
        """Return the only one."""
        return [self._entry]


@pytest.mark.parametrize("sources", [(), (1,)])
def test_a_communicator_of_the_mpi_counts_while_an_operation_is_pending_on_it(sources: tuple[int, ...]) -> None:
    """Whichever of its queues can't be seen; its name says whose it is."""
    entry = Entry(Label(b"", b""))
    entry.internal = True
    (found,) = MadeUpMpi(entry, *sources).communicators()
    assert found.internal == (not sources)
    assert found.label.internal


@pytest.mark.parametrize(("remote", "ranks"), [(None, 2), (1, 2), (4, 4)])
def test_an_operation_is_of_a_rank_that_its_communicator_has(remote: int | None, ranks: int) -> None:
    """One of an inter-communicator may be of its remote group; any other number is no rank."""
    entry = Entry(Label(b"", b"", remote))
    mpi = MadeUpMpi(entry, -1, *range(ranks))
    assert [each.desired_local_rank for each in mpi.operations(entry, Queue.RECEIVES)] == [-1, *range(ranks)]
    for wrong in (-2, ranks):
        with pytest.raises(BrokenStructureError, match=f"names rank {wrong} of {ranks}"):
            list(MadeUpMpi(entry, wrong).operations(entry, Queue.RECEIVES))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"desired_local_rank": 2}, "names rank 2 of 2"),
        ({"actual_local_rank": 2}, "names rank 2 of 2"),
        ({"actual_local_rank": -2}, "names rank -2 of 2"),
        ({"desired_length": 1 << 63}, "more bytes than memory has"),
        ({"actual_length": 1 << 63}, "more bytes than memory has"),
        ({"desired_length": (1 << 63) - 1, "actual_length": (1 << 63) - 1}, None),
    ],
)
def test_what_no_operation_can_be_ends_the_queue(
    fields: dict[str, Any], text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is asked for or has come; those before it are listed."""
    (good,) = Pending(0).receives(Entry(Label(b"", b"")))
    monkeypatch.setattr(Pending, "receives", lambda *_: iter([good, good._replace(**fields), good]))
    walk = MadeUpMpi(entry := Entry(Label(b"", b""))).operations(entry, Queue.RECEIVES)
    assert next(walk) == good
    if text is None:
        assert len(list(walk)) == 2
    else:
        with pytest.raises(BrokenStructureError, match=text):
            next(walk)


@pytest.mark.parametrize("most", [1, 3, 4])
def test_a_queue_is_the_same_when_it_is_listed_again(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has more operations than are kept."""
    monkeypatch.setattr(base, "MAX_LISTED", most)
    entry = Entry(Label(b"", b""))
    mpi = MadeUpMpi(entry, 0, 1, 0, 1)
    for _ in range(3):
        assert [each.desired_local_rank for each in mpi.operations(entry, Queue.RECEIVES)] == [0, 1, 0, 1]


def test_an_id_is_a_number_that_an_address_has_room_for() -> None:
    """Whatever the MPI's own number is, and where the lowest rank isn't known or too large."""
    for lowest in (-1, 0, 1, 1 << 30):
        for number in (0, 7, (1 << 64) - 1):
            assert 0 <= join_id(number, lowest) < 1 << 64
    assert len({join_id(7, lowest) for lowest in (-1, 0, 1)}) == 3
    assert join_id(7 | 1 << NUMBER_BITS, 0) != join_id(7, 1)
    assert join_id(7, -1) == join_id(7, 1 << 30)
