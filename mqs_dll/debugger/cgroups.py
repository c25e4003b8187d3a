"""Which processes the freezer of their cgroup keeps from running, and the file that says so.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst ("cgroup.freeze", "cgroup.events") and
cgroup-v1/freezer-subsystem.rst; proc(5), "/proc/pid/mountinfo"; cgroups(7), "/proc/pid/cgroup".
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.debugger.proc import read_file

_MOST = 1 << 20
_DEEPEST = 64
"""Levels of cgroups that are walked up: a process may name any number."""


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
        return read_file(path, _MOST).decode(errors="surrogateescape").split("\n")
    except OSError:
        return []
