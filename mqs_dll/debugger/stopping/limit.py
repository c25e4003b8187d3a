"""For how long processes may be kept stopped. Imports nothing, so that the command line can say it at once."""

from __future__ import annotations

from typing import NamedTuple

EXIT_LIMIT = 14
"""Exit code of a command that held processes for too long, and of their holder: the number of SIGALRM, which ends the
command, so that the C library's _exit() may be its handler, which works in whatever it hangs."""


class Limit(NamedTuple):
    """For how long processes may be kept stopped, and what becomes of ours when it is over."""

    seconds: float = 10.0
    ends_us: bool = False
    """Whether this process is ended when it doesn't notice by itself, in whatever it hangs: with a sentence on standard
    error and the exit code EXIT_LIMIT. For commands; a program that imports us is left alone."""


USUAL = Limit()
