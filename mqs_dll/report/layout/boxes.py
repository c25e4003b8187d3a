"""What is to be laid out, and where it goes."""

from __future__ import annotations

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
