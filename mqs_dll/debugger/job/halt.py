"""What keeps a rank from running that isn't us: a signal, another debugger, or its cgroup's freezer.

Sources: proc(5), ptrace(2); cgroups(7), "/proc/pid/cgroup"; proc(5), "/proc/pid/mountinfo"; the kernel's
Documentation/admin-guide/cgroup-v2.rst ("cgroup.freeze", "cgroup.events") and cgroup-v1/freezer-subsystem.rst.
"""

from __future__ import annotations

import posixpath
import signal
from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.contract.errors import NoSuchProcessError
from mqs_dll.debugger.proc import read_file, read_status, thread_ids, turns
from mqs_dll.job.records import Halt

_BY_SIGNAL, _BY_TRACER = "T", "t"
"""States of a thread."""
_MAX_BYTES = 1 << 20
_DEEPEST = 64
"""Levels of cgroups that are walked up: a process may name any number."""


def by_signal(number: int) -> Halt | None:
    """Return the halt that a signal made, None for no signal (0)."""
    return Halt(_name(number)) if number else None


def by_cgroup(pid: int) -> Halt | None:
    """Return the halt that the freezer of a process's cgroup makes, None where it doesn't."""
    frozen = frozen_by(pid)
    return Halt("", frozen=frozen) if frozen else None


def of_running(pid: int) -> Halt | None:
    """Return what keeps a process standing that we have not stopped, None for one of which a thread may run."""
    if (frozen := by_cgroup(pid)) is not None:
        return frozen
    try:
        threads = [read_status(thread) for thread in thread_ids(pid)]
        states = {thread.state for thread in threads}
        tracers = {thread.tracer for thread in threads}
        if states == {_BY_SIGNAL}:
            return Halt("")
        if states == {_BY_TRACER} and len(tracers) == 1:
            (tracer,) = tracers
            return Halt("", tracer, read_status(tracer).name)
    except NoSuchProcessError:
        pass
    return None


def turns_of(pid: int) -> dict[int, tuple[int, ...]]:
    """Return the turns of each thread of a process: equal only where none has run, or the kernel doesn't count."""
    return {thread: turns(thread) for thread in thread_ids(pid)}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---------------------------------------------------------------- cgroups


class _Hierarchy(NamedTuple):
    """A hierarchy of cgroups that has a freezer, as it is mounted."""

    version: int
    root: str
    """The cgroup that is mounted."""
    mounted: str
    """Where."""


def frozen_by(pid: int, proc: str = "/proc") -> str:
    """Return the file by which a process is frozen; empty for one that isn't, and where that can't be determined.

    Args:
        pid: the process.
        proc: where /proc is.
    """
    for hierarchy in _hierarchies(proc):
        above = _folders(hierarchy, _cgroup_of(pid, hierarchy.version, proc))
        if hierarchy.version == 1:
            frozen = (each for each in above if _says(f"{each}/freezer.self_freezing", "1"))
            if _says(f"{next(iter(above), '')}/freezer.state", "FROZEN"):
                return f"{next(frozen, above[0])}/freezer.state"
        elif above and _says(f"{above[0]}/cgroup.events", "frozen 1"):
            frozen = (each for each in above if _says(f"{each}/cgroup.freeze", "1"))
            return f"{next(frozen, above[0])}/cgroup.freeze"
    return ""


def _hierarchies(proc: str) -> Iterator[_Hierarchy]:
    for line in _lines(f"{proc}/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            yield _Hierarchy(2, fields[3], fields[4])
        elif kind[0] == "cgroup" and "freezer" in kind[2].split(","):
            yield _Hierarchy(1, fields[3], fields[4])


def _cgroup_of(pid: int, version: int, proc: str) -> str:
    """Return the path of a process's cgroup in a hierarchy, from the root; empty where it isn't known."""
    for line in _lines(f"{proc}/{pid}/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (not controllers) if version == 2 else ("freezer" in controllers.split(",")):
            return path
    return ""


def _folders(hierarchy: _Hierarchy, path: str) -> list[str]:
    """Return the folders of a cgroup and of those above it, as far as they are mounted here; the innermost first."""
    if not path or posixpath.normpath(path) != path:  # outside of what our own cgroup namespace shows
        return []
    inside = posixpath.relpath(path, hierarchy.root)
    if inside.startswith(".."):
        return []
    names = [] if inside == "." else inside.split("/")
    lengths = range(len(names), max(0, len(names) - _DEEPEST), -1)
    return [posixpath.join(hierarchy.mounted, *names[:length]) for length in lengths]


def _says(path: str, line: str) -> bool:
    return line in _lines(path)


def _lines(path: str) -> list[str]:
    try:
        return read_file(path, _MAX_BYTES).decode(errors="surrogateescape").split("\n")
    except OSError:
        return []
