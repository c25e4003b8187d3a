"""``mqs gdb-init``: the line for ~/.gdbinit that makes the commands of ``mqs_dll.gdb`` known to gdb."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from mqs_dll.contract.errors import DllError

EXIT_SHOWN = 0
PACKAGES = ("mqs_dll", "rich")
"""What gdb's own Python has to find."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no arguments."""
    parser.description = "Print the line for ~/.gdbinit that adds `mqs show`, `mqs job` and more to gdb."


def run(options: argparse.Namespace) -> int:
    """Print the line.

    Returns:
        EXIT_SHOWN.

    Raises:
        DllError: a package lies where no line can say it.
    """
    print(line())
    return EXIT_SHOWN


def line() -> str:
    """Return the line, which names this installation by its paths.

    Raises:
        DllError: a package is not in a folder.
    """
    places = {}
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise DllError(f"the package {name} lies in no folder that gdb could read")
        places[name] = str(Path(spec.origin).parent.parent)
    start = str(Path(places["mqs_dll"]) / "mqs_dll/gdb/start.py")
    return f"python __import__('runpy').run_path({start!r}, {{'PACKAGES': {places!r}}})"
