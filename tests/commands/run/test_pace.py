"""When `mqs run` looks at a job."""

from __future__ import annotations

import itertools

import pytest

from mqs_dll.commands.run.pace import LONGEST, Act, Pace
from mqs_dll.verdict.results import Outcome

INTERVAL, AFTER, SUSPECT_AFTER = 10.0, 60.0, 600.0


@pytest.fixture
def pace() -> Pace:
    """Return the usual one of a command that was started at 0."""
    return Pace(0.0, INTERVAL, AFTER, SUSPECT_AFTER)


def stopping(pace: Pace, until: float, outcome: Outcome, progress: float = -1.0) -> list[float]:
    """Let time pass; return when the ranks were stopped. They are found at once, and make progress until some time."""
    found: list[float] = []
    now = 0.0
    while True:
        now, act = pace.next()
        if now > until:
            return found
        if act is Act.LOOK:
            pace.looked(now, found=True, same=now > progress)
        elif act is Act.COMPARE:
            pace.compared(now, changed=now <= progress, left=True)
        else:
            found.append(now)
            pace.sampled(now, outcome)


def test_nobody_is_stopped_while_there_is_progress(pace: Pace) -> None:
    """However long that takes; the first sample comes so long after the last change."""
    assert stopping(pace, 10_000 + AFTER, Outcome.PROVED, progress=10_000) == [10_000 + AFTER]


def test_what_is_not_stuck_is_stopped_at_growing_intervals(pace: Pace) -> None:
    """It may compute for hours between two calls of MPI."""
    seen = stopping(pace, 5000, Outcome.NOTHING_STUCK)
    gaps = [after - before for before, after in itertools.pairwise(seen)]
    assert seen[0] == INTERVAL + AFTER
    assert gaps == [120, 240, 480, *[LONGEST] * (len(gaps) - 3)]
    assert len(gaps) > 5


def test_progress_begins_it_all_again(pace: Pace) -> None:
    """Also after samples in which nothing was stuck."""
    stopping(pace, 1000, Outcome.NOTHING_STUCK)
    now, _ = pace.next()
    pace.compared(now, changed=True, left=True)
    assert pace.next() == (now, Act.LOOK)
    pace.looked(now, found=True, same=False)
    assert stopping(pace, now + 3 * AFTER, Outcome.NOTHING_STUCK) == [now + AFTER, now + 3 * AFTER]


def test_progress_elsewhere_keeps_those_who_wait_here_from_being_stopped(pace: Pace) -> None:
    """However long nothing changes here; where no rank is known, there is nobody to be stopped."""
    pace.progressed(0.0)
    assert pace.next()[1] is Act.LOOK
    pace.looked(0.0, found=True, same=False)
    for now in range(10, 3000, 10):
        assert pace.next() == (now, Act.COMPARE)
        pace.compared(now, changed=False, left=True)
        pace.progressed(now)
    pace.compared(3000.0, changed=False, left=True)
    assert stopping(pace, 2990 + AFTER, Outcome.NOTHING_STUCK) == [2990 + AFTER]


def test_what_polling_changes_is_no_progress(pace: Pace) -> None:
    """A look shows that the queues are the same: the ranks are stopped when they would have been."""
    pace.looked(0.0, found=True, same=False)
    pace.compared(30.0, changed=True, left=True)
    assert pace.next() == (30.0, Act.LOOK)
    pace.looked(31.0, found=True, same=True)
    pace.compared(41.0, changed=False, left=True)
    pace.compared(51.0, changed=False, left=True)
    assert pace.next() == (AFTER, Act.SAMPLE)


def test_looks_at_what_changes_all_the_time_are_rare(pace: Pace) -> None:
    """They take a second of a processor: between them any change counts as progress."""
    pace.looked(0.0, found=True, same=False)
    looks = []
    for now in range(10, 3000, 10):
        pace.compared(now, changed=True, left=True)
        if pace.next()[1] is Act.LOOK:
            looks.append(now)
            pace.looked(now, found=True, same=False)
    assert looks == [10, 20, 40, 80, 160, 320, 620, 920, 1220, 1520, 1820, 2120, 2420, 2720]


def test_what_is_suspected_is_reported_once_it_has_been_so_for_long(pace: Pace) -> None:
    """A sample is taken when that time is over, whatever the interval has grown to; the next one comes after that."""
    pace.looked(0.0, found=True, same=False)
    reported: dict[float, bool] = {}
    while not any(reported.values()):
        now, act = pace.next()
        if act is Act.SAMPLE:
            reported[now] = pace.sampled(now, Outcome.SUSPECTED)
        else:
            pace.compared(now, changed=False, left=True)
    assert [when for when, is_due in reported.items() if is_due] == [AFTER + SUSPECT_AFTER]
    while pace.next()[1] is Act.COMPARE:
        pace.compared(pace.next()[0], changed=False, left=True)
    assert pace.next() == (AFTER + SUSPECT_AFTER + LONGEST, Act.SAMPLE)


@pytest.mark.parametrize("between", [Outcome.NOTHING_STUCK, Outcome.NOT_READ])
def test_what_was_suspected_once_and_then_not_is_new_again(pace: Pace, between: Outcome) -> None:
    """It has to be suspected in each sample of that time."""
    pace.looked(0.0, found=True, same=False)
    assert not pace.sampled(60.0, Outcome.SUSPECTED)
    assert not pace.sampled(600.0, between)
    assert not pace.is_suspected
    assert not pace.sampled(700.0, Outcome.SUSPECTED)
    assert pace.sampled(1300.0, Outcome.SUSPECTED)
    pace.progressed(1310.0)
    assert not pace.is_suspected


def test_a_sample_that_was_asked_for_leaves_the_next_one_where_it_was(pace: Pace) -> None:
    """What it suspects counts from then on, and what is due then is reported by a sample of its own."""
    pace.looked(0.0, found=True, same=False)
    pace.compared(55.0, changed=False, left=True)
    due = pace.next()
    pace.noted(56.0, Outcome.SUSPECTED)
    assert pace.is_suspected
    assert pace.next() == due == (AFTER, Act.SAMPLE)
    assert not pace.sampled(AFTER, Outcome.SUSPECTED)
    pace.noted(56.0 + SUSPECT_AFTER, Outcome.SUSPECTED)
    assert pace.next()[1] is Act.COMPARE
    assert pace.sampled(56.0 + SUSPECT_AFTER, Outcome.SUSPECTED)


def test_a_job_that_is_kept_is_looked_at_all_the_time() -> None:
    """Every so often, whether it makes progress or not."""
    pace = Pace(0.0, INTERVAL, AFTER, SUSPECT_AFTER, look_every=90.0)
    pace.looked(10.0, found=True, same=False)
    looks: list[float] = []
    while len(looks) < 3:
        now, act = pace.next()
        if act is Act.LOOK:
            looks.append(now)
            pace.looked(now, found=True, same=True)
        elif act is Act.COMPARE:
            pace.compared(now, changed=False, left=True)
        else:
            pace.sampled(now, Outcome.NOTHING_STUCK)
    assert looks == [100.0, 190.0, 280.0]


def test_ranks_are_searched_for_until_there_are_some(pace: Pace) -> None:
    """More and more rarely; again soon after those that there were have ended."""
    seen = []
    for _ in range(6):
        now, act = pace.next()
        assert act is Act.LOOK
        seen.append(now)
        pace.looked(now, found=False, same=False)
    assert seen == [10, 20, 40, 80, 140, 200]
    pace.looked(210.0, found=True, same=False)
    pace.compared(220.0, changed=True, left=False)
    assert pace.next() == (230.0, Act.LOOK)


def test_a_sample_that_finds_nobody_is_followed_by_a_search(pace: Pace) -> None:
    """Not by the next sample at once."""
    pace.looked(10.0, found=True, same=False)
    pace.looked(70.0, found=False, same=False)
    assert pace.next() == (80.0, Act.LOOK)
