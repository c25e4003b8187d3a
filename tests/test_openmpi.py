"""Everything that libmqs shows of live Open MPI jobs is what MPI itself told the programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mqs_dll import library_path
from mqs_dll.abi import Queue
from mqs_dll.debugger.collect import CommunicatorSnapshot, Hidden
from mqs_dll.debugger.dll import DynamicLibrary
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stop import stopped
from mqs_dll.errors import LayoutError
from mqs_dll.interface import ProcessQueues, QueueLibrary
from mqs_dll.profiles import shipped
from mqs_dll.session import Library
from tests.conftest import LEFT_OUT
from tests.support.jobs import OB1, Compiler, Job, Mpi, Transport, find_mpis, running
from tests.support.matrix import FILE, Matrix
from tests.support.truth import (
    Fetch,
    Truth,
    compare_communicators,
    compare_hidden,
    compare_ids,
    compare_operations,
    compare_partly,
    missing_collectives,
    pair,
)
from tests.support.ways import LOOKS, HostError, Seen, look_direct


@dataclass(frozen=True)
class Case:
    """One program of tests/programs, started in one way."""

    program: str
    ranks: int
    arguments: tuple[str, ...] = ()
    children: int = 0

    def __str__(self) -> str:
        return "-".join((self.program, *self.arguments))


COMMUNICATORS = Case("communicators", 4)
SPAWN = Case("spawn", 2, children=2)
TRAFFIC = (Case("receives", 4), Case("sends", 4), Case("unexpected", 4), Case("inter", 5))
BLOCKED = (
    Case("blocked", 6),
    Case("blocked", 6, ("multiple",)),
    Case("collectives", 5, ("0",)),
    Case("collectives", 5, ("1",)),
    Case("collectives", 5, ("2",)),
)


def look(mpi: Mpi, way: str, pid: int) -> Seen:
    """Return what one way of looking shows of a process."""
    try:
        return LOOKS[way](pid)
    except HostError as error:
        if mpi.in_matrix or error.code != LayoutError.code:
            raise
        pytest.skip(f"the debugger in C has no types to offer, and {mpi.name} needs them")


@dataclass
class Scene:
    """A job in its known state, what its ranks wrote down, and what was seen of them."""

    job: Job
    truths: list[Truth]
    _seen: dict[str, list[Seen]] = field(default_factory=dict)

    def see(self, way: str) -> list[Seen]:
        """Return what one way of looking shows of each rank; the ranks don't move, so one look is enough."""
        if way not in self._seen:
            self._seen[way] = [look(self.job.mpi, way, truth.pid) for truth in self.truths]
        return self._seen[way]


def scenes(*cases: Case, transports: tuple[str, ...] = ("ob1", "cm", "ucx")) -> pytest.MarkDecorator:
    """Run a test on jobs of these programs, on every MPI of the matrix."""
    parameters = [
        pytest.param((mpi, transport, case), id=f"{mpi.name}-{transport.name}-{case}")
        for mpi in find_mpis()
        for transport in mpi.transports
        for case in cases
        if transport.name in transports
    ]
    return pytest.mark.parametrize("scene", parameters, indirect=True)


@pytest.fixture(scope="module")
def scene(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[Scene]:
    """Return a running job that all tests of the same parameters share."""
    mpi: Mpi
    transport: Transport
    case: Case
    mpi, transport, case = request.param
    if mpi.missing:
        pytest.skip(mpi.missing)
    with running(
        compiler, mpi, transport, case.program, case.ranks, arguments=case.arguments, children=case.children
    ) as job:
        yield Scene(job, [Truth.from_json(each) for each in job.wait_until_ready()])


def memory_of(pid: int, stack: ExitStack) -> Fetch:
    """Return what reads a process's memory."""
    return stack.enter_context(LiveProcess(pid)).fetch


# ---------------------------------------------------------------- communicators


@pytest.mark.parametrize("way", LOOKS)
@scenes(COMMUNICATORS, SPAWN)
def test_communicators_are_those_of_the_program(scene: Scene, way: str, matrix: Matrix) -> None:
    """Every live communicator is shown with its name, rank, size and group, and nothing else is."""
    transport = scene.job.transport
    for truth, seen in zip(scene.truths, scene.see(way), strict=True):
        gone = transport.name == "ucx"  # whose requests hold no reference to their communicator
        assert compare_communicators(truth, seen.communicators, freed_may_be_gone=gone) == []
        assert seen.global_rank == truth.world_rank
    matrix.record(scene.job.mpi, transport, "communicators", "right")


@pytest.mark.parametrize("way", LOOKS)
@scenes(COMMUNICATORS, SPAWN)
def test_ids_agree_in_all_processes(scene: Scene, way: str) -> None:
    """A communicator has the same unique_id in each of its processes."""
    shown = [seen.communicators for seen in scene.see(way)]
    jobs = {truth.pid: truth for truth in scene.truths}
    assert len(jobs) == len(shown)
    assert compare_ids(list(zip(scene.truths, shown, strict=True))) == []


@scenes(COMMUNICATORS)
def test_windows_are_listed_with_their_names(scene: Scene) -> None:
    """The Python core lists each window with its name, size and handle."""
    for truth, seen in zip(scene.truths, scene.see("direct"), strict=True):
        assert isinstance(seen.core.windows, tuple)
        assert not isinstance(seen.core.windows, Hidden)
        assert {(each.name, each.size, each.address) for each in seen.core.windows} == {
            (each.name, each.size, each.handle) for each in truth.windows
        }


def shown_now(queues: ProcessQueues) -> list[CommunicatorSnapshot]:
    """Return the communicators as they are now, without their queues."""
    shown = []
    queues.update_communicator_list()
    queues.setup_communicator_iterator()
    while (communicator := queues.get_communicator()) is not None:
        shown.append(CommunicatorSnapshot(communicator, tuple(queues.get_comm_group()), ()))
        queues.next_communicator()
    return shown


@pytest.mark.parametrize("mpi", find_mpis(), ids=lambda mpi: mpi.name)
def test_a_new_name_is_seen_at_the_next_update(mpi: Mpi, compiler: Compiler) -> None:
    """A communicator that was listed and is then renamed has its new name at the next update of the list."""
    if mpi.missing:
        pytest.skip(mpi.missing)
    libraries: list[QueueLibrary] = [Library(), DynamicLibrary(library_path.library())]
    with running(compiler, mpi, OB1, "communicators", 4) as job, ExitStack() as stack:
        before = Truth.from_json(job.wait_until_ready()[0])
        process = stack.enter_context(LiveProcess(before.pid))
        sessions = [library.setup_image(process.image).setup_process(process) for library in libraries]
        for queues in sessions:
            with stopped(before.pid):
                queues.has_queues()
                assert compare_communicators(before, shown_now(queues)) == []
        after = Truth.from_json(job.next_phase(2)[0])
        assert {each.name for each in after.communicators} > {b"everyone", b"only me", b"renamed solver"}
        for queues in sessions:
            with stopped(before.pid):
                assert compare_communicators(after, shown_now(queues)) == []


# ---------------------------------------------------------------- operations


@pytest.mark.parametrize("way", LOOKS)
@scenes(COMMUNICATORS, SPAWN, *TRAFFIC, *BLOCKED, transports=("ob1",))
def test_operations_are_those_of_the_program(scene: Scene, way: str, matrix: Matrix) -> None:
    """Over pml/ob1 each pending operation is shown in its place with every field right, and nothing else is."""
    for truth, seen in zip(scene.truths, scene.see(way), strict=True):
        with ExitStack() as stack:
            fetch = memory_of(truth.pid, stack)
            assert compare_operations(truth, seen.communicators, fetch) == []
        assert missing_collectives(truth, seen.communicators) == []
    for queue in Queue:
        matrix.record(scene.job.mpi, scene.job.transport, queue.name.lower(), "right")


@pytest.mark.parametrize("way", LOOKS)
@scenes(*TRAFFIC, transports=("cm",))
def test_cm_shows_what_it_keeps_and_hides_the_rest(scene: Scene, way: str, matrix: Matrix) -> None:
    """Over pml/cm what is shown of a request is true, or -1; unexpected messages lie in the network's library."""
    for truth, seen in zip(scene.truths, scene.see(way), strict=True):
        assert compare_partly(truth, seen.communicators) == []
        assert compare_hidden(seen.communicators, [Queue.UNEXPECTED], ["cm", "ofi", "--mca pml ob1"]) == []
    for column, value in (("sends", "in part"), ("receives", "in part"), ("unexpected", "hidden")):
        matrix.record(scene.job.mpi, scene.job.transport, column, value)


@pytest.mark.parametrize("way", LOOKS)
@scenes(TRAFFIC[0], transports=("ucx",))
def test_ucx_says_that_its_queues_are_hidden(scene: Scene, way: str, matrix: Matrix) -> None:
    """Over pml/ucx no queue can be seen, and each says why and what to do."""
    for seen in scene.see(way):
        assert compare_hidden(seen.communicators, list(Queue), ["ucx", "--mca pml ob1"]) == []
    for queue in Queue:
        matrix.record(scene.job.mpi, scene.job.transport, queue.name.lower(), "hidden")


@scenes(TRAFFIC[0], TRAFFIC[1], transports=("ob1",))
def test_datatypes_in_use_are_listed(scene: Scene) -> None:
    """The Python core lists each datatype of the pending operations, with its name, size and how many use it."""
    for truth in scene.truths:
        with LiveProcess(truth.pid) as process, stopped(process.pid):
            queues = Library().setup_image(process.image).setup_process(process)
            queues.has_queues()
            shown = Counter({(each.name, each.size): each.operations for each in queues.datatypes()})
        assert not datatypes_of(truth, optional=False) - shown
        assert not shown - datatypes_of(truth, optional=True)


def datatypes_of(truth: Truth, *, optional: bool) -> Counter[tuple[bytes, int]]:
    """Return how many requests use each datatype, with or without those that may leave no trace."""
    return Counter(
        (each.datatype, each.datatype_size)
        for each in truth.operations
        if each.queue is not Queue.UNEXPECTED and each.count >= 0 and (optional or not each.optional)
    )


# ---------------------------------------------------------------- messages that can't be received yet


def member(process: LiveProcess, struct: str, name: str) -> int:
    """Return the offset of a member of one of Open MPI's structs, as libmqs has it for this process."""
    queues = Library().setup_image(process.image).setup_process(process)
    queues.has_queues()
    origin = next(each.origin for each in queues.layout_origins() if each.struct == struct)
    handle = process.image.find_type(struct)
    if handle is not None:
        offset = process.image.field_offset(handle, name)
    else:
        offset = next(
            profile.layouts.offset(struct, name) for profile in shipped("openmpi") if origin.endswith(profile.name)
        )
    assert offset is not None
    return offset


def change(pid: int, address: int, data: bytes) -> None:
    """Write into a process."""
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(address)
        memory.write(data)


def pointer(process: LiveProcess, address: int) -> int:
    """Return a pointer that lies in a process."""
    return int.from_bytes(process.fetch(address, 8), "little")


def expect_an_earlier_message(process: LiveProcess, communicator: int) -> None:
    """Let a rank wait for one more message of rank 0 on a communicator than there will be."""
    matching = pointer(process, communicator + member(process, "ompi_communicator_t", "c_pml_comm"))
    peers = pointer(process, matching + member(process, "mca_pml_ob1_comm_t", "procs"))
    address = pointer(process, peers) + member(process, "mca_pml_ob1_comm_proc_t", "expected_sequence")
    expected = int.from_bytes(process.fetch(address, 2), "little")
    change(process.pid, address, (expected - 1).to_bytes(2, "little"))


def forget_communicator(process: LiveProcess, number: int) -> None:
    """Let a rank not know a communicator by its number."""
    table = process.image.find_symbol("ompi_mpi_communicators")
    assert table is not None
    slots = pointer(process, table + member(process, "opal_pointer_array_t", "addr"))
    change(process.pid, slots + 8 * number, bytes(8))


@pytest.mark.parametrize("mpi", find_mpis(), ids=lambda mpi: mpi.name)
def test_messages_that_came_too_early_are_counted(mpi: Mpi, compiler: Compiler) -> None:
    """Messages that no receive can match yet are no messages of the queue, but notes that count them."""
    if mpi.missing:
        pytest.skip(mpi.missing)
    with running(compiler, mpi, OB1, "early", 2) as job:
        truth = Truth.from_json(job.wait_until_ready()[1])
        found, _, _ = pair(truth, look_direct(truth.pid).communicators)
        number = found["ghost"].communicator.unique_id
        with LiveProcess(truth.pid) as process, stopped(process.pid):
            expect_an_earlier_message(process, truth.communicator("field").handle)
            forget_communicator(process, number)
        job.next_phase(2)
        for way in LOOKS:
            found, _, _ = pair(truth, look(mpi, way, truth.pid).communicators)
            (early,) = found["field"].queues[Queue.UNEXPECTED].operations
            (foreign,) = found["world"].queues[Queue.UNEXPECTED].operations
            assert early.extra_text[0].startswith(b"2 came too early")
            assert (early.desired_local_rank, early.desired_global_rank, early.desired_tag) == (0, 0, -1)
            assert foreign.extra_text[0].startswith(b"2 for communicators that this process has not made yet")
            assert foreign.extra_text[1] == b"their numbers: %d" % number


# ---------------------------------------------------------------- layouts, and the matrix of all this


@scenes(TRAFFIC[0])
def test_each_struct_says_where_its_layout_came_from(scene: Scene, matrix: Matrix) -> None:
    """The layouts of a stripped MPI come from one profile, those of one with debug information from that."""
    for seen in scene.see("direct"):
        assert seen.core.layouts
        origins = {each.origin for each in seen.core.layouts}
        assert len(origins) == 1
        matrix.record(scene.job.mpi, scene.job.transport, "layouts", origins.pop())


@pytest.mark.after_all
def test_the_support_matrix_is_what_this_run_saw(request: pytest.FixtureRequest, matrix: Matrix) -> None:
    """docs/support-matrix.md says what the tests of this run found."""
    if request.session.testsfailed or request.config.stash.get(LEFT_OUT, False):
        pytest.skip("another test failed or was left out")
    if missing := matrix.missing():
        pytest.skip(f"this run did not look at {missing[0]} and {len(missing) - 1} more")
    if request.config.getoption("--write-matrix"):
        FILE.write_text(matrix.text())
    if foreign := matrix.not_in(FILE.read_text()):
        pytest.skip(f"docs/support-matrix.md was written where there is no {foreign}")
    assert FILE.read_text() == matrix.text()
