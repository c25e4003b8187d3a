"""The wait-for graph of a job as a document of SVG: what the page shows of it, with headline and legend."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mqs_dll.contract.escape import visible
from mqs_dll.job.records import Job
from mqs_dll.report.drawing import LINE, SAMPLE, asset, drawn, legend, size_of, texts
from mqs_dll.report.layout.boxes import Size
from mqs_dll.report.picture import folded, picture
from mqs_dll.verdict.results import Verdict

_MARGIN = 16.0
_LINE_LENGTH = 100
"""Characters of the headline's lines."""

_HEADLINE = "#headline { font-size: 12px; font-weight: 700; } #notes, .sample text { font-size: 12px; }\n"


def render(job: Job, verdict: Verdict) -> str:
    """Return the graph of who waits for whom; it needs no other file, no script, and no font of its own."""
    graph = picture(job, verdict)
    (width, height), content = drawn(graph)
    headline = folded(visible(verdict.headline), _LINE_LENGTH)
    samples = list(legend(graph))
    notes = [part for remark in graph.remarks for part in folded(remark, _LINE_LENGTH)]
    top = _MARGIN + LINE * (len(headline) + 1)
    bottom = top + height + LINE
    widest = max(width, size_of([*headline, *notes])[0], SAMPLE[0] + size_of([words for _, words in samples])[0])
    size = widest + 2 * _MARGIN, bottom + SAMPLE[1] * len(samples) + LINE * len(notes) + _MARGIN
    left = _MARGIN + (widest - width) / 2
    return "\n".join(
        (
            *_opening(size),
            '<g id="headline">',
            *texts(headline, (_MARGIN, _MARGIN), "start"),
            "</g>",
            f'<g id="graph" transform="translate({left:.1f} {top:.1f})">',
            *content,
            "</g>",
            '<g id="notes">',
            *_legend(samples, bottom),
            *texts(notes, (_MARGIN, bottom + SAMPLE[1] * len(samples)), "start"),
            "</g>",
            "</svg>",
            "",
        )
    )


def _opening(size: Size) -> Iterator[str]:
    width, height = (f"{length:.0f}" for length in size)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<style>{_style()}</style>"
    yield f'<rect width="{width}" height="{height}" fill="{_colours()["page"]}"/>'


def _style() -> str:
    """Return the graph's style with the page's colours in the names' places: not every viewer knows variables."""
    colours = _colours()
    return _HEADLINE + re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], asset("graph.css"))


def _colours() -> dict[str, str]:
    """Return the page's colours on a bright screen by their names: those that stand first."""
    first = asset("page.css").partition("}")[0]
    return dict(re.findall(r"--(\w+): (#\w+);", first))


def _legend(samples: list[tuple[str, str]], top: float) -> Iterator[str]:
    for number, (sample, words) in enumerate(samples):
        y = top + SAMPLE[1] * number
        yield f'<g transform="translate({_MARGIN:.1f} {y:.1f})">{sample}</g>'
        yield from texts([words], (_MARGIN + SAMPLE[0] + _MARGIN / 2, y), "start")
