"""The harness itself: jobs end whatever happens, and the comparison overlooks nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqs_dll.contract import phrases
from mqs_dll.contract.abi import Communicator, Operation, Queue, Status
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden, QueueSnapshot
from tests.support import releases
from tests.support.jobs import Compiler, JobError, processes_with_tag, running, shared_memory_of
from tests.support.matrix import Cell
from tests.support.mpis import CH3, OB1, SHM, Mpi, find_mpis, first_of, mpichs, mpis_inside, open_mpis
from tests.support.truth.communicators import compare_communicators, compare_ids, fitting
from tests.support.truth.queues import compare_operations
from tests.support.truth.written import TrueCommunicator, Truth
from tests.support.ways import read_direct
from tests.support.workers import WorkerResult, Workers

Shown = tuple[CommunicatorSnapshot, ...]


@pytest.fixture(scope="module")
def mpi() -> Mpi:
    """Return an Open MPI."""
    return first_of(open_mpis())


def test_an_mpi_whose_tree_is_missing_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The MPIs of another release of Debian are missing where that has no tree, or where we aren't root."""
    monkeypatch.setattr(releases, "DIRECTORY", tmp_path)
    assert {each.missing for each in mpis_inside()} == {
        f"{each.name} is not on this machine: as root, python tests/make_releases.py" for each in mpis_inside()
    }


def test_a_tree_that_lacks_a_package_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is from when the tests took fewer, and make_releases.py makes it anew."""
    monkeypatch.setattr(releases, "DIRECTORY", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    known = tmp_path / "trixie/var/lib/dpkg/info"
    known.mkdir(parents=True)
    first, *others = releases.packages_of("trixie")
    for package in (*others, f"{first}-extra"):
        (known / f"{package}:amd64.list").touch()
    assert releases.root_of("trixie") is None
    (known / f"{first}.list").touch()
    assert releases.root_of("trixie") == tmp_path / "trixie"


# ---------------------------------------------------------------- jobs


class SomethingFailed(Exception):
    """Stands for a test that fails while a job runs."""


def test_a_failing_test_leaves_no_process_behind(mpi: Mpi, compiler: Compiler) -> None:
    """When a test fails, all processes of its job are gone, ranks and launcher, and so are its files."""
    seen: dict[str, Any] = {}

    def fail() -> None:
        with running(compiler, mpi, OB1, "inter", 5) as job:
            job.wait_until_ready()
            seen.update(tag=job.tag, processes=processes_with_tag(job.tag), directory=job.directory)
            raise SomethingFailed

    with pytest.raises(SomethingFailed):
        fail()
    assert len(seen["processes"]) >= 6
    assert processes_with_tag(seen["tag"]) == []
    assert not seen["directory"].exists()


def test_a_job_leaves_no_shared_memory_behind(compiler: Compiler) -> None:
    """MPICH 5.0 removes the file of its shared memory when it ends; when it is killed, the harness does."""
    mpi = first_of([each for each in mpichs() if each.name == "mpich-5.0.2-pypi"])
    with running(compiler, mpi, SHM, "inter", 5) as job:
        ranks = [truth["pid"] for truth in job.wait_until_ready()]
        shared = {path for rank in ranks for path in shared_memory_of(rank)}
        assert shared
        assert all(path.exists() for path in shared)
    assert not any(path.exists() for path in shared)


def test_a_job_that_ends_early_fails_with_its_output(mpi: Mpi, compiler: Compiler) -> None:
    """A job whose program gives up is an error at once, with what the program printed."""
    with running(compiler, mpi, OB1, "collectives", 1) as job, pytest.raises(JobError, match="ended before it was"):
        job.wait_until_ready()


def test_a_program_that_does_not_compile_says_why(mpi: Mpi, tmp_path: Path) -> None:
    """An unknown program is an error that quotes the compiler."""
    with pytest.raises(JobError, match=r"no_such_program\.c"):
        Compiler(tmp_path).compile(mpi, "no_such_program")


# ---------------------------------------------------------------- several processes


def worker(number: int, folder: Path) -> Workers:
    """Return one of two workers, as pytest-xdist starts them."""
    given = {"workerid": f"gw{number}", "workercount": 2}
    Workers.tell_where(given, folder)
    config: Any = SimpleNamespace(workerinput=given)
    return Workers(config)


def test_what_all_workers_saw_comes_together(tmp_path: Path) -> None:
    """The last test waits until the other workers have left behind what they saw, and how many tests failed there."""
    told = WorkerResult(1, [Cell("an MPI", "ob1", "sends", "right")])
    worker(1, tmp_path).leave(told)
    assert worker(0, tmp_path).wait_for_others() == [told]


@pytest.mark.parametrize(("alone", "other"), [(True, fcntl.LOCK_SH), (False, fcntl.LOCK_EX)])
def test_a_test_that_is_to_run_alone_does(tmp_path: Path, alone: bool, other: int) -> None:
    """No test starts beside it, and it doesn't start beside others."""
    with worker(0, tmp_path).turn(alone=alone), (tmp_path / "floor").open("w") as floor:
        with pytest.raises(BlockingIOError):
            fcntl.flock(floor, other | fcntl.LOCK_NB)
        if not alone:
            fcntl.flock(floor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_tests_that_run_alone_let_no_other_come_in_between(tmp_path: Path) -> None:
    """Only behind the last of them others go on."""
    one = worker(0, tmp_path)
    with (tmp_path / "floor").open("w") as floor:
        with one.turn(alone=True, goes_on=True):
            pass
        with pytest.raises(BlockingIOError):
            fcntl.flock(floor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with one.turn(alone=True):
            pass
        fcntl.flock(floor, fcntl.LOCK_SH | fcntl.LOCK_NB)


# ---------------------------------------------------------------- comparisons


PROGRAMS = ("receives", "sends", "unexpected", "communicators")


@pytest.fixture(
    scope="module",
    params=[(product, program) for product in (OB1, CH3, SHM) for program in PROGRAMS],
    ids=lambda param: f"{param[0].name}-{param[1]}",
)
def looked_at(request: pytest.FixtureRequest, compiler: Compiler) -> Iterator[tuple[Truth, Shown, Any]]:
    """Return what rank 0 of a job wrote down, what is shown of it, and what reads its memory."""
    transport, program = request.param
    mpi = first_of([each for each in find_mpis() if transport in each.transports])
    with running(compiler, mpi, transport, program, 4) as job:
        truth = Truth.from_json(job.wait_until_ready()[0])
        with LiveProcess(truth.pid) as process:
            yield truth, read_direct([truth.pid])[0].communicators, process.fetch


NOBODY = 4321
"""A rank, tag or length that no test program has, in place of one that is not known."""


def other(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, Status):
        return Status((value + 1) % len(Status))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return NOBODY if value == -1 else value + 1
    assert isinstance(value, tuple)
    return ()


def with_queue(each: CommunicatorSnapshot, queue: Queue, operations: tuple[Operation, ...]) -> CommunicatorSnapshot:
    """Return a communicator with other operations in one of its queues."""
    queues = list(each.queues)
    queues[queue] = QueueSnapshot(queue, operations)
    return replace(each, queues=tuple(queues))


def is_open(operation: Operation, name: str) -> bool:
    """Return whether a field may differ: of a buffered message's copy, of what a matched receive had asked for."""
    if name == "tag_wild":
        return operation.status is not Status.PENDING and operation.desired_tag == -1
    buffered = {"MPI_Bsend", "MPI_Ibsend"}.intersection(phrases.read(operation.extra_text).calls)
    return bool(buffered) if name in ("buffer", "system_buffer") else name == "status" and len(buffered) > 1


def with_wrong_operations(each: CommunicatorSnapshot) -> Iterator[tuple[str, CommunicatorSnapshot]]:
    """Yield a communicator with one thing wrong in its operations, in every way."""
    for queue in Queue:
        right = each.queues[queue].operations
        for index, operation in enumerate(right):
            for name in Operation._fields:
                wrong = operation._replace(**{name: other(getattr(operation, name))})
                if name == "extra_text" and queue is Queue.UNEXPECTED:
                    continue  # says in words what the fields say
                if is_open(operation, name):
                    continue
                yield f"{name} of {operation}", with_queue(each, queue, (*right[:index], wrong, *right[index + 1 :]))
            yield f"no {operation}", with_queue(each, queue, (*right[:index], *right[index + 1 :]))
            yield f"twice {operation}", with_queue(each, queue, (*right[: index + 1], operation, *right[index + 1 :]))
        waiting = [operation for operation in right if operation.status is Status.PENDING]
        if len(waiting if queue is Queue.RECEIVES else right) > 1:
            yield f"{queue.name} in another order", with_queue(each, queue, right[::-1])


def test_one_wrong_field_of_an_operation_is_noticed(looked_at: tuple[Truth, Shown, Any]) -> None:
    """An operation with any one field wrong, one missing, made up or out of order does not pass for the truth."""
    truth, shown, fetch = looked_at
    assert compare_operations(truth, shown, fetch) == []
    left_open = set() if truth.rules.ordered else {"SENDS"}
    if any(each.optional for each in truth.operations):
        left_open.add("no")
    if any(each.status is None for each in truth.operations):
        left_open.add("status")
    passed = [
        what
        for index, each in enumerate(shown)
        for what, wrong in with_wrong_operations(each)
        if not compare_operations(truth, (*shown[:index], wrong, *shown[index + 1 :]), fetch)
    ]
    assert [what for what in passed if what.partition(" ")[0] not in left_open] == []


def test_one_wrong_field_of_a_communicator_is_noticed(looked_at: tuple[Truth, Shown, Any]) -> None:
    """A communicator with a wrong name, rank, size or group, one missing or made up does not pass for the truth."""
    truth, shown, _ = looked_at
    assert compare_communicators(truth, shown) == []
    for index, each in enumerate(shown):
        record = each.communicator
        assert not isinstance(each.group, Hidden)
        for wrong in (
            replace(each, communicator=record._replace(name=record.name + b"x")),
            replace(each, communicator=record._replace(local_rank=record.local_rank + 1)),
            replace(each, communicator=record._replace(size=record.size + 1)),
            replace(each, group=Hidden("not read")),
            replace(each, group=(*each.group, 0)),
        ):
            assert compare_communicators(truth, (*shown[:index], wrong, *shown[index + 1 :]))
        assert compare_communicators(truth, (*shown[:index], *shown[index + 1 :]))
        assert compare_communicators(truth, (*shown[: index + 1], *shown[index:]))


def test_ids_that_differ_between_ranks_are_noticed() -> None:
    """Two ranks that show a communicator under two ids do not pass for the truth."""
    true = TrueCommunicator("field", b"field", True, (0, 1), None, False, 0, -1, 1)
    truth = Truth(1, 0, 2, "", "", (true,), (), (), ())
    shown = CommunicatorSnapshot(Communicator(3, 0, 2, b"field"), (0, 1), ())
    another = replace(shown, communicator=shown.communicator._replace(unique_id=4))
    assert compare_ids([(truth, [shown]), (truth, [shown])]) == []
    assert compare_ids([(truth, [shown]), (truth, [another])]) != []


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        (b"short  ", b"short"),
        (b"x" * 64, b"x" * 63),
        (b"x" * 62 + b"\xce\xb1", b"x" * 62),
        (b"x" * 60 + b"\xe2\x82\xac", b"x" * 60 + b"\xe2\x82\xac"),
        (b"caf\xe9", b"caf\xe9"),
        (b"\xe9" * 70, b"\xe9" * 63),
    ],
)
def test_expected_names_follow_the_standard(name: bytes, fits: bytes) -> None:
    """The name that the comparison expects is cut on a character boundary and has no trailing blanks."""
    assert fitting(name) == fits
