"""Makes core files of running processes: gdb's, and the kernel's."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.targets import wait_until

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
AS_USUAL = 0x33
"""What /proc/PID/coredump_filter is by default: anonymous memory, and the headers of programs and libraries."""
SHARED_FILES_TOO = AS_USUAL | 0x08
ALL_BUT_OWN_MEMORY = AS_USUAL & ~0x23


def keep(pid: int, what: int) -> None:
    """Set what core files of a process will hold."""
    Path(f"/proc/{pid}/coredump_filter").write_text(hex(what))


def gcore(pid: int, path: Path) -> Path:
    """Return ``path``, a core file of a process that goes on; skips the test where there is no gcore."""
    if shutil.which("gcore") is None:
        pytest.skip("gcore is not on this machine: apt-get install gdb")
    written = path.with_name(f"{path.name}.{pid}")
    subprocess.run(
        ["gcore", "-o", str(path), str(pid)], check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    return written.rename(path)


def no_kernel_cores() -> str:
    """Say why the kernel can't be made to write core files where a test wants them; empty where it can."""
    pattern = CORE_PATTERN.read_text().strip()
    if re.search(r"[|/]", pattern):
        return f"the kernel of this machine doesn't write core files where a process runs: core_pattern is {pattern}"
    return ""


def kernel_core(pid: int, path: Path) -> Path:
    """Return ``path``, the kernel's core file of a process that runs in the test's own directory; this kills it."""
    directory = Path(f"/proc/{pid}/cwd").readlink()
    before = set(directory.iterdir())
    resource.prlimit(pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.kill(pid, signal.SIGQUIT)
    wait_until(lambda: has_ended(pid))
    (written,) = set(directory.iterdir()) - before
    return written.rename(path)


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or only waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@contextmanager
def held(pids: Iterable[int]) -> Iterator[None]:
    """Stop launchers and their daemons, so that they don't kill the other ranks when one of them ends."""
    stopped = list(pids)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
