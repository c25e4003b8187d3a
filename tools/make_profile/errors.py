"""The one way in which this tool fails."""

from __future__ import annotations


class ProfileError(Exception):
    """No profile can be made or checked; the text says why."""
