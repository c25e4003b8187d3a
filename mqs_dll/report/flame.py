"""A job's call tree for programs that draw flame graphs.

What a path counts is how often ranks were seen at its end, over all samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mqs_dll.contract.escape import visible
from mqs_dll.job.call_tree import CallNode, Place, PlaceKind, call_tree
from mqs_dll.job.records import Job
from mqs_dll.report.text.tree import words

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def folded(job: Job, *, all_frames: bool = False) -> str:
    """Return "main;solve;MPI_Recv 12" of each path, sorted: Brendan Gregg's format.

    A semicolon in a name is a colon there, since it separates names.
    """
    lines: dict[str, int] = {}
    for path, count in _paths(job, all_frames):
        line = ";".join(words(place).replace(";", ":") for place in path)
        lines[line] = lines.get(line, 0) + count
    return "".join(f"{line} {count}\n" for line, count in sorted(lines.items()))


def speedscope(job: Job, *, all_frames: bool = False) -> str:
    """Return the paths as speedscope's JSON, in ASCII: a profile whose unit is none."""
    frames: dict[str, int] = {}
    shared: list[dict[str, Any]] = []
    samples, weights = [], []
    for path, count in _paths(job, all_frames):
        numbers = []
        for place in path:
            frame = _frame(place)
            key = json.dumps(frame)
            if key not in frames:
                frames[key] = len(shared)
                shared.append(frame)
            numbers.append(frames[key])
        samples.append(numbers)
        weights.append(count)
    profile = {"type": "sampled", "name": visible(job.title), "unit": "none", "startValue": 0, "endValue": sum(weights)}
    document = {
        "$schema": _SCHEMA,
        "name": visible(job.title),
        "exporter": "libmqs",
        "shared": {"frames": shared},
        "profiles": [{**profile, "samples": samples, "weights": weights}],
    }
    return json.dumps(document) + "\n"


def _frame(place: Place) -> dict[str, Any]:
    """Return a place as speedscope has it: the line is that of the call."""
    frame: dict[str, Any] = {"name": words(place)}
    if place.file is not None and place.line is not None and place.kind is not PlaceKind.LINE:
        frame |= {"file": visible(place.file), "line": place.line}
    return frame


def _paths(job: Job, all_frames: bool) -> Iterator[tuple[tuple[Place, ...], int]]:
    """Yield each path at whose end somebody was, and how often somebody was there."""
    left: list[tuple[CallNode, tuple[Place, ...]]] = [
        (node, ()) for node in reversed(call_tree(job, all_frames=all_frames).roots)
    ]
    while left:
        node, above = left.pop()
        path = (*above, node.place)
        ended = _seen(node) - sum(map(_seen, node.children))
        if ended > 0:
            yield path, ended
        left += [(child, path) for child in reversed(node.children)]


def _seen(node: CallNode) -> int:
    return sum(group.seen * len(group.processes) for group in node.members)
