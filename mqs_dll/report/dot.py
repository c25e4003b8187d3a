"""The wait-for graph of a job in DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import Job
from mqs_dll.report.layout.boxes import Edge, rows_of_boxes
from mqs_dll.report.picture import Arrow, Node, Picture, Shape, folded, picture
from mqs_dll.report.words import SURE
from mqs_dll.verdict.results import Certainty, Verdict

_BLACK, _GREY = "#1b1b1f", "#6b6b73"
_LINES = {
    Certainty.PROVED: 'color="#b3261e", fontcolor="#b3261e", style="bold", penwidth=2.5',
    Certainty.SUSPECTED: 'color="#a15300", fontcolor="#a15300", style="dashed", penwidth=1.6',
    Certainty.NOTED: f'color="{_GREY}", fontcolor="{_GREY}", style="dotted"',
}
"""Colours and line styles both: not everybody sees colours, and paper has none."""

_BORDERS = {
    Certainty.PROVED: 'color="#b3261e", penwidth=2.5',
    Certainty.SUSPECTED: 'color="#a15300", penwidth=1.6',
    Certainty.NOTED: f'color="{_GREY}"',
    None: f'color="{_GREY}"',
}
_STYLES = {
    Shape.RANK: 'shape="box", style="rounded,filled", fillcolor="#f6f6f8"',
    Shape.GONE: 'shape="octagon", style="filled", fillcolor="#dcdce0"',
    Shape.UNREAD: 'shape="box", style="dashed"',
    Shape.ANY: 'shape="ellipse", style="solid"',
    Shape.ALL: 'shape="ellipse", peripheries=2, style="solid"',
    Shape.UNKNOWN: 'shape="ellipse", style="dotted"',
}


_LINE_NAMES = {
    Certainty.PROVED: "bold red line",
    Certainty.SUSPECTED: "dashed orange line",
    Certainty.NOTED: "dotted grey line",
}
_SHAPE_NAMES = {
    Shape.GONE: "octagon",
    Shape.UNREAD: "dashed box",
    Shape.ANY: "ellipse",
    Shape.ALL: "double ellipse",
    Shape.UNKNOWN: "dotted ellipse",
}
_FONT = 'fontname="Helvetica,Arial,sans-serif"'
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
_CENTRED, _LEFT = r"\n", r"\l"
"""How a line of a label ends, and where it stands."""


_MAX_COLUMNS = 6
"""With their labels between them that is about the width of a screen."""


def render(job: Job, verdict: Verdict) -> str:
    """Return the graph of who waits for whom; `dot -Tsvg` and others draw it."""
    drawn = picture(job, verdict)
    return "\n".join(("digraph mqs {", *_indented(_statements(drawn, verdict)), "}", ""))


def _statements(drawn: Picture, verdict: Verdict) -> Iterator[str]:
    direction = _direction(drawn)
    yield f"graph [{_FONT}, fontsize=11, rankdir={direction}, nodesep=0.35, ranksep=0.5, pad=0.3]"
    yield f"graph [label={_quoted(_legend(drawn), _LEFT)}, labeljust=l, labelloc=b]"
    yield f'node [{_FONT}, fontsize=11, margin="0.14,0.08", fontcolor="{_BLACK}"]'
    yield f"edge [{_FONT}, fontsize=10, arrowsize=0.8]"
    yield "subgraph cluster_job {"  # has a label of its own, above; the legend is below
    title = _quoted((*folded(visible(verdict.headline), 100), *drawn.remarks), _LEFT)
    yield f"  graph [label={title}, fontsize=15, labelloc=t, peripheries=0]"
    yield from (f"  {_node(number, node)}" for number, node in enumerate(drawn.nodes))
    yield "}"
    yield from (_arrow(arrow, direction) for arrow in drawn.arrows)


def _direction(drawn: Picture) -> str:
    """Return where arrows go: to the right, which leaves space for labels, but down where that would be too long."""
    rows = rows_of_boxes(len(drawn.nodes), [Edge(arrow.source, arrow.target, (0, 0)) for arrow in drawn.arrows])
    return "TB" if len({*rows}) > _MAX_COLUMNS else "LR"


def _node(number: int, node: Node) -> str:
    lines = [part for line in (node.title, *node.lines) for part in folded(line)]
    return f"n{number} [label={_quoted(lines)}, {_STYLES[node.shape]}, {_BORDERS[node.certainty]}]"


def _arrow(arrow: Arrow, direction: str) -> str:
    lines = _quoted(arrow.lines()) if direction == "LR" else _quoted([f"  {line}" for line in arrow.lines()], _LEFT)
    return f"n{arrow.source} -> n{arrow.target} [label={lines}, {_LINES[arrow.certainty]}]"


def _legend(drawn: Picture) -> Iterator[str]:
    """Yield what the lines and shapes mean that the picture has."""
    for certainty, name in _LINE_NAMES.items():
        if any(arrow.certainty is certainty for arrow in drawn.arrows):
            yield f"{name}: {SURE[certainty].meaning}"
    for shape, name in _SHAPE_NAMES.items():
        if any(node.shape is shape for node in drawn.nodes):
            yield f"{name}: {shape.value}"


def _indented(statements: Iterable[str]) -> Iterator[str]:
    return (f"  {statement}" for statement in statements)


def _quoted(lines: Iterable[str], end: str = _CENTRED) -> str:
    r"""Return lines as one string of DOT, in which no escape like \N, no quote and no entity of HTML is left."""
    return f'"{"".join(line.translate(_ESCAPES) + end for line in lines)}"'
