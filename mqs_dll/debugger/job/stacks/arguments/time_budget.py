"""For how long functions are followed that nobody remembers: a job's verdict must not wait for a second source."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager


class TimeBudget:
    """Seconds of a processor for the callee's side, whose functions are large; the caller's side needs little."""

    def __init__(self) -> None:
        """Initialize without a bound."""
        self._left = math.inf
        self._since: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether somebody waits."""
        return self._left != math.inf

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be followed."""
        return self._left <= (0.0 if self._since is None else time.thread_time() - self._since)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Set a bound for what is followed inside."""
        before, self._left = self._left, seconds
        try:
            yield
        finally:
            self._left = before

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Take what is used inside off the bound."""
        self._since = time.thread_time()
        try:
            yield
        finally:
            self._left -= time.thread_time() - self._since
            self._since = None


TIME_BUDGET = TimeBudget()
"""That of this process."""
