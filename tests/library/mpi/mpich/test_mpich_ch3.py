"""What the device ch3 shows of requests, on memory made for the purpose."""

from __future__ import annotations

import pytest

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Operation, Status
from mqs_dll.contract.errors import BrokenStructureError
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.adapter import select
from mqs_dll.library.mpi.mpich.ch3 import Ch3
from mqs_dll.library.mpi.mpich.links import lists_of
from mqs_dll.library.mpi.mpich.operations import BSEND_HEADER_WORDS
from mqs_dll.library.mpi.mpich.requests import DeviceRequest, RequestKind
from tests.support.mpich_process import FIRST_HANDLE, MPI_INT, MpichProcess, layouts_with

ANY_SOURCE = 0xFFFE
PACKED = 0x4C00010F
SEND = 1 << 4
SYNCHRONOUS_SEND = 3 << 4
ONE_SIDED = 5 << 4
EAGER, RENDEZVOUS, FROM_SELF = 1, 2, 3
PEER_SYNCHRONOUS = 8


class Process(MpichProcess):
    """A process of ch3, as of 3.4."""

    def __init__(self) -> None:
        super().__init__(layouts_with("MPIR_Request", "dev.match.parts.tag"))

    def make(self, kind: RequestKind, dev: dict[str, int], **members: int) -> int:
        """Make a request, with ch3's part of it."""
        address = self.request(self.kind(kind), **members)
        self.put(views.Ch3Request, address, **dev)
        return address

    def receive(self, tag: int, rank: int = 1, following: int = 0, state: int = 0, **members: int) -> int:
        """Make a receive on MPI_COMM_WORLD; ``following`` is its link."""
        dev = {"match_tag": tag, "match_rank": rank, "user_count": 2, "datatype": MPI_INT, "state": state}
        return self.make(RequestKind.RECV, {**dev, "next": following}, **{"comm": self.world, **members})

    def message(self, tag: int, state: int, context_id: int = 0, following: int = 0, **members: int) -> int:
        """Make an unexpected message of rank 2, with 24 bytes."""
        dev = {"match_tag": tag, "match_rank": 2, "match_context_id": context_id, "tmpbuf": 0x5555, "state": state}
        return self.make(RequestKind.RECV, {**dev, "next": following}, status_count_lo=24, **members)

    def send(self, tag: int, state: int = SEND, **dev: int) -> int:
        """Make a send to rank 3 on MPI_COMM_WORLD."""
        fields = {"match_tag": tag, "match_rank": 3, "user_count": 2, "datatype": MPI_INT, "state": state, **dev}
        return self.make(RequestKind.SEND, fields, comm=self.world)

    def receives(self) -> list[Operation]:
        """Return the receives of MPI_COMM_WORLD."""
        return list(self.device().receives(self.entry(self.world)))

    def sends(self) -> list[Operation]:
        """Return its sends."""
        return list(self.device().sends(self.entry(self.world)))

    def unexpected(self) -> list[Operation]:
        """Return its unexpected messages."""
        return list(self.device().unexpected(self.entry(self.world)))

    def device(self) -> Ch3:
        """Return what is chosen for the process."""
        device = select(self.parts("ch3:nemesis"))
        assert isinstance(device, Ch3)
        return device


@pytest.fixture
def process() -> Process:
    """Return a process without requests."""
    return Process()


def text(operation: Operation) -> str:
    """Return the text of an operation in one line."""
    return b" | ".join(operation.extra_text).decode()


# ---------------------------------------------------------------- the order of lists


@pytest.mark.parametrize(
    ("links", "lists", "proved"),
    [
        ({}, [], True),
        ({30: 0, 10: 20, 20: 30}, [[10, 20, 30]], True),
        ({10: 0, 20: 30, 30: 0}, [[10], [20, 30]], True),
        ({10: 20, 20: 10, 30: 0}, [[30], [10, 20]], False),
        ({10: 10}, [[10]], False),
        ({10: 30, 20: 30, 30: 0}, [[10, 30], [20]], False),
        ({10: 99}, [[10]], False),
    ],
    ids=["none", "one", "two", "ring", "itself", "one end for two", "a stranger"],
)
def test_links_make_lists_in_their_order(links: dict[int, int], lists: list[list[int]], *, proved: bool) -> None:
    """Every member is in one list; rings, strangers and shared ends prove nothing."""
    assert lists_of(links) == (lists, proved)


def test_receives_are_in_the_order_of_the_list(process: Process) -> None:
    """Posted receives come in the order of their links, not in that of the pool."""
    first = process.next_address()
    process.receive(7, following=0)
    process.receive(8, following=first)
    assert [each.desired_tag for each in process.receives()] == [8, 7]


def test_a_link_of_a_receive_that_is_off_the_list_means_nothing(process: Process) -> None:
    """A receive that has its message comes first, and its old link into the list misleads nobody."""
    last = process.receive(7)
    process.receive(8, following=last)
    process.receive(9, state=EAGER, following=last, cc=0, ref_count=1, status_tag=9)
    shown = process.receives()
    assert [max(each.desired_tag, each.actual_tag) for each in shown] == [9, 8, 7]
    assert [each.status for each in shown] == [Status.COMPLETE, Status.PENDING, Status.PENDING]


def test_receives_whose_order_is_not_proved_are_shown_and_then_refused(process: Process) -> None:
    """Two first members: all receives are shown, and the iteration ends with the reason."""
    process.receive(7)
    process.receive(8)
    iterator = process.device().receives(process.entry(process.world))
    assert {next(iterator).desired_tag, next(iterator).desired_tag} == {7, 8}
    with pytest.raises(BrokenStructureError, match="posted receives is broken"):
        next(iterator)


def test_a_list_that_is_a_ring_ends(process: Process) -> None:
    """A list that comes back to itself is walked once and refused."""
    process.message(7, EAGER, following=process.next_address())
    iterator = process.device().unexpected(process.entry(process.world))
    assert next(iterator).desired_tag == 7
    with pytest.raises(BrokenStructureError, match="unexpected messages is broken"):
        next(iterator)


# ---------------------------------------------------------------- receives


def test_what_a_matched_receive_had_asked_for_may_be_lost(process: Process) -> None:
    """Source and tag may be the message's that it took over: they are told as its message's, and not as asked for."""
    process.receive(5, rank=3, state=EAGER, cc=0, ref_count=1, status_source=3, status_tag=5)
    (shown,) = process.receives()
    assert (shown.desired_local_rank, shown.desired_tag, shown.tag_wild) == (-1, -1, False)
    assert (shown.actual_local_rank, shown.actual_tag) == (3, 5)
    assert b"the source and tag that it asked for are not kept" in shown.extra_text


def test_wildcards_are_minus_one(process: Process) -> None:
    """The 16 bits of MPI_ANY_SOURCE and the tag MPI_ANY_TAG are -1, and nothing is said of a message."""
    process.receive(-1, rank=ANY_SOURCE)
    (shown,) = process.receives()
    assert (shown.desired_local_rank, shown.desired_global_rank, shown.tag_wild, shown.desired_tag) == (
        -1,
        -1,
        True,
        -1,
    )
    assert (shown.actual_local_rank, shown.actual_global_rank, shown.actual_tag, shown.actual_length) == (-1,) * 4
    assert (shown.status, shown.desired_length) == (Status.PENDING, 8)


def test_a_matched_receive_shows_its_message(process: Process) -> None:
    """A receive whose message has started to come keeps its wildcards and shows the message's source, tag, length."""
    process.receive(-1, rank=ANY_SOURCE, state=RENDEZVOUS, status_source=3, status_tag=5, status_count_lo=8)
    (shown,) = process.receives()
    assert (shown.status, shown.desired_local_rank, shown.desired_tag) == (Status.MATCHED, -1, -1)
    assert (shown.actual_local_rank, shown.actual_global_rank, shown.actual_tag, shown.actual_length) == (3, 3, 5, 8)


def test_a_receive_from_this_process_is_complete(process: Process) -> None:
    """A message from the process itself leaves no mark of its kind in a receive that waited for it."""
    process.receive(5, cc=0, ref_count=1, status_source=1, status_tag=5)
    (shown,) = process.receives()
    assert (shown.status, shown.actual_local_rank, shown.actual_tag) == (Status.COMPLETE, 1, 5)


def test_a_length_has_the_upper_word_of_the_status(process: Process) -> None:
    """Messages of 4 GB and more have their length in two words, next to the bit of MPI_Cancel."""
    process.receive(5, state=EAGER, cc=0, status_count_lo=1, status_count_hi_and_cancelled=2 << 1)
    (shown,) = process.receives()
    assert shown.actual_length == (2 << 32) + 1


def test_a_cancelled_receive_has_no_message(process: Process) -> None:
    """What is in the status of a cancelled receive is no message."""
    process.receive(5, cc=0, ref_count=1, status_count_hi_and_cancelled=1, status_source=2, status_tag=9)
    (shown,) = process.receives()
    assert (shown.status, shown.actual_local_rank, shown.actual_tag) == (Status.COMPLETE, -1, -1)
    assert "cancelled" in text(shown)


def test_a_freed_receive_says_so(process: Process) -> None:
    """A pending receive to which only MPICH refers was freed by the program, so it can't be a blocking one."""
    process.receive(5, ref_count=1)
    (shown,) = process.receives()
    assert "MPI_Irecv, nonblocking" in text(shown)
    assert "freed by the program" in text(shown)


def test_a_started_persistent_receive_is_shown_once(process: Process) -> None:
    """It has the handle that the program knows; one that is not started isn't shown at all."""
    real = process.receive(5)
    counter = real + views.MpirRequest.bind(process.layouts).offsets["cc"]
    process.make(RequestKind.PREQUEST_RECV, {}, comm=process.world, cc=0, real_request=real, cc_ptr=counter)
    process.make(RequestKind.PREQUEST_RECV, {}, comm=process.world, cc=0)
    (shown,) = process.receives()
    assert "MPI_Recv_init, persistent, started" in text(shown)
    assert f"request {FIRST_HANDLE + 1:#x}" in text(shown)


def test_a_held_message_does_not_invent_what_was_asked_for(process: Process) -> None:
    """A message of MPI_Mprobe is a matched receive, of which only the message is known."""
    process.make(RequestKind.MPROBE, {}, comm=process.world, status_source=2, status_tag=6, status_count_lo=20)
    (shown,) = process.receives()
    assert (shown.desired_local_rank, shown.desired_tag, shown.tag_wild) == (-1, -1, False)
    assert (shown.status, shown.actual_local_rank, shown.actual_tag, shown.actual_length) == (Status.MATCHED, 2, 6, 20)


def test_one_sided_traffic_is_no_receive(process: Process) -> None:
    """A request of a put, get or accumulate is on no queue."""
    process.receive(5, state=ONE_SIDED)
    process.message(5, ONE_SIDED | EAGER)
    assert process.receives() == []
    assert process.unexpected() == []


def test_traffic_of_a_collective_names_it(process: Process) -> None:
    """A receive whose context id has the bit of collectives says which, in place of a call."""
    address = process.receive(2)
    process.put(views.Ch3Request, address, match_context_id=1)
    (shown,) = process.receives()
    assert shown.extra_text[0].startswith(b"collective: MPI_Bcast")


# ---------------------------------------------------------------- sends


def test_sends_come_by_destination(process: Process) -> None:
    """A send shows everything, and is matched while its data flow."""
    process.send(7)
    process.send(8, SYNCHRONOUS_SEND, match_rank=1)
    process.send(9, SEND | RENDEZVOUS, msg_offset=4)
    shown = process.sends()
    assert [(each.desired_local_rank, each.desired_tag) for each in shown] == [(1, 8), (3, 7), (3, 9)]
    assert [each.status for each in shown] == [Status.PENDING, Status.PENDING, Status.MATCHED]
    assert "MPI_Ssend or MPI_Issend" in text(shown[0])
    assert "MPI_Send or MPI_Isend" in text(shown[1])
    assert "MPI_Isend, nonblocking" in text(shown[2])
    assert "4 of 8 bytes are sent" in text(shown[2])


def test_a_message_with_gaps_leaves_unasked(process: Process) -> None:
    """The bytes of an eager one that have left are counted, and tell nothing of a receive; those of a large one do."""
    process.send(7, SYNCHRONOUS_SEND, msg_offset=8)
    process.send(8, SYNCHRONOUS_SEND, msg_offset=4)
    process.send(9, SYNCHRONOUS_SEND, user_count=1 << 20, msg_offset=4)
    shown = process.sends()
    assert [each.status for each in shown] == [Status.PENDING, Status.PENDING, Status.MATCHED]
    assert "no receive has matched it" in text(shown[0])
    assert "4 of 8 bytes are sent" in text(shown[1])


def test_a_buffered_send_is_known_by_the_header_of_its_copy(process: Process) -> None:
    """A send of MPI_PACKED is a buffered one only where the words before its buffer refer to it."""
    buffer = process.next_address() + 2048
    request = process.send(7, datatype=PACKED, user_buf=buffer)
    process.send(8, datatype=PACKED, user_buf=buffer)
    offset = buffer - request - (BSEND_HEADER_WORDS - 5) * 8
    process.requests[offset : offset + 16] = request.to_bytes(8, "little") + buffer.to_bytes(8, "little")
    shown = process.sends()
    assert "MPI_Bsend or MPI_Ibsend" in text(shown[0])
    assert "MPI_Send or MPI_Isend" in text(shown[1])


# ---------------------------------------------------------------- unexpected messages


def test_an_unexpected_message_shows_where_it_is(process: Process) -> None:
    """One that is all here has its buffer; of a rendezvous and of one from this process only the envelope is here."""
    start = process.next_address()
    process.message(7, EAGER | PEER_SYNCHRONOUS, following=start + 0x1000, cc=0, ref_count=1)
    process.message(8, EAGER, following=start + 0x2000)
    process.message(9, RENDEZVOUS, following=start + 0x3000)
    process.message(10, FROM_SELF)
    shown = process.unexpected()
    assert [each.desired_tag for each in shown] == [7, 8, 9, 10]
    assert [each.status for each in shown] == [Status.COMPLETE, Status.PENDING, Status.PENDING, Status.PENDING]
    assert [each.buffer for each in shown] == [0x5555, 0, 0, 0]
    assert all((each.actual_local_rank, each.actual_length, each.system_buffer) == (2, 24, True) for each in shown)
    assert "MPI_Ssend" in text(shown[0])


def test_a_message_without_bytes_has_no_buffer(process: Process) -> None:
    """An empty message that has come is complete, and its buffer is 0 whatever the request says."""
    address = process.message(7, EAGER, cc=0, ref_count=1)
    process.put(views.MpirRequest, address, status_count_lo=0)
    (shown,) = process.unexpected()
    assert (shown.status, shown.buffer, shown.actual_length) == (Status.COMPLETE, 0, 0)


def test_a_context_id_above_32767_is_no_negative_number(process: Process) -> None:
    """Communicators with other jobs have the highest bit of 16 set, and their messages find them."""
    comm = process.comm(0x8010)
    process.message(7, EAGER, context_id=0x8010)
    (shown,) = process.device().unexpected(process.entry(comm))
    assert shown.desired_tag == 7
    assert process.unexpected() == []


def test_messages_for_unknown_communicators_are_counted(process: Process) -> None:
    """A note on MPI_COMM_WORLD counts messages whose communicator this process hasn't made yet."""
    following = process.next_address() + 0x1000
    process.message(7, EAGER, context_id=0x1F1, following=following)
    process.message(8, EAGER, context_id=0x1F0)
    (shown,) = process.unexpected()
    assert (shown.desired_local_rank, shown.desired_tag, shown.actual_length) == (-1, -1, -1)
    assert text(shown) == "2 for communicators that this process doesn't have | their numbers: 496"


@pytest.mark.parametrize(("cc", "references", "words"), [(1, 1, phrases.FREED()), (1, 2, None), (0, 1, None)])
def test_only_a_request_that_goes_on_without_the_program_is_freed(cc: int, references: int, words: str | None) -> None:
    """The device alone refers to it, and it isn't complete: then the program may hold the last reference."""
    process = MpichProcess(layouts_with("MPIR_Request", "dev.match.parts.tag"))
    address = process.request(1, cc=cc, ref_count=references)
    request = process.parts("ch3:nemesis").requests.live()[address]
    assert DeviceRequest(request).given_up == words
