"""A job and its verdict as one page of HTML that needs nothing else: no network, no Graphviz, and no script to be read.

Everything that comes from the target is escaped here, or is JSON that the page's script writes as text.
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from string import Template

from mqs_dll import __version__
from mqs_dll.contract.escape import visible
from mqs_dll.job.call_tree import call_tree
from mqs_dll.job.node_names import nodes_of
from mqs_dll.job.records import Job, RankState
from mqs_dll.job.shared import grouped
from mqs_dll.report import page_tree
from mqs_dll.report.drawing import asset, draw, legend
from mqs_dll.report.names import titled
from mqs_dll.report.page_data import ROWS_SHOWN, embedded
from mqs_dll.report.picture import picture
from mqs_dll.report.tables import PageTable, ProcessSets, activities, communicators, waits
from mqs_dll.report.text.facts import NOT_COUNTED
from mqs_dll.verdict.results import Finding, Outcome, Verdict

_SYMBOLS = {
    Outcome.NOTHING_STUCK: '<circle cx="12" cy="12" r="10"/><path d="M7 12.5l3.5 3.5L17 8.5"/>',
    Outcome.PROVED: '<path d="M7.5 2h9L22 7.5v9L16.5 22h-9L2 16.5v-9z"/><path d="M8.5 8.5l7 7M15.5 8.5l-7 7"/>',
    Outcome.SUSPECTED: '<path d="M12 2.5L22.5 21h-21z"/><path d="M12 9.5v5.5M12 18v.1"/>',
    Outcome.NOT_READ: '<path d="M3 3h18v18H3z"/><path d="M9 9.5a3 3 0 1 1 3.8 2.9c-.6.2-.8.6-.8 1.6M12 17.3v.1"/>',
}
_CLASSES = {
    Outcome.NOTHING_STUCK: "nothing",
    Outcome.PROVED: "proved",
    Outcome.SUSPECTED: "suspected",
    Outcome.NOT_READ: "unread",
}


def render(job: Job, verdict: Verdict) -> str:
    """Return the page: the verdict, the graph, and tables of who waits for whom and what each rank does."""
    drawn = picture(job, verdict)
    sets = ProcessSets()
    tables = [make(job, verdict, sets) for make in (waits, activities, communicators)]
    tree = page_tree.render(job, call_tree(job), sets)
    style, script = asset("page.css") + asset("graph.css"), asset("page.js")
    return Template(asset("page.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        version=__version__,
        title=_text(verdict.headline),
        outcome=_CLASSES[verdict.outcome],
        symbol=f'<svg class="symbol" viewBox="0 0 24 24" aria-hidden="true">{_SYMBOLS[verdict.outcome]}</svg>',
        headline=_headline(verdict.headline),
        warnings=_warnings(job),
        findings=_findings(verdict.findings),
        graph=draw(drawn),
        legend="".join(f"<li>{sample}{words}</li>" for sample, words in legend(drawn)),
        remarks="".join(f'<p class="hint">{_text(remark)}</p>' for remark in drawn.remarks),
        tree=_tree(tree),
        tables="\n".join(map(_table, tables)),
        job=_job(job),
        data=embedded(job, verdict, drawn, tables, sets),
    )


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls a style or a script by."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _text(text: str) -> str:
    return html.escape(visible(text))


# ---------------------------------------------------------------- the verdict


def _headline(headline: str) -> str:
    """Return a heading in two lines: the headline starts with the outcome in a few words."""
    outcome, colon, what = visible(headline).partition(": ")
    return f'<span class="word">{html.escape(outcome + colon)}</span> {html.escape(what)}'


def _findings(findings: Iterable[Finding]) -> str:
    items = "".join(
        f'<li class="finding {finding.certainty.value}">'
        f'<p class="sure">{finding.certainty.value.capitalize()}: {finding.cause.value}</p>'
        f"<p>{_text(finding.sentence)}</p>{_advice(finding.advice)}</li>"
        for finding in findings
    )
    return f'<ol class="findings">{items}</ol>' if items else "<p>None.</p>"


def _advice(advice: str) -> str:
    return f'<p class="advice">{_text(advice)}</p>' if advice else ""


def _warnings(job: Job) -> str:
    """Return a box about the ranks of which nothing is known, which may be what all others wait for."""
    unread = grouped(
        ((process.why, process.remedy), index)
        for index, process in enumerate(job.processes)
        if process.state is RankState.UNREADABLE
    )
    if not unread:
        return ""
    count = sum(map(len, unread.values()))
    items = "".join(
        f"<li>{_text(titled(job, members))}: {_text(why or 'no reason is known')}{_advice(remedy)}</li>"
        for (why, remedy), members in unread.items()
    )
    return (
        f'<section class="warning" aria-label="Ranks that were not read"><p class="sure">{count} of '
        f"{len(job.processes)} ranks could not be read: they may wait or compute</p><ul>{items}</ul></section>"
    )


# ---------------------------------------------------------------- the call tree, the graph's tables, the job


def _tree(tree: str) -> str:
    if not tree:
        return ""
    return (
        '<section aria-labelledby="tree-title"><h2 id="tree-title">The call tree</h2>'
        '<div id="tree-tools" hidden><label>Search <input id="search" type="search" size="20" '
        'placeholder="solve, halo.c" autocomplete="off"></label>'
        '<button type="button" id="open">Open all</button><button type="button" id="close">Close all</button>'
        '<p id="found" role="status" aria-live="polite"></p>'
        '<p class="hint">A click on ranks filters by them.</p></div>'
        f"{tree}</section>"
    )


def _table(table: PageTable) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows[:ROWS_SHOWN]
    )
    return (
        f'<section aria-labelledby="{table.name}-title"><h2 id="{table.name}-title">{table.title}</h2>'
        f'<div class="scroll" role="region" aria-labelledby="{table.name}-title" tabindex="0"><table id="{table.name}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{_cut(table)}"
        f'<button type="button" class="more" id="{table.name}-more" hidden>Show all</button></section>'
    )


def _cut(table: PageTable) -> str:
    """Return sentences on the rows that aren't there: without a script, or at all."""
    sentences = "".join(f'<p class="hint">{remark}</p>' for remark in table.remarks)
    if len(table.rows) > ROWS_SHOWN:
        sentences += f"<noscript><p>The first {ROWS_SHOWN} of {len(table.rows)} rows.</p></noscript>"
    return sentences


def _job(job: Job) -> str:
    facts = {
        "command": job.title,
        "MPI": job.mpi or "not known",
        "host": nodes_of(job, range(len(job.processes))) or job.host,
        "read": f"{job.taken}, {job.source}",
        "size of MPI_COMM_WORLD": ", ".join("not known" if size is None else str(size) for size in job.sizes),
        "launcher": "not known" if job.launcher is None else f"PID {job.launcher}",
        "stop_time": _pause(job),
    }
    return "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts.items())


def _pause(job: Job) -> str:
    if not job.stopped:
        return "none: the ranks ran on while they were read, so that what they say may not fit together"
    samples = max((len(process.samples) for process in job.processes), default=0)
    sampled = f", {samples} samples, {job.interval:g} s apart" if samples > 1 else ""
    uncounted = f"; {NOT_COUNTED}" if not job.counted else ""
    skew = f", all nodes within {job.stop_skew * 1000:.1f} ms" if job.stop_skew else ""
    return f"{job.stop_time * 1000:.1f} ms{skew}{sampled}{uncounted}"
