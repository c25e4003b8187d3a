"""A Python of our own beside this one: it has the standard library and libmqs, and nothing else is searched for."""

from __future__ import annotations

import sys

_ROOT = __file__.rsplit("/", 3)[0]
BEGIN = f"import sys; sys.path.insert(0, {_ROOT!r})"
"""What its code starts with, so that it finds libmqs."""


def command(code: str) -> list[str]:
    """Return what runs code there; neither variables, the current directory nor installed packages are heeded."""
    return [sys.executable, "-I", "-S", "-c", code]
