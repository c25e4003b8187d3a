"""``mqs run``: its arguments. What it does is imported when it runs, as for each command."""

from __future__ import annotations

import argparse
from pathlib import Path

from mqs_dll.commands import nodes, times, which_library
from mqs_dll.commands.times import add_limit, seconds

EXIT_STUCK = 124
"""As of timeout(1): the command was ended."""
EXIT_NOT_RUNNABLE, EXIT_NOT_FOUND = 126, 127
"""As of shells."""

DESCRIPTION = """\
Start an MPI job and watch it: when it hangs for good, report who waits for whom, and end it. The command runs as if it
had been started without mqs, and until something is stuck mqs prints nothing."""

EPILOG = f"""\
exit codes: those of the command; {EXIT_STUCK} it was stuck, and was ended; {EXIT_NOT_RUNNABLE} it can't be run;
{EXIT_NOT_FOUND} there is no such command"""

END, REPORT, WAIT = "end", "report", "wait"
"""What becomes of a job that is stuck."""
_MOST_KEPT = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.usage = "mqs run [options] [--] COMMAND [ARGUMENT...]"
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND", help="the launcher with its arguments")
    when = parser.add_argument_group("when to look")
    when.add_argument(
        "--interval", type=seconds, default=10.0, metavar="TIME", help="time between two looks that stop nobody (10s)"
    )
    add_pace(when)
    add_limit(when)
    then = parser.add_argument_group("what to do")
    then.add_argument(
        "--on-stuck", choices=(END, REPORT, WAIT), default=END, help="when it is proved that the job is stuck: "
        "end it; report it and watch on; or report it and wait for you (default: end)",
    )  # fmt: skip
    then.add_argument("--end-suspected", action="store_true", help="end the job also for what is only suspected")
    then.add_argument(
        "--keep",
        type=lambda text: times.number(text, f"a number from 1 to {_MOST_KEPT}", most=_MOST_KEPT),
        metavar="N",
        help="read the job every --after without stopping it, and keep the last N, unless it ends well",
    )
    then.add_argument("--junit", metavar="FILE", help="write what is reported as a test of JUnit's")
    then.add_argument("--cores", action="store_true", help="write core files of the ranks before the job is ended")
    then.add_argument("--summary", action="store_true", help="at the end, say what was seen, and what it cost")
    which_library.add_arguments(parser)
    nodes.add_arguments(parser)
    parser.set_defaults(usage_error=parser.error, no_queues=False)


def add_pace(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the options of Watcher and Reports to a parser: when the ranks are stopped, and where reports go."""
    parser.add_argument(
        "--after",
        type=seconds,
        default=60.0,
        metavar="TIME",
        help="stop and judge the ranks after so long without progress (1m), then at growing intervals",
    )
    parser.add_argument(
        "--suspect-after",
        type=seconds,
        default=600.0,
        metavar="TIME",
        help="report what is only suspected when it has been so for this long, without progress (10m)",
    )
    parser.add_argument("--report", type=Path, default=Path(), metavar="DIR", help="the folder for what is saved (.)")


def run(options: argparse.Namespace) -> int:
    """Start the command, watch it, and end with it.

    Returns:
        Its exit code, or one of those above.
    """
    command = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not command:
        options.usage_error("name the command: mqs run -- mpiexec -n 4 ./solver")
    from mqs_dll.commands.run import loop

    return loop.run(command, options)
