"""The console that reports are printed on: a terminal, a pager or a file; and blocks that reports are made of."""

from __future__ import annotations

import re
import sys
from typing import IO, Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table

_PLAIN_WIDTH = 160
"""Columns where no terminal sets them: a pager scrolls, and a paste keeps its rows whole."""


def console(width: int | None = None, file: IO[str] | None = None) -> Console:
    """Return a console that prints text as it is: no markup, no emoji codes, no guessed colours.

    Args:
        width: its columns, where somebody knows them; else those of the terminal.
        file: what it is on; None for standard output.
    """
    if width is None and not sys.stdout.isatty():
        width = _PLAIN_WIDTH
    return _Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def indented(body: RenderableType, by: int = 2) -> Padding:
    """Return something with blanks before each of its lines."""
    return Padding(body, (0, 0, 0, by), expand=False)


def columns(*titles: str, widest: int | None = None) -> Table:
    """Return a table with a line below its titles, whose cells are folded where they don't fit."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold", max_width=widest)
    return table


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
