"""Numbers and times on the command line, and the limit that processes may be kept stopped for."""

from __future__ import annotations

import argparse
import re

from mqs_dll.debugger.stopping.limit import USUAL, Limit

_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0}
_LONGEST = 3600.0


def number(text: str, what: str = "a PID", *, most: int | None = None) -> int:
    """Return a number from 1 on; else the error says that it is not ``what`` it should be."""
    if not is_number(text) or not 1 <= int(text) <= (most or int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(text)


def is_number(text: str) -> bool:
    """Return whether it has digits alone."""
    return text.isascii() and text.isdigit()


def seconds(text: str) -> float:
    """Return a time like 1, 0.5, 500ms, 2s or 1m in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|)", text)
    value = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 1s, 500ms or 2m")
    return value


def add_limit(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--limit`` to a command's parser, or to a group of its options."""
    parser.add_argument(
        "--limit",
        type=seconds,
        default=USUAL.seconds,
        metavar="TIME",
        help=f"the longest stop time, whatever hangs (default: {USUAL.seconds:g}s)",
    )


def limit_of(options: argparse.Namespace) -> Limit:
    """Return the limit that a command's options ask for: it ends the command, too."""
    return Limit(options.limit, ends_us=True)
