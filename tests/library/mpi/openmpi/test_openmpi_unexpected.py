"""Unexpected messages of pml/ob1 in made-up memory: what each is by its header, and what is no message."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from mqs_dll.contract.abi import Operation, Status
from mqs_dll.contract.errors import BrokenStructureError, MqsError, TargetReadError
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import fixed, shipped
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.mpi.openmpi.containers import Containers
from mqs_dll.library.mpi.openmpi.ob1_matching import Ob1Lists, Ob1Matching, Ob1Peer
from mqs_dll.library.mpi.openmpi.ob1_unexpected import CID, CID_BYTES, MATCH, RGET, RNDV, Unexpected
from tests.support.memory_image import MemoryImage

BASE = 0x20000
PAGES = 4
CLASS = 0xC1A55
RANK, WORLD = 1, 5
STRIDE = 0x400
NONBLOCKING_BASE = -27


def layouts() -> Layouts:
    """Return those of a release."""
    profile = next(each for each in shipped("openmpi") if each.name == "openmpi-4.1-x86_64")
    return profile.layouts.followed_by(fixed("openmpi"))


class Made:
    """A peer's list of messages; each may be changed before it is read."""

    def __init__(self, *kinds: int) -> None:
        """Link one message of each kind."""
        self._layouts = layouts()
        self._fragment = views.Ob1RecvFrag.bind(self._layouts)
        self._header = views.Ob1Header.bind(self._layouts)
        self._proc = views.Ob1Proc.bind(self._layouts)
        self.target = MemoryImage({BASE: bytes(PAGES * PAGE)})
        self.fragments = [BASE + STRIDE * (1 + number) for number in range(len(kinds))]
        item = views.OpalListItem.bind(self._layouts).offsets["opal_list_next"]
        self.list = BASE + self._proc.constant("unexpected_frags")
        self.sentinel = self.list + views.OpalList.bind(self._layouts).constant("opal_list_sentinel")
        for here, behind in zip((self.sentinel, *self.fragments), (*self.fragments, self.sentinel), strict=True):
            self.write(here + item, behind)
        self.write(self.list + views.OpalList.bind(self._layouts).offsets["opal_list_length"], len(kinds))
        for number, kind in enumerate(kinds):
            self.frag(number, obj_class=CLASS, num_segments=1, segment_address=0x7000, segment_length=32 + 100)
            self.hdr(number, type=kind, hdr_src=RANK, hdr_tag=40 + number, hdr_msg_length=1000)

    def write(self, address: int, value: int, size: int = 8) -> None:
        """Write a number."""
        data, place = self.target.pages[BASE], address - BASE
        number = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        self.target.pages[BASE] = data[:place] + number + data[place + size :]

    def frag(self, number: int, **members: int) -> None:
        """Write members of a fragment."""
        self._write(self._fragment.offsets, views.Ob1RecvFrag, self.fragments[number], members)

    def hdr(self, number: int, behind: int = 0, **members: int) -> None:
        """Write members of a header."""
        address = self.fragments[number] + self._fragment.constant("hdr") + behind
        self._write(self._header.offsets, views.Ob1Header, address, members)

    def _write(self, offsets: dict[str, int], view: Any, address: int, members: dict[str, int]) -> None:
        for name, value in members.items():
            self.write(address + offsets[name], value, struct.calcsize(view.members[name].code))

    def read(self) -> tuple[list[Operation], MqsError | None]:
        """Return the peer's messages, and what broke them off."""
        memory = Memory(self.target)
        symbols: Any = SimpleNamespace(
            get=lambda _: None, need=lambda name: CLASS if name == "mca_pml_ob1_recv_frag_t_class" else 0
        )
        containers = Containers(memory, symbols, self._layouts)
        mpi: Any = SimpleNamespace(memory=memory, symbols=symbols, layouts=self._layouts, containers=containers)
        matching: Any = Ob1Matching(mpi)
        comm: Any = SimpleNamespace(last_probed=0)
        matching.lists = lambda _: Ob1Lists(comm, [], [Ob1Peer(RANK, self._proc.at(memory, BASE))], [])
        entry: Any = SimpleNamespace(peers=lambda: (0, WORLD), is_world=False)
        operations: list[Operation] = []
        try:
            operations.extend(Unexpected(mpi, matching).operations(entry, NONBLOCKING_BASE))
        except MqsError as error:
            return operations, error
        return operations, None


def test_a_message_is_what_its_header_says() -> None:
    """Of an eager one all bytes are here, of a rendezvous some, or none; each is from the peer's rank."""
    made = Made(MATCH, RNDV, RGET, MATCH)
    made.hdr(3, hdr_tag=-17)
    made.frag(1, segment_length=1032)
    made.frag(3, segment_length=14)
    operations, error = made.read()
    assert error is None
    for operation in operations:
        assert operation.system_buffer
        ranks = (operation.desired_local_rank, operation.desired_global_rank)
        assert ranks == (operation.actual_local_rank, operation.actual_global_rank) == (RANK, WORLD)
        assert operation.desired_tag == operation.actual_tag
        assert operation.desired_length == operation.actual_length
    seen = [(each.status, each.actual_tag, each.actual_length, each.buffer, each.extra_text[0]) for each in operations]
    assert seen == [
        (Status.COMPLETE, 40, 118, 0x700E, b"eager: all of it is here"),
        (Status.COMPLETE, 41, 1000, 0x7020, b"rendezvous: 1000 of 1000 bytes are here"),
        (Status.PENDING, 42, 1000, 0, b"rendezvous: its 1000 bytes are with the sender"),
        (Status.COMPLETE, -17, 0, 0, b"eager: all of it is here"),
    ]
    assert [len(each.extra_text) for each in operations] == [1, 1, 1, 2]
    assert b"MPI_Bcast" in operations[3].extra_text[1]


def test_the_header_of_a_message_that_was_parked_is_behind_its_prefix() -> None:
    """Its segment counts the prefix, and its address doesn't; a prefix behind a prefix is no header."""
    made = Made(MATCH, CID, CID)
    made.hdr(1, behind=CID_BYTES, type=RNDV, hdr_src=RANK, hdr_tag=9, hdr_msg_length=2000)
    made.hdr(2, behind=CID_BYTES, type=CID, hdr_src=RANK)
    operations, error = made.read()
    assert (operations[1].actual_tag, operations[1].actual_length) == (9, 2000)
    assert operations[1].extra_text == (b"rendezvous: 68 of 2000 bytes are here",)
    assert isinstance(error, BrokenStructureError)
    assert str(error) == f"the message at {made.fragments[2]:#x} has a header of type {CID:#x}"


@pytest.mark.parametrize(
    ("frag", "hdr", "text"),
    [
        ({"obj_class": CLASS + 8}, {}, "there is no message at {:#x}"),
        ({}, {"type": 7}, "the message at {:#x} has a header of type 0x7"),
        ({}, {"hdr_src": RANK + 1}, "the message at {:#x} contradicts itself"),
        ({"segment_length": 13}, {}, "the message at {:#x} contradicts itself"),
        ({"segment_length": 1033}, {"type": RNDV}, "the message at {:#x} contradicts itself"),
        ({"num_segments": 1 << 40}, {}, "the message at {:#x} contradicts itself"),
    ],
)
def test_what_is_no_message_ends_the_queue_behind_those_before_it(
    frag: dict[str, int], hdr: dict[str, int], text: str
) -> None:
    """It says which, and those behind it are not listed."""
    made = Made(MATCH, MATCH, MATCH, MATCH)
    made.frag(2, **frag)
    made.hdr(2, **hdr)
    operations, error = made.read()
    assert [each.actual_tag for each in operations] == [40, 41]
    assert isinstance(error, BrokenStructureError)
    assert str(error) == text.format(made.fragments[2])


def test_a_link_that_is_wild_ends_the_queue_in_front_of_what_it_leads_to() -> None:
    """The address that can't be read is that of the next link."""
    made = Made(MATCH, MATCH, MATCH)
    made.frag(1, opal_list_next=0xDEAD0000)
    operations, error = made.read()
    assert [each.actual_tag for each in operations] == [40, 41]
    assert isinstance(error, BrokenStructureError)
    assert str(error).startswith("the list of unexpected messages from 1 is broken after 2: ")
    assert "8 bytes of memory at 0xdead0010" in str(error)


def test_a_message_of_which_only_the_link_can_be_read_is_none() -> None:
    """It says which bytes could not be read; the link alone is no reason to say that the list is broken."""
    made = Made(MATCH, MATCH)
    at_the_end = BASE + PAGES * PAGE - 24
    made.frag(1, opal_list_next=at_the_end)
    operations, error = made.read()
    assert [each.actual_tag for each in operations] == [40, 41]
    assert isinstance(error, TargetReadError)
    assert f"bytes of memory at {at_the_end:#x}" in str(error)


def test_messages_that_are_linked_in_a_circle_are_listed_once() -> None:
    """Then it says so; it also does where there are more than the list counts."""
    made = Made(MATCH, MATCH, MATCH)
    made.frag(2, opal_list_next=made.fragments[0])
    operations, error = made.read()
    assert [each.actual_tag for each in operations] == [40, 41, 42]
    assert "broken after 3: it does not come back to its head" in str(error)


def test_each_message_is_read_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Link, fragment and header are one struct to read."""
    read: list[int] = []
    unpack = Memory.unpack

    def counted(memory: Memory, format: struct.Struct, address: int) -> tuple[Any, ...]:
        read.append(address)
        return unpack(memory, format, address)

    monkeypatch.setattr(Memory, "unpack", counted)
    taken = []
    for count in (1, 9):
        read.clear()
        operations, error = Made(*[MATCH] * count).read()
        assert (len(operations), error) == (count, None)
        taken.append(len(read))
    assert taken[1] - taken[0] == 8
