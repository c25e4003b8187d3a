"""``mqs doctor``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mqs_dll.commands import nodes
from mqs_dll.commands.times import add_limit, is_number, number

if TYPE_CHECKING:
    from mqs_dll.commands.doctor.diagnosis import Diagnosis, MachineDiagnosis

EXIT_WHOLE = 0
EXIT_PARTLY = 1
EXIT_NOTHING = 3

DESCRIPTION = """\
Report what libmqs knows of an MPI: its release and build, where the layout of each struct comes from, which checks
held, what it can't see and why, and the remedy. For a library's file it reports what can be known before anything
runs. Without either it reports whether queues, stacks and proofs can be had on this machine, and what is in the way."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "where",
        type=_where,
        nargs="?",
        metavar="PID|FILE",
        help="a rank, the MPI's library, or a program that it is linked into; without, this machine is checked",
    )
    add_limit(parser)
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json-schema.md)")


def _where(text: str) -> int | Path:
    return number(text) if is_number(text) and not Path(text).exists() else Path(text)


def run(options: argparse.Namespace) -> int:
    """Look, and print what was found.

    Returns:
        EXIT_PARTLY when a part can't be seen, EXIT_NOTHING when no layout fits, or this machine lets us read nothing.

    Raises:
        MqsError: it is no MPI that can be examined.
    """
    from mqs_dll.commands.doctor.diagnosis import Visibility

    found = _diagnose_machine(options.limit) if options.where is None else _diagnose(options)
    from mqs_dll.commands.doctor import report

    if options.json:
        print(report.as_json(found))
    else:
        from mqs_dll.report import terminal

        terminal.console().print(report.render(found))
    codes = {Visibility.WHOLE: EXIT_WHOLE, Visibility.PARTLY: EXIT_PARTLY, Visibility.NOTHING: EXIT_NOTHING}
    return codes[found.verdict]


def diagnose(where: int | str, seconds: float) -> Diagnosis:
    """Return what is known of the MPI in a process of this machine, by its PID, or in a file.

    Args:
        where: the PID, or the path.
        seconds: for which the process may stand.

    Raises:
        MqsError: it is no MPI that can be examined.
    """
    if isinstance(where, str):
        from mqs_dll.commands.doctor import library

        return library.diagnose(Path(where))
    from mqs_dll.commands.doctor import process
    from mqs_dll.debugger.stopping.limit import Limit
    from mqs_dll.report.progress import communicators_done

    with communicators_done() as on_communicator:
        return process.diagnose(where, on_communicator, Limit(seconds, ends_us=True))


def _diagnose_machine(seconds: float) -> MachineDiagnosis:
    from mqs_dll.commands.doctor import machine
    from mqs_dll.debugger.stopping.limit import Limit

    return machine.diagnose(Limit(seconds, ends_us=True))


def _diagnose(options: argparse.Namespace) -> Diagnosis:
    where = options.where
    if not nodes.is_foreign(where):
        return diagnose(where if isinstance(where, int) else str(where), options.limit)
    from mqs_dll.commands.doctor.diagnosis import Diagnosis

    pid, path = (where, None) if isinstance(where, int) else (None, str(where.resolve()))
    message = {"do": "diagnose", "pid": pid, "path": path, "limit": options.limit}
    found: Diagnosis = nodes.ask_here(message, Diagnosis, options.limit + nodes.PATIENCE)
    return found
