"""pml/cm: all that libfabric's endpoint shows, and, where that can't be read, what pml/cm keeps of a request itself.

Nothing is made of what neither keeps.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import pytest

from mqs_dll.contract.abi import Operation, Queue, Status
from mqs_dll.contract.errors import LayoutError, NoInformation
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.library.layouts.layout import Layouts
from mqs_dll.library.layouts.profiles import shipped
from mqs_dll.library.layouts.selection import Identity
from mqs_dll.library.layouts.view import View, wanted_members
from mqs_dll.library.memory import Memory
from mqs_dll.library.mpi.openmpi import cm_views, identity, mtl_ofi, views
from mqs_dll.library.mpi.openmpi.adapter import AttachedOpenMpi
from mqs_dll.library.mpi.openmpi.cm import Cm
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.mpi.openmpi.pml import Pml, select
from mqs_dll.library.mpi.openmpi.process_context import OmpiProcessContext
from mqs_dll.library.mpi.openmpi.symbols import Symbols
from tests.support.jobs import Compiler, Job, running
from tests.support.mpis import CM_RXM, LIBFABRIC, OVER_LIBFABRIC, Mpi, Transport, mpis_inside, open_mpis
from tests.support.truth.partly import compare_partly
from tests.support.truth.queues import compare_operations
from tests.support.truth.written import Truth
from tests.support.ways import read_direct

WITH_CM = [mpi for mpi in open_mpis() if mpi.in_matrix]
MONITORED = Transport(
    "cm:tcp",
    (
        *("cm,monitoring" if argument == "cm" else argument for argument in (*LIBFABRIC, "tcp")),
        *("--mca", "pml_monitoring_enable", "1", "--mca", "pml_monitoring_enable_output", "0"),
    ),
)
"""pml/cm inside pml/monitoring, which Open MPI then calls the selected layer."""


class Shown(NamedTuple):
    """A job of tests/programs/cm_requests.c, and what is shown of it."""

    truths: list[Truth]
    ranks: list[tuple[CommunicatorSnapshot, ...]]

    def queue(self, rank: int, queue: Queue) -> tuple[Operation, ...]:
        """Return one queue of the communicator that all traffic is on."""
        return _queue(self.ranks[rank], queue)

    def receive(self, tag: int) -> Operation:
        """Return the receive of rank 0 that asked for a tag, found by its request's handle."""
        return self._by_tag(Queue.RECEIVES, tag)

    def send(self, tag: int) -> Operation:
        """Return the send of rank 0 with a tag, found by its request's handle."""
        return self._by_tag(Queue.SENDS, tag)

    def buffer(self, tag: int) -> int:
        """Return the address that the program gave."""
        return next(each.buffer for each in self.truths[0].operations if each.tag == tag)

    def _by_tag(self, queue: Queue, tag: int) -> Operation:
        handle = b"%#x" % next(
            each.request for each in self.truths[0].operations if each.tag == tag and each.queue is queue
        )
        return next(each for each in self.queue(0, queue) if b"request " + handle in each.extra_text)


@pytest.fixture(scope="module", params=WITH_CM, ids=lambda mpi: mpi.name)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Return an MPI that has pml/cm."""
    found: Mpi = request.param
    if found.missing:
        pytest.skip(found.missing)
    return found


@pytest.fixture(scope="module")
def job(mpi: Mpi, compiler: Compiler) -> Iterator[Job]:
    """Return a running job of tests/programs/cm_requests.c."""
    with running(compiler, mpi, transport_of(mpi), "cm_requests", 2) as started:
        yield started


@pytest.fixture(scope="module")
def shown(job: Job) -> Shown:
    """Return what is shown of that job where libfabric's endpoint can't be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mtl_ofi, "find_own_endpoint", _no_endpoint)
        return _read(job)


@pytest.fixture(scope="module")
def whole(job: Job) -> Shown:
    """Return what is shown of that job where it can."""
    return _read(job)


def transport_of(mpi: Mpi) -> Transport:
    """Return the first transport of an MPI that goes through libfabric."""
    return next(each for each in mpi.transports if each in OVER_LIBFABRIC)


def _no_endpoint(_: OmpiProcessContext) -> NoReturn:
    raise LayoutError("its provider is not known here")


def _read(job: Job) -> Shown:
    truths = [Truth.from_json(each, job.transport.name) for each in job.wait_until_ready()]
    return Shown(truths, [each.communicators for each in read_direct([truth.pid for truth in truths])])


def _queue(communicators: tuple[CommunicatorSnapshot, ...], queue: Queue) -> tuple[Operation, ...]:
    return tuple(each for one in communicators for each in one.queues[queue].operations)


def _has_monitoring(mpi: Mpi) -> bool:
    assert mpi.mpiexec is not None
    command = [str(mpi.mpiexec.with_name("ompi_info"))]
    listing = subprocess.run(command, capture_output=True, env={**os.environ, **mpi.environment}, check=True).stdout
    return b"MCA pml: monitoring" in listing


def _text(operation: Operation) -> bytes:
    return b"\n".join(operation.extra_text)


# ---------------------------------------------------------------- receives


def test_everything_shown_is_true_or_unknown(shown: Shown) -> None:
    """Receives that are done but not collected, cancelled or failed, and sends of odd datatypes are shown right."""
    assert [compare_partly(*each) for each in zip(shown.truths, shown.ranks, strict=True)] == [[], []]


def test_a_waiting_receive_shows_its_source_and_tag(shown: Shown) -> None:
    """Source and tag of a receive that waits are found in what mtl/ofi keeps of it."""
    receive = shown.receive(24)
    assert (receive.status, receive.desired_local_rank, receive.desired_global_rank) == (Status.PENDING, 1, 1)
    assert (receive.desired_tag, receive.tag_wild, receive.actual_tag) == (24, False, -1)
    assert b"order not known" in _text(receive)


def test_tag_0_is_not_distinguished_from_any_tag(shown: Shown) -> None:
    """A waiting receive for tag 0 could be one for MPI_ANY_TAG: the tag is unknown, and the text says why."""
    (receive,) = [each for each in shown.queue(0, Queue.RECEIVES) if each.desired_tag == -1 and each.status == 0]
    assert (receive.desired_local_rank, receive.tag_wild) == (1, False)
    assert b"tag: 0 or MPI_ANY_TAG" in _text(receive)


def test_a_receive_that_got_another_tag_than_0_had_asked_for_any(shown: Shown) -> None:
    """What a receive got shows that its tag was left open."""
    receive = shown.receive(-1)
    assert (receive.desired_tag, receive.tag_wild, receive.actual_tag, receive.actual_length) == (-1, True, 12, 8)
    assert (receive.actual_local_rank, receive.actual_global_rank) == (1, 1)


@pytest.mark.parametrize("tag", [10, 11])
def test_a_synchronous_message_hides_which_source_was_asked_for(shown: Shown, tag: int) -> None:
    """mtl/ofi overwrites the source's address when it acknowledges: what was asked for is unknown, not the sender."""
    receive = shown.receive(tag)
    assert (receive.status, receive.desired_local_rank, receive.actual_local_rank) == (Status.COMPLETE, -1, 1)
    assert b"source: not known" in _text(receive)


@pytest.mark.parametrize(("tag", "word"), [(14, b"cancelled"), (15, b"failed with MPI error")])
def test_a_receive_without_a_message_got_nothing(shown: Shown, tag: int, word: bytes) -> None:
    """A receive that was cancelled or failed is done, and its status' leftovers are not shown as a message."""
    receive = shown.receive(tag)
    assert receive.status is Status.COMPLETE
    assert (receive.actual_local_rank, receive.actual_tag, receive.actual_length) == (-1, -1, -1)
    assert word in receive.extra_text[0]


# ---------------------------------------------------------------- sends


@pytest.mark.parametrize("tag", [20, 21, 22])
def test_the_buffer_of_a_send_is_the_address_that_the_program_gave(shown: Shown, tag: int) -> None:
    """That holds for datatypes whose data starts behind that address, or before it, too."""
    assert shown.send(tag).buffer == shown.buffer(tag)


def test_the_destination_of_a_send_is_said_to_be_unknown(shown: Shown) -> None:
    """A nonblocking send shows its mode, tag and length; where it goes is kept by nobody."""
    send = shown.send(20)
    assert (send.desired_local_rank, send.desired_global_rank, send.actual_local_rank) == (-1, -1, -1)
    assert (send.desired_tag, send.desired_length, send.status) == (20, 16, Status.PENDING)
    assert send.extra_text[0] == b"MPI_Issend, nonblocking"
    assert b"pml/cm keeps no destination" in _text(send)


# ---------------------------------------------------------------- what can't be seen


@pytest.mark.parametrize("queue", Queue)
def test_a_queue_in_which_nothing_can_be_seen_says_so(shown: Shown, queue: Queue) -> None:
    """No queue is empty: a blocking call could be pending unseen. The reason names the transport and the remedy."""
    for communicator in shown.ranks[1]:
        reason = communicator.queues[queue].hidden
        assert isinstance(reason, Hidden)
        assert all(word in reason.reason for word in ("pml/cm over mtl/ofi", "--mca pml ob1"))
        if queue is Queue.UNEXPECTED:
            assert "its provider is not known here" in reason.reason


def test_monitoring_around_cm_is_seen_through(mpi: Mpi, compiler: Compiler) -> None:
    """pml/monitoring takes pml/cm's place in Open MPI's own record, and changes nothing of what is shown."""
    if not _has_monitoring(mpi):
        pytest.skip(f"{mpi.name} was built without pml/monitoring")
    with running(compiler, mpi, MONITORED, "cm_requests", 2) as job:
        monitored = _read(job)
        with LiveProcess(monitored.truths[0].pid) as process:
            name = process.image.find_symbol("mca_pml_base_selected_component")
            assert name is not None
            assert b"monitoring" in process.fetch(name, 128)
    assert monitored.receive(24).desired_local_rank == 1


# ---------------------------------------------------------------- other ways to carry the tag


@pytest.mark.parametrize("mode", ["ofi_tag_1", "ofi_tag_2"])
def test_tags_that_carry_the_source_are_read_too(
    mpi: Mpi, compiler: Compiler, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where libfabric doesn't carry the source, tags do; rank 0 and MPI_ANY_SOURCE are the same in a request."""
    options = ("--mca", "mtl_ofi_tag_mode", mode)
    with running(compiler, mpi, transport_of(mpi), "receives", 4, options=options) as job:
        whole = _read(job)
        assert [_differences(*each) for each in zip(whole.truths, whole.ranks, strict=True)] == [[]] * 4
        monkeypatch.setattr(mtl_ofi, "find_own_endpoint", _no_endpoint)
        shown = _read(job)
        assert [compare_partly(*each) for each in zip(shown.truths, shown.ranks, strict=True)] == [[]] * 4
    assert (shown.receive(9).desired_local_rank, shown.receive(9).desired_global_rank) == (1, 1)
    assert shown.receive(32767).desired_local_rank == 1
    for from_rank_0_or_any in (shown.receive(8), shown.receive(11)):
        assert from_rank_0_or_any.desired_local_rank == -1
        assert b"source: not known" in _text(from_rank_0_or_any)


def _differences(truth: Truth, shown: tuple[CommunicatorSnapshot, ...]) -> list[str]:
    with LiveProcess(truth.pid) as process:
        return compare_operations(truth, shown, process.fetch)


@pytest.mark.parametrize("program", ["receives", "sends", "unexpected"])
def test_rxm_of_libfabric_2_1_is_read_too(program: str, compiler: Compiler) -> None:
    """Debian 13's: an entry of util_srx begins otherwise than in 2.3 and later."""
    (debian_13,) = (each for each in mpis_inside() if each.name == "openmpi-trixie")
    with running(compiler, debian_13, CM_RXM, program, 4) as job:
        whole = _read(job)
        assert [_differences(*each) for each in zip(whole.truths, whole.ranks, strict=True)] == [[]] * 4


def test_tags_of_20_bits_keep_their_sign(mpi: Mpi, compiler: Compiler) -> None:
    """The MPI's own tags are negative; a collective's receive is named also where its tag has 20 bits."""
    options = ("--mca", "mtl_ofi_tag_mode", "ofi_tag_2")
    with running(compiler, mpi, transport_of(mpi), "collectives", 5, arguments=("0",), options=options) as job:
        shown = _read(job)
    receives = [each for communicators in shown.ranks for each in _queue(communicators, Queue.RECEIVES)]
    assert receives
    assert all(each.desired_tag < -1 and b"collective" in _text(each) for each in receives)


# ---------------------------------------------------------------- with libfabric's endpoint


def test_libfabric_shows_what_requests_leave_open(whole: Shown) -> None:
    """Odd datatypes, receives that are cancelled or not collected, synchronous sends: every field is right.

    Of the receive that failed, with tag 15, pml/cm keeps no message.
    """
    differences = _differences(whole.truths[0], whole.ranks[0])
    assert [each for each in differences if "tag 15" not in each] == []
    waiting = [each for each in whole.queue(0, Queue.RECEIVES) if each.status is Status.PENDING]
    assert [(each.desired_tag, each.tag_wild) for each in waiting] == [(0, False), (24, False)]
    assert {whole.send(tag).desired_local_rank for tag in (20, 21, 22, 23)} == {1}
    assert [each.desired_tag for each in whole.queue(1, Queue.UNEXPECTED)] == [20, 21, 22, 23, 25]


# ---------------------------------------------------------------- layouts that are missing


class Target:
    """Rank 0 of a job, as the walkers take it."""

    def __init__(self, process: LiveProcess) -> None:
        self.memory = Memory(process)
        self.symbols = Symbols(process.image, wanted_members(identity.ALL_VIEWS))
        self.profiles = identity.profiles_for(self.symbols, shipped("openmpi"))
        found = identity.identify(self.memory, self.symbols, Layouts(), self.profiles)
        self.layouts = found.layouts

    def only(self, *needed: type[View]) -> Layouts:
        """Return the layouts that these views need, as debug information might have them."""
        structs = {*wanted_members(needed), "opal_free_list_item_t"}
        return Layouts([each for each in self.layouts if each.name in structs])

    def field(self, layouts: Layouts) -> tuple[Pml, OmpiEntry]:
        """Return the layer and the program's communicator, as seen with these layouts."""
        attached = AttachedOpenMpi(self.memory, self.symbols, Identity("", layouts))
        entry = next(each for each in attached.communicators() if each.record.name == b"[dup of MPI_COMM_WORLD]")
        assert isinstance(entry, OmpiEntry)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mtl_ofi, "find_own_endpoint", _no_endpoint)
            return select(OmpiProcessContext(self.memory, self.symbols, layouts)), entry


@pytest.fixture
def target(job: Job) -> Iterator[Target]:
    """Return rank 0 of the job."""
    with LiveProcess(job.wait_until_ready()[0]["pid"]) as process:
        yield Target(process)


def test_a_profile_adds_what_debug_information_lacks_of_the_transport(target: Target) -> None:
    """A component built without debug information is read by a profile, the rest by debug information."""
    found = identity.identify(target.memory, target.symbols, target.only(*views.ALL), target.profiles)
    assert all(struct in found.layouts for struct in wanted_members(cm_views.ALL))


def test_missing_layouts_of_the_transport_hide_only_its_queues(target: Target) -> None:
    """Debug information without the transport's structs, and no profile: communicators are shown all the same."""
    found = identity.identify(target.memory, target.symbols, target.only(*views.ALL), [])
    pml, entry = target.field(found.layouts)
    assert pml.name == "pml/cm over mtl/ofi"
    with pytest.raises(NoInformation, match=r"mca_pml_cm.*--mca pml ob1"):
        pml.receives(entry)


def test_without_the_layouts_of_mtl_ofi_source_and_tag_are_unknown(target: Target) -> None:
    """What pml/cm itself keeps is shown, over any layer below it."""
    pml, entry = target.field(target.only(*views.ALL, *cm_views.PML))
    assert isinstance(pml, Cm)
    receives = list(pml.receives(entry))
    assert receives
    assert {(each.desired_local_rank, each.desired_tag, each.tag_wild) for each in receives} == {(-1, -1, False)}
    assert all(b"source and tag: not known" in _text(each) for each in receives)


def test_a_request_of_another_size_is_not_believed(target: Target) -> None:
    """mtl/ofi's request is read only if the room that pml/cm leaves for it has its size (4.1.2 made it larger)."""
    smaller = [
        each if each.name != "ompi_mtl_ofi_request_t" else type(each)(each.name, 200, each.offsets, each.origin)
        for each in target.layouts
    ]
    pml, entry = target.field(Layouts(smaller))
    assert {each.desired_tag for each in pml.receives(entry)} == {-1}


def test_profiles_have_the_transport_of_every_family() -> None:
    """Each profile that is shipped has all that the views of pml/cm and mtl/ofi need."""
    for profile in shipped("openmpi"):
        for view in cm_views.ALL:
            view.bind(profile.layouts)
