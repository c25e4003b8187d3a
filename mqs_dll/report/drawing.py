"""The graph as SVG, laid out here: the page of HTML shows it as it is, svg.py makes a document of it."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise

from mqs_dll.report.layout import layout
from mqs_dll.report.layout.boxes import Edge, PlacedBoxes, Point, Route, Size
from mqs_dll.report.picture import Arrow, Node, Picture, Shape, folded
from mqs_dll.report.words import SURE
from mqs_dll.verdict.results import Certainty

_CHARACTER = 7.3
"""Pixels of one in the page's fixed-width font of 12 pixels; fonts differ by some percent."""

LINE = 16.0
"""Pixels from one line of text to the next."""

_MARGIN: Size = (12.0, 8.0)
"""Between a box and its text."""

_CORNER = 9.0
"""How much is cut off the corners of an octagon."""

SAMPLE: Size = (52.0, 18.0)
"""Of an arrow or a box in the legend."""

_MAX_LENGTH = 40
"""Characters of a label's line; the rest is seen when the mouse is over it."""


def draw(picture: Picture) -> str:
    """Return an <svg> element; its groups have the places of arrows and nodes as data-arrow and data-node."""
    (width, height), parts = drawn(picture)
    return "\n".join(
        (
            f'<svg id="graph" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
            ' role="group" aria-label="Graph of who waits for whom; the tables below say the same">',
            *parts,
            "</svg>",
        )
    )


def asset(name: str) -> str:
    """Return the text of a file of styles, of the script, or of the page."""
    return files("mqs_dll.report").joinpath(name).read_text(encoding="utf-8")


def drawn(picture: Picture) -> tuple[Size, list[str]]:
    """Return how large the graph is, and what stands in the <svg> element."""
    boxes = [_Box.of(node) for node in picture.nodes]
    labels = [_label(arrow) for arrow in picture.arrows]
    edges = [
        Edge(arrow.source, arrow.target, size_of(label)) for arrow, label in zip(picture.arrows, labels, strict=True)
    ]
    places = layout([box.size for box in boxes], edges)
    return places.size, [
        _heads(),
        *map(_arrow, range(len(edges)), picture.arrows, labels, places.routes, [places] * len(edges)),
        *map(_node, range(len(boxes)), picture.nodes, boxes, places.boxes),
    ]


def legend(picture: Picture) -> Iterator[tuple[str, str]]:
    """Yield a short arrow or a small box, in an <svg> element, and what it means: of those that the picture has."""
    for certainty in Certainty:
        if any(arrow.certainty is certainty for arrow in picture.arrows):
            line = f'<path class="line" d="M2 9H46" marker-end="url(#head-{certainty.value})"/>'
            yield _sample("arrow", certainty.value, line), SURE[certainty].meaning
    for shape in Shape:
        if shape is not Shape.RANK and any(node.shape is shape for node in picture.nodes):
            yield _sample("node", _CLASSES[shape], _outline(shape, (26.0, 9.0), (40.0, 14.0), 4.0)), shape.value


def _sample(kind: str, of: str, content: str) -> str:
    width, height = SAMPLE
    return (
        f'<svg class="sample" width="{width:.0f}" height="{height:.0f}" aria-hidden="true">'
        f'<g class="{kind} {of}">{content}</g></svg>'
    )


# ---------------------------------------------------------------- text


def _width(text: str) -> float:
    return _CHARACTER * sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def size_of(lines: Sequence[str]) -> Size:
    """Return the width and height of lines of text, in pixels."""
    return max(map(_width, lines), default=0.0), LINE * len(lines)


def _label(arrow: Arrow) -> list[str]:
    return [line if len(line) <= _MAX_LENGTH else line[: _MAX_LENGTH - 1] + "…" for line in arrow.lines()]


def texts(lines: Iterable[str], corner: Point, anchor: str) -> Iterator[str]:
    """Yield a <text> element for each line, from an upper corner on; anchor: start, or middle of the lines."""
    x, y = corner
    for number, line in enumerate(lines):
        base = y + LINE * (number + 0.75)
        yield f'<text x="{x:.1f}" y="{base:.1f}" text-anchor="{anchor}">{html.escape(line)}</text>'


# ---------------------------------------------------------------- nodes


@dataclass(frozen=True, slots=True)
class _Box:
    title: list[str]
    lines: list[str]
    size: Size

    @staticmethod
    def of(node: Node) -> _Box:
        """Return the text of a node in lines, and the space that it needs."""
        title = folded(node.title, 30)
        lines = [part for line in node.lines for part in folded(line, 30)]
        width, height = size_of([*title, *lines])
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
            *texts(box.title, (x, y), "middle"),
            "</g>",
            *texts(box.lines, (x, y + LINE * len(box.title)), "middle"),
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


def _arrow(number: int, arrow: Arrow, label: Sequence[str], route: Route, places: PlacedBoxes) -> str:
    x, y = route.label
    anchor = "start"
    if not places.down:  # above the arrow, in the middle of what is free
        x, anchor = x + size_of(label)[0] / 2, "middle"
    words = html.escape(", ".join(arrow.lines()))
    head = f"url(#head-{arrow.certainty.value})"
    return "".join(
        (
            f'<g class="arrow {arrow.certainty.value}" data-arrow="{number}"><title>{words}</title>',
            f'<path class="line" d="{_path(route.points, places.down)}" marker-end="{head}"/>',
            *texts(label, (x, y), anchor),
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
