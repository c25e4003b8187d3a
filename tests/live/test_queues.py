"""Everything that libmqs shows of live MPI jobs is what MPI itself told the programs, on every MPI of the matrix."""

from __future__ import annotations

import gc
import json
import re
import weakref
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from mqs_dll.contract.abi import Queue
from mqs_dll.contract.errors import InternalError
from mqs_dll.contract.interface import ProcessQueues, QueueLibrary
from mqs_dll.debugger import library_path
from mqs_dll.debugger.dll import DynamicLibrary
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.stopping.stop import stopped
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden
from mqs_dll.library.mpi.communicators import CommunicatorEntry
from mqs_dll.library.mpi.mpich.communicators import MpichEntry
from mqs_dll.library.mpi.openmpi.communicators import OmpiEntry
from mqs_dll.library.session import Library
from tests.conftest import LEFT_OUT
from tests.support.jobs import HANGS, Compiler, running
from tests.support.matrix import FILE, Matrix
from tests.support.mpis import CH3, NETMODS, OB1, OVER_LIBFABRIC, SHM, UCX, Mpi, Transport, find_mpis, first_of
from tests.support.rules import BUFFER
from tests.support.scenes import (
    BIG,
    BLOCKED,
    BUFFERED,
    BUFFERING,
    COMMUNICATORS,
    DATATYPES,
    DIRECT,
    FLOOD,
    FLOW,
    ORDER,
    OVER_LIBRARY,
    RECEIVES,
    SENDS,
    SPAWN,
    SPECIAL,
    TRAFFIC,
    UNCOLLECTED,
    Case,
    Parameters,
    Scene,
    fits,
    is_whole,
    places,
    scenes,
    scenes_and_ways,
)
from tests.support.sweep import sweep
from tests.support.truth.collectives import missing_collectives
from tests.support.truth.communicators import compare_communicators, compare_ids, ids_of_worlds, pair
from tests.support.truth.partly import queues_in_part
from tests.support.truth.queues import compare_operations, expected_operations
from tests.support.truth.written import TrueCommunicator, TrueOperation, Truth
from tests.support.ways import run_host
from tests.support.workers import Workers

SEEDS = 2
"""Random states on each MPI; one where a fabric is seen elsewhere as a whole."""


SPARE = 1000
"""Added to the seed of a state that an MPI can't reach."""


def random_places() -> list[Parameters]:
    """Return random states, other ones on each MPI."""

    def state(mpi: Mpi, transport: Transport, seed: int) -> Case:
        cases = (Case("random", 2 + each % 3, (str(each),)) for each in (seed, seed + SPARE))
        return next(case for case in cases if fits(mpi, transport, case))

    found = places(Case("random", 2))
    return [
        (mpi, transport, state(mpi, transport, seed))
        for index, (mpi, transport, _) in enumerate(found)
        for seed in range(SEEDS * index, SEEDS * index + (SEEDS if is_whole(mpi, transport) else 1))
    ]


# ---------------------------------------------------------------- communicators


@scenes_and_ways(places(COMMUNICATORS, SPAWN))
def test_communicators_are_those_of_the_program(scene: Scene, way: str, matrix: Matrix) -> None:
    """Every live communicator is shown with its name, rank, size and group, and nothing else is."""
    transport = scene.job.transport
    for truth, seen in zip(scene.truths, scene.see(way), strict=True):
        gone = transport in (UCX, *NETMODS)  # whose requests may hold no reference to their communicator
        assert compare_communicators(truth, seen.communicators, freed_may_be_gone=gone) == []
        assert seen.global_rank == truth.world_rank
    matrix.record(scene.job.mpi, transport, "communicators", "right")


DESCRIBED = {
    "unnamed-dup": b"dup of MPI_COMM_WORLD",
    "unnamed-dup-of-named": b"dup of solver",
    "cartesian": b"cartesian topology",
    "graph": b"distributed graph topology of MPI_COMM_WORLD",
    "orphan": b"dup of a freed communicator",
    "split-node": b"split by type of MPI_COMM_WORLD",
    "group-strided": b"group of MPI_COMM_WORLD",
    "merged": b"",
}
"""What Open MPI's memory shows of communicators without a name; 5.0 knows the parent of a cartesian one, too."""


@scenes_and_ways(places(COMMUNICATORS))
def test_a_communicator_without_a_name_is_described(scene: Scene, way: str) -> None:
    """Open MPI keeps where a communicator without a name comes from, by its parent's number; MPICH doesn't."""
    for truth, seen in zip(scene.truths, scene.see(way), strict=True):
        found, _, _ = pair(truth, seen.communicators)
        shown = {key: found[key].label.description for key in DESCRIBED if key in found}
        shown["cartesian"] = shown["cartesian"].removesuffix(b" of MPI_COMM_WORLD")
        described = truth.rules.describes_unnamed
        assert shown == {key: DESCRIBED[key] if described else b"" for key in shown}


@scenes_and_ways(places(COMMUNICATORS, SPAWN))
def test_ids_agree_in_all_processes(scene: Scene, way: str) -> None:
    """A communicator has the same unique_id in each of its processes, and no other one has it.

    So have the two sides of an inter-communicator; the parts of a split have different ones, and so has each process's
    MPI_COMM_SELF. The MPI_COMM_WORLD of spawned processes has an id of its own in Open MPI alone.
    """
    shown = [seen.communicators for seen in scene.see(way)]
    jobs = {truth.pid: truth for truth in scene.truths}
    assert len(jobs) == len(shown)
    together = list(zip(scene.truths, shown, strict=True))
    assert compare_ids(together) == []
    spawned = scene.job.program == "spawn" and scene.job.mpi.product == "Open MPI"
    assert len(ids_of_worlds(together)) == (2 if spawned else 1)


@scenes(places(COMMUNICATORS))
def test_windows_are_listed_with_their_names(scene: Scene) -> None:
    """The Python core lists each window with its name, size and handle."""
    for truth, seen in zip(scene.truths, scene.see(DIRECT), strict=True):
        assert isinstance(seen.core.windows, tuple)
        assert not isinstance(seen.core.windows, Hidden)
        assert {(each.name, each.size, each.handle) for each in seen.core.windows} == {
            (each.name, each.size, each.handle) for each in truth.windows
        }


def shown_now(queues: ProcessQueues) -> list[CommunicatorSnapshot]:
    """Return the communicators as they are now, without their queues."""
    shown = []
    queues.update_communicator_list()
    queues.setup_communicator_iterator()
    while (communicator := queues.get_communicator()) is not None:
        label, group = queues.get_comm_label(), tuple(queues.get_comm_group())
        shown.append(CommunicatorSnapshot(communicator, group, (), label._replace(handle=0), label.handle))
        queues.next_communicator()
    return shown


@pytest.mark.parametrize("mpi", find_mpis(), ids=lambda mpi: mpi.name)
def test_what_changed_is_seen_at_the_next_update(mpi: Mpi, compiler: Compiler) -> None:
    """A communicator that was listed and is then renamed has its new name at the next update; a freed one is gone."""
    libraries: list[QueueLibrary] = [Library(), DynamicLibrary(library_path.library())]
    transport = mpi.transports[0]
    gone = transport in NETMODS
    with running(compiler, mpi, transport, "communicators", 4) as job, ExitStack() as stack:
        before = Truth.from_json(job.wait_until_ready()[0], transport.name)
        process = stack.enter_context(LiveProcess(before.pid))
        sessions = [library.setup_image(process.image).setup_process(process) for library in libraries]
        for queues in sessions:
            with stopped(before.pid):
                queues.has_queues()
                assert compare_communicators(before, shown_now(queues), freed_may_be_gone=gone) == []
        after = Truth.from_json(job.next_phase(2)[0], transport.name)
        assert {each.name for each in after.communicators} > {b"everyone", b"only me", b"renamed solver"}
        assert len(after.communicators) == len(before.communicators) - 1
        for queues in sessions:
            with stopped(before.pid):
                assert compare_communicators(after, shown_now(queues), freed_may_be_gone=gone) == []


@pytest.mark.parametrize("mpi", find_mpis(), ids=lambda mpi: mpi.name)
def test_what_did_not_change_is_kept(mpi: Mpi, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where names alone have changed, for the second time, most communicators aren't read anew, and all are right.

    In the fourth phase one is freed and one duplicated, which counts the references to groups that others have.
    """
    made: Counter[int] = Counter()
    phase = 0

    def count(entry: type[CommunicatorEntry]) -> None:
        """Count the communicators that are read in each phase."""
        begin = entry.__init__

        def counted(self: CommunicatorEntry, *arguments: Any) -> None:
            made[phase] += 1
            begin(self, *arguments)

        monkeypatch.setattr(entry, "__init__", counted)

    count(OmpiEntry)
    count(MpichEntry)
    libraries: list[QueueLibrary] = [Library(), DynamicLibrary(library_path.library())]
    transport = mpi.transports[0]
    gone = transport in NETMODS
    with running(compiler, mpi, transport, "communicators", 4, arguments=["no-file"]) as job, ExitStack() as stack:
        process = stack.enter_context(LiveProcess(job.wait_until_ready()[0]["pid"]))
        sessions = [each.setup_image(process.image).setup_process(process) for each in libraries]
        for phase in range(1, 6):
            truth = Truth.from_json((job.wait_until_ready if phase == 1 else job.next_phase)(phase)[0], transport.name)
            for queues in sessions:
                with stopped(truth.pid):
                    queues.has_queues()
                    assert compare_communicators(truth, shown_now(queues), freed_may_be_gone=gone) == []
    assert max(made[3], made[5]) < made[2] / 2


@scenes(places(SENDS))
def test_the_iterator_reads_the_communicators_where_nobody_has(scene: Scene) -> None:
    """mqs_setup_communicator_iterator without mqs_update_communicator_list before it updates the list by itself."""
    pid = scene.truths[0].pid
    names = [each.communicator.name for each in scene.see(DIRECT)[0].communicators]
    libraries: list[QueueLibrary] = [Library(), DynamicLibrary(library_path.library())]
    with LiveProcess(pid) as process:
        for library in libraries:
            queues = library.setup_image(process.image).setup_process(process)
            with stopped(pid):
                queues.setup_communicator_iterator()
                first = queues.get_communicator()
            assert first is not None
            assert first.name == names[0]
    if scene.job.mpi.in_matrix:
        (document,) = run_host(library_path.library(), pid, "--no-update")
        assert [each["name"].encode("latin-1") for each in document["communicators"]] == names


@scenes([each for each in places(RECEIVES) if each[0].name == "openmpi-debian" and each[1] == OB1])
def test_a_helper_process_shows_what_the_host_itself_would(scene: Scene) -> None:
    """Wherever Python works for a debugger in C, every field that it gets is the same, also by 256 bytes at a time."""
    pids = [truth.pid for truth in scene.truths]
    first, *others = [
        run_host(library_path.library(), *options, *pids, environment={"MQS_PYTHON": side})
        for options in ((), ("--chunk", 256))
        for side in ("embedded", "helper")
    ]
    for document in (each for documents in (first, *others) for each in documents):
        for told in ("version", "setup_counts", "sweep_counts", "resident_kib", "start"):
            del document[told]
    for each in others:
        assert each == first


@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-4.3.2-pypi"])
def test_a_process_may_run_between_two_calls(name: str, compiler: Compiler) -> None:
    """A debugger that stops nothing gets records or errors that were foreseen, of a rank that never rests."""
    mpi = first_of([each for each in find_mpis() if each.name == name])
    with running(compiler, mpi, mpi.transports[0], f"{HANGS}ping_pong", 2) as job:
        pid = job.wait_until_ready()[0]["pid"]
        for side in ("embedded", "helper"):
            documents = run_host(library_path.library(), "--no-stop", *3 * [pid], environment={"MQS_PYTHON": side})
            assert InternalError.help not in json.dumps(documents)
            assert any("communicators" in each for each in documents)


# ---------------------------------------------------------------- operations


def check_operations(scene: Scene, way: str, matrix: Matrix) -> None:
    """Compare all that is pending in a scene with the truth."""
    in_part: set[Queue] = set()
    for truth, seen, process in zip(scene.truths, scene.see(way), scene.processes, strict=True):
        assert compare_operations(truth, seen.communicators, process.fetch) == []
        assert missing_collectives(truth, seen.communicators) == []
        in_part |= queues_in_part(truth, seen.communicators)
    for queue in Queue:
        value = "in part" if queue in in_part else "right"
        matrix.record(scene.job.mpi, scene.job.transport, queue.name.lower(), value)


STATES = (COMMUNICATORS, SPAWN, *TRAFFIC, *BLOCKED, BUFFERING, SPECIAL, FLOOD, *FLOW, ORDER, UNCOLLECTED, DATATYPES)


@scenes_and_ways(places(*STATES))
def test_operations_are_those_of_the_program(scene: Scene, way: str, matrix: Matrix) -> None:
    """Each pending operation is shown in its place, every field right or said to be unknown, and nothing else is."""
    check_operations(scene, way, matrix)


ATTACHED = re.compile(rb"copy in the attached buffer, (0x[0-9a-f]+)")
GONE = re.compile(rb"that has no (\d+) first bytes")


@scenes(places(BUFFERED))
def test_a_buffered_message_is_where_it_is_said_to_be(scene: Scene) -> None:
    """A program may write its buffer again after MPI_Bsend: the bytes at the buffer that is shown are the message's.

    So are those in the attached buffer that a text names, behind what the transport took at once.
    """
    truth = scene.truths[0]
    world = pair(truth, scene.see(DIRECT)[0].communicators)[0]["world"]
    shown = {each.desired_tag: each for each in world.queues[Queue.SENDS].operations}
    may_be_done = scene.job.mpi.product != "Open MPI" or scene.job.transport in OVER_LIBFABRIC
    assert {1, 2, 4} <= shown.keys() or may_be_done
    fetch = scene.processes[0].fetch
    for true in truth.operations:
        operation = shown.get(true.tag)
        if operation is None:
            continue
        text = b"\n".join(operation.extra_text)
        cycle = bytes((true.pattern + index) % 256 for index in range(256))
        message = (cycle * (true.length // 256 + 1))[: true.length]
        assert operation.desired_length in (true.length, -1)
        if operation.buffer:
            assert fetch(operation.buffer, true.length) == message
        elif found := ATTACHED.search(text):
            gone = GONE.search(text)
            begin = int(gone[1]) if gone else true.length // 2
            assert fetch(int(found[1], 16) + begin, true.length - begin) == message[begin:]
        else:
            assert re.search(rb"sent from a copy|not known|keeps no|not kept", text)


@scenes(random_places())
def test_random_states_are_shown_as_they_are(scene: Scene, matrix: Matrix) -> None:
    """Communicators, operations and their order are right in states that nobody thought of."""
    for truth, seen in zip(scene.truths, scene.see(DIRECT), strict=True):
        assert compare_communicators(truth, seen.communicators) == []
    check_operations(scene, DIRECT, matrix)


def newest(chosen: list[Parameters]) -> list[Parameters]:
    """Return, of the places where the same code walks, the last: bounds don't depend on the release."""
    return list(
        {(mpi.product, transport.name, case): (mpi, transport, case) for mpi, transport, case in chosen}.values()
    )


@scenes(newest(places(*BIG)))
def test_answers_are_complete_where_there_is_a_great_deal(scene: Scene, matrix: Matrix) -> None:
    """1,000 communicators, 20,000 posted receives or 20,000 unexpected messages are all shown, in their order."""
    truth, seen = scene.truths[0], scene.see(DIRECT)[0]
    assert len(seen.communicators) == len(truth.communicators)
    assert compare_communicators(truth, seen.communicators) == []
    check_operations(scene, DIRECT, matrix)


@scenes([each for each in places(RECEIVES, SENDS) if each[1] not in OVER_LIBRARY])
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
    """Return how many requests use each datatype, with or without those that may leave no trace of it."""
    return Counter(
        (each.datatype, each.datatype_size)
        for communicator in truth.communicators
        for queue in (Queue.SENDS, Queue.RECEIVES)
        for each in expected_operations(truth, communicator, queue)
        if each.count >= 0 and (optional or not (each.optional or leaves_no_datatype(truth, each, communicator)))
    )


def leaves_no_datatype(truth: Truth, operation: TrueOperation, communicator: TrueCommunicator) -> bool:
    """Return whether this MPI may keep too little of an operation to know its datatype."""
    rules = truth.rules
    unknown = rules.may_be_unknown(operation, communicator)
    return bool(unknown & BUFFER) or rules.may_refuse(operation.queue, communicator)


# ---------------------------------------------------------------- layouts, and the matrix of all this


@scenes([each for each in places(SENDS) if each[1] in (OB1, SHM, CH3)])
def test_a_session_that_has_ended_is_gone_at_once(scene: Scene) -> None:
    """Where all queues are seen, nothing of it waits for Python to look for cycles: many sessions take no more memory.

    (An error that says why a queue can't be seen may refer to itself, by the frames that it came through.)
    """
    process = scene.processes[0]
    gc.disable()
    try:
        queues = Library().setup_image(process.image).setup_process(process)
        sweep(queues)
        memory = weakref.ref(queues._memory)
        queues.close()
        del queues
        assert memory() is None
    finally:
        gc.enable()


@scenes(places(SENDS))
def test_each_struct_says_where_its_layout_came_from(scene: Scene, matrix: Matrix) -> None:
    """The layouts of a stripped MPI come from one profile, those of one with debug information from that.

    Those of a fabric's structs come from what is known of it.
    """
    for seen in scene.see(DIRECT):
        assert seen.core.layouts
        origins = {each.origin for each in seen.core.layouts}
        of_fabric = {origin for origin in origins if origin.startswith(("layout UCX", "layout libfabric"))}
        assert len(of_fabric) == (scene.job.transport in (*OVER_LIBRARY, *OVER_LIBFABRIC))
        (own,) = origins - of_fabric
        matrix.record(scene.job.mpi, scene.job.transport, "layouts", own)


@pytest.mark.after_all
def test_the_support_matrix_is_what_this_run_saw(
    request: pytest.FixtureRequest, matrix: Matrix, workers: Workers
) -> None:
    """docs/support-matrix.md says what the tests of this run found."""
    if request.config.stash.get(LEFT_OUT, False):
        pytest.skip("other tests were left out")
    others = workers.wait_for_others()
    if failed := request.session.testsfailed + sum(each.failed for each in others):
        pytest.skip(f"{failed} other tests failed")
    for each in others:
        matrix.add(each.seen)
    if missing := matrix.missing():
        pytest.skip(f"this run did not look at {missing[0]} and {len(missing) - 1} more")
    if request.config.getoption("--write-matrix"):
        FILE.write_text(matrix.text())
    if foreign := matrix.not_in(FILE.read_text()):
        pytest.skip(f"docs/support-matrix.md was written where there is no {foreign}")
    assert FILE.read_text() == matrix.text()
