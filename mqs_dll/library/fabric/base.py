"""What every fabric says of itself: which one a process has, and where the layouts of its structs come from."""

from __future__ import annotations

from typing import NamedTuple

from mqs_dll.library.layouts.layout import Layouts


class Fabric(NamedTuple):
    """One fabric in one process, its layouts believed."""

    title: str
    """The library and its release: "UCX 1.18.1"."""
    layouts: Layouts
    checks: tuple[str, ...]
    """Sentences: what held in the process."""
    refusals: tuple[str, ...]
    """Sentences: which layouts were tried before, and why they were refused."""
