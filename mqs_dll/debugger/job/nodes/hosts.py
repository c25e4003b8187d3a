"""Names of nodes: from a user, by ClusterShell's sets; from launchers and agents, as data that may be anything."""

from __future__ import annotations

import glob
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mqs_dll.errors import NodesError

MOST = 1 << 16
"""Nodes of a job: more than any machine has."""

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,252}[A-Za-z0-9_])?")
_ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*")
_RANGES = re.compile(r"\[([0-9,/-]{1,5000})\]")


def is_here(name: str) -> bool:
    """Tell whether a name, or an address, is this machine's."""
    return name == "localhost" or short(name) == short(socket.gethostname()) or _is_own_address(name)


def _is_own_address(name: str) -> bool:
    """Tell whether something is an address of this machine: only to those may a socket be bound."""
    if not _ADDRESS.fullmatch(name):
        return False
    try:
        with socket.socket(socket.AF_INET6 if ":" in name else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((name, 0))
    except OSError:
        return False
    return True


def short(name: str) -> str:
    """Return a name as it tells nodes apart: without the domain, an address as it is."""
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0].lower()


def checked(name: str) -> str | None:
    """Return a name that may stand in a command: an address's own name where it has one; None for anything else."""
    if not _NAME.fullmatch(name):
        return None
    if _ADDRESS.fullmatch(name):
        with suppress(OSError):
            found = socket.gethostbyaddr(name)[0]
            return found if _NAME.fullmatch(found) else None
    return name


def chosen(text: str) -> list[str]:
    """Return the nodes of a set that a user has written: "n[1-4,7]", "@group", "n1,n2".

    Raises:
        NodesError: it is none, nothing is in it, or ClusterShell isn't installed.
    """
    try:
        return _checked_all(_node_set(text), text)
    except ValueError as error:
        raise NodesError(f"{text!r} is no set of nodes: {error}") from None


def of_path(text: str) -> tuple[str, str]:
    """Return the nodes and the path of "n[1-4]:/tmp/core.*"; no nodes of a path, or a pattern, of this machine."""
    nodes, _, path = text.partition(":")
    if "/" in nodes or not path.startswith("/") or Path(text).exists() or glob.glob(text):  # noqa: PTH207
        return "", text
    return nodes, path


def of_file(path: str) -> list[str]:
    """Return the nodes of a host file: the first word of each line, as Open MPI, MPICH and PBS write them.

    Raises:
        NodesError: it can't be read, or there is nothing or something else in it.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise NodesError(f"the host file {path} can't be read: {error}") from None
    words = [line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return _checked_all((word.partition(":")[0].partition("=")[0] for word in words), path)


def named(names: Iterable[str]) -> Iterator[str]:
    """Yield the nodes that launchers and agents name, each for itself or as a list of Slurm's; others are left out."""
    for name in names:
        if "[" not in name and "," not in name:
            found = checked(name)
            if found is not None:
                yield found
        elif _count(name) <= MOST:
            with suppress(ValueError, NodesError):
                yield from filter(None, map(checked, _node_set(name)))


def fold(names: Iterable[str]) -> str:
    """Return nodes as a set: "n[1-4,7]"."""
    return str(_engine().NodeSet.fromlist(list(names)))


def _checked_all(names: Iterable[str], source: str) -> list[str]:
    found = dict.fromkeys(names)
    for name in found:
        if not _NAME.fullmatch(name):
            raise NodesError(f"{name!r} is no name of a node")
    if not found:  # ClusterShell has it that a group that nobody knows is empty
        raise NodesError(f"{source} names no node")
    return list(found)


def _node_set(text: str) -> list[str]:
    """Return the nodes of a set.

    Raises:
        ValueError: it is none.
    """
    engine = _engine()
    try:
        nodes: Any = engine.NodeSet(text)
    except engine.NodeSetException as error:
        raise ValueError(str(error)) from None
    return list(nodes)


def _engine() -> Any:
    try:
        import ClusterShell.NodeSet as engine
    except ImportError as error:
        raise NodesError(f"ClusterShell, which knows sets of nodes, can't be imported: {error}") from None
    return engine


def _count(text: str) -> int:
    """Return at most how many nodes a list of Slurm's has; more than MOST where that can't be told."""
    count = 1
    for ranges in _RANGES.findall(text):
        total = 0
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            if not (first.isdigit() and (last or first).isdigit()):
                return MOST + 1
            total += max(int(last or first) - int(first) + 1, 1)
        count *= total
    return count + text.count(",") if "[" not in _RANGES.sub("", text) else MOST + 1
