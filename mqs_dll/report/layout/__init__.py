"""Where the boxes, arrows and labels of a graph go: rows of boxes, with the labels of arrows in rows between them.

What stands in a row keeps its distance, and an arrow that crosses a row has a place of its own in it: nothing overlaps.
The rows lie across the page or, turned, down the page: whichever makes the graph fit it better.

- ``boxes``: what is to be laid out, which row each box goes into, and where all of it goes
- ``graph``: the rows with all that is in them, and the arrows' routes
- ``spacing``: where in its row each thing goes
"""

from __future__ import annotations

from collections.abc import Sequence

from mqs_dll.report.layout.boxes import Edge, PlacedBoxes, Size
from mqs_dll.report.layout.graph import Rows

PAGE = (1150.0, 700.0)
"""What a graph should fit, in pixels."""


def layout(boxes: Sequence[Size], edges: Sequence[Edge]) -> PlacedBoxes:
    """Return where boxes and arrows go so that they fit a page."""
    found = [Rows(boxes, edges, down).placed() for down in (False, True)]
    return min(found, key=lambda each: max(side / page for side, page in zip(each.size, PAGE, strict=True)))
