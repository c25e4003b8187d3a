"""The command ``mqs``: arguments, printing, and one place that turns a failure into text and an exit code.

The only module that knows both sides: the debugger's (debugger, report) and the library's (session). What a
subcommand needs is imported when it runs, so that ``mqs dll-path`` and ``mqs env`` work where drgn doesn't.
"""

from __future__ import annotations

import argparse
import errno
import os
import resource
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from mqs_dll import __version__, library_path
from mqs_dll.calibrate import command as calibration
from mqs_dll.doctor import command as doctor
from mqs_dll.errors import DllError, LimitError, MqsError, UnknownMpiError
from mqs_dll.job import command as job
from mqs_dll.job import diff, queues, watch
from mqs_dll.job.times import add_limit, limit_of

if TYPE_CHECKING:
    from mqs_dll.debugger.snapshot import CoreView, Hidden, Snapshot
    from mqs_dll.interface import ProcessQueues, TargetProcess
    from mqs_dll.session import ProcessSession

Item = TypeVar("Item")

EXIT_SHOWN = 0
EXIT_UNREADABLE = 3
EXIT_LIMIT = 14
"""That of debugger.holder, which ends a command that hangs: the number of SIGALRM."""
EXIT_USAGE = 64
"""Of sysexits.h; argparse's own 2 is kept free."""
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130

_TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (docs/command.md lists them)."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        if hasattr(sys.stdout, "reconfigure"):  # a name may hold what the terminal's encoding lacks
            sys.stdout.reconfigure(errors="backslashreplace")
        code = command(options)
        sys.stdout.flush()
    except LimitError as error:
        _explain(error)
        return EXIT_LIMIT
    except MqsError as error:
        return _explain(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains about the rest at its end
        return EXIT_SHOWN
    except OSError as error:
        return _apologise(error) if error.errno not in _TOO_MANY_FILES else _explain_files()
    except Exception as error:
        return _apologise(error)
    return code


def _explain(error: MqsError) -> int:
    _complain(f"{str(error).rstrip('.')}.", error.help)
    return EXIT_UNREADABLE


def _explain_files() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    _complain(
        f"too many files are open: each rank that is read takes some fifty, and this user may have {limit} at once.",
        "Raise the hard limit (ulimit -Hn, limits.conf), or look at single ranks with `mqs show PID`.",
    )
    return EXIT_UNREADABLE


def _apologise(error: Exception) -> int:
    if os.environ.get("MQS_DEBUG") == "1":
        traceback.print_exception(error)
    _complain(
        f"this is a bug in mqs, sorry: {type(error).__name__}: {error}",
        "Please report it with what MQS_DEBUG=1 prints before this line.",
    )
    return EXIT_INTERNAL


def _complain(what: str, advice: str) -> None:
    from mqs_dll.report.escape import visible

    print(f"mqs: {visible(what)}\n     {visible(advice)}", file=sys.stderr)


# ---------------------------------------------------------------- arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the usage and the mistake, and exit with EXIT_USAGE."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="mqs", description="See the communicators and message queues of a hung MPI program.")
    parser.add_argument("--version", action="version", version=f"mqs {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)

    show = commands.add_parser("show", help="show the communicators and queues of one process")
    show.set_defaults(command=_show, usage_error=show.error)
    show.add_argument("pid", nargs="?", type=_pid, metavar="PID", help="the process: a rank, not mpiexec")
    show.add_argument("--core", metavar="FILE", help="a core file of a rank, instead")
    show.add_argument("--sysroot", type=Path, metavar="DIR", help="where the core file's program and libraries lie")
    show.add_argument("--json", action="store_true", help="print JSON (docs/json-schema.md)")
    queues.add_arguments(show)
    show.add_argument("--all", action="store_true", help="show the MPI's internal communicators too (implies --direct)")
    show.add_argument("--windows", action="store_true", help="list the one-sided windows too")
    show.add_argument("--datatypes", action="store_true", help="list the datatypes in use too")
    add_limit(show)

    for name, module, words in (
        ("job", job, "say what is wrong with a whole job: who waits for whom, and why"),
        ("watch", watch, "show a job live, without stopping it"),
        ("diff", diff, "compare two jobs that `mqs job --save` wrote"),
        ("calibrate", calibration, "learn the layout of an MPI that libmqs doesn't know"),
        ("doctor", doctor, "say what libmqs knows of an MPI, what it can't see, and what to do"),
    ):
        command = commands.add_parser(name, help=words)
        command.set_defaults(command=module.run)
        module.add_arguments(command)

    demo = commands.add_parser("demo", help="start a small MPI job that hangs, and show its queues")
    demo.set_defaults(command=_demo)
    commands.add_parser("dll-path", help="print the path of libmqs.so").set_defaults(command=_dll_path)
    commands.add_parser("env", help="print shell lines that lead debuggers to libmqs.so").set_defaults(command=_env)
    return parser


def _pid(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a PID")
    return int(text)


# ---------------------------------------------------------------- mqs show


def _show(options: argparse.Namespace) -> int:
    if options.all and options.dll:
        options.usage_error("--all goes through the Python core: it can't be combined with --dll")
    if (options.pid is None) == (options.core is None):
        options.usage_error("name one process: by PID, or by --core")
    if options.sysroot and not options.core:
        options.usage_error("--sysroot goes with --core")
    snapshot = _look_at_core(options) if options.core else _look(options)
    if options.json:
        from mqs_dll.report import json

        print(json.render(snapshot))
    else:
        _print(snapshot)
    return EXIT_SHOWN


def _look(options: argparse.Namespace) -> Snapshot:
    from mqs_dll.debugger.collect import take_snapshot
    from mqs_dll.debugger.live import LiveProcess, missing_files
    from mqs_dll.report.progress import communicators_done

    with LiveProcess(options.pid) as process, communicators_done() as on_communicator:
        open_queues = queues.opener(options.dll, direct=options.direct, show_internal=options.all)
        library, path = open_queues(process)
        try:
            return take_snapshot(
                library,
                process,
                library_path=path,
                look_further=lambda queues, target: _look_further(options, queues, target),
                on_communicator=on_communicator,
                limit=limit_of(options),
            )
        except UnknownMpiError as error:
            raise UnknownMpiError(f"{error}{missing_files(process.image)}") from error


def _look_at_core(options: argparse.Namespace) -> Snapshot:
    from mqs_dll.debugger.collect import Look
    from mqs_dll.debugger.core.process import CoreProcess
    from mqs_dll.report.progress import communicators_done

    with CoreProcess(options.core, options.sysroot) as process, communicators_done() as on_communicator:
        open_queues = queues.opener(options.dll, direct=options.direct, show_internal=options.all)
        library, path = open_queues(process)
        try:
            with Look(library, process, pid=process.pid, program=process.file.name, library_path=path) as look:
                snapshot = look.read(lambda queues, target: _look_further(options, queues, target), on_communicator)
        except MqsError as error:
            raise process.explained(error) from error
        _mention(process.caveats())
    return snapshot


def _mention(sentences: list[str]) -> None:
    """Print on standard error what a reader of the report has to know beside it."""
    from mqs_dll.report.escape import visible

    for sentence in sentences:
        print(f"mqs: {visible(sentence)}.", file=sys.stderr)


def _look_further(options: argparse.Namespace, queues: ProcessQueues, target: TargetProcess) -> CoreView:
    """Return what only the Python core tells, by the session that is there or by one of its own."""
    from mqs_dll.debugger.snapshot import CoreView
    from mqs_dll.session import ProcessSession

    session = queues if isinstance(queues, ProcessSession) else _core_session(target)
    return CoreView(
        layouts=tuple(session.layout_origins()) if session is queues else None,
        windows=_or_hidden(session.windows) if options.windows else None,
        datatypes=_or_hidden(session.datatypes) if options.datatypes else None,
    )


def _core_session(target: TargetProcess) -> ProcessSession:
    from mqs_dll.session import Library

    return Library().setup_image(target.image).setup_process(target)


def _or_hidden(read: Callable[[], list[Item]]) -> tuple[Item, ...] | Hidden:
    from mqs_dll.debugger.snapshot import Hidden

    try:
        return tuple(read())
    except MqsError as error:
        return Hidden(str(error))


def _print(snapshot: Snapshot) -> None:
    from mqs_dll.report import terminal, text

    terminal.console().print(text.render(snapshot))


# ---------------------------------------------------------------- the other commands


def _demo(options: argparse.Namespace) -> int:
    from mqs_dll.debugger.demo import hung_job
    from mqs_dll.debugger.job.find import find_job
    from mqs_dll.debugger.job.read import read_job
    from mqs_dll.report import terminal
    from mqs_dll.report.job import text
    from mqs_dll.verdict.conclude import conclude

    with hung_job() as hung:
        print(hung.description, end="\n\n", flush=True)
        seen = read_job(find_job(hung.launcher), queues.opener(str(library_path.library())), samples=2, interval=0.2)
    for process in seen.processes:
        for sample in process.samples[-1:]:
            _print(sample.snapshot)
            print()
    terminal.console().print(text.render(seen, conclude(seen)))
    print("\nThe job has been ended.")
    return EXIT_SHOWN


def _dll_path(options: argparse.Namespace) -> int:
    print(library_path.library())
    return EXIT_SHOWN


def _env(options: argparse.Namespace) -> int:
    preload = str(library_path.dll_name_library())
    if any(character in preload for character in ": \t\n"):
        raise DllError(f"{preload} can't be preloaded: the dynamic linker splits LD_PRELOAD at blanks and colons")
    print(f"export LD_PRELOAD={shlex.quote(preload)}${{LD_PRELOAD:+:$LD_PRELOAD}}")
    print(f"export ALLINEA_QUEUE_DLL={shlex.quote(str(library_path.library()))}")
    return EXIT_SHOWN
