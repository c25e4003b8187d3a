"""``mqs diff``: what changed from one saved job to another."""

from __future__ import annotations

import argparse

EXIT_SAME = 0
EXIT_DIFFERENT = 1

DESCRIPTION = """\
Compare two jobs that `mqs job --save` wrote: ranks that came, went or changed their state; calls; communicators that
appeared, vanished or were renamed; operations that appeared, vanished or progressed."""

EPILOG = "exit codes: 0 nothing differs; 1 something does; 3 the jobs could not be read"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("before", metavar="A", help="the earlier job")
    parser.add_argument("after", metavar="B", help="the later job")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json-schema.md)")


def run(options: argparse.Namespace) -> int:
    """Compare two saved jobs and print what differs.

    Returns:
        EXIT_SAME or EXIT_DIFFERENT.

    Raises:
        MqsError: one of them can't be read.
    """
    from mqs_dll.job import compare, saved
    from mqs_dll.report import diff_json, terminal
    from mqs_dll.report import diff_text as text

    found = compare.compare(saved.load(options.before), saved.load(options.after))
    if options.json:
        print(diff_json.render(found))
    else:
        terminal.console().print(text.render(found))
    return EXIT_SAME if found.same else EXIT_DIFFERENT
