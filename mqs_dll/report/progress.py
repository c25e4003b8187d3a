"""How far a long sample is, on a terminal's standard error only: rich is imported for that alone, agents lack it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE = 0.5
"""Seconds after which a user wonders; most processes are done long before."""


@contextmanager
def communicators_done() -> Iterator[Callable[[int], None] | None]:
    """Yield a function to call with the number of communicators done, or None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    status = Console(stderr=True).status("")
    started = time.monotonic()

    def show(done: int) -> None:
        if time.monotonic() - started > _PATIENCE:
            status.update(f"{done} communicators read; Ctrl-C ends it and lets the process go on")
            status.start()

    try:
        yield show
    finally:
        status.stop()


@contextmanager
def ranks_done(words: str = "ranks read") -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function to call with the number of ranks done and of all, or None where nobody would see it.

    The bar ends with the context: calls after that do nothing.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    task = progress.add_task(f"{words} (Ctrl-C ends it and lets them go on)", total=None)
    started = time.monotonic()

    def show(done: int, total: int) -> None:
        if time.monotonic() - started > _PATIENCE:
            progress.update(task, completed=done, total=total)
            progress.start()
            progress.refresh()

    try:
        yield show
    finally:
        started = math.inf  # who goes on calling it has other things on the screen by now
        progress.stop()


@contextmanager
def doing() -> Iterator[Callable[[str], None]]:
    """Yield a function to call with a few words on what is being done; on a terminal they show until the end."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    with console.status("") as status:
        yield lambda words: status.update(escape(f"{words}; Ctrl-C ends it"))
