"""What is shown of Intel MPI's requests, on memory made for the purpose; and whether a network has some, live."""

from __future__ import annotations

import re
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from mqs_dll.contract.abi import Operation, Queue, Status
from mqs_dll.contract.errors import BrokenStructureError, LayoutError, NoInformation
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.library.fabric.ofi.cxi import Cxi
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.mpich import views
from mqs_dll.library.mpi.mpich.adapter import select
from mqs_dll.library.mpi.mpich.environment import shares_memory
from mqs_dll.library.mpi.mpich.intel import Intel
from mqs_dll.library.mpi.mpich.intel.ofi import IntelOfi
from mqs_dll.library.mpi.mpich.requests import RequestKind
from tests.support.jobs import Compiler, running
from tests.support.memory_image import MemoryImage, NoSymbols
from tests.support.mpich_process import FIRST_HANDLE, MPI_INT, MpichProcess, layouts_with
from tests.support.mpis import INTEL_OFI, Transport, mpichs
from tests.support.truth.queues import compare_operations
from tests.support.truth.written import Truth
from tests.support.ways import read_direct

PAGE, ENVIRON, STRINGS = 0x1000, 0x10000, 0x20000

INSIDE = 448
"""Where the extension lies in a request."""

UNEXPECTED = 0x104
FROM_SYNCHRONOUS = 0x106
BUSY_UNEXPECTED = 0x105
HELD = 0x10C
IN_PROGRESS = 0x100


class Process(MpichProcess):
    """A process of Intel MPI on shared memory."""

    def __init__(self) -> None:
        super().__init__(layouts_with("MPIDIG_req_ext_t", "rreq.next"))

    def make(self, kind: RequestKind, am: dict[str, int], extension: dict[str, int] | None, **members: int) -> int:
        """Make a request with the part of an active message, and with its extension."""
        address = self.request(self.kind(kind), is_local=1, **members)
        inside = 0 if extension is None else address + INSIDE
        self.put(views.AmRequest, address, req=inside, count=2, datatype=MPI_INT, buffer=0x5555, **am)
        if extension is not None:
            self.put(views.LinkedExtension, inside, **extension)
        return address

    def receive(self, tag: int, source: int = 1, following: int = 0, context_id: int = 0, **members: int) -> int:
        """Make a posted receive; ``following`` is the address of the next on its list."""
        am = {"tag": tag, "source": source, "context_id": context_id}
        return self.make(RequestKind.RECV, am, {"next": following + INSIDE if following else 0}, **members)

    def message(self, tag: int, number: int, status: int = UNEXPECTED, sender: int = 0, **members: int) -> int:
        """Make an unexpected message from rank 2, the one with this number of arrival."""
        am = {"tag": tag, "source": 2}
        extension = {"seq_no": number, "status": status, "peer_req_ptr": sender}
        return self.make(RequestKind.RECV, am, extension, status_source=2, status_tag=tag, **members)

    def device(self) -> Intel:
        """Return what is chosen for the process."""
        device = select(self.parts("ch4:ofi"))
        assert isinstance(device, Intel)
        return device

    def receives(self, comm: int | None = None) -> list[Operation]:
        """Return the receives of a communicator, MPI_COMM_WORLD if none is given."""
        return list(self.device().receives(self.entry(comm or self.world)))


@pytest.fixture
def process() -> Process:
    """Return a process on one node, without requests."""
    process = Process()
    process.put(views.Comm, process.world, node_comm=process.comm(2))
    return process


INTEL_MPI = next(each for each in mpichs() if each.product == "Intel MPI")


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (
            {"MPIR_CVAR_CH4_OFI_TAG_BITS": "24", "MPIR_CVAR_CH4_OFI_RANK_BITS": "16"},
            "the environment chooses the parts",
        ),
        ({"FI_PROVIDER": "sockets"}, "a rank beside a tag"),
        ({"FI_PROVIDER": "udp;ofi_rxd"}, "no known layout of libfabric .* fits udp;ofi_rxd"),
    ],
    ids=["other parts of a tag", "sockets", "rxd"],
)
def test_what_is_not_known_of_libfabrics_messages_is_refused(
    compiler: Compiler, variables: dict[str, str], why: str
) -> None:
    """Where tags have other parts, or the provider isn't known, no queue is shown as empty, and the reason is given."""
    chosen = {**INTEL_OFI.environment, **variables}
    with running(compiler, INTEL_MPI, INTEL_OFI, "unexpected", 4, environment=chosen) as job:
        truths = [Truth.from_json(each, INTEL_OFI.name) for each in job.wait_until_ready()]
        reached = [each for each in truths if any(one.queue is Queue.UNEXPECTED for one in each.operations)]
        shown = read_direct([each.pid for each in reached])
    queues = [communicator.queues[Queue.UNEXPECTED] for each in shown for communicator in each.communicators]
    assert queues
    for queue in queues:
        assert re.search(why, queue.hidden.reason if queue.hidden else str(queue.broken))


@pytest.mark.parametrize("program", ["unexpected", "inter"])
def test_a_job_on_two_nodes_is_shown_over_both(compiler: Compiler, tmp_path: Path, program: str) -> None:
    """What goes through shared memory and what through libfabric is shown together, in the order of matching."""
    shell = tmp_path / "shell"  # the nodes are this one by two names
    shell.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\nexec sh -c "$*"\n')
    shell.chmod(0o700)
    nodes = ("-bootstrap", "ssh", "-bootstrap-exec", str(shell), "-hosts", "localhost,127.0.0.2", "-ppn", "2")
    over_both = Transport(INTEL_OFI.name, nodes, {**INTEL_OFI.environment, "I_MPI_FABRICS": "shm:ofi"})
    with running(compiler, INTEL_MPI, over_both, program, 5) as job, ExitStack() as stack:
        for each in job.wait_until_ready():
            truth = Truth.from_json(each, over_both.name)
            fetch = stack.enter_context(LiveProcess(truth.pid)).fetch
            assert compare_operations(truth, read_direct([truth.pid])[0].communicators, fetch) == []


class StartedWith(MemoryImage):
    """A process with libfabric, started with these variables; with None they can't be read."""

    def __init__(self, variables: dict[str, str] | None) -> None:
        texts = b"".join(f"{name}={value}\0".encode() for name, value in (variables or {}).items())
        ends = [at for at, byte in enumerate(texts) if not byte]
        begins = [STRINGS + begin for begin in (0, *(end + 1 for end in ends))][: len(ends)]
        array = struct.pack(f"<{len(begins) + 2}Q", ENVIRON + 8, *begins, 0)
        pages = {ENVIRON: array.ljust(PAGE, b"\0"), STRINGS: texts.ljust(PAGE, b"\0")}
        super().__init__({} if variables is None else pages)
        self.image = WithEnvironment()


class WithEnvironment(NoSymbols):
    """Knows where the environment is, and a function of libfabric's."""

    def find_symbol(self, name: str) -> int | None:
        """Return the address of the variable with that name."""
        return ENVIRON if name == "environ" else None

    def find_function(self, name: str) -> int | None:
        """Return an address."""
        return PAGE


@pytest.mark.parametrize(
    ("variables", "shares"),
    [
        ({}, True),
        ({"I_MPI_FABRICS": "shm:ofi"}, True),
        ({"I_MPI_FABRICS": "OFI"}, False),
        ({"I_MPI_SHM": "off", "I_MPI_FABRICS": "shm:ofi"}, False),
        ({"I_MPI_SHM": "auto"}, True),
        (None, False),
    ],
)
def test_the_environment_shows_whether_memory_is_shared(variables: dict[str, str] | None, *, shares: bool) -> None:
    """By itself Intel MPI shares it; where nothing can be read, not for sure."""
    process = StartedWith(variables)
    assert shares_memory(process.image, Memory(process)) is shares


def test_over_a_network_with_fewer_bits_for_tags_it_is_refused(process: Process) -> None:
    """libmqs knows the 64 bits of Intel MPI's tags, and cxi has 48: nothing tells what it leaves out."""
    with pytest.raises(LayoutError, match="Intel MPI's tags over cxi"):
        IntelOfi(process.parts("ch4:ofi"), Cxi.__new__(Cxi))


def text(operation: Operation) -> str:
    """Return the text of an operation in one line."""
    return b" | ".join(operation.extra_text).decode()


def test_receives_are_in_the_order_of_their_communicators_list(process: Process) -> None:
    """Each communicator has a list of its own, which the links of the extensions give."""
    comm = process.comm(0x1F0)
    first = process.receive(7)
    process.receive(8, following=first)
    other = process.receive(9, context_id=0x1F0)
    process.receive(-1, source=-2, context_id=0x1F0, following=other)
    assert [each.desired_tag for each in process.receives()] == [8, 7]
    wild, tame = process.receives(comm)
    assert (wild.desired_local_rank, wild.desired_tag, wild.tag_wild) == (-1, -1, True)
    assert (tame.desired_local_rank, tame.desired_tag, tame.tag_wild) == (1, 9, False)


def test_two_lists_of_one_communicator_prove_no_order(process: Process) -> None:
    """All receives are shown, and the iteration ends with the reason."""
    process.receive(7)
    process.receive(8)
    iterator = process.device().receives(process.entry(process.world))
    assert {next(iterator).desired_tag, next(iterator).desired_tag} == {7, 8}
    with pytest.raises(BrokenStructureError, match="posted receives is broken"):
        next(iterator)


def test_a_receive_that_had_to_wait_has_lost_its_tag(process: Process) -> None:
    """The message's tag has taken the place of the receive's; its source and its buffer are kept."""
    am = {"tag": 50, "source": 3}
    address = process.make(
        RequestKind.RECV, am, {"status": IN_PROGRESS}, status_source=3, status_tag=50, status_count_lo=8
    )
    process.put(views.IntelReceive, address, asked_process=-2)
    (shown,) = process.receives()
    assert (shown.desired_tag, shown.tag_wild, shown.desired_length, shown.buffer) == (-1, False, 8, 0x5555)
    assert (shown.actual_local_rank, shown.actual_global_rank, shown.actual_tag) == (3, 3, 50)
    assert (shown.status, shown.desired_local_rank, shown.actual_length) == (Status.MATCHED, -1, 8)
    assert "tag that it asked for is not kept" in text(shown)


def test_of_a_complete_receive_only_the_message_is_believed(process: Process) -> None:
    """Its request may still have the buffer, the count, the datatype and the source of an earlier use."""
    am = {"tag": 50, "source": 3}
    address = process.make(RequestKind.RECV, am, None, cc=0, status_source=3, status_tag=50, status_count_lo=4)
    process.put(views.IntelReceive, address, asked_process=3)
    (shown,) = process.receives()
    assert (shown.status, shown.actual_local_rank, shown.actual_tag, shown.actual_length) == (Status.COMPLETE, 3, 50, 4)
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (-1, -1, -1, 0)
    assert "its buffer is not kept" in text(shown)
    assert process.device().datatypes_in_use() == []


def test_a_persistent_receive_keeps_what_it_asks_for(process: Process) -> None:
    """What the program asked for is in the persistent request, also when the message has come."""
    real = process.make(RequestKind.RECV, {"tag": 5, "source": 2}, None, cc=0, status_source=2, status_tag=5)
    counter = real + views.MpirRequest.bind(process.layouts).offsets["cc"]
    outer = process.request(
        process.kind(RequestKind.PREQUEST_RECV), comm=process.world, real_request=real, cc_ptr=counter
    )
    process.put(views.PersistentRequest, outer, rank=-2, tag=5, count=9, datatype=MPI_INT, buffer=0x7777)
    (shown,) = process.receives()
    assert (shown.desired_local_rank, shown.desired_tag, shown.tag_wild) == (-1, 5, False)
    assert (shown.desired_length, shown.buffer) == (36, 0x7777)
    assert (shown.status, shown.actual_local_rank, shown.actual_tag) == (Status.COMPLETE, 2, 5)
    assert f"request {FIRST_HANDLE + 1:#x}" in text(shown)


def test_a_cancelled_receive_keeps_what_it_asked_for(process: Process) -> None:
    """What is in the status of a cancelled receive is no message."""
    am = {"tag": 5, "source": 2}
    process.make(RequestKind.RECV, am, None, cc=0, status_count_hi_and_cancelled=1, status_source=3, status_tag=9)
    (shown,) = process.receives()
    assert (shown.status, shown.desired_local_rank, shown.desired_tag) == (Status.COMPLETE, 2, 5)
    assert (shown.actual_local_rank, shown.actual_tag) == (-1, -1)
    assert "cancelled" in text(shown)


def test_words_of_an_earlier_use_are_no_receive(process: Process) -> None:
    """A complete request whose status doesn't agree with it was never a receive of a message."""
    process.make(RequestKind.RECV, {"tag": 5, "source": 2}, None, cc=0, status_source=-1, status_tag=-1)
    assert process.receives() == []


def test_messages_are_in_the_order_of_their_arrival(process: Process) -> None:
    """Each message has a number; what a matched probe took is a receive, and no longer unexpected."""
    process.message(8, 31)
    process.message(7, 30, FROM_SYNCHRONOUS)
    process.message(9, 32, BUSY_UNEXPECTED)
    process.make(RequestKind.MPROBE, {}, {"status": HELD}, comm=process.world, status_source=1, status_tag=6)
    shown = list(process.device().unexpected(process.entry(process.world)))
    assert [each.desired_tag for each in shown] == [7, 8, 9]
    assert [each.status for each in shown] == [Status.COMPLETE, Status.COMPLETE, Status.PENDING]
    assert [each.buffer for each in shown] == [0x5555, 0x5555, 0]
    assert "MPI_Ssend" in text(shown[0])
    (held,) = process.receives()
    assert (held.status, held.actual_tag, held.desired_tag) == (Status.MATCHED, 6, -1)


def test_a_message_that_is_being_received_is_not_unexpected(process: Process) -> None:
    """Once MPI_Imrecv has it, a message that a matched probe took is a matched receive."""
    process.message(7, 30, HELD)
    assert list(process.device().unexpected(process.entry(process.world))) == []
    (shown,) = process.receives()
    assert (shown.status, shown.actual_tag) == (Status.MATCHED, 7)


def test_requests_have_the_kinds_of_4_1(process: Process) -> None:
    """Intel has taken over the kinds of MPICH 4.1 into its 3.4."""
    assert (process.kind(RequestKind.COLL), process.kind(RequestKind.MPROBE), process.kind(RequestKind.RMA)) == (
        11,
        12,
        13,
    )


def test_a_pending_send_is_refused_by_its_handle(process: Process) -> None:
    """Of a send nothing is kept but the request: no communicator's sends can be seen while one is pending."""
    process.make(RequestKind.SEND, {"tag": 5}, {}, comm=0)
    with pytest.raises(NoInformation, match=f"{FIRST_HANDLE:#x}"):
        process.device().sends(process.entry(process.world))


def test_a_send_that_is_done_is_shown_without_its_communicator(process: Process) -> None:
    """Its request is there until it is collected: MPI_COMM_WORLD has it, and it leaves no doubt about others."""
    process.make(RequestKind.SEND, {"tag": 5}, None, cc=0)
    (shown,) = process.device().sends(process.entry(process.world))
    assert (shown.status, shown.desired_local_rank, shown.desired_tag) == (Status.COMPLETE, -1, -1)
    assert "of this or another communicator" in text(shown)
    assert list(process.device().sends(process.entry(process.comm(0x1F0)))) == []


def test_a_persistent_send_is_known(process: Process) -> None:
    """What the program asked for is in the persistent request; other sends are refused behind it."""
    real = process.make(RequestKind.SEND, {"tag": 77}, {})
    counter = real + views.MpirRequest.bind(process.layouts).offsets["cc"]
    outer = process.request(
        process.kind(RequestKind.PREQUEST_SEND), comm=process.world, real_request=real, cc_ptr=counter
    )
    process.put(views.PersistentRequest, outer, p_type=3, rank=2, tag=32, count=16, datatype=MPI_INT, buffer=0x7777)
    process.make(RequestKind.SEND, {}, {})
    iterator = process.device().sends(process.entry(process.world))
    shown = next(iterator)
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (2, 32, 64, 0x7777)
    assert "MPI_Ssend_init, persistent, started" in text(shown)
    with pytest.raises(NoInformation, match=f"{FIRST_HANDLE + 2:#x}"):
        next(iterator)


def test_a_send_to_this_process_is_found_by_its_message(process: Process) -> None:
    """A message from this process refers to its send; one of another process refers to what is elsewhere."""
    own = process.make(RequestKind.SEND, {}, {})
    other = process.make(RequestKind.SEND, {}, {})
    process.put(views.Comm, process.world, rank=2)
    process.message(7, 1, FROM_SYNCHRONOUS, sender=own)
    process.message(9, 3)
    address = process.message(8, 2, FROM_SYNCHRONOUS, sender=other)
    process.put(views.MpirRequest, address, status_source=1)
    iterator = process.device().sends(process.entry(process.world))
    shown = next(iterator)
    assert (shown.desired_local_rank, shown.desired_tag, shown.desired_length, shown.buffer) == (2, 7, 2, 0)
    assert f"request {FIRST_HANDLE:#x}" in text(shown)
    with pytest.raises(NoInformation, match=f"{FIRST_HANDLE + 1:#x}"):
        next(iterator)


def test_sends_of_a_process_alone_are_never_refused(process: Process) -> None:
    """On a communicator of one process, no message can be with another."""
    process.make(RequestKind.SEND, {}, {})
    alone = process.comm(0x10, local_size=1, remote_size=1)
    assert list(process.device().sends(process.entry(alone))) == []


def test_receives_over_the_network_are_refused(process: Process) -> None:
    """A receive that libfabric has hides the queue; the network's half of one that is shown hides nothing."""
    local = process.receive(7, source=-2)
    half = process.request(process.kind(RequestKind.RECV), is_local=0, anysrc_partner=local)
    process.put(views.MpirRequest, local, anysrc_partner=half)
    assert [each.desired_tag for each in process.receives()] == [7]
    process.request(process.kind(RequestKind.RECV), is_local=0)
    with pytest.raises(NoInformation, match=r"network .*I_MPI_FABRICS=shm"):
        process.receives()


def test_partitioned_requests_that_are_started_are_known(process: Process) -> None:
    """A send keeps all but its tag, a receive all; one that isn't started is not pending."""
    members = {"partitions": 4, "count": 25, "datatype": MPI_INT, "buffer": 0x7777, "dest": 2}
    for kind, more in (
        (RequestKind.PART_SEND, {"active_flag": 1}),
        (RequestKind.PART_SEND, {"active_flag": 0}),
        (RequestKind.PART_RECV, {"active_flag": 1, "tag": 81}),
        (RequestKind.PART_RECV, {"active_flag": 1, "tag": 82, "peer_req_ptr": 0x8888}),
    ):
        address = process.request(process.kind(kind), comm=process.world)
        process.put(views.PartitionedRequest, address, **members, **more)
    (sent,) = process.device().sends(process.entry(process.world))
    waiting, matched = process.receives()
    for each in (sent, waiting, matched):
        assert (each.desired_local_rank, each.desired_length, each.buffer) == (2, 400, 0x7777)
    assert (sent.status, sent.desired_tag) == (Status.PENDING, -1)
    assert (waiting.status, waiting.desired_tag, waiting.actual_tag) == (Status.PENDING, 81, -1)
    assert (matched.status, matched.desired_tag, matched.actual_tag) == (Status.MATCHED, 82, 82)


def test_a_partitioned_send_that_is_announced_is_no_receive(process: Process) -> None:
    """What has come of a partitioned send before its receive is no receive over the network."""
    address = process.request(process.kind(RequestKind.RECV), is_local=0)
    process.put(views.PartitionedRequest, address, peer_req_ptr=0x8888)
    assert process.receives() == []


@pytest.mark.parametrize("where", ["another node", "another job"])
def test_messages_of_other_nodes_can_not_be_seen(process: Process, where: str) -> None:
    """Where messages may come over the network, those of shared memory are shown, and then the reason is given."""
    if where == "another node":
        process.put(views.Comm, process.world, node_comm=0)
    comm = process.comm(0x8010, strangers=where == "another job")
    address = process.message(7, 1)
    process.put(views.AmRequest, address, context_id=0x8010)
    iterator = process.device().unexpected(process.entry(comm))
    assert next(iterator).desired_tag == 7
    with pytest.raises(NoInformation, match="unexpected messages over the network"):
        next(iterator)


def test_receives_are_counted_as_references(process: Process) -> None:
    """Receives that wait or are under way refer to their communicator, of which they have only the context id."""
    process.receive(7)
    process.receive(8, context_id=0x1F0)
    process.make(RequestKind.RECV, {}, {"status": IN_PROGRESS})
    process.message(9, 1)
    process.make(RequestKind.RECV, {}, None, cc=0)
    assert process.device().requests_of(process.entry(process.world)) == 2
