"""``python -m mqs_dll`` is the command ``mqs``. Whatever fails, it never ends with a code that is a verdict's.

Python itself ends with 1 after an exception, and with 120 where the rest of the standard output can't be written.
"""

from __future__ import annotations

import os
import sys

_CRASHED = 70
"""cli.EXIT_INTERNAL; cli may be what fails."""
_OF_ARGUMENTS = (0, 64)
"""After --help and --version, and after wrong usage."""
_INTERRUPTED = 130
_UNWRITTEN = 3
_UNREADABLE = 3
"""cli.EXIT_UNREADABLE."""
_OLDEST = (3, 10)


def run() -> int:
    """Run the command and return its exit code (docs/command.md lists them)."""
    if sys.version_info < _OLDEST:  # this file alone can be read by an older one
        sys.stderr.write(
            "mqs: this is Python %d.%d, and libmqs needs 3.10 or newer.\n"  # noqa: UP031
            "     Run it by a newer one. From outside of a container it reads this job as well.\n"
            % sys.version_info[:2]
        )
        return _UNREADABLE
    try:
        _fill_streams()
        from mqs_dll.commands.cli import main

        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) and end.code in _OF_ARGUMENTS else _CRASHED
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BaseException as error:
        code = _CRASHED
        _tell(error)
    try:
        sys.stdout.flush()
    except BaseException as error:
        code = code or (0 if isinstance(error, BrokenPipeError) else _UNWRITTEN)
        _discard_rest(1)
    try:
        sys.stderr.flush()
    except BaseException:  # nobody reads it
        _discard_rest(2)
    return code


def _fill_streams() -> None:
    """Have something behind each standard stream that was closed: another file would get its number, and its output.

    Commands that we start don't inherit it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _discard_rest(stream: int) -> None:
    """Let nothing more be written to a standard stream: Python would try at its end, complain, and end with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _tell(error: BaseException) -> None:
    """Say on standard error what has failed, by as little as may work where memory is short."""
    try:
        if os.environ.get("MQS_DEBUG") == "1":
            import traceback

            traceback.print_exception(error)
        os.write(2, f"mqs: this is a bug in mqs, sorry: {type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    except BaseException:
        return


if __name__ == "__main__":
    sys.exit(run())
