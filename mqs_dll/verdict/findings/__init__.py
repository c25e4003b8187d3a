"""Findings: what is wrong with a job, in sentences. ``find`` asks the modules, one for each kind.

- ``common``: what all modules need
- ``collectives``: calls that some entered and some did not; ``roots``: those with different roots
- ``counts``: calls that some have left without what others wait for; ``left_out``: those that a stuck rank is behind
- ``partners``: calls that need others than those of their communicator, and a launcher that isn't the MPI's
- ``cycles``: cycles, and who waits behind them; ``peers``: who never comes; ``mismatches``: messages that nearly match
- ``delivery``: messages that match, and don't come
- ``remarks``: what is worth a line without being wrong
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mqs_dll.verdict.analysis import Analysis
from mqs_dll.verdict.findings.collectives import of_collectives
from mqs_dll.verdict.findings.common import Case
from mqs_dll.verdict.findings.cycles import behind, of_cycles
from mqs_dll.verdict.findings.delivery import of_matched_probes, of_parts, of_undelivered
from mqs_dll.verdict.findings.left_out import of_left_out
from mqs_dll.verdict.findings.mismatches import Mismatches
from mqs_dll.verdict.findings.partners import of_launchers, of_partners
from mqs_dll.verdict.findings.peers import of_epochs, of_finalize, of_init, of_peers, of_stopped, of_unexplained
from mqs_dll.verdict.findings.remarks import of_collectives_in_progress, of_disputes, of_floods, of_progress, of_unread
from mqs_dll.verdict.naming import Names
from mqs_dll.verdict.results import Cause, Certainty, Finding

MAX_OF_A_KIND = 5
_CERTAINTIES, _CAUSES = tuple(Certainty), tuple(Cause)


def find(analysis: Analysis, names: Names) -> list[Finding]:
    """Return all findings on a job: first what is proved, then what keeps most ranks, then by cause."""
    case = Case(analysis, names)
    kinds: defaultdict[tuple[Certainty, Cause], list[Finding]] = defaultdict(list)
    for finding in _all(case):
        kinds[finding.certainty, finding.cause].append(finding)
    for same in kinds.values():
        same.sort(key=lambda finding: -finding.frees)
    found = [each for same in kinds.values() for each in _shortened(case, same)]
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[int, int, int]:
    """Return what puts the cause first: if it alone were otherwise, the most ranks could go on."""
    return _CERTAINTIES.index(finding.certainty), -finding.frees, _CAUSES.index(finding.cause)


def _shortened(case: Case, same: list[Finding]) -> list[Finding]:
    """Return findings of one kind so that they fit a screen: the first ones, and one that counts the others."""
    if len(same) <= MAX_OF_A_KIND:
        return same
    shown, others = same[: MAX_OF_A_KIND - 1], same[MAX_OF_A_KIND - 1 :]
    processes = [process for finding in others for process in finding.processes]
    sentence = f"{len(others)} more of this kind ({same[0].cause.value}), among {case.names.ranks(processes)}."
    rest = Finding(same[0].cause, same[0].certainty, sentence, same[0].advice, tuple(processes), None, others[0].frees)
    return [*shown, rest]


def _all(case: Case) -> Iterator[Finding]:
    partners = [*of_launchers(case), *of_partners(case)]
    without = {process for finding in partners for process in finding.processes}
    collectives = [each for each in of_collectives(case) if not without.issuperset(each.processes)]
    undelivered = [*of_undelivered(case), *of_parts(case)]
    explained = {process for finding in (*partners, *collectives, *undelivered) for process in finding.processes}
    in_cycles = [each for each in of_cycles(case, explained) if not without.issuperset(each.processes)]
    peers = list(of_peers(case))
    mismatches = list(Mismatches(case).findings())
    left_out = list(of_left_out(case))
    named = [
        *partners,
        *of_epochs(case),
        *collectives,
        *undelivered,
        *of_matched_probes(case),
        *in_cycles,
        *peers,
        *mismatches,
    ]
    named += (finding for finding in left_out if finding.certainty is not Certainty.NOTED)
    named += of_finalize(case)
    named += of_init(case)
    named += of_unexplained(case)
    named += of_stopped(case, {process for finding in named for process in finding.processes})
    yield from named
    yield from behind(case, {process for finding in named for process in finding.processes})
    yield from (finding for finding in left_out if finding.certainty is Certainty.NOTED)
    yield from (each for each in of_collectives_in_progress(case) if not without.issuperset(each.processes))
    yield from of_disputes(case)
    yield from of_floods(case)
    yield from of_unread(case)
    trouble = any(finding.certainty is not Certainty.NOTED for finding in named)
    yield from of_progress(case, trouble=trouble)
