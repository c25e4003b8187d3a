"""The call tree of the page: branches that open and close, also without a script."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import NamedTuple

from mqs_dll.job.call_tree import CallNode, CallTree, PlaceKind
from mqs_dll.job.ranges import ranges
from mqs_dll.job.records import Job
from mqs_dll.report.call_words import called_from, named, often, times, unseen
from mqs_dll.report.names import titled
from mqs_dll.report.tables import ProcessSets

MAX_BRANCHES = 3000
"""More than anybody opens."""
_OPEN = 200
"""Places of a tree that is open at first."""


class _Left(NamedTuple):
    """What is still to be written: a branch, or the text that ends one."""

    node: CallNode | None
    text: str


def render(job: Job, tree: CallTree, sets: ProcessSets) -> str:
    """Return a list of branches; an empty text where there are no call stacks.

    Each has the number of its processes in ``sets``, by which the script filters.
    """
    if not tree.roots:
        return ""
    return f'<ul class="tree" id="tree">{"".join(_items(job, tree, sets))}</ul>{_unseen(job, tree)}'


def _items(job: Job, tree: CallTree, sets: ProcessSets) -> Iterator[str]:
    left = [_Left(node, "") for node in reversed(tree.roots)]
    is_open = " open" if sum(1 for _ in tree.walk()) <= _OPEN else ""
    written = left_out = 0
    while left:
        node, text = left.pop()
        if node is None:
            yield text
            continue
        if written == MAX_BRANCHES:
            left_out += 1
            continue
        written += 1
        chain = [node]
        while len(chain[-1].children) == 1 and chain[-1].children[0].members == node.members:
            chain += chain[-1].children
        first, *rest = map(_place, chain)
        head = f"{first} {_who(job, node)}"
        yield f'<li data-set="{sets.number(node.processes)}">'
        if not rest and not chain[-1].children:
            yield f'<div class="place">{head}</div></li>'
            continue
        yield f'<details{is_open}><summary class="place">{head}</summary>'
        yield from (f'<div class="place">{each}</div>' for each in rest)
        end = "</details></li>"
        if chain[-1].children:
            yield "<ul>"
            end = f"</ul>{end}"
        left.append(_Left(None, end))
        left += [_Left(child, "") for child in reversed(chain[-1].children)]
    if left_out:
        yield f'<li class="hint">{left_out} more branches are left out; --tree prints them.</li>'


def _place(node: CallNode) -> str:
    site = called_from(node.place)
    of_mpi = " mpi" if node.place.kind is PlaceKind.MPI_CALL else ""
    name = f'<span class="function{of_mpi}">{html.escape(named(node.place) + times(node))}</span>'
    return f'{name} <span class="site">{html.escape(site)}</span>' if site else name


def _who(job: Job, node: CallNode) -> str:
    """Return who was there; a button, by which the script filters graph and tables where all have a rank."""
    found = []
    for group in node.members:
        known = [job.processes[process].rank for process in group.processes]
        text = html.escape(f"{titled(job, group.processes)}{often(group)}")
        if None in known:
            found.append(f'<span class="who">{text}</span>')
        else:
            numbers = ranges([rank for rank in known if rank is not None], most=None).strip("[]")
            found.append(f'<button type="button" class="who" data-ranks="{numbers}">{text}</button>')
    return " ".join(found)


def _unseen(job: Job, tree: CallTree) -> str:
    return "".join(f'<p class="hint">{html.escape(sentence)}</p>' for sentence in unseen(job, tree))
