"""What is known of whether something is so: yes, no, or not known. Most of ``verdict`` needs it; it needs nothing."""

from __future__ import annotations

from enum import Enum


class Evidence(Enum):
    """One of three values; a verdict reads it twice: a proof takes what isn't known for yes, a suspicion for no."""

    NO = 0
    UNKNOWN = 1
    YES = 2

    def __or__(self, other: Evidence) -> Evidence:
        """Return what is known of either."""
        return max(self, other, key=lambda each: each.value)

    def read(self, *, unknown: bool) -> bool:
        """Return it as yes or no, what isn't known as ``unknown``."""
        return self is Evidence.YES or (unknown and self is Evidence.UNKNOWN)


def unknown_if(condition: bool) -> Evidence:
    """Return UNKNOWN where something may make it so, else NO."""
    return Evidence.UNKNOWN if condition else Evidence.NO
