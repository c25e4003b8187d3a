"""The console that reports are printed on: a terminal, a pager or a file."""

from __future__ import annotations

import re
import sys
from typing import Any

from rich.console import Console

_PLAIN_WIDTH = 160
"""Columns where no terminal sets them: a pager scrolls, and a paste keeps its rows whole."""


def console() -> Console:
    """Return a console on standard output that prints text as it is: no markup, no emoji codes, no guessed colours."""
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return _Console(width=width, markup=False, emoji=False, highlight=False)


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, but into a file without the blanks that fill lines up to the widest."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as capture:
            super().print(*objects, **options)
        self.file.write(re.sub(r" +$", "", capture.get(), flags=re.MULTILINE))

    def on_broken_pipe(self) -> None:
        """Leave the reader's early end to cli.py; rich would exit with a failure."""
        raise BrokenPipeError
