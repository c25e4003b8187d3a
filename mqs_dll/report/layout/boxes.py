"""What is to be laid out, which row each box goes into, and where all of it goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Size = tuple[float, float]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow to be placed; of source and target the places among the boxes."""

    source: int
    target: int
    label: Size


@dataclass(frozen=True, slots=True)
class Route:
    """Where an arrow goes."""

    points: tuple[Point, ...]
    """From border to border: a straight line, a curve, a straight line, ... in turns."""
    label: Point
    """The label's upper left corner."""


@dataclass(frozen=True, slots=True)
class PlacedBoxes:
    """Where everything is; x to the right, y down, from 0."""

    size: Size
    boxes: tuple[Point, ...]
    """The centre of each."""
    routes: tuple[Route, ...]
    down: bool
    """Whether rows are below each other; else they are columns."""


def rows_of_boxes(count: int, edges: Iterable[Edge]) -> list[int]:
    """Return a row for each box, by the number of arrows to what all wait for; no arrow is within a row."""
    targets: list[set[int]] = [set() for _ in range(count)]
    neighbours: list[set[int]] = [set() for _ in range(count)]
    for edge in edges:
        if edge.source != edge.target:
            targets[edge.source].add(edge.target)
            neighbours[edge.source].add(edge.target)
            neighbours[edge.target].add(edge.source)
    roots = _roots(targets)
    rows = dict.fromkeys(roots, 0)
    queue = deque(roots)
    while queue:
        box = queue.popleft()
        for other in sorted(neighbours[box] - rows.keys()):
            row = rows[box] + 1
            while row in {rows[each] for each in neighbours[other] & rows.keys()}:
                row += 1
            rows[other] = row
            queue.append(other)
    if any(not targets[root] and neighbours[root] for root in roots):  # arrows point forwards, at what all wait for
        last = max(rows.values())
        return [last - rows[box] for box in range(count)]
    return [rows[box] for box in range(count)]


def _roots(targets: Sequence[set[int]]) -> list[int]:
    """Return the first box of each set of boxes from which no arrow leads out, whether one box or a cycle."""
    reached = [_reached(box, targets) for box in range(len(targets))]
    return [
        box
        for box, others in enumerate(reached)
        if all(box in reached[other] and box <= other for other in others - {box})
    ]


def _reached(box: int, targets: Sequence[set[int]]) -> set[int]:
    reached: set[int] = set()
    pending = [box]
    while pending:
        new = targets[pending.pop()] - reached
        reached |= new
        pending.extend(new)
    return reached
