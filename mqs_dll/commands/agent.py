"""``mqs agent``: what ``mqs job`` starts on each node of a job. It is no command for people."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from mqs_dll.commands import show, which_library

EXIT_DONE = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = "Read ranks of this machine for a `mqs` on another, by messages on standard input and output."
    which_library.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do what the standard input says, until it ends.

    Returns:
        EXIT_DONE.
    """
    from mqs_dll.debugger.job.nodes import wire
    from mqs_dll.debugger.job.nodes.agent import serve

    def look(message: Mapping[str, Any]) -> Any:
        asked = {name: message[name] for name in ("pid", "core", *show.ASKED)}
        return wire.write(show.look(argparse.Namespace(**vars(options), **asked)))

    serve(which_library.opener(options.dll, direct=options.direct), which_library.windows(), {"show": look})
    return EXIT_DONE
