"""The graph as SVG for a page of HTML, laid out here: no Graphviz is needed, and no script to draw it."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mqs_dll.report.layout import layout
from mqs_dll.report.layout.boxes import Edge, Layout, Point, Route, Size
from mqs_dll.report.picture import Arrow, Node, Picture, Shape, folded
from mqs_dll.verdict.results import Certainty

_CHARACTER = 7.3
"""Pixels of one in the page's fixed-width font of 12 pixels; fonts differ by some percent."""

_LINE = 16.0
"""Pixels from one line of text to the next."""

_MARGIN: Size = (12.0, 8.0)
"""Between a box and its text."""

_CORNER = 9.0
"""How much is cut off the corners of an octagon."""

_LONGEST = 40
"""Characters of a label's line; the rest is seen when the mouse is over it."""


def draw(picture: Picture) -> str:
    """Return an <svg> element; its groups have the places of arrows and nodes as data-arrow and data-node."""
    boxes = [_Box.of(node) for node in picture.nodes]
    labels = [_label(arrow) for arrow in picture.arrows]
    edges = [
        Edge(arrow.source, arrow.target, _size(label)) for arrow, label in zip(picture.arrows, labels, strict=True)
    ]
    places = layout([box.size for box in boxes], edges)
    width, height = places.size
    parts = [
        f'<svg id="graph" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        ' role="group" aria-label="Graph of who waits for whom; the tables below say the same">',
        _heads(),
        *map(_arrow, range(len(edges)), picture.arrows, labels, places.routes, [places] * len(edges)),
        *map(_node, range(len(boxes)), picture.nodes, boxes, places.boxes),
        "</svg>",
    ]
    return "\n".join(parts)


def sample(certainty: Certainty) -> str:
    """Return a short arrow for a legend."""
    line = f'<path class="line" d="M2 9H46" marker-end="url(#head-{certainty.value})"/>'
    return _sample("arrow", certainty.value, line)


def sample_of_shape(shape: Shape) -> str:
    """Return a small box for a legend."""
    outline = _outline(shape, (26.0, 9.0), (40.0, 14.0), 4.0)
    return _sample("node", _CLASSES[shape], outline)


def _sample(kind: str, of: str, content: str) -> str:
    return f'<svg class="sample" width="52" height="18" aria-hidden="true"><g class="{kind} {of}">{content}</g></svg>'


# ---------------------------------------------------------------- text


def _width(text: str) -> float:
    return _CHARACTER * sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _size(lines: Sequence[str]) -> Size:
    return max(map(_width, lines), default=0.0), _LINE * len(lines)


def _label(arrow: Arrow) -> list[str]:
    return [line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…" for line in arrow.lines()]


def _texts(lines: Iterable[str], corner: Point, anchor: str) -> Iterator[str]:
    x, y = corner
    for number, line in enumerate(lines):
        base = y + _LINE * (number + 0.75)
        yield f'<text x="{x:.1f}" y="{base:.1f}" text-anchor="{anchor}">{html.escape(line)}</text>'


# ---------------------------------------------------------------- nodes


@dataclass(frozen=True, slots=True)
class _Box:
    title: list[str]
    lines: list[str]
    size: Size

    @staticmethod
    def of(node: Node) -> _Box:
        """Return the text of a node in lines, and what room it needs."""
        title = folded(node.title, 30)
        lines = [part for line in node.lines for part in folded(line, 30)]
        width, height = _size([*title, *lines])
        return _Box(title, lines, (width * 1.04 + 2 * _MARGIN[0], height + 2 * _MARGIN[1]))


_CLASSES = {
    Shape.RANK: "rank",
    Shape.GONE: "gone",
    Shape.UNREAD: "unread",
    Shape.ANY: "any",
    Shape.ALL: "all",
    Shape.UNKNOWN: "unknown",
}


def _node(number: int, node: Node, box: _Box, centre: Point) -> str:
    x, y = centre[0], centre[1] - box.size[1] / 2 + _MARGIN[1]
    certainty = node.certainty.value if node.certainty else "free"
    words = html.escape(", ".join((node.title, *node.lines)))
    return "".join(
        (
            f'<g class="node {_CLASSES[node.shape]} {certainty}" data-node="{number}"><title>{words}</title>',
            _outline(node.shape, centre, box.size, 6.0),
            '<g class="title">',
            *_texts(box.title, (x, y), "middle"),
            "</g>",
            *_texts(box.lines, (x, y + _LINE * len(box.title)), "middle"),
            "</g>",
        )
    )


def _outline(shape: Shape, centre: Point, size: Size, corner: float) -> str:
    (x, y), (width, height) = centre, size
    left, top, right, bottom = x - width / 2, y - height / 2, x + width / 2, y + height / 2
    if shape is Shape.GONE:
        cut = corner * 1.5
        points = (
            (left + cut, top), (right - cut, top), (right, top + cut), (right, bottom - cut),
            (right - cut, bottom), (left + cut, bottom), (left, bottom - cut), (left, top + cut),
        )  # fmt: skip
        return f'<polygon class="box" points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in points)}"/>'
    radius = corner if shape in (Shape.RANK, Shape.UNREAD) else min(width, height, 40.0) * 0.4
    outline = _rectangle(left, top, width, height, radius)
    return outline + _rectangle(left + 3, top + 3, width - 6, height - 6, radius - 3) if shape is Shape.ALL else outline


def _rectangle(left: float, top: float, width: float, height: float, radius: float) -> str:
    return (
        f'<rect class="box" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}"/>'
    )


# ---------------------------------------------------------------- arrows


def _heads() -> str:
    heads = (
        f'<marker id="head-{certainty.value}" class="head {certainty.value}" viewBox="0 0 10 10" refX="9" refY="5"'
        ' markerWidth="11" markerHeight="11" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        '<path d="M0 0L10 5L0 10z"/></marker>'
        for certainty in Certainty
    )
    return f"<defs>{''.join(heads)}</defs>"


def _arrow(number: int, arrow: Arrow, label: Sequence[str], route: Route, places: Layout) -> str:
    x, y = route.label
    anchor = "start"
    if not places.down:  # above the arrow, in the middle of what is free
        x, anchor = x + _size(label)[0] / 2, "middle"
    words = html.escape(", ".join(arrow.lines()))
    head = f"url(#head-{arrow.certainty.value})"
    return "".join(
        (
            f'<g class="arrow {arrow.certainty.value}" data-arrow="{number}"><title>{words}</title>',
            f'<path class="line" d="{_path(route.points, places.down)}" marker-end="{head}"/>',
            *_texts(label, (x, y), anchor),
            "</g>",
        )
    )


def _path(points: Sequence[Point], down: bool) -> str:
    """Return the path: straight lines, and between them curves that leave and arrive along the lines."""
    steps = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        if number % 2 == 0:
            steps.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            bends = (
                ((x, (y + to_y) / 2), (to_x, (y + to_y) / 2)) if down else (((x + to_x) / 2, y), ((x + to_x) / 2, to_y))
            )
            steps.append("C" + " ".join(f"{bx:.1f} {by:.1f}" for bx, by in (*bends, (to_x, to_y))))
    return "".join(steps)
