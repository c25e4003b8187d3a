"""Who holds the lock that a process waits for, on processes that do; docs/gallery.md has ranks that do."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from mqs_dll.debugger.job.locks import lock_of
from mqs_dll.debugger.proc import read_file, read_stat
from mqs_dll.job.records import FILE_LOCK, MUTEX, CallStack, Frame, Lock
from tests.support.containers import child_of, command, skip_without_containers
from tests.support.containers import running as container
from tests.support.targets import wait_until

WAITS = "import fcntl, sys; fcntl.{}(open(sys.argv[1], 'w'), fcntl.LOCK_EX)"
WAITS_FOR_MUTEX = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"


def lock_that(pid: int) -> Lock | None:
    """Return the lock that the main thread of a process waits for, where it takes no memory to tell."""
    return lock_of(pid, CallStack(pid, None, None, None, (), ""), lambda address, size: b"")


@pytest.mark.parametrize("lock", [fcntl.flock, fcntl.lockf], ids=lambda lock: lock.__name__)
def test_the_kernel_shows_who_holds_a_file_lock(lock: Callable[..., None], tmp_path: Path) -> None:
    """By the process, which may be none of a job; the last of several who wait is told the holder, too."""
    own = read_stat(os.getpid())
    assert own is not None
    held = Lock(FILE_LOCK, own.pid, name=own.name)
    command = [sys.executable, "-c", WAITS.format(lock.__name__), str(tmp_path / "lock")]
    with (tmp_path / "lock").open("w") as file:
        lock(file, fcntl.LOCK_EX)
        waiters = [subprocess.Popen(command) for _ in range(2)]
        try:
            wait_until(lambda: all(lock_that(each.pid) == held for each in waiters))
        finally:
            for each in waiters:
                each.kill()
                each.wait()
    assert lock_that(own.pid) is None, "it waits for none"


def test_each_file_lock_has_its_own_holder(tmp_path: Path) -> None:
    """The kernel lists all locks of the machine."""
    holds = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); input()"
    other = subprocess.Popen([sys.executable, "-c", holds, str(tmp_path / "other")], stdin=subprocess.PIPE)
    with (tmp_path / "own").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        wait_until(lambda: (tmp_path / "other").exists() and f" {other.pid} " in Path("/proc/locks").read_text())
        names = ("own", "other")
        waiters = [
            subprocess.Popen([sys.executable, "-c", WAITS.format("flock"), str(tmp_path / name)]) for name in names
        ]
        try:
            wait_until(
                lambda: [lock and lock.pid for lock in map(lock_that, pids(waiters))] == [os.getpid(), other.pid]
            )
        finally:
            for each in (*waiters, other):
                each.kill()
                each.communicate()


@pytest.mark.parametrize(
    "locks",
    [
        "1: OFDLCK ADVISORY  WRITE -1 08:01:7 0 EOF\n1: -> OFDLCK ADVISORY  WRITE {pid} 08:01:7 0 EOF\n",
        "1: FLOCK  ADVISORY  WRITE 1 08:01:7 0 EOF\n2: -> FLOCK  ADVISORY  WRITE {pid} 08:01:8 0 EOF\n",
        "1: FLOCK  ADVISORY  WRITE 1 08:01:7 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 7{pid} 08:01:7 0 EOF\n",
        "nonsense\n\n1: LEASE  ACTIVE    WRITE 1 08:01:7 0 EOF\n",
    ],
)
def test_a_file_lock_whose_holder_the_kernel_does_not_name_has_none(
    locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an open file is held by nobody in particular; another lock's holder is none of this one."""
    files = {"/proc/locks": locks.format(pid=os.getpid()).encode()}

    def read(path: str, *most: int) -> bytes:
        return read_file(path, *most) if path.endswith("/stat") else files.get(path, b"73 0x3 0x2")

    monkeypatch.setattr("mqs_dll.debugger.job.locks.read_file", read)
    assert lock_that(os.getpid()) is None


def pids(processes: Iterable[subprocess.Popen[bytes]]) -> list[int]:
    """Return the PIDs of processes."""
    return [each.pid for each in processes]


def waits_for_futex(pid: int) -> bool:
    """Return whether the main thread of a process waits on one."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith(("202 ", "98 "))


@pytest.fixture
def waiter() -> Iterator[int]:
    """Give the PID of a process whose main thread waits on a futex."""
    with subprocess.Popen([sys.executable, "-c", WAITS_FOR_MUTEX]) as child:
        try:
            wait_until(lambda: waits_for_futex(child.pid))
            yield child.pid
        finally:
            child.kill()


def mutex_of(pid: int, owner: int, function: str = "pthread_mutex_lock") -> Lock | None:
    """Return the mutex that the main thread of a process waits for, by a holder that its memory is made up to have."""
    frames = (Frame(function, "libc.so.6", None, None),)
    return lock_of(pid, CallStack(pid, None, None, None, frames, ""), lambda _, size: owner.to_bytes(size, "little"))


def test_the_holder_of_a_mutex_is_a_thread_of_its_process(waiter: int) -> None:
    """Any other number is none that is believed."""
    assert mutex_of(waiter, waiter) == Lock(MUTEX, waiter, waiter)
    assert mutex_of(waiter, os.getpid()) is None
    assert mutex_of(waiter, waiter, "__pthread_mutex_lock_full") == Lock(MUTEX, waiter, waiter)
    assert mutex_of(waiter, waiter, "sem_wait") is None, "a semaphore has no holder"


def test_the_holder_of_a_mutex_has_our_number_also_in_a_container() -> None:
    """What its memory has is the thread's number in its own PID namespace."""
    skip_without_containers(None)
    contained = command('echo ready; exec "$1" -c "$2"', sys.executable, WAITS_FOR_MUTEX, pids=True)
    with container(contained, user=None) as outer:
        pid = child_of(outer.pid)
        wait_until(lambda: waits_for_futex(pid))
        assert mutex_of(pid, 1) == Lock(MUTEX, pid, pid)
        assert mutex_of(pid, pid) is None
