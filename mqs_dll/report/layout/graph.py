"""A graph in rows: boxes, what arrows occupy in between, and from their places the arrows' routes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from mqs_dll.report.layout.boxes import Edge, PlacedBoxes, Point, Route, Size, rows_of_boxes
from mqs_dll.report.layout.spacing import GAP, Item, order, space_out

_ARROW_SPACE = 42.0
"""Pixels between rows."""

_STRAIGHT = 15.0
"""Pixels for which an arrow leaves and meets its box straight, so that its head points at the box."""

_LABEL_GAP = 5.0
"""Pixels between an arrow and its label."""

_LOOP = 26.0
"""How far an arrow from a box to itself reaches out."""

_STRAIGHTNESS = 3
"""How much more the middle of an arrow is drawn to its neighbours than a box is."""

_CORNER = 8.0
"""Pixels of a side, at each end, that no arrow starts from."""

_PORT_GAP = 16.0
"""Pixels between arrows at a box."""


class Rows:
    """The graph while it is being laid out."""

    def __init__(self, boxes: Sequence[Size], edges: Sequence[Edge], down: bool) -> None:
        self._sizes = boxes
        self._edges = edges
        self._down = down
        row_of = [2 * row for row in rows_of_boxes(len(boxes), edges)]
        self._rows: list[list[Item]] = [[] for _ in range(max(row_of, default=0) + 1)]
        self._loops: list[list[int]] = [[] for _ in boxes]
        for number, edge in enumerate(edges):
            if edge.source == edge.target:
                self._loops[edge.source].append(number)
        self._boxes = [self._placed_in(row, self._box(number)) for number, row in enumerate(row_of)]
        self._chains = [self._chain(edge) for edge in edges]
        self._lengths = [max((item.length for item in row), default=0.0) for row in self._rows]
        space = [0.0, *(length + _ARROW_SPACE for length in self._lengths)]
        self._starts = [_ARROW_SPACE / 2 + start for start in accumulate(space)]

    def placed(self) -> PlacedBoxes:
        """Order the rows, space them out, and draw the arrows."""
        order(self._rows)
        space_out(self._rows)
        left = min((item.position - item.before for row in self._rows for item in row), default=0.0) - GAP
        for item in (item for row in self._rows for item in row):
            item.position -= left
        across = max((item.position + item.after for row in self._rows for item in row), default=0.0) + GAP
        centres = tuple(self._turned(self._middle(item.row), item.position) for item in self._boxes)
        return PlacedBoxes(self._turned(self._starts[-1], across), centres, tuple(self._routes()), self._down)

    def _turned(self, along: float, across: float) -> Point:
        return (across, along) if self._down else (along, across)

    def _middle(self, row: int) -> float:
        return self._starts[row] + self._lengths[row] / 2

    def _placed_in(self, row: int, item: Item) -> Item:
        item.row = row
        self._rows[row].append(item)
        return item

    def _box(self, number: int) -> Item:
        length, across = self._turned(*self._sizes[number])
        before = after = across / 2
        labels = [self._turned(*self._edges[loop].label) for loop in self._loops[number]]
        if labels:
            length = max(length, sum(along for along, _ in labels) + GAP * (len(labels) - 1))
            outside = _LOOP + _LABEL_GAP + max(across for _, across in labels)
            before, after = (before, after + outside) if self._down else (before + outside, after)
        return Item(length, before, after)

    def _chain(self, edge: Edge) -> list[Item]:
        """Return what an arrow is made of, from box to box; the label is in a row between boxes."""
        source, target = self._boxes[edge.source], self._boxes[edge.target]
        step = 1 if source.row < target.row else -1
        labelled = (source.row + target.row) // 2 | 1
        chain = [source]
        for row in range(source.row + step, target.row, step):
            item = (
                self._label(edge.label) if row == labelled else Item(0.0, _LABEL_GAP, _LABEL_GAP, weight=_STRAIGHTNESS)
            )
            chain.append(self._placed_in(row, item))
        chain.append(target)
        if source is not target:
            for one, other in pairwise(chain):
                one.links.append(other)
                other.links.append(one)
        return chain

    def _label(self, size: Size) -> Item:
        """Return the place of a label: above the arrow, or to its right."""
        length, across = self._turned(*size)
        beside = across + 2 * _LABEL_GAP
        before, after = (_LABEL_GAP, beside) if self._down else (beside, _LABEL_GAP)
        return Item(length, before, after, weight=_STRAIGHTNESS)

    # ------------------------------------------------------------ arrows

    def _routes(self) -> Iterable[Route]:
        ports = self._ports()
        for number, (edge, chain) in enumerate(zip(self._edges, self._chains, strict=True)):
            if edge.source == edge.target:
                yield self._loop(number, edge)
                continue
            forward = chain[0].row < chain[-1].row
            points = [self._border(edge.source, forward, ports[number, edge.source])]
            for item in chain[1:-1]:
                start = self._starts[item.row]
                end = start + self._lengths[item.row]
                points += [(along, item.position) for along in ((start, end) if forward else (end, start))]
            points.append(self._border(edge.target, not forward, ports[number, edge.target]))
            yield Route(
                tuple(self._turned(*point) for point in self._with_straight_ends(chain, points)), self._corner(chain)
            )

    def _border(self, box: int, forward: bool, across: float) -> Point:
        half = self._turned(*self._sizes[box])[0] / 2
        return self._middle(self._boxes[box].row) + (half if forward else -half), across

    def _with_straight_ends(self, chain: Sequence[Item], points: Sequence[Point]) -> list[Point]:
        """Lead an arrow straight out of the row of its box, past wider boxes of that row."""
        forward = chain[0].row < chain[-1].row
        (_, first), (_, last) = points[0], points[-1]
        return [
            points[0],
            (self._edge_of_row(chain[0].row, forward), first),
            *points[1:-1],
            (self._edge_of_row(chain[-1].row, not forward), last),
            points[-1],
        ]

    def _edge_of_row(self, row: int, forward: bool) -> float:
        return self._starts[row] + (self._lengths[row] + _STRAIGHT if forward else -_STRAIGHT)

    def _corner(self, chain: Sequence[Item]) -> Point:
        """Return the upper left corner of an arrow's label, centred in its row."""
        item = next(item for item in chain[1:-1] if item.length)
        along = self._middle(item.row) - item.length / 2
        across = item.position + _LABEL_GAP if self._down else item.position - item.before + _LABEL_GAP
        return self._turned(along, across)

    def _ports(self) -> dict[tuple[int, int], float]:
        """Return where, across, each arrow meets its boxes: side by side, in the order of where they come from."""
        sides: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        for number, (edge, chain) in enumerate(zip(self._edges, self._chains, strict=True)):
            if edge.source != edge.target:
                forward = chain[0].row < chain[-1].row
                sides.setdefault((edge.source, forward), []).append((chain[1].position, number))
                sides.setdefault((edge.target, not forward), []).append((chain[-2].position, number))
        ports = {}
        for (box, _), arrows in sides.items():
            space = max(self._turned(*self._sizes[box])[1] - 2 * _CORNER, 0.0)
            step = min(_PORT_GAP, space / max(len(arrows) - 1, 1))
            for place, (_, number) in enumerate(sorted(arrows)):
                ports[number, box] = self._boxes[box].position + step * (place - (len(arrows) - 1) / 2)
        return ports

    def _loop(self, number: int, edge: Edge) -> Route:
        """Lead an arrow out of its box and back: above, or to the right of it."""
        item = self._boxes[edge.source]
        labels = [self._turned(*self._edges[loop].label) for loop in self._loops[edge.source]]
        own = self._loops[edge.source].index(number)
        length = sum(along for along, _ in labels) + GAP * (len(labels) - 1)
        start = self._middle(item.row) - length / 2 + sum(along + GAP for along, _ in labels[:own])
        along, across = self._turned(*self._sizes[edge.source])
        space = along / len(labels)
        middle = self._middle(item.row) - along / 2 + space * (own + 0.5)
        half = min(space / 3, _LOOP / 2)
        side = 1 if self._down else -1
        border = item.position + side * across / 2
        outside = border + side * _LOOP
        points = [(middle - half, border), (middle - half, outside), (middle + half, outside), (middle + half, border)]
        corner = outside + _LABEL_GAP if self._down else outside - _LABEL_GAP - labels[own][1]
        return Route(tuple(self._turned(*point) for point in points), self._turned(start, corner))
