"""Names of nodes: from a user, by ClusterShell's sets; from a job and from agents, as text that may be anything.

ClusterShell expands "@group" by a command of the shell, and takes the time of their square for names with two numbers.
So only what the user writes gets there. What a job says is parsed here, in Slurm's notation, and bounded.
"""

from __future__ import annotations

import glob
import itertools
import math
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mqs_dll.contract.errors import NodesError
from mqs_dll.job.node_names import ADDRESS

MOST = 1 << 16
"""Nodes of a job: more than any machine has."""

_LONGEST = 1 << 17
"""Characters of a list of nodes: the kernel gives no program a longer variable."""

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,252}[A-Za-z0-9_])?")
_MAX_NAME_LENGTH = 254
_MAX_RANGES = 8
"""In one item of a list: Slurm's own have as many as its network has dimensions."""
_MAX_OF_SLURM = 1 << 24
"""Characters that squeue may print: the names of MOST nodes, none of them folded."""
_LIST = re.compile(r"(?:[A-Za-z0-9_.:,-]|\[[0-9,-]+\])+")
_ITEM = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_RANGES = re.compile(r"\[([^\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def is_here(name: str) -> bool:
    """Return whether a name, or an address, is this machine's."""
    return name == "localhost" or short(name) == short(socket.gethostname()) or _is_own_address(name)


def _is_own_address(name: str) -> bool:
    """Return whether something is an address of this machine: only to those may a socket be bound."""
    if not ADDRESS.fullmatch(name):
        return False
    try:
        with socket.socket(socket.AF_INET6 if ":" in name else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((name, 0))
    except OSError:
        return False
    return True


def short(name: str) -> str:
    """Return a name as it distinguishes nodes: without the domain, an address as it is."""
    return name if ADDRESS.fullmatch(name) else name.partition(".")[0].lower()


def checked(name: str) -> str | None:
    """Return a name that may stand in a command: an address's own name where it has one; None for anything else."""
    if not _NAME.fullmatch(name):
        return None
    if ADDRESS.fullmatch(name):
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


class JobNodes:
    """Names the nodes that a job's own texts name, no more than MOST over all of them.

    The texts come from a process of the job, its launcher or an agent, so that anybody may have written them.
    """

    def __init__(self) -> None:
        """Initialize with none."""
        self._left = MOST
        self._seen: set[str] = set()

    def named(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the nodes that texts name, each a name or a list of Slurm's; texts that came before are left out.

        So is what is no name, and a list of more nodes than are left: nothing is expanded before it was counted.
        """
        for text in texts:
            if text in self._seen or len(text) > _LONGEST or not _LIST.fullmatch(text):
                continue
            count = _count(text)
            if count <= self._left:
                self._left -= count
                self._seen.add(text)
                yield from filter(None, map(checked, _expanded(text)))


def named(texts: Iterable[str]) -> Iterator[str]:
    """Yield the nodes that a job's texts name (JobNodes.named)."""
    return JobNodes().named(texts)


def of_slurm(text: str) -> list[str]:
    """Return the nodes of a list that Slurm's commands have printed.

    Raises:
        NodesError: it is none, or nothing is in it.
    """
    if len(text) > _MAX_OF_SLURM or not _LIST.fullmatch(text) or _count(text) > MOST:
        raise NodesError(f"{text[:100]!r} is no list of nodes")
    return _checked_all(_expanded(text), "Slurm")


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
    """Return how many nodes a list of Slurm's has, 1 for none; more than MOST where it is no such list."""
    total = 0
    for item in _ITEM.findall(text):
        ranges = _RANGES.findall(item)
        if len(ranges) > _MAX_RANGES or len(_RANGES.sub("", item)) > _MAX_NAME_LENGTH:
            return MOST + 1
        count = math.prod(sum(map(_length, each.split(","))) for each in ranges)
        total += count
        if total > MOST:
            break
    return max(total, 1)


def _expanded(text: str) -> Iterator[str]:
    """Yield the names of a list of Slurm's, "n[08-10],login", which was matched and counted before."""
    for item in _ITEM.findall(text):
        pieces = _RANGES.split(item)  # text, ranges, text, ..., text
        for numbers in itertools.product(*map(_numbers, pieces[1::2])):
            yield pieces[0] + "".join(f"{number}{after}" for number, after in zip(numbers, pieces[2::2], strict=True))


def _length(part: str) -> int:
    match = _RANGE.fullmatch(part)
    length = int(match[2] or match[1]) - int(match[1]) + 1 if match else 0
    return length if length > 0 else MOST + 1


def _numbers(ranges: str) -> list[str]:
    """Return the numbers of "08-10,12", each as long as the first of its range."""
    found: list[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        found.extend(f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1))
    return found
