"""Which nodes processes run on, as people write them: "node[1-4,7]"; ``ranges`` knows numbers alone, and no job."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mqs_dll.job.ranges import MAX_RUNS, intervals
from mqs_dll.job.records import Job

ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*")
"""What is an address, not a name."""

_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9.]*(?:\..*)?)")
"""A name before its last number, that number, and the rest, to which the domain belongs."""


def fold(names: Iterable[str], most: int | None = None) -> str:
    """Return names of nodes, those that differ in a number together: "node[1-4,7],login".

    Args:
        names: in any order; addresses stand alone.
        most: parts of a bracket to show; of more the first are shown, and how many nodes there are in all; None shows
            every one.
    """
    families: dict[tuple[str, str, int], set[int]] = {}
    single = []
    for name in dict.fromkeys(names):
        match = _NUMBERED.fullmatch(name)
        if match is None or ADDRESS.fullmatch(name):
            single.append(name)
            continue
        width = len(match[2]) if match[2][0] == "0" < match[2] else 0  # "n01" is another name than "n1"
        families.setdefault((match[1], match[3], width), set()).add(int(match[2]))
    folded = [f"{before}{_numbers(found, width, most)}{after}" for (before, after, width), found in families.items()]
    return ",".join((*folded, *single))


def _numbers(found: set[int], width: int, most: int | None) -> str:
    """Return numbers in brackets, "[1-4,7]"; a single one without."""
    runs = [
        f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"
        for first, last in intervals(found)
    ]
    if most is not None and len(runs) > most:
        runs[most:] = [f"... {len(found)} in all"]
    return runs[0] if len(found) == 1 else f"[{','.join(runs)}]"


def several(job: Job) -> bool:
    """Return whether the processes of a job run on several nodes, as far as that is known."""
    return len({process.host for process in job.processes if process.host}) > 1


def nodes_of(job: Job, processes: Iterable[int]) -> str:
    """Return the nodes of processes; empty where none is known."""
    return fold((host for process in processes if (host := job.processes[process].host)), MAX_RUNS)
