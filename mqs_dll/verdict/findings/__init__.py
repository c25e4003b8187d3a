"""Findings: what is wrong with a job, in sentences. ``find`` asks the rooms, one for each kind.

- ``common``: what all rooms need
- ``collectives``: calls that some entered and some did not; ``roots``: those with different roots
- ``cycles``: circles, and who waits behind them; ``peers``: who never comes; ``mismatches``: messages that nearly match
- ``delivery``: messages that match, and don't come
- ``remarks``: what is worth a line without being wrong
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.findings.collectives import of_collectives
from mqs_dll.verdict.findings.common import Case
from mqs_dll.verdict.findings.cycles import behind, of_circles
from mqs_dll.verdict.findings.delivery import of_kept, of_parts, of_undelivered
from mqs_dll.verdict.findings.mismatches import Mismatches
from mqs_dll.verdict.findings.peers import of_epochs, of_finalize, of_peers, of_stopped, of_unexplained
from mqs_dll.verdict.findings.remarks import of_disputes, of_progress, of_turning, of_unread
from mqs_dll.verdict.naming import Names
from mqs_dll.verdict.results import Cause, Certainty, Finding

MOST_OF_A_KIND = 5

_GRAVEST_FIRST = (
    Cause.TOO_SMALL,
    Cause.TAG,
    Cause.COMMUNICATOR,
    Cause.SOURCE,
    Cause.GONE,
    Cause.STOPPED,
    Cause.ROOTS,
    Cause.EPOCH,
    Cause.COLLECTIVE_ORDER,
    Cause.COLLECTIVE_MISSING,
    Cause.UNDELIVERED,
    Cause.PART,
    Cause.SELF,
    Cause.FORGOTTEN,
    Cause.CYCLE,
    Cause.KNOT,
    Cause.OUTSIDE,
    Cause.NOT_READ,
    Cause.BEHIND,
    Cause.UNEXPLAINED,
    Cause.DISPUTE,
    Cause.PROGRESS,
)


def find(analysis: Analysis, names: Names) -> list[Finding]:
    """Return all findings on a job, the gravest first: what is proved, then what explains most."""
    case = Case(analysis, names)
    order = list(Certainty)
    found = sorted(_all(case), key=lambda each: (order.index(each.certainty), _GRAVEST_FIRST.index(each.cause)))
    return [finding for _, same in groupby(found, key=_kind) for finding in _shortened(case, list(same))]


def _kind(finding: Finding) -> tuple[Certainty, Cause]:
    return finding.certainty, finding.cause


def _shortened(case: Case, same: list[Finding]) -> list[Finding]:
    """Return findings of one kind so that they fit a screen: the first ones, and one that counts the others."""
    if len(same) <= MOST_OF_A_KIND:
        return same
    shown, others = same[: MOST_OF_A_KIND - 1], same[MOST_OF_A_KIND - 1 :]
    places = [place for finding in others for place in finding.processes]
    sentence = f"{len(others)} more of this kind ({same[0].cause.value}), among {case.names.ranks(places)}."
    return [*shown, Finding(same[0].cause, same[0].certainty, sentence, same[0].advice, tuple(places), None)]


def _all(case: Case) -> Iterator[Finding]:
    collectives = list(of_collectives(case))
    undelivered = [*of_undelivered(case), *of_parts(case)]
    explained = {place for finding in (*collectives, *undelivered) for place in finding.processes}
    circles = list(of_circles(case, explained))
    peers = list(of_peers(case))
    mismatches = list(Mismatches(case).findings())
    named = [*of_epochs(case), *collectives, *undelivered, *of_kept(case), *circles, *peers, *mismatches]
    named += of_finalize(case)
    named += of_unexplained(case)
    named += of_stopped(case, {place for finding in named for place in finding.processes})
    yield from named
    yield from behind(case, {place for finding in named for place in finding.processes})
    yield from of_turning(case)
    yield from of_disputes(case)
    yield from of_unread(case)
    trouble = any(finding.certainty is not Certainty.NOTED for finding in named)
    yield from of_progress(case, trouble=trouble)
