"""Cgroups of this machine whose processes can be frozen, for tests by root."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.targets import wait_until

FILES = {1: "freezer.state", 2: "cgroup.freeze"}
"""What freezes a cgroup, by the version of its hierarchy."""
_WORDS = {1: ("FROZEN", "THAWED"), 2: ("1", "0")}


@contextmanager
def frozen(pid: int, version: int) -> Iterator[Path]:
    """Freeze a process by a cgroup of its own, and give the file that does; at the end it goes on where it was."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    roots = [
        Path(root)
        for _, root, kind, options, *_ in mounts
        if (kind == "cgroup2" if version == 2 else kind == "cgroup" and "freezer" in options.split(","))
    ]
    if not roots or not os.access(roots[0], os.W_OK):
        pytest.skip(f"this machine lets us make no cgroup of version {version} with a freezer")
    cgroup = roots[0] / f"mqs-test-{uuid.uuid4().hex[:8]}"
    cgroup.mkdir()
    file, (freeze, thaw) = cgroup / FILES[version], _WORDS[version]
    try:
        (cgroup / "cgroup.procs").write_text(str(pid))
        file.write_text(freeze)
        wait_until(lambda: "FROZEN" in file.read_text() or "frozen 1" in _events(cgroup))
        yield file
    finally:
        file.write_text(thaw)
        (roots[0] / "cgroup.procs").write_text(str(pid))
        cgroup.rmdir()


def _events(cgroup: Path) -> str:
    events = cgroup / "cgroup.events"
    return events.read_text() if events.exists() else ""
