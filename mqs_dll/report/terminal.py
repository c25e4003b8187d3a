"""The console that reports are printed on: a terminal, a pager or a file."""

from __future__ import annotations

import sys

from rich.console import Console

_PLAIN_WIDTH = 160
"""Columns where no terminal sets them: a pager scrolls, and a paste keeps its rows whole."""


def console() -> Console:
    """Return a console on standard output that prints text as it is: no markup, no emoji codes, no guessed colours."""
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return _Console(width=width, markup=False, emoji=False, highlight=False)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the reader's early end to cli.py; rich would exit with a failure."""
        raise BrokenPipeError
