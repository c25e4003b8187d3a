"""Which nodes processes run on, as people write them: "node[1-4,7]"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mqs_dll.job.records import Job
from mqs_dll.verdict.ranges import ranges

_NUMBERED = re.compile(r"([^.]*?)(\d{1,9})([^.\d]*(?:\..*)?)")
"""A name before its last number, that number, and the rest, to which the domain belongs."""


def fold(names: Iterable[str]) -> str:
    """Return names of nodes, those that differ in a number together: "node[1-4],login"."""
    families: dict[tuple[str, str, int], set[int]] = {}
    single = []
    for name in dict.fromkeys(names):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            single.append(name)
            continue
        digits = match[2]
        width = len(digits) if digits.startswith("0") else 0  # "n01" is another name than "n1"
        families.setdefault((match[1], match[3], width), set()).add(int(digits))
    folded = [f"{before}{_numbers(found, width)}{after}" for (before, after, width), found in families.items()]
    return ",".join((*folded, *single))


def _numbers(found: set[int], width: int) -> str:
    if len(found) == 1:
        return f"{found.pop():0{width}}"
    text = ranges(found)
    return re.sub(r"(?<![\d:])\d+", lambda match: f"{int(match[0]):0{width}}", text) if width else text


def several(job: Job) -> bool:
    """Return whether the processes of a job run on several nodes, as far as that is known."""
    return len({process.host for process in job.processes if process.host}) > 1


def nodes_of(job: Job, processes: Iterable[int]) -> str:
    """Return the nodes of processes; empty where none is known."""
    return fold(host for process in processes if (host := job.processes[process].host))
