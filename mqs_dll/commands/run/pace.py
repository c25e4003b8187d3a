"""When `mqs run` samples a job: rarely, and only while nothing is seen to change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from mqs_dll.verdict.results import Outcome

LONGEST = 600.0
"""Seconds between two samples at most, however long a job has made no progress."""
_LONGEST_SEARCH = 60.0
"""Seconds between two searches for ranks at most."""
LOOKS = 5
"""As many times ``after`` lie between two looks at most that tell progress from polling."""


class Act(Enum):
    """What is to be done next."""

    LOOK = "read the ranks without stopping them: where their queues are, and what is in them"
    COMPARE = "compare the memory of the queues"
    SAMPLE = "stop the ranks and judge"


class Doubt:
    """When a change is to be looked at: the first one, and others after growing times."""

    def __init__(self, now: float, interval: float, after: float) -> None:
        """Begin; the arguments are those of Pace."""
        self._next, self._gap, self._longest = now, interval, max(LOOKS * after, interval)

    def is_due(self, now: float) -> bool:
        """Return whether a change is to be looked at now; then it is taken to be."""
        if now < self._next:
            return False
        self._next = now + self._gap
        self._gap = min(2 * self._gap, self._longest)
        return True


@dataclass
class Pace:
    """The times at which to do what; all times are of one clock, in seconds."""

    now: float
    """When the command was started."""
    interval: float
    """From one comparison to the next."""
    after: float
    """Without progress until the first sample."""
    suspect_after: float
    """For which something has to be suspected, without progress, until that is reported."""
    look_every: float = math.inf
    """Seconds between two looks at most."""

    def __post_init__(self) -> None:
        self._next_look = self.now + min(self.interval, self.after)
        self._search_gap = self.interval
        self._gap = self.after
        self._next_sample: float | None = None
        """None while no rank is known."""
        self._suspected: float | None = None
        """Since when, without progress and in each sample."""
        self._is_in_doubt = False
        """Whether it isn't known if what has changed is progress."""
        self._doubt = Doubt(self.now, self.interval, self.after)
        self._last_look = self.now

    @property
    def is_suspected(self) -> bool:
        """Whether the last sample made something seem to be stuck, and nothing has progressed since."""
        return self._suspected is not None

    def next(self) -> tuple[float, Act]:
        """Return when to do what."""
        if self._next_sample is None or self._is_in_doubt:
            return self._next_look, Act.LOOK
        due = (
            (self._next_look, Act.COMPARE),
            (self._next_sample, Act.SAMPLE),
            (self._last_look + self.look_every, Act.LOOK),
        )
        return min(due, key=lambda each: each[0])

    def looked(self, now: float, *, found: bool, same: bool) -> None:
        """Note a look: whether some ranks were read, and whether their queues are as at the last one."""
        self._is_in_doubt, self._last_look = False, now
        if not found:
            self._next_sample = None
            self._next_look = now + self._search_gap
            self._search_gap = min(2 * self._search_gap, max(_LONGEST_SEARCH, self.interval))
            return
        self._search_gap = self.interval
        self._next_look = now + self.interval
        if self._next_sample is None or not same:
            self._progressed(now)

    def compared(self, now: float, *, changed: bool, left: bool) -> None:
        """Note a comparison: whether anything has changed, and whether any rank is left.

        A call that polls changes memory, too. From time to time a look tells whether it is only that.
        """
        self._next_look = now + self.interval
        if not left:
            self._next_sample = None
        elif changed and self._doubt.is_due(now):
            self._is_in_doubt, self._next_look = True, now
        elif changed:
            self._progressed(now)

    def progressed(self, now: float) -> None:
        """Note progress that was seen elsewhere."""
        if self._next_sample is not None:
            self._progressed(now)

    def _progressed(self, now: float) -> None:
        self._gap, self._suspected = self.after, None
        self._next_sample = now + self.after

    def noted(self, now: float, outcome: Outcome) -> None:
        """Note what a sample says, also one that wasn't due."""
        if outcome is not Outcome.SUSPECTED:
            self._suspected = None
        elif self._suspected is None:
            self._suspected = now

    def sampled(self, now: float, outcome: Outcome) -> bool:
        """Note a sample; return whether what it suspects is to be reported now."""
        self._gap = min(2 * self._gap, max(LONGEST, self.after))
        self.noted(now, outcome)
        self._next_sample = now + self._gap
        if self._suspected is None:
            return False
        due = self._suspected + self.suspect_after
        if now < due:
            self._next_sample = min(self._next_sample, max(due, now + self.interval))
        return now >= due
