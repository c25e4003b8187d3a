"""Where in its row each item goes: few arrows cross, and the arrows are nearly straight."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

GAP = 18.0
"""Pixels between neighbours of a row."""

_SWEEPS = 12
"""To and fro through the rows; more change nothing that one sees."""


@dataclass(slots=True, eq=False)
class Item:
    """A box, or where an arrow crosses a row."""

    length: float
    """Along the arrows."""
    before: float
    """Across them, from the line on which it is placed."""
    after: float
    weight: int = 1
    """How strongly it holds its neighbours in line."""
    links: list[Item] = field(default_factory=list)
    """Its neighbours in the rows before and behind."""
    row: int = 0
    position: float = 0.0
    """Across."""


def order(rows: list[list[Item]]) -> None:
    """Sort each row so that few arrows cross: by the middle of their neighbours, to and fro; the best order stays."""
    best = [[*row] for row in rows]
    fewest = _crossings(rows)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for number in range(len(rows)) if downwards else reversed(range(len(rows))):
            before = number - 1 if downwards else number + 1
            if 0 <= before < len(rows):
                _sort_by_neighbours(rows[number], rows[before])
        crossings = _crossings(rows)
        if crossings < fewest:
            fewest, best = crossings, [[*row] for row in rows]
    rows[:] = best


def _sort_by_neighbours(row: list[Item], other: list[Item]) -> None:
    places = {item: place for place, item in enumerate(other)}

    def middle(ranked: tuple[int, Item]) -> float:
        place, item = ranked
        linked = [places[link] for link in item.links if link in places]
        return sum(linked) / len(linked) if linked else place

    row[:] = [item for _, item in sorted(enumerate(row), key=middle)]


def _crossings(rows: Sequence[Sequence[Item]]) -> int:
    crossings = 0
    for row, following in pairwise(rows):
        places = {item: place for place, item in enumerate(following)}
        passed: list[int] = []
        for item in row:
            ends = [places[link] for link in item.links if link in places]
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings


def space_out(rows: Sequence[Sequence[Item]]) -> None:
    """Set the positions: each item as near to the middle of its neighbours as its row allows."""
    for row in rows:
        _settle(row, [0.0] * len(row))
    for _ in range(_SWEEPS):
        for row in (*rows, *reversed(rows)):
            _settle(row, [_wanted(item) for item in row])


def _wanted(item: Item) -> float:
    if not item.links:
        return item.position
    weights = [item.weight * link.weight for link in item.links]
    return sum(weight * link.position for weight, link in zip(weights, item.links, strict=True)) / sum(weights)


def _settle(row: Sequence[Item], wanted: Sequence[float]) -> None:
    """Move the items of a row to where they want, but no nearer to each other than they may: least squares.

    Without the least distances between items, their positions may only rise; neighbours that want otherwise share the
    middle of what they want (the algorithm of pooled adjacent violators).
    """
    distances = [*accumulate((left.after + GAP + right.before for left, right in pairwise(row)), initial=0.0)]
    pools: list[list[float]] = []  # the sum of what its items want, and their number
    for want, distance in zip(wanted, distances, strict=False):  # of an empty row there is one distance, too
        pools.append([want - distance, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    settled = [total / count for total, count in pools for _ in range(int(count))]
    for item, position, distance in zip(row, settled, distances, strict=False):
        item.position = position + distance
