"""Ending a job: all of its processes, whatever they do about it, and the shared memory that they leave."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqs_dll.debugger.job import ending
from mqs_dll.debugger.proc import start_time
from tests.support.targets import wait_until

RANK = """
import mmap, os, signal, sys, time
shared = open(sys.argv[1], "r+b")
memory = mmap.mmap(shared.fileno(), 0)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "away" in sys.argv:
    os.setsid()
    if os.fork():
        os._exit(0)
open(sys.argv[2], "w").write(str(os.getpid()))
time.sleep(600)
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a file of shared memory."""
    path = Path(f"/dev/shm/mqs-test-{secrets.token_hex(8)}")
    path.write_bytes(bytes(4096))
    yield path
    path.unlink(missing_ok=True)


def started(shared: Path, place: Path, *how: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a shell with a rank below it, in the way that is said; return it, and the rank's PID."""
    shell = subprocess.Popen(
        ["sh", "-c", '"$@" & wait; sleep 600', "sh", sys.executable, "-c", RANK, shared, place, *how]
    )
    wait_until(lambda: place.exists() and place.read_text())
    return shell, int(place.read_text())


@pytest.mark.parametrize("how", [(), ("stubborn",), ("away",), ("away", "stubborn")], ids=" ".join)
def test_all_of_a_job_is_ended_with_the_memory_that_it_shares(
    how: tuple[str, ...], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a rank that SIGTERM doesn't end, and one that has left its parents."""
    monkeypatch.setattr(ending, "GRACE", 1.0)
    monkeypatch.setattr(ending, "_LAUNCHER", 0.5)
    shell, rank = started(shared, tmp_path / "pid", *how)
    process = rank, start_time(rank)
    assert ending.end(shell.pid, [process])
    assert not ending.runs(process)
    assert not shared.exists()
    assert shell.wait() < 0


def test_memory_that_somebody_else_shares_is_left(shared: Path, tmp_path: Path) -> None:
    """It may be that of another job of the same user's."""
    ours, _ = started(shared, tmp_path / "ours")
    theirs, rank = started(shared, tmp_path / "theirs")
    assert ending.end(ours.pid, ())
    assert shared.exists()
    assert ending.runs((rank, start_time(rank)))
    assert ending.end(theirs.pid, ())
    assert not shared.exists()
    for each in (ours, theirs):
        each.wait()


def test_a_process_that_has_got_another_s_number_is_left_alone(shared: Path, tmp_path: Path) -> None:
    """It was started at another time."""
    ours, _ = started(shared, tmp_path / "ours")
    theirs, rank = started(shared, tmp_path / "theirs")
    assert ending.end(ours.pid, [(rank, start_time(rank) - 1)])
    assert ending.runs((rank, start_time(rank)))
    assert ending.end(theirs.pid, ())
    for each in (ours, theirs):
        each.wait()


def test_what_a_launcher_leaves_is_ended_with_the_memory_that_it_shares(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranks alone: what has started them is left."""
    monkeypatch.setattr(ending, "GRACE", 1.0)
    monkeypatch.setattr(ending, "_LAUNCHER", 0.5)
    shell, rank = started(shared, tmp_path / "pid", "stubborn")
    assert ending.Left([(rank, start_time(rank))]).end() == 0
    assert not shared.exists()
    assert shell.poll() is None
    shell.kill()
    shell.wait()


@pytest.mark.parametrize("whose", ["another's number", "another user's"])
def test_what_is_not_the_jobs_is_left(
    whose: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was started at another time, or that belongs to another user."""
    shell, rank = started(shared, tmp_path / "pid")
    began = start_time(rank)
    with monkeypatch.context() as patch:
        if whose == "another user's":
            patch.setattr(os, "geteuid", lambda: 54321)
        assert ending.Left([(rank, began - (whose == "another's number"))]).end() == 0
    assert ending.runs((rank, began))
    assert shared.exists()
    assert ending.end(shell.pid, ())
    shell.wait()
