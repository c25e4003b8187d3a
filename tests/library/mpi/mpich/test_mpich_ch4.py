"""What is shown of ch4's requests, on memory made for the purpose."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

import pytest

from mqs_dll.contract.abi import Operation, Status
from mqs_dll.contract.errors import BrokenStructureError, NoInformation
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import available
from mqs_dll.library.memory import PAGE, Memory
from mqs_dll.library.mpi.elf import LoadedLibrary, LoadedSegment
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.adapter import select
from mqs_dll.library.mpi.mpich.ch4 import Ch4
from mqs_dll.library.mpi.mpich.ch4.cells import Cells
from mqs_dll.library.mpi.mpich.process_context import MpichProcessContext
from mqs_dll.library.mpi.mpich.requests import RequestKind
from tests.support.memory_image import MemoryImage
from tests.support.mpich_process import FIRST_HANDLE, MPI_INT, REQUESTS, MpichProcess

EXTENSION = 1024
RECORD = 2048
"""Where in a request's page its extension lies, and the record of a message that could not leave."""

BUFFER = 0x5555000
UNEXPECTED = 0x104
RENDEZVOUS = 0x184
BUSY = 0x105
IN_PROGRESS = 0x100
SYNC, RTS = 1, 2

LAYOUTS = {
    profile.name: profile.layouts
    for profile in available("mpich")[0]
    if "MPIDIG_hdr_t" in profile.layouts and profile.layouts.offset("MPIDIG_req_ext_t", "send_async.offset") is not None
}


class Process(MpichProcess):
    """A process of ch4 on one node."""

    def __init__(self, layouts: Layouts) -> None:
        super().__init__(layouts)
        self.put(self._comm, self.world, node_comm=self.comm(2), rank=1)

    def spread(self) -> None:
        """Let MPI_COMM_WORLD have processes on other nodes."""
        self.put(self._comm, self.world, node_comm=0)

    def put_known(self, view: type[views.AmRequest], address: int, **members: int) -> None:
        """Write those members that this release has."""
        known = view.bind(self.layouts).offsets
        self.put(view, address, **{name: value for name, value in members.items() if name in known})

    def make(self, kind: RequestKind, am: dict[str, int], extension: dict[str, int] | None, **members: int) -> int:
        """Make the request of an active message, whose extension is None when it is complete."""
        source, tag = (am.get(name, 0) for name in ("source", "tag"))
        marks = {"is_local": 1} if views.MpirRequest.bind(self.layouts).offsets.get("type") is None else {"type": 1}
        status = {"status_source": source, "status_tag": tag}
        address = self.request(self.kind(kind), **{**marks, **status, **members})
        pointer = 0 if extension is None else address + EXTENSION
        if extension is None:
            self.put(views.MpirRequest, address, cc=0, ref_count=1)
        view = views.by_context_id(views.AmRequest, views.NarrowAmRequest, self.layouts)
        defaults = {"req": pointer, "count": 2, "datatype": MPI_INT, "buffer": BUFFER}
        self.put_known(view, address, **{**defaults, **am})
        if extension is not None:
            known = views.AmExtension.bind(self.layouts).offsets
            self.put(views.AmExtension, pointer, **{name: value for name, value in extension.items() if name in known})
        return address

    @property
    def any_source(self) -> int:
        """MPI_ANY_SOURCE as it lies in memory."""
        return self.parts("ch4").requests.values.any_source

    @property
    def any_tag(self) -> int:
        """MPI_ANY_TAG as it lies in memory."""
        return self.parts("ch4").requests.values.any_tag

    def receive(self, tag: int, source: int = 2, following: int = 0, **members: int) -> int:
        """Make a posted receive on MPI_COMM_WORLD; ``following`` is the next on its list."""
        members = {"comm": self.world, "next": following, **members}
        return self.make(RequestKind.RECV, {"tag": tag, "source": source}, {"status": 0}, **members)

    def matched(self, tag: int, **extension: int) -> int:
        """Make a receive that rank 2's message of 4 bytes has matched, and of which nothing has come."""
        state = {"status": IN_PROGRESS, "in_data_sz": 4, **extension}
        return self.make(RequestKind.RECV, {"tag": tag, "source": 2}, state, comm=self.world, status_count_lo=4)

    def message(self, tag: int, state: int = UNEXPECTED, following: int = 0, **am: int) -> int:
        """Make an unexpected message of 24 bytes from rank 2."""
        am = {"tag": tag, "source": 2, "count": 24, **am}
        return self.make(RequestKind.RECV, am, {"status": state}, next=following)

    def send(self, **extension: int) -> int:
        """Make a send on MPI_COMM_WORLD to rank 3, if what its request says is to be believed."""
        address = self.make(RequestKind.SEND, {}, extension, comm=self.world)
        self.put(views.AmSendRequest, address, dest=3)
        return address

    def persistent(self, kind: RequestKind, real: int, **arguments: int) -> int:
        """Make the persistent request that a request does the work of."""
        counter = real + views.MpirRequest.bind(self.layouts).offsets["cc"]
        address = self.request(self.kind(kind), comm=self.world, cc=0, real_request=real, cc_ptr=counter)
        self.put(views.PersistentRequest, address, **arguments)
        return address

    def postpone(self, request: int, header: bytes, world_rank: int) -> None:
        """Make the record of a message that could not leave, and let the request refer to it."""
        record = request + RECORD
        place = views.AmRequest.bind(self.layouts).offsets["req"] - 16
        words = struct.pack("<QQQBBHIQ", 0, 0, record + 48, 0, 0, 48, 0, record + 40)
        words += struct.pack("<bbhi", 1, 0, 48, 0) + header.ljust(800, b"\0")
        words += struct.pack("<iiQIIQQQQQ", world_rank, 0, 0, MPI_INT, 0, BUFFER, 2, request, record, 0)
        self.write(request + place, struct.pack("<Q", record))
        self.write(record, words)

    def write(self, address: int, data: bytes) -> None:
        """Write bytes among the requests."""
        self.requests[address - REQUESTS : address - REQUESTS + len(data)] = data

    def header(self, request: int, tag: int, flags: int, size: int, context_id: int = 0, rank: int = 1) -> bytes:
        """Return a message's header."""
        context = struct.pack("<I" if self.layouts.struct(views.CONTEXT_ID).size == 4 else "<Hxx", context_id)
        return struct.pack("<ii", rank, tag) + context + struct.pack("<IIIQQQ", 0, flags, 0, request, size, 0)

    def device(self, device: str = "ch4:ofi ucx", parts: MpichProcessContext | None = None) -> Ch4:
        """Return what is chosen for the process."""
        found = select(parts or self.parts(device))
        assert isinstance(found, Ch4)
        return found

    def receives(self, comm: int | None = None) -> list[Operation]:
        """Return the receives of a communicator, MPI_COMM_WORLD if none is given."""
        return list(self.device().receives(self.entry(comm or self.world)))

    def sends(self, comm: int | None = None) -> list[Operation]:
        """Return its sends."""
        return list(self.device().sends(self.entry(comm or self.world)))

    def unexpected(self, comm: int | None = None) -> list[Operation]:
        """Return its unexpected messages."""
        return list(self.device().unexpected(self.entry(comm or self.world)))


@pytest.fixture(params=sorted(LAYOUTS))
def process(request: pytest.FixtureRequest) -> Process:
    """Return a process without requests, of each release in turn."""
    return Process(LAYOUTS[request.param])


@pytest.fixture
def recent() -> Process:
    """Return a process of a release of which one is enough."""
    return Process(LAYOUTS["mpich-4.3.2-x86_64"])


def text(operation: Operation) -> str:
    """Return the text of an operation in one line."""
    return b" | ".join(operation.extra_text).decode()


# ---------------------------------------------------------------- receives


def test_receives_are_in_the_order_of_the_list(process: Process) -> None:
    """Posted receives come in the order of their links, not in that of the pool."""
    first = process.receive(7)
    process.receive(8, following=first)
    shown = process.receives()
    assert [each.desired_tag for each in shown] == [8, 7]
    assert [(each.status, each.desired_local_rank, each.desired_length) for each in shown] == [
        (Status.PENDING, 2, 8)
    ] * 2
    assert all(each.actual_local_rank == each.actual_tag == each.actual_length == -1 for each in shown)


def test_each_virtual_interface_has_its_own_list(recent: Process) -> None:
    """Two whole lists prove the order within each."""
    first = recent.receive(7)
    recent.receive(8, following=first)
    recent.receive(9)
    assert sorted(each.desired_tag for each in recent.receives()) == [7, 8, 9]


@pytest.mark.parametrize("link", ["to itself", "to a stranger"])
def test_receives_whose_order_is_not_proved_are_shown_and_then_refused(recent: Process, link: str) -> None:
    """A ring and a wild link hide no receive, but the iteration ends with the reason."""
    address = recent.next_address()
    recent.receive(7, following=address if link == "to itself" else 0x1234560)
    iterator = recent.device().receives(recent.entry(recent.world))
    assert next(iterator).desired_tag == 7
    with pytest.raises(BrokenStructureError, match="posted receives is broken"):
        next(iterator)


def test_wildcards_are_minus_one(process: Process) -> None:
    """MPI_ANY_SOURCE and MPI_ANY_TAG of both ABIs are -1, and the tag is marked as open."""
    process.receive(process.any_tag, source=process.any_source)
    (shown,) = process.receives()
    assert (shown.desired_local_rank, shown.desired_global_rank, shown.tag_wild, shown.desired_tag) == (
        -1,
        -1,
        True,
        -1,
    )


def test_the_netmods_half_of_a_receive_from_any_source_is_not_shown(recent: Process) -> None:
    """The program has the handle of the other half."""
    half = recent.receive(7, source=recent.any_source, anysrc_partner=recent.next_address() + PAGE, is_local=1)
    recent.request(recent.kind(RequestKind.RECV), comm=recent.world, anysrc_partner=half)
    (shown,) = recent.receives()
    assert f"request {FIRST_HANDLE:#x}" in text(shown)


def test_a_matched_receive_shows_its_message_and_not_what_it_asked_for(process: Process) -> None:
    """The message's source and tag stand where those were that were asked for, and the text says so."""
    process.matched(7)
    (shown,) = process.receives()
    assert (shown.status, shown.actual_local_rank, shown.actual_tag, shown.actual_length) == (Status.MATCHED, 2, 7, 4)
    assert (shown.desired_local_rank, shown.desired_tag, shown.tag_wild) == (-1, -1, False)
    assert "not kept" in text(shown)


def test_a_message_and_the_receive_that_it_was_matched_with_are_one(recent: Process) -> None:
    """Where a receive had a request before it found its message, it is shown once, with that request's handle."""
    status = {"tag": 7, "source": 2}  # MPICH copies it
    waiting = recent.make(RequestKind.RECV, {"buffer": 0, **status}, {"status": IN_PROGRESS}, comm=recent.world)
    recent.matched(7, status=IN_PROGRESS | 0x40 | 0x80, match_req=waiting)
    (shown,) = recent.receives()
    assert (shown.actual_tag, shown.buffer) == (7, BUFFER)
    assert f"request {FIRST_HANDLE:#x}" in text(shown)


def test_a_receive_keeps_its_message_from_the_network_beside_one_that_was_joined(recent: Process) -> None:
    """The netmod's half of a receive from any source is complete; another receive and its message are shown as one."""
    partner = recent.next_address() + PAGE
    half = recent.receive(5, source=recent.any_source, anysrc_partner=partner, is_local=1)
    message = {"status_source": 1, "status_tag": 5}
    recent.request(recent.kind(RequestKind.RECV), comm=recent.world, cc=0, anysrc_partner=half, **message)
    asked = {"buffer": 0, "tag": 7, "source": 2}  # MPICH copies it
    waiting = recent.make(RequestKind.RECV, asked, {"status": IN_PROGRESS}, comm=recent.world)
    recent.matched(7, status=IN_PROGRESS | 0x40 | 0x80, match_req=waiting)
    shown = [(each.status, each.actual_local_rank, each.actual_tag) for each in recent.receives()]
    assert shown == [(Status.MATCHED, 1, 5), (Status.MATCHED, 2, 7)]


def test_of_a_complete_receive_only_the_message_is_believed(recent: Process) -> None:
    """Its request may still have the buffer, the count and the datatype of an earlier use, or ch4's own buffer."""
    am = {"tag": 7, "source": 2, "buffer": BUFFER, "count": 16, "datatype": MPI_INT}
    recent.make(RequestKind.RECV, am, None, comm=recent.world, status_count_lo=8)
    (shown,) = recent.receives()
    assert (shown.status, shown.buffer, shown.desired_length, shown.actual_length) == (Status.COMPLETE, 0, -1, 8)
    assert "buffer is not kept" in text(shown)
    assert recent.device().datatypes_in_use() == []


def test_a_cancelled_receive_has_no_message(process: Process) -> None:
    """What it asked for is still there, and its status is no message."""
    process.make(RequestKind.RECV, {"tag": 7, "source": 2}, None, comm=process.world, status_count_hi_and_cancelled=1)
    (shown,) = process.receives()
    assert (shown.status, shown.desired_tag, shown.actual_tag, shown.actual_length) == (Status.COMPLETE, 7, -1, -1)
    assert "cancelled" in text(shown)


def test_a_started_persistent_receive_keeps_its_wildcards(process: Process) -> None:
    """Its arguments are in the persistent request, whose handle the program has."""
    real = process.matched(7)
    wild = {"rank": process.any_source & 0xFFFFFFFF, "tag": process.any_tag & 0xFFFFFFFF}
    asked = {name: value - (1 << 32) for name, value in wild.items()}
    persistent = process.persistent(RequestKind.PREQUEST_RECV, real, **asked, buffer=BUFFER, count=3, datatype=MPI_INT)
    (shown,) = process.receives()
    assert (shown.desired_local_rank, shown.tag_wild, shown.desired_length, shown.actual_tag) == (-1, True, 12, 7)
    assert "MPI_Recv_init, persistent, started" in text(shown)
    handle = persistent if process.parts("ch4").requests.values.handles_are_addresses else FIRST_HANDLE + 1
    assert f"request {handle:#x}" in text(shown)


def test_a_held_message_does_not_invent_what_was_asked_for(process: Process) -> None:
    """A message of MPI_Mprobe is a matched receive, of which only the message is known."""
    process.make(
        RequestKind.MPROBE, {"tag": 6, "source": 2, "count": 20}, {"status": UNEXPECTED | 8}, comm=process.world
    )
    (shown,) = process.receives()
    assert (shown.desired_local_rank, shown.desired_tag, shown.tag_wild) == (-1, -1, False)
    assert (shown.status, shown.actual_local_rank, shown.actual_tag, shown.actual_length) == (Status.MATCHED, 2, 6, 20)
    assert process.unexpected() == []


def test_traffic_of_a_collective_names_it(process: Process) -> None:
    """A receive whose context id has the bit of collectives says which."""
    address = process.receive(2)
    process.put_known(
        views.by_context_id(views.AmRequest, views.NarrowAmRequest, process.layouts), address, context_id=1
    )
    (shown,) = process.receives()
    assert "collective: MPI_Bcast" in text(shown)


# ---------------------------------------------------------------- unexpected messages


def test_messages_are_in_the_order_of_their_arrival(process: Process) -> None:
    """Each shows how much of it is here; only one that is whole has a buffer."""
    last = process.message(9, BUSY)
    middle = process.message(8, RENDEZVOUS, following=last)
    process.message(7, UNEXPECTED | 2, following=middle)
    shown = process.unexpected()
    assert [each.desired_tag for each in shown] == [7, 8, 9]
    assert [each.status for each in shown] == [Status.COMPLETE, Status.PENDING, Status.PENDING]
    assert [each.buffer for each in shown] == [BUFFER, 0, 0]
    assert all((each.actual_local_rank, each.actual_length, each.system_buffer) == (2, 24, True) for each in shown)
    assert "MPI_Ssend" in text(shown[0])


@pytest.mark.parametrize("state", [UNEXPECTED | 8, UNEXPECTED | 0x40], ids=["by a probe", "by a receive"])
def test_a_message_that_is_taken_is_none(recent: Process, state: int) -> None:
    """A message that a probe or a receive has taken off the list is not unexpected, though its data be."""
    recent.message(7, state)
    assert recent.unexpected() == []


@pytest.mark.parametrize("taken", [False, True])
def test_messages_may_come_in_the_order_of_the_pool(process: Process, taken: bool) -> None:
    """As long as none was taken; one that a probe has taken is no longer on the list of the others."""
    second = process.next_address() + PAGE
    process.message(7, BUSY, following=second + PAGE * taken)
    if taken:
        process.message(8, UNEXPECTED | 8, following=second)
    process.message(9, RENDEZVOUS, following=second + PAGE * (taken + 1), context_id=2)
    process.message(10)
    shown = [(each.desired_tag, each.status) for each in process.unexpected()]
    assert shown == [(7, Status.PENDING), (10, Status.COMPLETE)]


def test_messages_whose_last_link_is_wild_are_shown_and_then_refused(recent: Process) -> None:
    """Others may be behind the last one."""
    recent.message(7, following=recent.next_address() + PAGE)
    recent.message(8, following=0x1234560)
    iterator = recent.device().unexpected(recent.entry(recent.world))
    assert [next(iterator).desired_tag, next(iterator).desired_tag] == [7, 8]
    with pytest.raises(BrokenStructureError, match="unexpected messages is broken"):
        next(iterator)


def test_a_message_that_may_be_taken_is_reported(recent: Process) -> None:
    """What it is at lies outside of its request; the others are shown, and the communicator is found."""
    broken = recent.message(7)
    recent.message(8)
    recent.put_known(views.AmRequest, broken, req=0x123456789000)
    device = recent.device()
    assert device.requests_of(recent.entry(recent.world)) == 0
    iterator = device.unexpected(recent.entry(recent.world))
    assert next(iterator).desired_tag == 8
    with pytest.raises(BrokenStructureError, match=f"1 of the process's requests can't be read: {FIRST_HANDLE:#x}"):
        next(iterator)


def test_messages_for_unknown_communicators_are_counted(recent: Process) -> None:
    """A note on MPI_COMM_WORLD counts messages whose communicator this process hasn't made yet."""
    recent.message(7, context_id=0x1F0)
    (shown,) = recent.unexpected()
    assert (shown.desired_tag, text(shown)[:2], text(shown)[-4:]) == (-1, "1 ", " 496")


def test_messages_for_a_part_that_is_not_made_yet_are_shown_on_the_whole(recent: Process) -> None:
    """Others have entered a collective operation, for which MPICH makes a part of the communicator."""
    comm = recent.comm(0x1E0)
    tag_of_barrier = 1
    recent.message(tag_of_barrier, context_id=0x1EB)
    (shown,) = recent.unexpected(comm)
    assert (shown.actual_local_rank, shown.actual_global_rank, shown.actual_tag) == (-1, -1, tag_of_barrier)
    assert "collective: MPI_Barrier" in text(shown)
    assert "rank here is not known" in text(shown)
    assert recent.unexpected() == []


def test_an_announced_partitioned_send_is_no_message(recent: Process) -> None:
    """The request that MPI_Psend_init of another process makes here has no communicator and is no active message."""
    recent.request(recent.kind(RequestKind.RECV), ref_count=1)
    assert recent.unexpected() == []
    assert recent.receives() == []


# ---------------------------------------------------------------- sends


def test_a_send_without_a_header_shows_no_stale_words(process: Process) -> None:
    """An eager send leaves an earlier message's arguments in its request: without a header they aren't believed."""
    process.send(seg_issued=1, offset=64)
    (shown,) = process.sends()
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (-1, -1, -1, 0)
    assert "not known" in text(shown)


def test_a_send_that_left_nothing_in_its_record_is_a_rendezvous(process: Process) -> None:
    """An eager send counts the piece that it sends; where none is counted, the arguments are those of this send."""
    process.send(seg_issued=0)
    (shown,) = process.sends()
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (3, -1, 8, BUFFER)
    assert "tag is not known" in text(shown)


def test_a_rendezvous_whose_data_flow_is_matched(process: Process) -> None:
    """The bytes that are left and those that have flowed make the message."""
    process.send(seg_issued=1, offset=6, data_sz_left=2)
    (shown,) = process.sends()
    assert (shown.status, shown.desired_length) == (Status.MATCHED, 8)
    assert "6 of 8 bytes are sent" in text(shown)


@pytest.mark.parametrize(
    ("rest", "came", "error", "length", "text_says"),
    [
        (8, 0, 0, 8, "0 of 8 bytes are here"),
        (6, 2, 0, 8, "2 of 8 bytes are here"),
        (8, 40, 0, 8, "0 of 8 bytes are here"),
        (3, 2, 0, -1, "its length is not known"),
        (30, 0, 15, -1, "its length is not known"),
    ],
    ids=["nothing has come", "a part has come", "of an earlier message", "of an earlier one, or a part", "too long"],
)
def test_a_receive_under_way_has_the_length_of_its_message(
    process: Process, rest: int, came: int, error: int, length: int, text_says: str
) -> None:
    """What is to come is not the length; before 4.3 that is known where the receive has just the room for it."""
    request = process.matched(7, in_data_sz=rest, came=came)
    if views.AmRequest.bind(process.layouts).offsets.get("source") is None:
        rest, length, text_says = 3, 8, "5 of 8 bytes are here"
        process.put(views.MpirRequest, request, status_count_lo=8)
        process.put(views.AmExtension, request + EXTENSION, in_data_sz=3)
    process.put(views.MpirRequest, request, status_error=error)
    (shown,) = process.receives()
    assert (shown.status, shown.desired_length, shown.actual_length) == (Status.MATCHED, 8, length)
    assert text_says in text(shown)


def test_a_send_that_is_done_is_shown_without_what_is_gone(process: Process) -> None:
    """What its request has may be an earlier message's: without a header it is complete, and nothing else is known."""
    process.make(RequestKind.SEND, {}, None, comm=process.world)
    (shown,) = process.sends()
    assert (shown.status, shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (
        Status.COMPLETE,
        -1,
        -1,
        -1,
        0,
    )
    assert "request 0x" in text(shown)
    assert "not known" in text(shown)


def test_a_started_persistent_send_is_known_whole(process: Process) -> None:
    """Its arguments are in the persistent request, whatever its own request says."""
    real = process.send(seg_issued=1, offset=64)
    asked = {"p_type": 3, "rank": 2, "tag": 32, "buffer": 0x7777, "count": 16, "datatype": MPI_INT}
    process.persistent(RequestKind.PREQUEST_SEND, real, **asked)
    (shown,) = process.sends()
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (2, 32, 64, 0x7777)
    assert "MPI_Ssend_init, persistent, started" in text(shown)


def test_what_only_resembles_a_predefined_datatype_is_none(process: Process) -> None:
    """Besides index and size a handle has a form, that of programs or one of 5.0's own; else it is none."""
    datatypes = process.parts("ch4").datatypes
    assert [datatypes.at(handle) is None for handle in (MPI_INT, 0x4C810400, 0x4DD742A0, 0x4C010400)] == [
        False,
        False,
        True,
        True,
    ]


def test_a_persistent_send_that_was_done_at_once_is_known_whole(process: Process) -> None:
    """What did its work is a request of the library's own, which all such share and which is in no pool."""
    asked = {"p_type": 1, "rank": 2, "buffer": 0x7777, "count": 16, "datatype": MPI_INT}
    for tag in (32, 33):
        process.persistent(RequestKind.PREQUEST_SEND, 0x5555000, tag=tag, **asked)
    process.persistent(RequestKind.PREQUEST_SEND, 0, tag=34, **asked)
    shown = process.sends()
    assert [(each.status, each.desired_local_rank, each.desired_tag, each.desired_length) for each in shown] == [
        (Status.COMPLETE, 2, 32, 64),
        (Status.COMPLETE, 2, 33, 64),
    ]


def test_a_message_that_found_no_cell_is_known_whole(process: Process) -> None:
    """The record of a postponed message has its arguments and its header."""
    request = process.send(data_sz_left=8)
    process.postpone(request, process.header(request, 9, 0, 8), world_rank=2)
    (shown,) = process.sends()
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (2, 9, 8, BUFFER)
    assert (shown.status, "waits for room" in text(shown)) == (Status.PENDING, True)


def test_another_requests_record_is_not_believed(recent: Process) -> None:
    """A record that is used again refers to another request."""
    request = recent.send(data_sz_left=8, seg_issued=1)
    recent.postpone(request, recent.header(request, 9, 0, 8), world_rank=2)
    recent.write(request + RECORD + 888, struct.pack("<Q", request + PAGE))
    (shown,) = recent.sends()
    assert (shown.desired_local_rank, shown.desired_tag) == (-1, -1)


def test_a_rendezvous_that_found_no_cell_is_on_the_same_queue(recent: Process) -> None:
    """Its record doesn't know the request, and is found by way of another send's."""
    eager, waiting = recent.send(data_sz_left=8), recent.send(seg_issued=1, offset=64)
    recent.postpone(eager, recent.header(eager, 9, 0, 8), world_rank=2)
    recent.postpone(waiting, recent.header(waiting, 10, RTS, 8), world_rank=3)
    recent.write(waiting + RECORD + 888, struct.pack("<QQ", 0, eager + RECORD))
    recent.write(eager + RECORD + 896, struct.pack("<Q", waiting + RECORD))
    assert [(each.desired_local_rank, each.desired_tag) for each in recent.sends()] == [(2, 9), (3, 10)]


@pytest.mark.parametrize("queue", ["receives", "sends", "unexpected"])
def test_a_request_that_cant_be_read_is_reported(recent: Process, queue: str) -> None:
    """What it is isn't known, so no queue is called complete; the others are shown."""
    recent.receive(7)
    broken = recent.receive(8)
    recent.put_known(views.AmRequest, broken, req=0x123456789000)
    walk = getattr(recent.device(), queue)(recent.entry(recent.world))
    shown = [next(walk).desired_tag] if queue == "receives" else []
    assert shown in ([], [7])
    with pytest.raises(BrokenStructureError, match="1 of the process's requests can't be read"):
        next(walk)


# ---------------------------------------------------------------- cells of shared memory

LIBRARY, POOL, ARRAY, SLAB = 0x7F2000000000, 0x7F2000100000, 0x7F2000200000, 0x7F3000000000
QUEUES = 0x7F2000300000
STEP = 16384 + 32
COUNT = 64


class CellsInMemory(MemoryImage):
    """A library with one transport, and the cells of the second of two processes."""

    def __init__(self, rows: int = 1) -> None:
        count = rows * COUNT
        own = SLAB + count * STEP
        variables = bytearray(PAGE)
        struct.pack_into("<iiQQQ", variables, 256, COUNT, 16384, LIBRARY, LIBRARY + 192, POOL)
        self.own, self.queue = own, bytearray(PAGE)
        pool = struct.pack("<QQQQQQQQQQQ", 16384, STEP, COUNT, 2, 1, 1, SLAB, 0, SLAB, ARRAY, QUEUES)
        array = struct.pack(f"<{count}Q", *(own + index * STEP for index in range(count)))
        self.cells = bytearray(count * STEP)
        for index in range(count):
            struct.pack_into("<Qi", self.cells, index * STEP, (count + index) * STEP + 1, 1)
        super().__init__({})
        self.parts = {
            LIBRARY: variables,
            POOL: pool.ljust(PAGE, b"\0"),
            ARRAY: array.ljust(PAGE, b"\0"),
            own: self.cells,
            QUEUES: self.queue,
        }

    def link(self, index: int, following: int | None) -> None:
        """Let a cell lead to another one, or to none."""
        handle = 0 if following is None else self.own - SLAB + following * STEP + 1
        struct.pack_into("<Q", self.cells, index * STEP + 16, handle)

    def free(self, order: Sequence[int]) -> None:
        """Put cells into the queue of free ones, and the others at the ends of queues."""
        for index in range(COUNT):
            self.link(index, None)
        for one, other in pairwise(order):
            self.link(one, other)
        ends = (self.own - SLAB + index * STEP + 1 for index in (order[0], order[-1]))
        struct.pack_into("<Q56xQ56xI", self.queue, 192, *ends, 2)

    def put(self, index: int, header: bytes, *, kind: int = 0, handler: int = 0) -> None:
        """Put a message into a cell."""
        cell = struct.pack("<HHIbbhi", kind, 1, 48, 1, handler, 48, 0) + header
        self.cells[index * STEP + 32 : index * STEP + 32 + len(cell)] = cell

    def fetch(self, address: int, size: int) -> bytes:
        """Return bytes as they are now."""
        self.pages = {start: bytes(data) for start, data in self.parts.items()}
        return super().fetch(address, size)

    def read(self, layouts: Layouts) -> Cells:
        """Return the cells as the walker finds them."""
        return Cells(Memory(self), library(), layouts)


def library() -> LoadedLibrary:
    """Return a library with one page of variables."""
    return LoadedLibrary(LIBRARY, (LoadedSegment(LIBRARY, PAGE, PAGE, writable=True, executable=False),), "")


def test_headers_are_found_by_the_request(process: Process) -> None:
    """Every cell in which a message of the request began gives its header; pieces of data and answers give none."""
    memory = CellsInMemory()
    memory.put(3, process.header(0xABC0, 7, SYNC, 64))
    memory.put(4, process.header(0xABC0, 8, SYNC, 64), handler=5)
    memory.put(5, process.header(0xABC0, 9, SYNC, 64), kind=1)
    memory.put(60, process.header(0xABC0, 10, RTS, 1 << 20))
    cells = memory.read(process.layouts)
    assert [(each.header.tag, each.header.flags, each.header.data_sz) for each in cells.departures(0xABC0)] == [
        (7, SYNC, 64),
        (10, RTS, 1 << 20),
    ]
    assert cells.departures(0xABC8) == []


def test_headers_are_not_sure_where_messages_leave_by_cells_of_others(recent: Process) -> None:
    """Once a second row of a process's cells is in use, its own messages may be in such cells of the receivers."""
    memory = CellsInMemory(rows=2)
    memory.put(3, recent.header(0xABC0, 7, SYNC, 64))
    assert [each.header.tag for each in memory.read(recent.layouts).departures(0xABC0)] == [7]
    memory.put(COUNT + 3, recent.header(0xDEF0, 7, SYNC, 64))
    assert memory.read(recent.layouts).departures(0xABC0) == []


def test_what_only_resembles_a_transport_is_none(recent: Process) -> None:
    """Cells that don't know how far they lie from the first one are no cells."""
    memory = CellsInMemory()
    memory.put(3, recent.header(0xABC0, 7, SYNC, 64))
    memory.cells[63 * STEP : 63 * STEP + 8] = struct.pack("<Q", 12345)
    assert memory.read(recent.layouts).departures(0xABC0) == []


def sends_with(process: Process, memory: CellsInMemory) -> list[Operation]:
    """Return the sends of a process that has cells."""
    parts = process.parts("ch4:ofi ucx")
    memory.parts.update({REQUESTS: process.requests, 0x7F1000000000: process.communicators})
    parts.memory, parts.library = Memory(memory), library()
    return list(process.device(parts=parts).sends(process.entry(process.world)))


def test_a_synchronous_send_is_known_by_its_header(recent: Process) -> None:
    """Tag and length are the header's; destination and buffer are nowhere, and the text says so."""
    request, memory = recent.send(seg_issued=1, offset=64), CellsInMemory()
    memory.put(7, recent.header(request, 23, SYNC, 64))
    (shown,) = sends_with(recent, memory)
    assert (shown.desired_tag, shown.desired_length, shown.desired_local_rank, shown.buffer) == (23, 64, -1, 0)
    assert "MPI_Ssend or MPI_Issend" in text(shown)
    assert "not kept" in text(shown)


@pytest.mark.parametrize(
    ("tag", "flags", "size", "context_id", "rank"),
    [(23, 0, 64, 0, 1), (23, SYNC, 65, 0, 1), (23, SYNC, 64, 0x1F0, 1), (23, SYNC, 64, 0, 2), (23, RTS, 64, 0, 1)],
    ids=["done at once", "another length", "another communicator", "another sender", "a rendezvous of another size"],
)
def test_a_header_of_an_earlier_message_is_not_believed(
    recent: Process, tag: int, flags: int, size: int, context_id: int, rank: int
) -> None:
    """A request serves one message after the other: what doesn't fit the send that waits is an earlier one's."""
    request, memory = recent.send(seg_issued=1, offset=64), CellsInMemory()
    memory.put(7, recent.header(request, tag, flags, size, context_id, rank))
    (shown,) = sends_with(recent, memory)
    assert (shown.desired_tag, shown.desired_length) == (-1, -1)


def test_two_headers_that_fit_are_not_guessed_between(recent: Process) -> None:
    """Which of two messages of the same request is the later one can't be determined."""
    request, memory = recent.send(seg_issued=1, offset=64), CellsInMemory()
    memory.put(7, recent.header(request, 23, SYNC, 64))
    memory.put(8, recent.header(request, 24, SYNC, 64))
    (shown,) = sends_with(recent, memory)
    assert shown.desired_tag == -1


def test_a_rendezvous_is_whole_with_its_header(recent: Process) -> None:
    """The header shows that the arguments in the request are this send's."""
    request, memory = recent.send(seg_issued=1, offset=64), CellsInMemory()
    memory.put(7, recent.header(request, 22, RTS, 8))
    (shown,) = sends_with(recent, memory)
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (3, 22, 8, BUFFER)
    assert "MPI_Send or MPI_Isend" in text(shown)
    assert "the receiver has not answered" in text(shown)


def test_of_two_headers_in_the_chain_of_free_cells_the_later_one_counts(recent: Process) -> None:
    """Cells are freed in the order in which a request's messages were answered."""
    request, memory = recent.send(seg_issued=1, offset=64), CellsInMemory()
    memory.put(7, recent.header(request, 23, SYNC, 64))
    memory.put(8, recent.header(request, 24, SYNC, 64))
    memory.free([*range(9, COUNT), 8, *range(7), 7])
    (shown,) = sends_with(recent, memory)
    assert shown.desired_tag == 23


def test_sends_to_one_rank_come_in_the_order_in_which_they_left(recent: Process) -> None:
    """First those whose envelopes were read, in the order of the free cells, then those in the receiver's queue."""
    requests, memory = [recent.send(seg_issued=1, offset=64) for _ in range(4)], CellsInMemory()
    for index, request in enumerate(requests):
        memory.put(10 + index, recent.header(request, 20 + index, RTS, 8))
    memory.free([*range(10), *range(14, COUNT), 13, 11])
    memory.link(12, 10)
    shown = sends_with(recent, memory)
    assert [each.desired_tag for each in shown] == [23, 21, 22, 20]
    assert not any("order" in text(each) for each in shown)


@pytest.mark.parametrize("how", ["a ring of cells", "two queues", "a header that is gone"])
def test_an_order_of_sending_that_nothing_proves_is_not_claimed(recent: Process, how: str) -> None:
    """The sends are shown, and each says that its place among those to the same rank is not known."""
    requests, memory = [recent.send(seg_issued=1, offset=64) for _ in range(2)], CellsInMemory()
    for index, request in enumerate(requests):
        memory.put(10 + index, recent.header(request, 20 + index, RTS, 8))
    memory.free([*range(10), *range(12, COUNT)])
    if how == "a ring of cells":
        memory.link(10, 11)
        memory.link(11, 10)
    if how == "a header that is gone":
        memory.free([*range(10), *range(12, COUNT), 11, 10])
        recent.send(seg_issued=0, data_sz_left=4, offset=4)
    shown = sends_with(recent, memory)
    assert len(shown) == len(requests) + (how == "a header that is gone")
    assert all("order" in text(each) for each in shown)


def test_a_send_that_is_done_is_known_by_its_header(recent: Process) -> None:
    """A header that a receiver has answered is of the request's last message, unless a later one lies in a cell."""
    request, memory = recent.make(RequestKind.SEND, {}, None, comm=recent.world), CellsInMemory()
    recent.put(views.AmSendRequest, request, dest=3)
    memory.put(7, recent.header(request, 22, RTS, 8))
    memory.free(range(COUNT))
    (shown,) = sends_with(recent, memory)
    assert (shown.status, shown.desired_local_rank, shown.desired_tag, shown.buffer) == (Status.COMPLETE, 3, 22, BUFFER)
    assert "MPI_Isend, nonblocking" in text(shown)
    memory.put(8, recent.header(request, 23, 0, 64))
    memory.free([*range(8), *range(9, COUNT), 8])
    (shown,) = sends_with(recent, memory)
    assert (shown.status, shown.desired_local_rank, shown.desired_tag) == (Status.COMPLETE, -1, -1)


# ---------------------------------------------------------------- a process alone


def test_a_send_to_oneself_is_a_message_too(process: Process) -> None:
    """On a communicator of one process a send that waits is the unexpected message at the same time."""
    alone = process.comm(0x10, local_size=1, remote_size=1)
    address = process.request(process.kind(RequestKind.SEND), comm=alone, is_local=1)  # 4.0 leaves is_local as it was
    process.put(views.SelfRequest, address, buf=BUFFER, count=4, datatype=MPI_INT, tag=5)
    (sent,), (message,) = process.sends(alone), process.unexpected(alone)
    assert (sent.desired_local_rank, sent.desired_tag, sent.desired_length, sent.buffer) == (0, 5, 16, BUFFER)
    assert (message.actual_local_rank, message.actual_tag, message.actual_length) == (0, 5, 16)
    assert (message.status, message.buffer) == (Status.PENDING, 0)


def test_a_cancelled_receive_from_oneself_says_what_is_not_kept(process: Process) -> None:
    """It has no message, and no rank either: whether it asked for its own or for any is in no field."""
    alone = process.comm(0x10, local_size=1, remote_size=1)
    cancelled = {"cc": 0, "status_count_hi_and_cancelled": 1}
    address = process.request(process.kind(RequestKind.RECV), comm=alone, is_local=1, **cancelled)
    process.put(views.SelfRequest, address, buf=BUFFER, count=4, datatype=MPI_INT, tag=5)
    (shown,) = process.receives(alone)
    assert (shown.desired_local_rank, shown.actual_local_rank, shown.actual_tag) == (-1, -1, -1)
    assert "cancelled" in text(shown)
    assert "is not kept" in text(shown)


def test_a_message_to_oneself_that_a_probe_took_is_held(recent: Process) -> None:
    """It is neither a message nor a send that waits any more."""
    alone = recent.comm(0x10, local_size=1, remote_size=1)
    address = recent.request(recent.kind(RequestKind.SEND), comm=alone)
    recent.put(views.SelfRequest, address, buf=BUFFER, count=4, datatype=MPI_INT, tag=5)
    probe = recent.request(recent.kind(RequestKind.MPROBE), comm=alone)
    recent.put(views.SelfRequest, probe, match_req=address)
    (held,) = recent.receives(alone)
    assert (held.status, held.actual_local_rank, held.actual_tag, held.actual_length) == (Status.MATCHED, 0, 5, 16)
    assert recent.unexpected(alone) == []
    assert recent.sends(alone) == []


# ---------------------------------------------------------------- the network


def test_queues_over_the_network_are_never_empty(recent: Process) -> None:
    """Where processes are on other nodes, or of another job, a queue names the netmods and the remedy."""
    recent.spread()
    for walk in (recent.device().receives, recent.device().sends, recent.device().unexpected):
        with pytest.raises(NoInformation, match=r"over the network .* ofi or ucx .* on one node"):
            walk(recent.entry(recent.world))


def test_another_jobs_processes_are_on_the_network(recent: Process) -> None:
    """MPICH has no shared memory between jobs, though all be on one node."""
    comm = recent.comm(0x8010, strangers=True)
    with pytest.raises(NoInformation, match="between jobs"):
        recent.device().unexpected(recent.entry(comm))


def test_what_shared_memory_has_is_shown_before_the_refusal(recent: Process) -> None:
    """A receive of the netmod's is shown without what only the netmod knows."""
    recent.spread()
    recent.receive(7)
    recent.request(recent.kind(RequestKind.RECV), comm=recent.world)
    iterator = recent.device().receives(recent.entry(recent.world))
    assert next(iterator).desired_tag == 7
    unknown = next(iterator)
    assert (unknown.desired_local_rank, unknown.desired_tag, unknown.tag_wild) == (-1, -1, False)
    assert "not known" in text(unknown)
    with pytest.raises(NoInformation):
        next(iterator)


def test_a_build_without_shared_memory_shows_what_a_process_sends_itself() -> None:
    """Debian's MPICH gives all but messages to oneself to the network, and says what to use instead."""
    process = MpichProcess(
        next(each.layouts for each in available("mpich")[0] if each.name == "mpich-4.0.2-ucx-x86_64")
    )
    alone = process.comm(0x10, local_size=1, remote_size=1)
    address = process.request(process.kind(RequestKind.SEND), comm=alone)
    process.put(views.SelfRequest, address, buf=BUFFER, count=4, datatype=MPI_INT, tag=5)
    device = select(process.parts("ch4:ucx"))
    assert [each.desired_tag for each in device.sends(process.entry(alone))] == [5]
    with pytest.raises(NoInformation, match=r"ucx .* shared memory"):
        device.sends(process.entry(process.world))
