"""Several jobs of one command: which are watched, and whose turn it is. What would read them is left out."""

from __future__ import annotations

import os
import subprocess
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqs_dll.commands.run import jobs
from mqs_dll.commands.run.reports import Reports
from mqs_dll.commands.run.sampling import Sampled
from mqs_dll.debugger.job.ending import Process
from mqs_dll.debugger.proc import read_stat
from mqs_dll.verdict.results import Outcome

SEARCH = 1 << 30
"""A PID that no process has."""
READ = Sampled(Outcome.NOTHING_STUCK, 2, (), 0.0, "")


class Watcher:
    """Stands for one whose job is due all the time."""

    begun: list[int]
    """The PIDs of the jobs that are read, in this order."""

    def __init__(self, _options: Namespace, what: int, _folder: Path, _keep: object, age: float) -> None:
        self.what, self.age, self.is_reading, self.last = what, age, False, SimpleNamespace(why="")
        self.was_read = self.is_suspected = False
        self.samples = self.stop_time = self.changes = 0
        self.others = SimpleNamespace(compared=0, have_ranks=False)

    def seconds(self) -> float:
        """Return that it is due."""
        return 0.0

    def act(self) -> None:
        """Begin to read, unless that goes on."""
        if not self.is_reading:
            self.sample_now()

    def sample_now(self) -> None:
        """Begin to read."""
        self.is_reading = True
        self.begun.append(self.what)

    def ended(self, pid: int, _: int) -> Sampled | None:
        """Take in that what has read it has ended."""
        if pid != self.what or not self.is_reading:
            return None
        self.is_reading, self.was_read = False, True
        return READ

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def launchers(count: int) -> Iterator[list[Process]]:
    """Give processes that stand for launchers."""
    started = [subprocess.Popen(["sleep", "60"]) for _ in range(count)]
    try:
        stats = [read_stat(each.pid) for each in started]
        yield [(stat.pid, stat.started) for stat in stats if stat is not None]
    finally:
        for each in started:
            each.kill()
            each.wait()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> jobs.Jobs:
    """Give the jobs of a command; whoever searches for them finds what search() says."""
    monkeypatch.setattr(jobs, "Watcher", Watcher)
    monkeypatch.setattr(jobs, "in_own_process", lambda _: SEARCH)
    Watcher.begun = []
    options = Namespace(interval=0.01, after=60.0, keep=None)
    return jobs.Jobs(options, os.getpid(), tmp_path, Reports(tmp_path))


def say(watched: jobs.Jobs, found: list[Process]) -> None:
    """Say what whoever searches for jobs has found."""
    assert watched._answer is not None
    watched._answer.say([found, "" if found else "there is none"])


def search(watched: jobs.Jobs, found: list[Process]) -> None:
    """Have it find jobs."""
    time.sleep(0.05)
    watched.act()
    say(watched, found)
    assert watched.ended(SEARCH, 0) is None


def read(watched: jobs.Jobs) -> int:
    """Have the next job read; return its PID."""
    watched.act()
    (pid,) = (each.pid for each in watched if each.watcher.is_reading)
    watched.act()
    found = watched.ended(pid, 0)
    assert found is not None
    assert found[0].pid == pid
    return pid


def test_one_job_is_read_at_a_time_and_each_in_its_turn(watched: jobs.Jobs) -> None:
    """However often another one is due; a job that is over is not read any more."""
    with launchers(3) as found:
        search(watched, found)
        pids = [pid for pid, _ in found]
        assert [read(watched) for _ in range(6)] == 2 * pids
        next(each for each in watched if each.pid == pids[1]).is_over = True
        assert {read(watched) for _ in range(4)} == {pids[0], pids[2]}


def test_a_job_that_has_ended_goes(watched: jobs.Jobs, tmp_path: Path) -> None:
    """One that is found twice is watched once; nobody searches again before a process has been started.

    Whether it seemed to be stuck is kept.
    """
    with launchers(1) as first:
        search(watched, first)
        with launchers(1) as second:
            search(watched, [*first, *second])
            assert [each.process for each in watched] == [*first, *second]
            assert not watched.were_read
            assert read(watched) == first[0][0]
            assert not watched.were_suspected
            (of_second,) = (each.watcher for each in watched if each.process == second[0])
            vars(of_second)["is_suspected"] = True
        watched.act()
        assert [each.process for each in watched] == first
    watched.act()
    assert (len(watched), watched.seen, watched.were_read, watched.were_suspected) == (0, 2, True, True)
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]


def test_jobs_are_searched_for_because_of_a_signal(watched: jobs.Jobs) -> None:
    """Where none is known, and nobody has said yet that there is none: all that are found are sampled."""
    assert not watched.ask("SIGTERM", search=False)
    assert watched.ask("SIGTERM", search=True)
    with launchers(1) as found:
        say(watched, found)
        assert watched.ended(SEARCH, 0) is None
        assert [each.asked for each in watched] == [["SIGTERM"]]
        assert Watcher.begun == [found[0][0]]


def test_nobody_is_kept_waiting_where_no_job_is_found(watched: jobs.Jobs) -> None:
    """Once the search has ended."""
    assert watched.ask("SIGTERM", search=True)
    say(watched, [])
    assert watched.ended(SEARCH, 0) is None
    assert not watched.are_asked


def test_jobs_are_asked_for_a_signal_a_few_at_once(watched: jobs.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until all have been sampled, or until of_second that haven't begun are given up."""
    monkeypatch.setattr(jobs, "_AT_ONCE", 2)
    with launchers(4) as found:
        search(watched, found)
        assert watched.ask("SIGTERM", search=True)
        reading: Any = [each for each in watched if each.watcher.is_reading]
        assert len(reading) == 2
        reading[0].watcher.ended(reading[0].pid, 0)
        reading[0].asked.clear()
        watched.sample_asked()
        assert sum(each.watcher.is_reading for each in watched) == 2
        watched.give_up()
        assert sum(bool(each.asked) for each in watched) == 2
