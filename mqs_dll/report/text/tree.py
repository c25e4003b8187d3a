"""The call tree of a job as lines, which are indented only where paths part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mqs_dll.job.call_tree import CallNode, CallTree, Members, call_tree
from mqs_dll.job.records import Job
from mqs_dll.report.call_words import called_from, named, often, times, unseen
from mqs_dll.report.names import name_many, titled
from mqs_dll.report.terminal import indented

_FEW = 6
"""Paths that are all shown in the short form."""
_RARE = 10
"""A path of fewer than one in so many ranks is shown in the short form, as far as there is room."""
_MAX_SHORT = 6
"""Paths of the short form."""
_MAX_CHAIN = 8
"""Functions of the short form below one another; of more the middle is left out."""
_MAX_LEAD = 24
"""Columns of indentation from which on the way that most ranks take goes straight down."""


class _Line(NamedTuple):
    guides: str
    what: str
    where: str
    who: str


def parts(job: Job, *, all_frames: bool = False) -> Iterator[RenderableType]:
    """Yield the whole tree with its title, and who isn't in it."""
    tree = call_tree(job, all_frames=all_frames)
    yield from _parts(job, tree, tree.roots)


def short_parts(job: Job) -> Iterator[RenderableType]:
    """Yield the path of most ranks and those of few, or all where there are few; nothing without call stacks."""
    tree = call_tree(job)
    if not tree.roots:
        return
    leaves = sorted((node for _, node in tree.walk() if not node.children), key=lambda node: len(node.processes))
    if len(leaves) > _FEW:
        rare = [node for node in leaves[:-1] if len(node.processes) * _RARE < len(job.processes)]
        shown = [*rare[: _MAX_SHORT - 1], leaves[-1]]
    else:
        shown = leaves
    yield from _parts(job, tree, _leading_to(tree.roots, frozenset(map(id, shown))), max_chain=_MAX_CHAIN)
    if len(shown) < len(leaves):
        kept = set(map(id, shown))
        rest = sorted({process for node in leaves if id(node) not in kept for process in node.processes})
        paths = "path" if len(leaves) - len(shown) == 1 else "paths"
        more = f"and {len(leaves) - len(shown)} more {paths} (--tree shows all): {titled(job, rest)}"
        yield indented(Text(more))


def _leading_to(nodes: Sequence[CallNode], leaves: frozenset[int]) -> tuple[CallNode, ...]:
    """Return nodes without those that lead to none of some leaves, which are given by their id()."""
    found = []
    for node in nodes:
        if id(node) in leaves:
            found.append(node)
        elif children := _leading_to(node.children, leaves):
            found.append(replace(node, children=children))
    return tuple(found)


def _parts(
    job: Job, tree: CallTree, roots: Sequence[CallNode], *, max_chain: int | None = None
) -> Iterator[RenderableType]:
    yield Text("\nCall tree", style="bold")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for widest in (None, 40, 36):
        table.add_column(overflow="fold", max_width=widest)
    for root in roots:
        for line in _branch(job, root, "", "", (), max_chain):
            table.add_row(Text(line.guides + line.what), Text(line.where, style="dim"), Text(line.who))
    yield indented(table)
    if not tree.roots:
        yield indented(Text("no call stack was read"))
    for sentence in unseen(job, tree):
        yield indented(Text(sentence, style="yellow"))


# ---------------------------------------------------------------- lines


def _branch(
    job: Job, node: CallNode, first: str, later: str, above: tuple[Members, ...], max_chain: int | None
) -> Iterator[_Line]:
    """Yield a node and what follows: below it as long as all go the same way, then a branch for each way.

    Args:
        job: what was read.
        node: the node.
        first: what stands before its line.
        later: what stands before the lines below it.
        above: who was in the line above.
        max_chain: how many of these lines there may be before the branches; None for all.
    """
    chain = [node]
    while len(chain[-1].children) == 1:
        chain += chain[-1].children
    shown: list[CallNode | int] = [*chain]
    if max_chain is not None and len(chain) > max_chain:
        half = max_chain // 2
        shown[half:-half] = [len(chain) - 2 * half]
    for each in shown:
        if isinstance(each, int):
            yield _Line(later, f"({each} functions)", "", "")
            continue
        yield _line(job, each, first, above)
        first, above = later, each.members
    *branches, last = chain[-1].children or (None,)
    if last is not None and len(later) > _MAX_LEAD:  # the largest is the first of them
        last, *branches = chain[-1].children
    for child in branches:
        assert child is not None
        yield from _branch(job, child, f"{later}├─ ", f"{later}│  ", above, max_chain)
    if last is not None:
        ahead = (later, later) if len(later) > _MAX_LEAD else (f"{later}└─ ", f"{later}   ")
        yield from _branch(job, last, *ahead, above, max_chain)


def _line(job: Job, node: CallNode, lead: str, above: tuple[Members, ...]) -> _Line:
    who = "" if node.members == above else "; ".join(_who(job, group) for group in node.members)
    return _Line(lead, named(node.place) + times(node), called_from(node.place), who)


def _who(job: Job, group: Members) -> str:
    ranks = name_many(job, group.processes)
    return (ranks if len(group.processes) == 1 else f"{len(group.processes)}: {ranks}") + often(group)
