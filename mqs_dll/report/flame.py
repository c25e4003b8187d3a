"""A job's call tree for programs that draw flame graphs.

What a path counts is how often ranks were seen at its end, over all samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mqs_dll.contract.escape import visible
from mqs_dll.job.call_tree import CallNode, CallPlace, CallTree
from mqs_dll.job.records import Job
from mqs_dll.report.call_words import called_from, named

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def folded(tree: CallTree) -> str:
    """Return "main;solve;MPI_Recv 12" of each path, sorted: Brendan Gregg's format.

    A semicolon in a name is a colon there, since it separates names.
    """
    lines: dict[str, int] = {}
    for path, count in _paths(tree):
        line = ";".join(named(place).replace(";", ":") for place in path)
        lines[line] = lines.get(line, 0) + count
    return "".join(f"{line} {count}\n" for line, count in sorted(lines.items()))


def speedscope(job: Job, tree: CallTree) -> str:
    """Return the paths of a job's tree as speedscope's JSON, in ASCII: a profile whose unit is none."""
    numbers: dict[CallPlace, int] = {}
    samples, weights = [], []
    for path, count in _paths(tree):
        samples.append([numbers.setdefault(place, len(numbers)) for place in path])
        weights.append(count)
    profile = {"type": "sampled", "name": visible(job.title), "unit": "none", "startValue": 0, "endValue": sum(weights)}
    document = {
        "$schema": _SCHEMA,
        "name": visible(job.title),
        "exporter": "libmqs",
        "shared": {"frames": [_frame(place) for place in numbers]},
        "profiles": [{**profile, "samples": samples, "weights": weights}],
    }
    return json.dumps(document) + "\n"


def _frame(place: CallPlace) -> dict[str, Any]:
    """Return a place as speedscope has it: the line is that of the call."""
    frame: dict[str, Any] = {"name": named(place)}
    if called_from(place):
        frame |= {"file": visible(place.file or ""), "line": place.line}
    return frame


def _paths(tree: CallTree) -> Iterator[tuple[tuple[CallPlace, ...], int]]:
    """Yield each path at whose end somebody was, and how often somebody was there."""
    left: list[tuple[CallNode, tuple[CallPlace, ...]]] = [(node, ()) for node in reversed(tree.roots)]
    while left:
        node, above = left.pop()
        path = (*above, node.place)
        ended = _seen(node) - sum(map(_seen, node.children))
        if ended > 0:
            yield path, ended
        left += [(child, path) for child in reversed(node.children)]


def _seen(node: CallNode) -> int:
    return sum(group.seen * len(group.processes) for group in node.members)
