"""The command ``mqs``: arguments, printing, and one place that turns a failure into text and an exit code.

Each subcommand has a module in commands/. What it needs is imported when it runs, so that ``mqs dll-path`` and
``mqs env`` work where drgn doesn't.
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
from contextlib import suppress
from typing import Any, NoReturn

from mqs_dll import __version__
from mqs_dll.commands import agent, calibrate, demo, diff, gdb_init, job, show, watch, welcome
from mqs_dll.commands.doctor import command as doctor
from mqs_dll.commands.run import command as run
from mqs_dll.contract.errors import DllError, InternalError, LimitError, MqsError
from mqs_dll.debugger import library_path
from mqs_dll.debugger.stopping.limit import EXIT_LIMIT

EXIT_SHOWN = 0
EXIT_UNREADABLE = 3
EXIT_USAGE = 64
"""Of sysexits.h; argparse's own 2 is kept free."""
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130

_TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (docs/command.md lists them); whatever fails, it is none of a verdict.

    Raises:
        SystemExit: the arguments are wrong, or ask for help alone: 64 or 0.
    """
    environment = os.environ.copy()
    os.environ.setdefault("DRGN_DISABLE_PLUGINS", "*")  # drgn's own commands, and what users add, are of no use here
    try:
        options = parser().parse_args(arguments, argparse.Namespace(environment=environment))
        command: Callable[[argparse.Namespace], int] = options.command
        if hasattr(sys.stdout, "reconfigure"):  # a name may hold what the terminal's encoding lacks
            sys.stdout.reconfigure(errors="backslashreplace")
        code = command(options)
        sys.stdout.flush()
    except LimitError as error:
        _explain(error)
        return EXIT_LIMIT
    except InternalError as error:
        cause = error.__cause__
        return _explain_system(cause) if isinstance(cause, OSError) else _apologise(error)
    except MqsError as error:
        return _explain(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except MemoryError:
        _complain(
            "there isn't enough memory for what was read.",
            "Look at fewer ranks, or give mqs more memory (ulimit -v); what is damaged may ask for any amount.",
        )
        return EXIT_UNREADABLE
    except BrokenPipeError:
        _discard_output()
        return EXIT_SHOWN
    except OSError as error:
        return _explain_system(error)
    except ImportError as error:
        return _apologise(error) if (error.name or "mqs_dll").startswith("mqs_dll") else _explain_import(error)
    except SystemExit as end:
        if end.code in (EXIT_SHOWN, EXIT_USAGE):
            raise  # how argparse exits
        return _apologise(end)
    except BaseException as error:
        return _apologise(error)
    return code


def _discard_output() -> None:
    """Let nothing more be written to standard output: Python would complain about the rest at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _explain(error: MqsError) -> int:
    _complain(f"{str(error).rstrip('.')}.", error.help)
    return EXIT_UNREADABLE


def _explain_system(error: OSError) -> int:
    if error.errno in _TOO_MANY_FILES:
        return _explain_files()
    if error.errno in _NO_ROOM:
        _discard_output()
        where = os.fsdecode(error.filename) if error.filename else "standard output, or a temporary file,"
        _complain(f"{where} can't be written: {error.strerror}.", "Free some space there, or write it elsewhere.")
        return EXIT_UNREADABLE
    return _apologise(error)


def _explain_files() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    _complain(
        f"too many files are open: each rank that is read takes some fifty, and this user may have {limit} at once.",
        "Raise the hard limit (ulimit -Hn, limits.conf), or read single ranks with `mqs show PID`.",
    )
    return EXIT_UNREADABLE


def _explain_import(error: ImportError) -> int:
    _complain(
        f"{error.name}, a Python package that mqs needs, can't be imported: {str(error).rstrip('.')}.",
        "Install libmqs with its dependencies (`pip install libmqs`), and what they name of the system's libraries.",
    )
    return EXIT_UNREADABLE


def _apologise(error: BaseException) -> int:
    if os.environ.get("MQS_DEBUG") == "1":
        traceback.print_exception(error)
    _complain(
        f"this is a bug in mqs, sorry: {type(error).__name__}: {error}",
        "Please report it with what MQS_DEBUG=1 prints before this line.",
    )
    return EXIT_INTERNAL


def _complain(what: str, advice: str) -> None:
    from mqs_dll.contract.escape import visible

    with suppress(OSError):  # nobody reads it
        print(f"mqs: {visible(what)}\n     {visible(advice)}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the usage and the mistake, and exit with EXIT_USAGE."""
        with suppress(OSError):  # nobody reads it
            self.print_usage(sys.stderr)
            print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a message; since Python 3.11.7 argparse itself passes over a failure to, and `--help` ends with 0."""
        if stream := file or sys.stderr:
            stream.write(message)


class _Version(argparse.Action):
    """Prints what a report of a bug has to name."""

    def __init__(self, option_strings: Sequence[str], dest: str, **words: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **words)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib import metadata
        from platform import python_version

        try:
            drgn = f"drgn {metadata.version('drgn')}"
        except metadata.PackageNotFoundError:
            drgn = "no drgn"
        try:
            library = str(library_path.library())
        except DllError:
            library = "no libmqs.so"
        print(f"mqs {__version__} (Python {python_version()}, {drgn}, {library})")
        raise SystemExit(EXIT_SHOWN)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments; its manual page and what shells complete are made of it, too."""
    parser = _Parser(prog="mqs", description="Find out why an MPI job hangs: who waits for whom, and for what.")
    parser.add_argument("--version", action=_Version, help="show the versions of mqs, Python and drgn, and exit")
    parser.set_defaults(command=welcome.run)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)

    for name, module, words in (
        ("job", job, "report what is wrong with a whole job: who waits for whom, and why"),
        ("run", run, "start a job and watch it: when it hangs for good, report why and end it"),
        ("show", show, "show the communicators and queues of one process"),
        ("watch", watch, "show a job live, without stopping it"),
        ("diff", diff, "compare two jobs that `mqs job --save` wrote"),
        ("doctor", doctor, "report what libmqs knows of an MPI, what it can't see, and the remedy"),
        ("calibrate", calibrate, "learn the layout of an MPI that libmqs doesn't know"),
        ("demo", demo, "start a small MPI job that hangs, and show its queues and the verdict"),
        ("gdb-init", gdb_init, "print the line for ~/.gdbinit that adds the `mqs` commands to gdb"),
    ):
        command = commands.add_parser(name, help=words)
        command.set_defaults(command=module.run)
        module.add_arguments(command)

    hidden = commands.add_parser("agent")
    hidden.set_defaults(command=agent.run)
    agent.add_arguments(hidden)
    for name, act, words in (
        ("dll-path", _dll_path, "print the path of libmqs.so"),
        ("env", _env, "print the shell lines that lead debuggers to libmqs.so"),
    ):
        commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.").set_defaults(command=act)
    return parser


# ---------------------------------------------------------------- where libmqs.so lies


def _dll_path(options: argparse.Namespace) -> int:
    print(library_path.library())
    return EXIT_SHOWN


def _env(options: argparse.Namespace) -> int:
    print(f"export LD_PRELOAD={shlex.quote(library_path.preloaded())}${{LD_PRELOAD:+:$LD_PRELOAD}}")
    print(f"export ALLINEA_QUEUE_DLL={shlex.quote(str(library_path.library()))}")
    return EXIT_SHOWN
