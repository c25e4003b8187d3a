"""Verdicts on jobs of thousands of ranks, which are made up; benchmarks/verdict.py times them."""

from __future__ import annotations

import gc
import io

import pytest
from rich.console import Console

from benchmarks import verdict as benchmark
from mqs_dll.job.shared import MANY, garbage_left_alone
from mqs_dll.report import text
from mqs_dll.report.text import cases
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Outcome
from tests.support import synthetic_job

SCREEN = 50
"""Lines."""


@pytest.mark.slow
def test_the_one_wrong_tag_among_ten_thousand_ranks_is_named_on_a_screen() -> None:
    """Everybody else waits behind the two whom it is about."""
    job = synthetic_job.halo(10_000)
    verdict = conclude(job)
    assert verdict.outcome is Outcome.PROVED
    assert [finding.cause for finding in verdict.findings] == [Cause.CYCLE, Cause.BEHIND, Cause.TAG]
    assert verdict.findings[-1].processes == (3333, 3332)
    assert verdict.headline.endswith(verdict.findings[-1].sentence)
    page = Console(width=120, file=io.StringIO())
    page.print(text.render(job, verdict))
    assert len(page.file.getvalue().splitlines()) <= SCREEN  # type: ignore[attr-defined]


def test_receives_from_any_source_share_one_set_of_peers() -> None:
    """A thousand of them are a thousand arrows to it, not a million."""
    verdict = conclude(synthetic_job.any_source(1000))
    assert verdict.outcome is Outcome.PROVED
    assert len({id(wait.peers) for wait in verdict.waits}) == 1


def test_no_set_of_peers_is_compared_with_itself() -> None:
    """A thousand ranks that wait for all others are no million steps in the report, either."""
    once = cases._PeersOnce()
    peers = tuple(range(1000))
    together = once.union([peers, peers])
    assert together is once.get(peers)
    assert "members" not in vars(together)


@pytest.mark.parametrize(("frozen", "made"), [(False, MANY + 1000), (True, MANY + 1000), (False, 0)])
def test_what_is_in_use_is_left_alone_by_the_search_for_garbage(frozen: bool, made: int) -> None:
    """Afterwards it is searched for as before, many new objects are old, and what somebody has frozen stays so."""
    if frozen:
        gc.freeze()
    try:
        with garbage_left_alone():
            assert not gc.isenabled()
            kept: list[object] = [[] for _ in range(made)]
        assert gc.isenabled()
        assert bool(gc.get_freeze_count()) is frozen
        assert any(each is kept for each in gc.get_objects(generation=2)) is (made > MANY and not frozen)
    finally:
        gc.unfreeze()


def test_the_benchmark_prints_a_row_for_each_kind_of_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It saves, loads, concludes and renders all of them."""
    monkeypatch.setenv("COLUMNS", "200")
    assert benchmark.main(["--ranks", "40"]) == 0
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "│" in line]
    verdicts = ["proved", "proved", "suspected", "proved"]
    assert [(row[1].strip(), row[-2].strip()) for row in rows] == [*zip(synthetic_job.SCENARIOS, verdicts, strict=True)]
