"""How far a long look is, on a terminal's standard error only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

_PATIENCE = 0.5
"""Seconds after which a user wonders; most processes are done long before."""


@contextmanager
def communicators_done() -> Iterator[Callable[[int], None] | None]:
    """Yield a function to call with the number of communicators done, or None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    status = Console(stderr=True).status("")
    began = time.monotonic()

    def tell(done: int) -> None:
        if time.monotonic() - began > _PATIENCE:
            status.update(f"{done} communicators read; Ctrl-C ends it and lets the process go on")
            status.start()

    try:
        yield tell
    finally:
        status.stop()
