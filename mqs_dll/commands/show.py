"""``mqs show``: its arguments, and what it prints of one process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mqs_dll.commands import nodes, which_library
from mqs_dll.commands.times import add_limit, limit_of, number
from mqs_dll.contract.errors import MqsError, UnknownMpiError

if TYPE_CHECKING:
    from mqs_dll.debugger.collect import ReadFurther
    from mqs_dll.debugger.job.nodes.wire import Shown
    from mqs_dll.debugger.job.stacks import Captured
    from mqs_dll.debugger.stopping.stop import all_stopped

EXIT_SHOWN = 0

DESCRIPTION = """\
Show the communicators of one process, with the sends, receives and unexpected messages of each. mqs stops the process
for some milliseconds, reads it and lets it continue; it writes nothing to it."""

ASKED = ("sysroot", "all", "stack", "windows", "datatypes", "limit")
"""The options that say what is read of a process or a core file, besides the library's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.description = DESCRIPTION
    parser.set_defaults(usage_error=parser.error)
    parser.add_argument(
        "pid",
        nargs="?",
        type=_pid,
        metavar="[NODE:]PID",
        help="the process: a rank, not mpiexec; it may be on another node",
    )
    parser.add_argument("--core", metavar="[NODE:]FILE", help="read a core file of a rank instead")
    parser.add_argument("--sysroot", metavar="DIR", help="the folder with the core file's program and libraries")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json-schema.md)")
    which_library.add_arguments(parser)
    parser.add_argument("--all", action="store_true", help="also list the MPI's own communicators, and the layouts")
    parser.add_argument("--stack", action="store_true", help="also show the call stacks, and the MPI call's arguments")
    parser.add_argument("--windows", action="store_true", help="also list the one-sided windows")
    parser.add_argument("--datatypes", action="store_true", help="also list the datatypes in use")
    add_limit(parser)
    nodes.add_way(parser.add_argument_group("a process on another node (docs/clusters.md)"))


def _pid(text: str) -> int | tuple[str, int]:
    node, colon, pid = text.rpartition(":")
    return (node, number(pid)) if colon else number(text)


def run(options: argparse.Namespace) -> int:
    """Read one process or one core file and print what was read.

    Returns:
        EXIT_SHOWN.

    Raises:
        MqsError: it can't be read.
    """
    if options.all and options.dll:
        options.usage_error("--all is libmqs's own: it can't be combined with --dll")
    if (options.pid is None) == (options.core is None):
        options.usage_error("name one process: by PID, or by --core")
    if options.sysroot and not options.core:
        options.usage_error("--sysroot goes with --core")
    shown = _look_there(options)
    _mention(shown.caveats)
    if options.json:
        from mqs_dll.report import process_json

        print(process_json.render(shown.snapshot, shown.stacks))
    else:
        from mqs_dll.report import process_text, terminal

        if shown.stacks is not None:
            from mqs_dll.report import text

            terminal.console().print(text.stacks_of(shown.stacks, shown.snapshot))
        terminal.console().print(process_text.render(shown.snapshot))
    return EXIT_SHOWN


def _look_there(options: argparse.Namespace) -> Shown:
    from mqs_dll.debugger.job.nodes import hosts

    node, pid = options.pid if isinstance(options.pid, tuple) else ("", options.pid)
    path = options.core
    if path:
        node, path = hosts.of_path(path)
    foreign = not node and nodes.is_foreign(Path(path) if path else pid)
    if not node and not foreign:
        return read_shown(options)
    from mqs_dll.debugger.job.nodes import cores
    from mqs_dll.debugger.job.nodes.wire import Shown

    if foreign:
        path = path and str(Path(path).absolute())
        options.sysroot = options.sysroot and str(Path(options.sysroot).absolute())
    seconds = cores.READ if path else options.limit + nodes.PATIENCE
    message = {"do": "show", "pid": pid, "core": path, **{name: getattr(options, name) for name in ASKED}}
    shown: Shown = (
        nodes.ask_here(message, Shown, seconds, dll=options.dll)
        if foreign
        else nodes.ask(options, node, message, Shown, seconds)
    )
    return shown


def read_shown(options: argparse.Namespace) -> Shown:
    """Return what is to be shown of a process or a core file of this machine.

    Raises:
        MqsError: it can't be read.
    """
    return _look_at_core(options) if options.core else _look_at_process(options)


def _look_at_process(options: argparse.Namespace) -> Shown:
    from mqs_dll.debugger.collect import take_snapshot
    from mqs_dll.debugger.job.nodes.wire import Shown
    from mqs_dll.debugger.live import LiveProcess, missing_files
    from mqs_dll.report.progress import communicators_done

    if options.stack:  # what follows stacks takes as long to import as all else
        from mqs_dll.debugger.job.stacks import capture, unwind
        from mqs_dll.debugger.stopping.stop import stopped
    with LiveProcess(options.pid) as process, communicators_done() as on_communicator:
        open_queues = which_library.opener(options.dll, show_internal=options.all)
        library, path = open_queues(process)
        captured: list[Captured] = []

        def keep(stop: all_stopped) -> None:
            captured.append(capture(process, stop.registers(options.pid)))

        try:
            snapshot = take_snapshot(
                library,
                process,
                library_path=path,
                read_further=_further(options),
                on_communicator=on_communicator,
                in_stop=keep if options.stack else None,
                limit=limit_of(options),
            )
            if not captured:
                return Shown(snapshot, None)
            again = stopped(options.pid, process.started, limit=limit_of(options))
            return Shown(snapshot, unwind(captured[0], process, stop_again=again))
        except UnknownMpiError as error:
            raise UnknownMpiError(f"{error}{missing_files(process.image)}") from error


def _look_at_core(options: argparse.Namespace) -> Shown:
    from mqs_dll.debugger.collect import ProcessReader
    from mqs_dll.debugger.core.process import CoreProcess
    from mqs_dll.debugger.job.nodes.wire import Shown
    from mqs_dll.report.progress import communicators_done

    if options.stack:
        from mqs_dll.debugger.job.stacks import unwind_core
    sysroot = Path(options.sysroot) if options.sysroot else None
    with CoreProcess(options.core, sysroot) as process, communicators_done() as on_communicator:
        open_queues = which_library.opener(options.dll, show_internal=options.all)
        library, path = open_queues(process)
        try:
            with ProcessReader(
                library, process, pid=process.pid, program=process.file.name, library_path=path
            ) as reader:
                snapshot = reader.read(_further(options), on_communicator)
        except MqsError as error:
            raise process.explained(error) from error
        caveats = tuple(process.caveats())
        return Shown(snapshot, unwind_core(process) if options.stack else None, caveats)


def _further(options: argparse.Namespace) -> ReadFurther:
    return which_library.further(layouts=options.all, windows=options.windows, datatypes=options.datatypes)


def _mention(sentences: Sequence[str]) -> None:
    """Print on standard error what a reader of the report has to know beside it."""
    from mqs_dll.contract.escape import visible

    for sentence in sentences:
        print(f"mqs: {visible(sentence)}.", file=sys.stderr)
