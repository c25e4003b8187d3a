"""Who holds the lock that a process waits for, on processes that do; docs/gallery.md has ranks that do."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mqs_dll.debugger.job.locks import lock_of
from mqs_dll.debugger.proc import read_stat
from mqs_dll.job.records import FILE_LOCK, CallStack, Lock
from tests.support.targets import wait_until

WAITS = "import fcntl, sys; fcntl.{}(open(sys.argv[1], 'w'), fcntl.LOCK_EX)"


def lock_that(pid: int) -> Lock | None:
    """Return the lock that the main thread of a process waits for, where it takes no memory to tell."""
    return lock_of(pid, CallStack(pid, None, None, None, (), ""), lambda address, size: b"")


@pytest.mark.parametrize("lock", [fcntl.flock, fcntl.lockf], ids=lambda lock: lock.__name__)
def test_the_kernel_tells_who_holds_a_file_lock(lock: Callable[..., None], tmp_path: Path) -> None:
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
