"""A job's call tree for flame graphs: "main;solve;MPI_Recv 12", in Brendan Gregg's format.

A line's number is how often ranks were seen at its end, over all samples.
"""

from __future__ import annotations

from mqs_dll.job.call_tree import CallNode, call_tree
from mqs_dll.job.records import Job
from mqs_dll.report.text.tree import words


def render(job: Job, *, all_frames: bool = False) -> str:
    """Return the lines, sorted; a semicolon in a name is a colon there, since it separates names."""
    lines: dict[str, int] = {}
    left = [(node, "") for node in call_tree(job, all_frames=all_frames).roots]
    while left:
        node, above = left.pop()
        path = f"{above}{words(node.place).replace(';', ':')}"
        ended = _seen(node) - sum(map(_seen, node.children))
        if ended > 0:
            lines[path] = lines.get(path, 0) + ended
        left += [(child, f"{path};") for child in node.children]
    return "".join(f"{path} {count}\n" for path, count in sorted(lines.items()))


def _seen(node: CallNode) -> int:
    return sum(group.seen * len(group.processes) for group in node.members)
